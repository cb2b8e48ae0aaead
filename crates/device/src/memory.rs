//! Device memory: the untyped allocation behind a buffer.
//!
//! Invariant: the memory is freed only after the last work that uses it. For work of the device
//! that owns the memory, the drivers guarantee it. cuMemFree waits for the device, and OpenCL
//! counts references. Neither knows about kernels and copies of another device that has peer
//! access. Those devices are recorded here, and dropping the memory waits for them.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::driver::Handle;
use crate::error::{DeviceError, format_bytes};

/// An allocation on a device, freed when dropped.
pub(crate) struct Memory {
    device: Device,
    handle: Handle,
    bytes: u64,
    /// Other devices whose queues may use the memory.
    peers: Mutex<Vec<Device>>,
}

impl Memory {
    pub(crate) fn allocate(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        let out_of_memory = |free| DeviceError::OutOfMemory { device: device.title(), needed: bytes, free };
        if isize::try_from(bytes).is_err() {
            return Err(out_of_memory(device.memory()?.free));
        }
        let largest = device.driver().largest_buffer(device.held_bytes());
        if bytes > largest {
            let free = device.memory()?.free;
            return Err(if bytes > free {
                out_of_memory(free)
            } else {
                let message = format!("the driver allows at most {} per buffer", format_bytes(largest));
                DeviceError::Call {
                    device: device.title(),
                    call: "clCreateBuffer",
                    size: Some(bytes),
                    message,
                }
            });
        }
        let handle =
            device.driver().allocate_memory(bytes).map_err(|fault| device.error_from(fault, Some(bytes)))?;
        device.held_byte_counter().fetch_add(bytes, Ordering::Relaxed);
        Ok(Self { device: device.clone(), handle, bytes, peers: Mutex::default() })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the allocated bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that a queue of `device` is about to use the memory.
    pub(crate) fn record_use_by(&self, device: &Device) {
        if *device == self.device {
            return;
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains(device) {
            peers.push(device.clone());
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.device.held_byte_counter().fetch_sub(self.bytes, Ordering::Relaxed);
        let peers = self.peers.get_mut().unwrap_or_else(PoisonError::into_inner);
        if peers.iter().any(|peer| peer.driver().finish_all().is_err()) {
            // Leak the memory: a failed wait does not prove that the work has ended.
            return;
        }
        // SAFETY: this was the last user of the handle on the host, work of other devices has
        // ended, and the driver waits for work of this device.
        unsafe { self.device.driver().free_memory(self.handle) };
    }
}
