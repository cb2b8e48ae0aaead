//! CUDA, through its driver API.
//!
//! Each device has one primary context. Every call makes it current on the calling thread, where it
//! stays current. Streams do not wait for each other. Uses of a buffer are not tracked: a queue
//! runs in order, and the caller orders several queues.

pub(crate) mod compile_only;
mod cubin;
mod find;
mod memory;
mod nvrtc;
mod optional;
mod ptx;
mod textures;

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::{
    Argument, BuildFault, CompileOptions, Driver, DriverFault, Handle, MAX_ARGUMENTS, MemorySlice, Parameters,
};
use crate::kernel::Resources;
use crate::launch::Dim3;
pub(crate) use find::{device_count, open};
use nvrtc::Nvrtc;
use optional::optional_functions;

/// A device with its context.
struct Cuda {
    device: sys::CUdevice,
    context: sys::CUcontext,
    capability: (u32, u32),
    compiler: &'static Nvrtc,
}

// SAFETY: CUDA handles may be used from any thread on which the context is current, and every call
// below makes it current first.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Makes the context current on this thread.
    ///
    /// Another library in the process may have switched the context since the last call, for
    /// example PyTorch, CuPy or a CUDA-aware MPI. A record of the context that was set here would
    /// then be wrong, so CUDA is asked every time. cuCtxGetCurrent only reads a thread-local
    /// variable of the driver and does not access the device, so it is cheap next to any call that
    /// follows.
    fn make_current(&self) -> Result<(), DriverFault> {
        let mut current = ptr::null_mut();
        // SAFETY: the driver is initialised, and the out-pointer points to a local.
        check_result("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
        if current == self.context {
            return Ok(());
        }
        // SAFETY: the context was retained when the device was opened and is never released.
        check_result("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }
}

fn stream_of(queue: Handle) -> sys::CUstream {
    queue.0 as usize as sys::CUstream
}

/// Returns the address of the first byte.
fn address_of(slice: MemorySlice) -> sys::CUdeviceptr {
    slice.memory.0 + slice.offset as u64
}

fn event_of(event: Handle) -> sys::CUevent {
    event.0 as usize as sys::CUevent
}

fn function_of(function: Handle) -> sys::CUfunction {
    function.0 as usize as sys::CUfunction
}

fn to_handle<T>(pointer: *mut T) -> Handle {
    Handle(pointer as usize as u64)
}

fn check_result(call: &'static str, code: CUresult) -> Result<(), DriverFault> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(new_fault(call, code)) }
}

#[cold]
fn new_fault(call: &'static str, code: CUresult) -> DriverFault {
    let mut text = ptr::null();
    // SAFETY: CUDA returns a static string, or leaves the pointer null.
    let description = unsafe {
        let known = sys::cuGetErrorString(code, &raw mut text) == CUresult::CUDA_SUCCESS && !text.is_null();
        if known { CStr::from_ptr(text).to_string_lossy().into_owned() } else { "unknown error".to_owned() }
    };
    DriverFault {
        call,
        message: format!("{description} ({code:?})"),
        out_of_memory: code == CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        may_be_earlier_kernel: is_kernel_failure(code),
    }
}

/// Returns whether the error was caused by a kernel, whichever call reports it. All later calls
/// fail too.
fn is_kernel_failure(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
    )
}

// SAFETY of the blocks below: `make_current` was called, handles are valid CUDA handles (the
// contract in driver/mod.rs), and every out-pointer points to a local.
/// Calls `launch` with pointers to the values of the arguments, which are valid during the call.
fn with_argument_pointers(
    arguments: &[Argument],
    launch: impl FnOnce(*mut *mut c_void) -> CUresult,
) -> CUresult {
    let mut words = [0u64; MAX_ARGUMENTS];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = match argument {
            Argument::Scalar { bytes, .. } => u64::from_ne_bytes(*bytes),
            Argument::Memory(slice) => address_of(*slice),
            Argument::Texture { object, .. } => object.0,
        };
    }
    let mut pointers = words.each_mut().map(|word| ptr::from_mut(word).cast::<c_void>());
    launch(pointers.as_mut_ptr())
}

