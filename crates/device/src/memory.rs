//! The untyped allocation behind a buffer, in device memory or in memory that the host also sees.
//!
//! Invariant: the memory is freed only after the last work that uses it. For device memory and work
//! of the device that owns it, the drivers guarantee it. cuMemFree waits for the device, and OpenCL
//! counts references. Neither knows about kernels and copies of another device that has peer
//! access. Those devices are recorded here, and dropping the memory waits for them. Dropping memory
//! that the host sees waits for all devices.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::driver::{Handle, MappedMemory};
use crate::error::{DeviceError, format_bytes};

/// An allocation, freed when dropped.
pub(crate) struct DeviceMemory {
    device: Device,
    handle: Handle,
    bytes: u64,
    kind: MemoryKind,
    /// Other devices whose queues may use the memory.
    peers: Mutex<Vec<Device>>,
}

/// Kind of an allocation.
#[derive(Clone, Copy, Debug)]
enum MemoryKind {
    /// Memory of the device.
    Device,
    /// Memory of the host that kernels access over the bus. Its address for the host, if every
    /// access has the same.
    Mapped(Option<NonZeroU64>),
    /// Memory whose pages move between host and device.
    Managed,
    /// Constant memory, which a module owns.
    OfModule,
}

impl MemoryKind {
    /// Returns whether the memory counts as held memory of the device.
    fn is_counted(self) -> bool {
        matches!(self, Self::Device | Self::Managed)
    }

    fn is_seen_by_host(self) -> bool {
        matches!(self, Self::Mapped(_) | Self::Managed)
    }
}

impl DeviceMemory {
    pub(crate) fn allocate(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        if isize::try_from(bytes).is_err() {
            return Err(out_of_memory(device, bytes, device.memory()?.free));
        }
        let largest = device.driver().largest_buffer(device.held_bytes());
        if bytes > largest {
            let free = device.memory()?.free;
            return Err(if bytes > free {
                out_of_memory(device, bytes, free)
            } else {
                let message = format!("the driver allows at most {} per buffer", format_bytes(largest));
                call_error(device, "clCreateBuffer", bytes, message)
            });
        }
        let handle =
            device.driver().allocate_memory(bytes).map_err(|fault| device.error_from(fault, Some(bytes)))?;
        Ok(Self::new(device, handle, bytes, MemoryKind::Device))
    }

    /// Allocates host memory that kernels access over the bus.
    pub(crate) fn allocate_mapped(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        let call_error = |message: &str| call_error(device, "mapped memory", bytes, message.to_owned());
        if !device.properties().can_map_host_memory {
            return Err(call_error("this device has none"));
        }
        let size = isize::try_from(bytes).map_err(|_| call_error("exceeds the address space"))? as usize;
        // Not `error_from`, which would report the free memory of the device: the host is out of
        // memory here.
        let mapped = device.driver().allocate_mapped(size).map_err(|fault| call_error(&fault.message))?;
        let host = mapped.host.and_then(|host| NonZeroU64::new(host.0));
        Ok(Self::new(device, mapped.memory, bytes, MemoryKind::Mapped(host)))
    }

    /// Sets device or managed memory to zero, and waits for it.
    pub(crate) fn clear(&self) -> Result<(), DeviceError> {
        let (driver, queue) = (self.device.driver(), self.device.init_queue());
        // SAFETY: the memory has this many bytes, and `finish` waits before it can be dropped.
        unsafe {
            driver.clear_memory(queue, self.handle, self.bytes as usize).and_then(|()| driver.finish(queue))
        }
        .map_err(|fault| self.device.error_from(fault, Some(self.bytes)))
    }

    /// Allocates managed memory, set to zero. All managed memory of the process together must fit
    /// into the free memory of the device, because all its pages may move there.
    pub(crate) fn allocate_managed(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        if !device.properties().has_managed_memory {
            return Err(call_error(device, "managed memory", bytes, "this device has none".to_owned()));
        }
        // Pages that are on the device now count twice, because `free` does not include them.
        let free = device.memory()?.free;
        let counter = device.managed_byte_counter();
        let reserved = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|all| *all <= free)
        });
        if let Err(held) = reserved {
            return Err(out_of_memory(device, bytes, free.saturating_sub(held)));
        }
        let handle = device.driver().allocate_managed(bytes).map_err(|fault| {
            counter.fetch_sub(bytes, Ordering::Relaxed);
            device.error_from(fault, Some(bytes))
        })?;
        let memory = Self::new(device, handle, bytes, MemoryKind::Managed);
        memory.clear()?;
        Ok(memory)
    }

    /// Returns constant memory of a module. The module must stay loaded.
    pub(crate) fn of_module(device: &Device, handle: Handle, bytes: u64) -> Self {
        Self::new(device, handle, bytes, MemoryKind::OfModule)
    }

    fn new(device: &Device, handle: Handle, bytes: u64, kind: MemoryKind) -> Self {
        if kind.is_counted() {
            device.held_byte_counter().fetch_add(bytes, Ordering::Relaxed);
        }
        Self { device: device.clone(), handle, bytes, kind, peers: Mutex::default() }
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

    /// Returns the memory for [`MemoryDriver::map`](crate::driver::MemoryDriver::map). None if it
    /// is always mapped.
    pub(crate) fn mapped(&self) -> Option<MappedMemory> {
        match self.kind {
            MemoryKind::Mapped(host) => {
                Some(MappedMemory { memory: self.handle, host: host.map(|host| Handle(host.get())) })
            }
            MemoryKind::Device | MemoryKind::Managed | MemoryKind::OfModule => None,
        }
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

    /// Waits for all queued work of every device that may use the memory.
    pub(crate) fn finish_uses(&self) -> Result<(), DeviceError> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for device in peers.iter().chain([&self.device]) {
            device.driver().finish_all().map_err(|fault| device.error_from(fault, None))?;
        }
        Ok(())
    }
}

fn out_of_memory(device: &Device, needed: u64, free: u64) -> DeviceError {
    DeviceError::OutOfMemory { device: device.title(), needed, free }
}

fn call_error(device: &Device, call: &'static str, bytes: u64, message: String) -> DeviceError {
    DeviceError::Call { device: device.title(), call, size: Some(bytes), message }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.kind.is_counted() {
            self.device.held_byte_counter().fetch_sub(self.bytes, Ordering::Relaxed);
        }
        let peers = self.peers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_finished = peers.iter().all(|peer| peer.driver().finish_all().is_ok())
            && (!self.kind.is_seen_by_host() || self.device.driver().finish_all().is_ok());
        if !is_finished {
            // Leak the memory: a failed wait does not prove that the work has ended.
            return;
        }
        if matches!(self.kind, MemoryKind::OfModule) {
            return;
        }
        let driver = self.device.driver();
        // SAFETY: this was the last user of the handle on the host, and work of other devices has
        // ended. The driver waits for work of this device that uses device memory. For other kinds,
        // it has ended.
        unsafe {
            match self.mapped() {
                Some(mapped) => driver.free_mapped(mapped),
                None => driver.free_memory(self.handle),
            }
        }
        if matches!(self.kind, MemoryKind::Managed) {
            self.device.managed_byte_counter().fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}
