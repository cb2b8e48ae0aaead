//! Memory of CUDA: device memory, page-locked and mapped host memory, managed memory, and copies.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUmemorytype};

use super::{Cuda, address_of, check_result, optional_functions, stream_of, to_handle};
use crate::driver::{
    Driver, DriverFault, Handle, MappedMemory, MemoryDriver, MemorySlice, Pin, PitchedRows, PrefetchTarget,
};
use crate::properties::Memory;

// SAFETY of the blocks below: `make_current` was called, handles are valid CUDA handles (the
// contract in driver/mod.rs), and every out-pointer points to a local.
impl MemoryDriver for Cuda {
    fn memory(&self, _held_bytes: u64) -> Result<Memory, DriverFault> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: see above.
        check_result("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok(Memory { free: free as u64, total: total as u64 })
    }

    fn largest_buffer(&self, _held_bytes: u64) -> u64 {
        u64::MAX
    }

    fn allocate_memory(&self, bytes: u64) -> Result<Handle, DriverFault> {
        self.make_current()?;
        let mut address = 0;
        // SAFETY: see above.
        check_result("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) })?;
        Ok(Handle(address))
    }

    unsafe fn free_memory(&self, memory: Handle) {
        if self.make_current().is_ok() {
            // SAFETY: see above. cuMemFree waits for the device.
            unsafe { sys::cuMemFree_v2(memory.0) };
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<Pin, DriverFault> {
        self.make_current()?;
        let mut pointer: *mut c_void = ptr::null_mut();
        // SAFETY: see above. The memory has `bytes` bytes.
        unsafe {
            check_result("cuMemHostAlloc", sys::cuMemHostAlloc(&raw mut pointer, bytes, 0))?;
            ptr::write_bytes(pointer.cast::<u8>(), 0, bytes);
        }
        Ok(Pin { pointer: pointer.cast(), handle: to_handle(pointer) })
    }

    unsafe fn free_pinned(&self, pin: Pin, _bytes: usize) {
        if self.make_current().is_ok() {
            // SAFETY: see above.
            unsafe { sys::cuMemFreeHost(pin.pointer.cast()) };
        }
    }

    unsafe fn register_host(&self, pointer: *mut u8, bytes: usize) -> Result<(), DriverFault> {
        self.make_current()?;
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE as c_uint;
        // SAFETY: see above.
        let code = unsafe { sys::cuMemHostRegister_v2(pointer.cast(), bytes, flags) };
        check_result("cuMemHostRegister", code)
    }

    unsafe fn unregister_host(&self, pointer: *mut u8) {
        if self.make_current().is_ok() {
            // SAFETY: see above.
            unsafe { sys::cuMemHostUnregister(pointer.cast()) };
        }
    }

    unsafe fn clear_memory(&self, queue: Handle, memory: Handle, bytes: usize) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        check_result("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(memory.0, 0, bytes, stream_of(queue)) })
    }

    unsafe fn write(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault> {
        // SAFETY: see above. If `from` is page-locked, it is in use until the wait ends.
        unsafe {
            let queued = self.write_async(queue, to, from);
            // Waits even if the call failed, so that `from` is never still in use.
            let finished = self.finish(queue);
            queued.and(finished)
        }
    }

    unsafe fn read(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe {
            let queued = self.read_async(queue, from, to);
            // Waits even if the call failed, so that `to` is never still in use.
            let finished = self.finish(queue);
            queued.and(finished)
        }
    }

    unsafe fn write_async(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        let code =
            unsafe { sys::cuMemcpyHtoDAsync_v2(address_of(to), from.cast(), to.bytes, stream_of(queue)) };
        check_result("cuMemcpyHtoDAsync", code)
    }

    unsafe fn read_async(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        let code =
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), address_of(from), from.bytes, stream_of(queue)) };
        check_result("cuMemcpyDtoHAsync", code)
    }

    unsafe fn copy(&self, queue: Handle, from: MemorySlice, to: MemorySlice) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        let code = unsafe {
            sys::cuMemcpyDtoDAsync_v2(address_of(to), address_of(from), from.bytes, stream_of(queue))
        };
        check_result("cuMemcpyDtoDAsync", code)
    }

    unsafe fn write_rows(&self, queue: Handle, to: PitchedRows, from: *const u8) -> Result<(), DriverFault> {
        let mut copy = new_copy_2d(to.row_bytes, to.rows);
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = from.cast();
        copy.srcPitch = to.row_bytes;
        copy.dstDevice = to.memory.0;
        copy.dstPitch = to.pitch;
        // SAFETY: see above.
        unsafe { self.copy_2d_and_wait(queue, &copy) }
    }

    unsafe fn read_rows(&self, queue: Handle, from: PitchedRows, to: *mut u8) -> Result<(), DriverFault> {
        let mut copy = new_copy_2d(from.row_bytes, from.rows);
        copy.srcDevice = from.memory.0;
        copy.srcPitch = from.pitch;
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = to.cast();
        copy.dstPitch = from.row_bytes;
        // SAFETY: see above.
        unsafe { self.copy_2d_and_wait(queue, &copy) }
    }

