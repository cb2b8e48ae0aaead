//! The part of a driver that allocates and copies memory. The safety contract is that of
//! `driver/mod.rs`.

use super::{DriverFault, Handle, MemorySlice};
use crate::properties::Memory;

/// Page-locked host memory, zeroed, with the alignment of every element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin {
    pub(crate) pointer: *mut u8,
    pub(crate) handle: Handle,
}

/// Host memory that kernels access directly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedMemory {
    /// Memory for kernels: a CUdeviceptr or a cl_mem.
    pub(crate) memory: Handle,
    /// Address for the host. None if every access of the host maps the memory.
    pub(crate) host: Option<Handle>,
}

/// Memory that managed memory moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefetchTarget {
    Device,
    Host,
}

/// Rows of device memory whose starts are `pitch` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PitchedRows {
    pub(crate) memory: Handle,
    pub(crate) pitch: usize,
    /// Number of bytes of a row, at most the pitch.
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
}

#[allow(clippy::missing_safety_doc, reason = "one contract, stated in driver/mod.rs")]
pub(crate) trait MemoryDriver {
    /// Returns free and total memory. `held_bytes` is the size of all existing buffers, for drivers
    /// that do not report free memory.
    fn memory(&self, held_bytes: u64) -> Result<Memory, DriverFault>;
    /// Returns the largest size of a further buffer in bytes. For drivers that accept any size and
    /// fail at the first use.
    fn largest_buffer(&self, held_bytes: u64) -> u64;
    fn allocate_memory(&self, bytes: u64) -> Result<Handle, DriverFault>;
    unsafe fn free_memory(&self, memory: Handle);
    fn allocate_pinned(&self, bytes: usize) -> Result<Pin, DriverFault>;
    unsafe fn free_pinned(&self, pin: Pin, bytes: usize);
    /// Page-locks memory of this process for all contexts, so that queued copies need no other
    /// memory. Does nothing if the driver has no such function: its copies accept any memory.
    unsafe fn register_host(&self, _pointer: *mut u8, _bytes: usize) -> Result<(), DriverFault> {
        Ok(())
    }
    /// Ends `register_host`. No copy may be running. The memory must still exist.
    unsafe fn unregister_host(&self, _pointer: *mut u8) {}

    /// Queues setting the bytes to zero.
    unsafe fn clear_memory(&self, queue: Handle, memory: Handle, bytes: usize) -> Result<(), DriverFault>;
    /// Copies to the device and returns after `from` was read.
    unsafe fn write(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault>;
    /// Copies to the host and returns after `to` was written.
    unsafe fn read(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault>;
    /// Queues a copy to the device.
    unsafe fn write_async(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault>;
    /// Queues a copy to the host.
    unsafe fn read_async(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault>;
    /// Queues a copy between slices of the same size that do not overlap.
    unsafe fn copy(&self, queue: Handle, from: MemorySlice, to: MemorySlice) -> Result<(), DriverFault>;

    /// Copies rows from neighbouring rows on the host and returns after `from` was read.
    unsafe fn write_rows(&self, queue: Handle, to: PitchedRows, from: *const u8) -> Result<(), DriverFault>;
    /// Copies rows to neighbouring rows on the host and returns after `to` was written.
    unsafe fn read_rows(&self, queue: Handle, from: PitchedRows, to: *mut u8) -> Result<(), DriverFault>;
    /// Queues a copy between rows of the same number and length that do not overlap.
    unsafe fn copy_rows(&self, queue: Handle, from: PitchedRows, to: PitchedRows) -> Result<(), DriverFault>;

    /// Allocates host memory that kernels access over the bus.
    fn allocate_mapped(&self, bytes: usize) -> Result<MappedMemory, DriverFault>;
    /// Frees mapped memory. No kernel may use it.
    unsafe fn free_mapped(&self, mapped: MappedMemory);
    /// Returns the address for the host, which is valid until `unmap`. No kernel may use the memory
    /// in between. The memory has `bytes` bytes.
    unsafe fn map(&self, mapped: MappedMemory, bytes: usize) -> Result<*mut u8, DriverFault>;
    unsafe fn unmap(&self, mapped: MappedMemory, pointer: *mut u8) -> Result<(), DriverFault>;
    /// Allocates memory whose pages move between host and device. The handle is its address on
    /// both. `free_memory` frees it.
    fn allocate_managed(&self, _bytes: u64) -> Result<Handle, DriverFault> {
        Err(DriverFault::new("managed memory", "not supported by this driver"))
    }
    /// Queues moving the pages of managed memory.
    unsafe fn prefetch(
        &self,
        _queue: Handle,
        _memory: MemorySlice,
        _target: PrefetchTarget,
    ) -> Result<(), DriverFault> {
        Err(DriverFault::new("managed memory", "not supported by this driver"))
    }
}