impl Driver for Cuda {
    fn new_queue(&self) -> Result<Handle, DriverFault> {
        self.make_current()?;
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: see above.
        check_result("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        Ok(to_handle(stream))
    }

    fn new_urgent_queue(&self) -> Result<Handle, DriverFault> {
        self.make_current()?;
        let (mut stream, mut greatest) = (ptr::null_mut(), 0);
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: see above. The least priority is not needed.
        unsafe {
            let range = sys::cuCtxGetStreamPriorityRange(ptr::null_mut(), &raw mut greatest);
            check_result("cuCtxGetStreamPriorityRange", range)?;
            let created = sys::cuStreamCreateWithPriority(&raw mut stream, flags, greatest);
            check_result("cuStreamCreateWithPriority", created)?;
        }
        Ok(to_handle(stream))
    }

    unsafe fn free_queue(&self, queue: Handle) {
        if self.make_current().is_ok() {
            // SAFETY: see above. CUDA destroys the stream when its work is done.
            unsafe { sys::cuStreamDestroy_v2(stream_of(queue)) };
        }
    }

    unsafe fn finish(&self, queue: Handle) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        check_result("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream_of(queue)) })
    }

    fn finish_all(&self) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        check_result("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }

    unsafe fn record(&self, queue: Handle) -> Result<Handle, DriverFault> {
        self.make_current()?;
        let mut event = ptr::null_mut();
        // SAFETY: see above. An event that cannot be recorded is destroyed.
        unsafe {
            check_result("cuEventCreate", sys::cuEventCreate(&raw mut event, 0))?;
            check_result("cuEventRecord", sys::cuEventRecord(event, stream_of(queue))).inspect_err(|_| {
                sys::cuEventDestroy_v2(event);
            })?;
        }
        Ok(to_handle(event))
    }

    unsafe fn wait_for(&self, queue: Handle, event: Handle) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        check_result("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(stream_of(queue), event_of(event), 0)
        })
    }

