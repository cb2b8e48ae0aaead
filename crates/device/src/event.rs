//! Events: points in a queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::Device;
use crate::driver::Handle;
use crate::error::DeviceError;

/// A point in a queue that can be waited for and that has a time stamp. Clones refer to the same
/// point.
#[derive(Clone)]
pub struct Event(Arc<RecordedEvent>);

struct RecordedEvent {
    device: Device,
    handle: Handle,
    /// Set once the driver has reported the event as done.
    done: AtomicBool,
}

impl Event {
    pub(crate) fn new(device: Device, handle: Handle) -> Self {
        Self(Arc::new(RecordedEvent { device, handle, done: AtomicBool::new(false) }))
    }

    /// Returns whether all work before the event is done.
    pub fn is_done(&self) -> Result<bool, DeviceError> {
        if self.0.done.load(Ordering::Acquire) {
            return Ok(true);
        }
        let device = &self.0.device;
        // SAFETY: the handle is valid as long as `self.0`.
        let done = unsafe { device.driver().is_done(self.0.handle) };
        let done = done.map_err(|fault| device.error_from(fault, None))?;
        self.0.done.store(done, Ordering::Release);
        Ok(done)
    }

    /// Waits until all work before the event is done.
    pub fn wait(&self) -> Result<(), DeviceError> {
        if self.0.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let device = &self.0.device;
        // SAFETY: the handle is valid as long as `self.0`.
        unsafe { device.driver().wait(self.0.handle) }.map_err(|fault| device.error_from(fault, None))?;
        self.0.done.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits for both events and returns the device time between them, in seconds.
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
        // SAFETY: both handles are valid, done, and belong to this driver.
        unsafe { device.driver().seconds_between(earlier.0.handle, self.0.handle) }
            .map_err(|fault| device.error_from(fault, None))
    }

    pub(crate) fn device(&self) -> &Device {
        &self.0.device
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.handle
    }
}

impl Drop for RecordedEvent {
    fn drop(&mut self) {
        // SAFETY: this was the last user of the handle. Both drivers finish waits that are queued
        // on it.
        unsafe { self.device.driver().free_event(self.handle) };
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({}, done: {})", self.0.device.label(), self.0.done.load(Ordering::Relaxed))
    }
}
