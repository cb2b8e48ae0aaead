//! Arguments of a launch. A texture with a sampler is two arguments of OpenCL. Dynamic shared
//! memory is the last argument, of which only the size is set.

use std::ffi::c_void;
use std::ptr;

use opencl3::kernel as kernels;
use opencl3::memory::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_MEM_READ_WRITE, create_sub_buffer, release_mem_object,
};
use opencl3::types::{cl_buffer_region, cl_kernel, cl_mem};

use super::{memory_of, new_fault};
use crate::driver::{Argument, DriverFault, Handle, MemorySlice};

/// Sets all arguments of a kernel. The result must be dropped after the launch.
///
/// # Safety
/// As for `Driver::launch`.
pub(super) unsafe fn set_arguments(
    kernel: cl_kernel,
    arguments: &[Argument],
    dynamic_shared: u32,
) -> Result<SubBuffers, DriverFault> {
    let mut setter = Setter { kernel, next: 0 };
    let mut ranges = SubBuffers(Vec::new());
    for argument in arguments {
        // SAFETY: the caller guarantees that the kernel is valid, and handles are pointers.
        unsafe {
            match argument {
                Argument::Scalar { bytes, len } => setter.set(*len, bytes.as_ptr().cast())?,
                Argument::Memory(slice) => setter.set_handle(ranges.memory_for(*slice)?)?,
                Argument::Texture { object, sampler } => {
                    setter.set_handle(*object)?;
                    sampler.map_or(Ok(()), |sampler| setter.set_handle(sampler))?;
                }
            }
        }
    }
    if dynamic_shared > 0 {
        // SAFETY: the last parameter is a pointer to shared memory.
        unsafe { setter.set(dynamic_shared as usize, ptr::null()) }?;
    }
    Ok(ranges)
}

/// A kernel and the index of its next argument.
struct Setter {
    kernel: cl_kernel,
    next: u32,
}

impl Setter {
    /// Sets the next argument to the `len` bytes at `value`.
    ///
    /// # Safety
    /// The kernel is valid, and so are the bytes, or `value` is null for shared memory.
    unsafe fn set(&mut self, len: usize, value: *const c_void) -> Result<(), DriverFault> {
        self.next += 1;
        // SAFETY: the caller guarantees it.
        unsafe { kernels::set_kernel_arg(self.kernel, self.next - 1, len, value) }.map_err(|code| {
            let fault = new_fault("clSetKernelArg", code);
            let message = format!("argument {} of {len} bytes: {}", self.next, fault.message);
            DriverFault { message, ..fault }
        })
    }

    /// Sets the next argument to an object.
    ///
    /// # Safety
    /// As for `set`, and the handle is a valid object.
    unsafe fn set_handle(&mut self, handle: Handle) -> Result<(), DriverFault> {
        let pointer = handle.0 as usize as *mut c_void;
        // SAFETY: the caller guarantees it.
        unsafe { self.set(size_of::<*mut c_void>(), (&raw const pointer).cast()) }
    }
}

/// Memory objects for ranges of buffers, released when dropped.
pub(super) struct SubBuffers(Vec<cl_mem>);

impl SubBuffers {
    /// Returns the memory object of a range.
    fn memory_for(&mut self, slice: MemorySlice) -> Result<Handle, DriverFault> {
        // A range that starts with its buffer needs no memory object of its own. OpenCL has no
        // empty sub-buffers. A kernel does not access an empty range, so any memory will do.
        if slice.offset == 0 || slice.bytes == 0 {
            return Ok(slice.memory);
        }
        let region = cl_buffer_region { origin: slice.offset, size: slice.bytes };
        // SAFETY: the memory is valid, and the region is within it.
        let range = unsafe {
            create_sub_buffer(
                memory_of(slice.memory),
                CL_MEM_READ_WRITE,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
            )
        }
        .map_err(|code| new_fault("clCreateSubBuffer", code))?;
        self.0.push(range);
        Ok(super::to_handle(range))
    }
}

impl Drop for SubBuffers {
    fn drop(&mut self) {
        for &range in &self.0 {
            // SAFETY: `memory_for` created it. A queued launch has its own reference.
            let _ = unsafe { release_mem_object(range) };
        }
    }
}
