//! Memory of OpenCL: buffers, page-locked and mapped host memory, and copies.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr;

use opencl3::command_queue as queues;
use opencl3::command_queue::{CL_BLOCKING, CL_NON_BLOCKING};
use opencl3::memory::{
    CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, create_buffer, release_mem_object,
};
use opencl3::types::cl_mem;

use super::{OpenCl, check_queued, memory_of, new_fault, queue_of, to_handle};
use crate::driver::{DriverFault, Handle, MappedMemory, MemoryDriver, MemorySlice, Pin, PitchedRows};
use crate::properties::Memory;

/// Start of a copy of rows. A slice pitch of 0 below means that there is one slice.
const ORIGIN: [usize; 3] = [0; 3];

/// Returns the layout of host memory, for the case that the driver cannot allocate page-locked
/// memory.
fn host_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 64).ok()
}

// SAFETY of the blocks below: handles are valid OpenCL objects, sizes and host pointers are correct
// (the contract in driver/mod.rs), and wait lists are empty.
impl MemoryDriver for OpenCl {
    fn memory(&self, held_bytes: u64) -> Result<Memory, DriverFault> {
        Ok(Memory { free: self.memory.saturating_sub(held_bytes), total: self.memory })
    }

    fn largest_buffer(&self, held_bytes: u64) -> u64 {
        self.largest_buffer.min(self.memory.saturating_sub(held_bytes))
    }

    fn allocate_memory(&self, bytes: u64) -> Result<Handle, DriverFault> {
        // SAFETY: see above.
        unsafe { create_buffer(self.context, CL_MEM_READ_WRITE, bytes as usize, ptr::null_mut()) }
            .map(to_handle)
            .map_err(|code| new_fault("clCreateBuffer", code))
    }

    unsafe fn free_memory(&self, memory: Handle) {
        // SAFETY: see above. Queued commands have their own reference.
        let _ = unsafe { release_mem_object(memory_of(memory)) };
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<Pin, DriverFault> {
        // SAFETY: see above. The mapping and the ordinary allocation both have `bytes` bytes.
        unsafe {
            if let Ok(memory) = self.create_host_buffer(bytes) {
                if let Ok(pointer) = self.map_buffer(memory, bytes) {
                    ptr::write_bytes(pointer, 0, bytes);
                    return Ok(Pin { pointer, handle: to_handle(memory) });
                }
                let _ = release_mem_object(memory);
            }
            let pointer = host_layout(bytes).map_or(ptr::null_mut(), |layout| alloc_zeroed(layout));
            if pointer.is_null() {
                return Err(DriverFault::new("clCreateBuffer", "the host is out of memory"));
            }
            Ok(Pin { pointer, handle: to_handle::<c_void>(ptr::null_mut()) })
        }
    }

    unsafe fn free_pinned(&self, pin: Pin, bytes: usize) {
        // SAFETY: see above. `pin` was returned by `allocate_pinned` for the same number of bytes.
        unsafe {
            if pin.handle == to_handle::<c_void>(ptr::null_mut()) {
                if let Some(layout) = host_layout(bytes) {
                    dealloc(pin.pointer, layout);
                }
                return;
            }
            let memory = memory_of(pin.handle);
            let _ = self.unmap_buffer(memory, pin.pointer);
            let _ = release_mem_object(memory);
        }
    }

    unsafe fn clear_memory(&self, queue: Handle, memory: Handle, bytes: usize) -> Result<(), DriverFault> {
        // The widest pattern that divides the size, because drivers fill pattern by pattern.
        let width = 1 << bytes.trailing_zeros().min(4);
        let zeros = [0u8; 16];
        // SAFETY: see above.
        let filled = unsafe {
            queues::enqueue_fill_buffer(
                queue_of(queue),
                memory_of(memory),
                zeros.as_ptr().cast(),
                width,
                0,
                bytes,
                0,
                ptr::null(),
            )
        };
        check_queued("clEnqueueFillBuffer", filled)
    }

    unsafe fn write(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { write_buffer(CL_BLOCKING, queue, to, from) }
    }

    unsafe fn read(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { read_buffer(CL_BLOCKING, queue, from, to) }
    }

    unsafe fn write_async(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { write_buffer(CL_NON_BLOCKING, queue, to, from) }
    }

    unsafe fn read_async(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { read_buffer(CL_NON_BLOCKING, queue, from, to) }
    }

    unsafe fn copy(&self, queue: Handle, from: MemorySlice, to: MemorySlice) -> Result<(), DriverFault> {
        // SAFETY: see above.
        let copied = unsafe {
            queues::enqueue_copy_buffer(
                queue_of(queue),
                memory_of(from.memory),
                memory_of(to.memory),
                from.offset,
                to.offset,
                from.bytes,
                0,
                ptr::null(),
            )
        };
        check_queued("clEnqueueCopyBuffer", copied)
    }

    unsafe fn write_rows(&self, queue: Handle, to: PitchedRows, from: *const u8) -> Result<(), DriverFault> {
        let region = [to.row_bytes, to.rows, 1];
        // SAFETY: see above.
        let written = unsafe {
            queues::enqueue_write_buffer_rect(
                queue_of(queue),
                memory_of(to.memory),
                CL_BLOCKING,
                ORIGIN.as_ptr(),
                ORIGIN.as_ptr(),
                region.as_ptr(),
                to.pitch,
                0,
                to.row_bytes,
                0,
                from.cast(),
                0,
                ptr::null(),
            )
        };
        check_queued("clEnqueueWriteBufferRect", written)
    }

    unsafe fn read_rows(&self, queue: Handle, from: PitchedRows, to: *mut u8) -> Result<(), DriverFault> {
        let region = [from.row_bytes, from.rows, 1];
        // SAFETY: see above.
        let read = unsafe {
            queues::enqueue_read_buffer_rect(
                queue_of(queue),
                memory_of(from.memory),
                CL_BLOCKING,
                ORIGIN.as_ptr(),
                ORIGIN.as_ptr(),
                region.as_ptr(),
                from.pitch,
                0,
                from.row_bytes,
                0,
                to.cast(),
                0,
                ptr::null(),
            )
        };
        check_queued("clEnqueueReadBufferRect", read)
    }

    unsafe fn copy_rows(&self, queue: Handle, from: PitchedRows, to: PitchedRows) -> Result<(), DriverFault> {
        let region = [from.row_bytes, from.rows, 1];
        // SAFETY: see above.
        let copied = unsafe {
            queues::enqueue_copy_buffer_rect(
                queue_of(queue),
                memory_of(from.memory),
                memory_of(to.memory),
                ORIGIN.as_ptr(),
                ORIGIN.as_ptr(),
                region.as_ptr(),
                from.pitch,
                0,
                to.pitch,
                0,
                0,
                ptr::null(),
            )
        };
        check_queued("clEnqueueCopyBufferRect", copied)
    }

    fn allocate_mapped(&self, bytes: usize) -> Result<MappedMemory, DriverFault> {
        let memory = self.create_host_buffer(bytes)?;
        // SAFETY: see above. The mapping has `bytes` bytes. Memory that cannot be cleared is
        // released.
        unsafe {
            let cleared = self.map_buffer(memory, bytes).and_then(|pointer| {
                ptr::write_bytes(pointer, 0, bytes);
                self.unmap_buffer(memory, pointer)
            });
            cleared.inspect_err(|_| {
                let _ = release_mem_object(memory);
            })?;
        }
        Ok(MappedMemory { memory: to_handle(memory), host: None })
    }

    unsafe fn free_mapped(&self, mapped: MappedMemory) {
        // SAFETY: see above.
        let _ = unsafe { release_mem_object(memory_of(mapped.memory)) };
    }

    unsafe fn map(&self, mapped: MappedMemory, bytes: usize) -> Result<*mut u8, DriverFault> {
        // SAFETY: see above.
        unsafe { self.map_buffer(memory_of(mapped.memory), bytes) }
    }

    unsafe fn unmap(&self, mapped: MappedMemory, pointer: *mut u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { self.unmap_buffer(memory_of(mapped.memory), pointer) }
    }
}

impl OpenCl {
    /// Allocates host memory that the device can access.
    fn create_host_buffer(&self, bytes: usize) -> Result<cl_mem, DriverFault> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: the context is valid, and there is no host pointer.
        unsafe { create_buffer(self.context, flags, bytes, ptr::null_mut()) }
            .map_err(|code| new_fault("clCreateBuffer", code))
    }