    unsafe fn copy_rows(&self, queue: Handle, from: PitchedRows, to: PitchedRows) -> Result<(), DriverFault> {
        self.make_current()?;
        let mut copy = new_copy_2d(from.row_bytes, from.rows);
        copy.srcDevice = from.memory.0;
        copy.srcPitch = from.pitch;
        copy.dstDevice = to.memory.0;
        copy.dstPitch = to.pitch;
        // SAFETY: see above.
        check_result("cuMemcpy2DAsync", unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream_of(queue)) })
    }

    fn allocate_mapped(&self, bytes: usize) -> Result<MappedMemory, DriverFault> {
        self.make_current()?;
        let (mut host, mut address): (*mut c_void, _) = (ptr::null_mut(), 0);
        // SAFETY: see above. The memory has `bytes` bytes.
        unsafe {
            let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP as c_uint;
            check_result("cuMemHostAlloc", sys::cuMemHostAlloc(&raw mut host, bytes, flags))?;
            let code = sys::cuMemHostGetDevicePointer_v2(&raw mut address, host, 0);
            check_result("cuMemHostGetDevicePointer", code).inspect_err(|_| {
                sys::cuMemFreeHost(host);
            })?;
            ptr::write_bytes(host.cast::<u8>(), 0, bytes);
        }
        Ok(MappedMemory { memory: Handle(address), host: Some(to_handle(host)) })
    }

    unsafe fn free_mapped(&self, mapped: MappedMemory) {
        if let (Ok(()), Some(host)) = (self.make_current(), mapped.host) {
            // SAFETY: see above.
            unsafe { sys::cuMemFreeHost(host.0 as usize as *mut c_void) };
        }
    }

    unsafe fn map(&self, mapped: MappedMemory, _bytes: usize) -> Result<*mut u8, DriverFault> {
        let host =
            mapped.host.ok_or_else(|| DriverFault::new("map", "the memory has no address on the host"))?;
        Ok(host.0 as usize as *mut u8)
    }

    unsafe fn unmap(&self, _mapped: MappedMemory, _pointer: *mut u8) -> Result<(), DriverFault> {
        Ok(())
    }

    fn allocate_managed(&self, bytes: u64) -> Result<Handle, DriverFault> {
        self.make_current()?;
        let mut address = 0;
        let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as c_uint;
        // SAFETY: see above.
        let code = unsafe { sys::cuMemAllocManaged(&raw mut address, bytes as usize, flags) };
        check_result("cuMemAllocManaged", code)?;
        Ok(Handle(address))
    }

    unsafe fn prefetch(
        &self,
        queue: Handle,
        memory: MemorySlice,
        target: PrefetchTarget,
    ) -> Result<(), DriverFault> {
        const CALL: &str = "cuMemPrefetchAsync";
        self.make_current()?;
        let (address, stream) = (address_of(memory), stream_of(queue));
        let functions = optional_functions();
        // SAFETY: see above. Each function gets the arguments of its version.
        let code = unsafe {
            if let Some(prefetch) = functions.prefetch {
                let location = match target {
                    PrefetchTarget::Device => MemoryLocation { kind: 1, id: self.device },
                    PrefetchTarget::Host => MemoryLocation { kind: 2, id: 0 },
                };
                prefetch(address, memory.bytes, location, 0, stream)
            } else if let Some(prefetch) = functions.older_prefetch {
                let target = match target {
                    PrefetchTarget::Device => self.device,
                    PrefetchTarget::Host => CPU_DEVICE,
                };
                prefetch(address, memory.bytes, target, stream)
            } else {
                return Err(DriverFault::new(CALL, "the driver does not have this function"));
            }
        };
        check_result(CALL, code)
    }
}

impl Cuda {
    /// Copies between the host and the device, and waits for the copy.
    ///
    /// # Safety
    /// Both ends have as many rows and bytes as the copy.
    pub(super) unsafe fn copy_2d_and_wait(
        &self,
        queue: Handle,
        copy: &sys::CUDA_MEMCPY2D,
    ) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: the caller guarantees the sizes.
        unsafe {
            let queued = check_result("cuMemcpy2DAsync", sys::cuMemcpy2DAsync_v2(copy, stream_of(queue)));
            // Waits even if the call failed, so that host memory is never still in use.
            let finished = self.finish(queue);
            queued.and(finished)
        }
    }
}

/// Returns a copy of rows within device memory, without addresses and pitches.
pub(super) fn new_copy_2d(row_bytes: usize, rows: usize) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: row_bytes,
        Height: rows,
    }
}

/// CU_DEVICE_CPU.
const CPU_DEVICE: c_int = -1;

/// CUmemLocation of CUDA 12.2 and later. `kind` is 1 for a device (CU_MEM_LOCATION_TYPE_DEVICE),
/// whose number is `id`, and 2 for the host (CU_MEM_LOCATION_TYPE_HOST).
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct MemoryLocation {
    kind: c_int,
    id: c_int,
}