    unsafe fn is_done(&self, event: Handle) -> Result<bool, DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        match unsafe { sys::cuEventQuery(event_of(event)) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check_result("cuEventQuery", code).map(|()| true),
        }
    }

    unsafe fn wait(&self, event: Handle) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        check_result("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event_of(event)) })
    }

    unsafe fn seconds_between(&self, earlier: Handle, later: Handle) -> Result<f64, DriverFault> {
        const CALL: &str = "cuEventElapsedTime";
        self.make_current()?;
        let elapsed = optional_functions()
            .elapsed
            .ok_or_else(|| DriverFault::new(CALL, "the driver does not have this function"))?;
        let mut milliseconds = 0.0;
        // SAFETY: see above.
        check_result(CALL, unsafe { elapsed(&raw mut milliseconds, event_of(earlier), event_of(later)) })?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    unsafe fn free_event(&self, event: Handle) {
        if self.make_current().is_ok() {
            // SAFETY: see above.
            unsafe { sys::cuEventDestroy_v2(event_of(event)) };
        }
    }

    fn compile_module(
        &self,
        name: &str,
        text: &str,
        options: CompileOptions,
    ) -> Result<(Handle, Vec<u8>), BuildFault> {
        let code = self.compiler.compile(name, text, options, self.capability)?.code;
        Ok((self.load_module(&code)?, code))
    }

    fn load_module(&self, binary: &[u8]) -> Result<Handle, DriverFault> {
        self.make_current()?;
        let mut module = ptr::null_mut();
        // PTX is read as a C string. A cubin tolerates the additional byte.
        let image = [binary, &[0]].concat();
        // SAFETY: see above. The image was compiled for this device, just now or (with a valid
        // hash) before.
        check_result("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast())
        })?;
        Ok(to_handle(module))
    }

    unsafe fn unload_module(&self, module: Handle) {
        if self.make_current().is_ok() {
            // SAFETY: see above. No kernel may run when its code is unloaded.
            unsafe {
                sys::cuCtxSynchronize();
                sys::cuModuleUnload(module.0 as usize as sys::CUmodule);
            }
        }
    }

    unsafe fn find_function(&self, module: Handle, name: &str) -> Result<Option<Handle>, DriverFault> {
        self.make_current()?;
        let Ok(name) = CString::new(name) else { return Ok(None) };
        let mut function = ptr::null_mut();
        // SAFETY: see above.
        let code = unsafe {
            sys::cuModuleGetFunction(&raw mut function, module.0 as usize as sys::CUmodule, name.as_ptr())
        };
        match code {
            CUresult::CUDA_ERROR_NOT_FOUND => Ok(None),
            code => check_result("cuModuleGetFunction", code).map(|()| Some(to_handle(function))),
        }
    }

    unsafe fn free_function(&self, _function: Handle) {}

    unsafe fn find_constant(&self, module: Handle, name: &str) -> Result<Option<MemorySlice>, DriverFault> {
        const CALL: &str = "cuModuleGetGlobal";
        self.make_current()?;
        let name = CString::new(name).map_err(|_| DriverFault::new(CALL, "the name contains a NUL byte"))?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: see above.
        let code = unsafe {
            let module = module.0 as usize as sys::CUmodule;
            sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, module, name.as_ptr())
        };
        check_result(CALL, code)?;
        Ok(Some(MemorySlice { memory: Handle(address), offset: 0, bytes }))
    }

    unsafe fn parameters(&self, function: Handle) -> Result<Parameters, DriverFault> {
        self.make_current()?;
        let Some(parameter_info) = optional_functions().parameter else { return Ok(Parameters::default()) };
        let mut parameters = Parameters::default();
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: see above. An index beyond the last gives an error.
        while unsafe {
            parameter_info(function_of(function), parameters.bytes.len(), &raw mut offset, &raw mut bytes)
        } == CUresult::CUDA_SUCCESS
        {
            parameters.bytes.push(bytes);
        }
        parameters.count = Some(parameters.bytes.len());
        Ok(parameters)
    }

    unsafe fn resources(&self, function: Handle) -> Result<Resources, DriverFault> {
        use sys::CUfunction_attribute as Attribute;
        self.make_current()?;
        let read = |attribute| {
            let mut value: c_int = 0;
            // SAFETY: see above.
            let code = unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function_of(function)) };
            check_result("cuFuncGetAttribute", code).map(|()| value.max(0) as u32)
        };
        Ok(Resources {
            registers: Some(read(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?),
            shared_bytes: read(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            // CUDA's "local memory" is per thread and stored in device memory.
            spill_bytes: Some(read(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?),
            max_block_size: read(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }

    unsafe fn allow_dynamic_shared(&self, function: Handle, bytes: u32) -> Result<(), DriverFault> {
        use sys::CUfunction_attribute as Attribute;
        self.make_current()?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: see above.
        let code = unsafe { sys::cuFuncSetAttribute(function_of(function), attribute, bytes as c_int) };
        check_result("cuFuncSetAttribute", code)
    }

    unsafe fn blocks_per_sm(&self, function: Handle, block_size: u32, dynamic_shared: u32) -> Option<u32> {
        self.make_current().ok()?;
        let mut blocks: c_int = 0;
        let block_size = c_int::try_from(block_size).ok()?;
        // SAFETY: see above.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                function_of(function),
                block_size,
                dynamic_shared as usize,
            )
        };
        check_result("cuOccupancyMaxActiveBlocksPerMultiprocessor", code).ok()?;
        u32::try_from(blocks).ok()
    }

    unsafe fn launch(
        &self,
        queue: Handle,
        function: Handle,
        grid: Dim3,
        block: Dim3,
        dynamic_shared: u32,
        arguments: &[Argument],
    ) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above. CUDA copies the arguments before it returns.
        let code = with_argument_pointers(arguments, |pointers| unsafe {
            sys::cuLaunchKernel(
                function_of(function),
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                dynamic_shared,
                stream_of(queue),
                pointers,
                ptr::null_mut(),
            )
        });
        check_result("cuLaunchKernel", code)
    }

    unsafe fn launch_cooperative(
        &self,
        queue: Handle,
        function: Handle,
        grid: Dim3,
        block: Dim3,
        dynamic_shared: u32,
        arguments: &[Argument],
    ) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above. CUDA copies the arguments before it returns.
        let code = with_argument_pointers(arguments, |pointers| unsafe {
            sys::cuLaunchCooperativeKernel(
                function_of(function),
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                dynamic_shared,
                stream_of(queue),
                pointers,
            )
        });
        check_result("cuLaunchCooperativeKernel", code)
    }

    fn context(&self) -> Option<Handle> {
        Some(to_handle(self.context))
    }

    fn can_access(&self, other: usize) -> bool {
        let mut possible = 0;
        let Ok(other) = cudarc::driver::result::device::get(other as c_int) else { return false };
        // SAFETY: see above.
        let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut possible, self.device, other) };
        code == CUresult::CUDA_SUCCESS && possible != 0
    }

    unsafe fn enable_peer(&self, context: Handle) -> Result<(), DriverFault> {
        self.make_current()?;
        // SAFETY: see above.
        match unsafe { sys::cuCtxEnablePeerAccess(context.0 as usize as sys::CUcontext, 0) } {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            code => check_result("cuCtxEnablePeerAccess", code),
        }
    }

    unsafe fn copy_across(
        &self,
        queue: Handle,
        (from, from_context): (MemorySlice, Handle),
        (to, to_context): (MemorySlice, Handle),
    ) -> Result<(), DriverFault> {
        self.make_current()?;
        let context = |handle: Handle| handle.0 as usize as sys::CUcontext;
        // SAFETY: see above.
        let code = unsafe {
            sys::cuMemcpyPeerAsync(
                address_of(to),
                context(to_context),
                address_of(from),
                context(from_context),
                from.bytes,
                stream_of(queue),
            )
        };
        check_result("cuMemcpyPeerAsync", code)
    }
}
