//! Functions that not every driver has. They are looked up here, because cudarc panics if one is
//! missing.

use std::ffi::c_uint;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUresult};

use super::memory::MemoryLocation;

type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult;
type Texture1dLimit =
    unsafe extern "C" fn(*mut usize, sys::CUarray_format, c_uint, sys::CUdevice) -> CUresult;
type Prefetch =
    unsafe extern "C" fn(sys::CUdeviceptr, usize, MemoryLocation, c_uint, sys::CUstream) -> CUresult;
type OlderPrefetch = unsafe extern "C" fn(sys::CUdeviceptr, usize, sys::CUdevice, sys::CUstream) -> CUresult;
type ParameterInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> CUresult;

/// Functions that may be missing.
pub(super) struct OptionalFunctions {
    pub(super) elapsed: Option<Elapsed>,
    pub(super) parameter: Option<ParameterInfo>,
    pub(super) texture_1d_limit: Option<Texture1dLimit>,
    /// Since CUDA 12.2. The function without the suffix keeps the older arguments in the library,
    /// also where the header of CUDA 13 gives its name to this one.
    pub(super) prefetch: Option<Prefetch>,
    pub(super) older_prefetch: Option<OlderPrefetch>,
}

/// Returns the functions that the driver has. A device must have been opened.
pub(super) fn optional_functions() -> &'static OptionalFunctions {
    static OPTIONAL: OnceLock<OptionalFunctions> = OnceLock::new();
    // SAFETY: a device was opened, so the library is loaded. The types are those of cuda.h.
    OPTIONAL.get_or_init(|| unsafe {
        OptionalFunctions {
            elapsed: find_symbol(b"cuEventElapsedTime_v2\0").or_else(|| find_symbol(b"cuEventElapsedTime\0")),
            parameter: find_symbol(b"cuFuncGetParamInfo\0"),
            texture_1d_limit: find_symbol(b"cuDeviceGetTexture1DLinearMaxWidth\0"),
            prefetch: find_symbol(b"cuMemPrefetchAsync_v2\0"),
            older_prefetch: find_symbol(b"cuMemPrefetchAsync\0"),
        }
    })
}

/// Returns the function with this name, which ends with NUL, or None if the driver does not have
/// it.
///
/// # Safety
/// The library is loaded, and the function has the type `F`.
unsafe fn find_symbol<F: Copy>(name: &[u8]) -> Option<F> {
    // SAFETY: the caller guarantees it.
    unsafe { sys::culib().get::<F>(name) }.ok().map(|function| *function)
}
