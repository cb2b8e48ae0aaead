//! A mark in a queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::Device;
use crate::driver::Handle;
use crate::error::DeviceError;

/// A point in a queue that one can wait for, and whose time is known. Clones are the same point.
#[derive(Clone)]
pub struct Event(Arc<Mark>);

struct Mark {
    device: Device,
    handle: Handle,
    /// Set once the driver was seen to have passed it.
    done: AtomicBool,
}

impl Event {
    pub(crate) fn new(device: Device, handle: Handle) -> Self {
        Self(Arc::new(Mark { device, handle, done: AtomicBool::new(false) }))
    }

    /// Whether the device has passed it.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        if self.0.done.load(Ordering::Acquire) {
            return Ok(true);
        }
        let device = &self.0.device;
        // SAFETY: the handle lives as long as the mark.
        let done = unsafe { device.driver().is_done(self.0.handle) };
        let done = done.map_err(|fault| device.fault(fault, None))?;
        self.0.done.store(done, Ordering::Release);
        Ok(done)
    }

    /// Waits until the device has passed it.
    pub fn wait(&self) -> Result<(), DeviceError> {
        if self.0.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let device = &self.0.device;
        // SAFETY: the handle lives as long as the mark.
        unsafe { device.driver().wait(self.0.handle) }.map_err(|fault| device.fault(fault, None))?;
        self.0.done.store(true, Ordering::Release);
        Ok(())
    }

    /// Device time between two events, in seconds; waits for both.
    pub fn seconds_since(&self, earlier: &Self) -> Result<f64, DeviceError> {
        let device = &self.0.device;
        if *device != earlier.0.device {
            return Err(DeviceError::WrongDevice {
                what: "an event".to_owned(),
                owner: earlier.0.device.title(),
                device: device.title(),
            });
        }
        earlier.wait()?;
        self.wait()?;
        // SAFETY: both handles live, both are done, and both are this driver's.
        unsafe { device.driver().seconds_between(earlier.0.handle, self.0.handle) }
            .map_err(|fault| device.fault(fault, None))
    }

    /// Waits; a device that has failed writes no more, which is all that is asked here.
    pub(crate) fn settle(&self) {
        let _ = self.wait();
    }

    pub(crate) fn device(&self) -> &Device {
        &self.0.device
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.handle
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the last holder; both drivers let waits that are queued on it finish.
        unsafe { self.device.driver().free_event(self.handle) };
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({}, done: {})", self.0.device.label(), self.0.done.load(Ordering::Relaxed))
    }
}