    /// Returns the address of memory for the host and waits until it may be used.
    ///
    /// # Safety
    /// The memory is valid and has `bytes` bytes.
    unsafe fn map_buffer(&self, memory: cl_mem, bytes: usize) -> Result<*mut u8, DriverFault> {
        const CALL: &str = "clEnqueueMapBuffer";
        let mut pointer: *mut c_void = ptr::null_mut();
        let (flags, none) = (CL_MAP_READ | CL_MAP_WRITE, ptr::null());
        // SAFETY: the caller guarantees it.
        let mapped = unsafe {
            let queue = self.map_queue;
            queues::enqueue_map_buffer(queue, memory, CL_BLOCKING, flags, 0, bytes, &mut pointer, 0, none)
        };
        check_queued(CALL, mapped)?;
        if pointer.is_null() {
            return Err(DriverFault::new(CALL, "the driver returned no address"));
        }
        Ok(pointer.cast())
    }

    /// Ends a mapping and waits for it.
    ///
    /// # Safety
    /// `map_buffer` returned the pointer for this memory, and it is not used again.
    unsafe fn unmap_buffer(&self, memory: cl_mem, pointer: *mut u8) -> Result<(), DriverFault> {
        let queue = self.map_queue;
        // SAFETY: the caller guarantees it.
        let unmapped =
            unsafe { queues::enqueue_unmap_mem_object(queue, memory, pointer.cast(), 0, ptr::null()) };
        check_queued("clEnqueueUnmapMemObject", unmapped)?;
        queues::finish(queue).map_err(|code| new_fault("clFinish", code))
    }
}

/// Queues a copy to the device and, if `blocking` is CL_BLOCKING, waits for it.
///
/// # Safety
/// As for `Driver::write`.
unsafe fn write_buffer(
    blocking: u32,
    queue: Handle,
    to: MemorySlice,
    from: *const u8,
) -> Result<(), DriverFault> {
    // SAFETY: the caller guarantees it.
    let done = unsafe {
        queues::enqueue_write_buffer(
            queue_of(queue),
            memory_of(to.memory),
            blocking,
            to.offset,
            to.bytes,
            from.cast(),
            0,
            ptr::null(),
        )
    };
    check_queued("clEnqueueWriteBuffer", done)
}

/// Queues a copy to the host and, if `blocking` is CL_BLOCKING, waits for it.
///
/// # Safety
/// As for `Driver::read`.
unsafe fn read_buffer(
    blocking: u32,
    queue: Handle,
    from: MemorySlice,
    to: *mut u8,
) -> Result<(), DriverFault> {
    // SAFETY: the caller guarantees it.
    let done = unsafe {
        queues::enqueue_read_buffer(
            queue_of(queue),
            memory_of(from.memory),
            blocking,
            from.offset,
            from.bytes,
            to.cast(),
            0,
            ptr::null(),
        )
    };
    check_queued("clEnqueueReadBuffer", done)
}
