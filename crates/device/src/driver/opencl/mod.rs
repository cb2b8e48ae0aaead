//! OpenCL, through any installed driver. Each device has one context. Queues run in order and
//! record times.

mod arguments;
mod find;
mod log;
mod memory;
mod pocl;
mod textures;

use std::ffi::CString;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use opencl3::command_queue as queues;
use opencl3::command_queue::CL_QUEUE_PROFILING_ENABLE;
use opencl3::context::context::create_context;
use opencl3::device::{CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, Device};
use opencl3::error_codes::{
    CL_BUILD_PROGRAM_FAILURE, CL_INVALID_KERNEL_NAME, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES,
    ClError,
};
use opencl3::event as events;
use opencl3::kernel as kernels;
use opencl3::memory::Sampler;
use opencl3::program as programs;
use opencl3::types::{cl_command_queue, cl_context, cl_event, cl_int, cl_kernel, cl_mem, cl_program};

use super::{Argument, BuildFault, CompileOptions, Driver, DriverFault, Handle, Parameters, TextureLimits};
use crate::kernel::Resources;
use crate::launch::Dim3;
use crate::texture::TextureSettings;
pub use find::child_environment;
pub(crate) use find::{device_count, gpu_indices, open};

/// Option that allows a multiplication and an addition to be contracted.
const CONTRACTION: &str = " -cl-mad-enable";

/// A device with its context.
struct OpenCl {
    device: Device,
    context: cl_context,
    /// Queue that maps host memory.
    map_queue: cl_command_queue,
    /// All queues of `new_queue` that exist.
    queues: Mutex<Vec<cl_command_queue>>,
    /// Compiler options that are the same for all kernels.
    options: String,
    /// Whether the compiler has an option that limits registers.
    limits_registers: bool,
    /// Whether the compiler has an option for IEEE division and square root.
    has_exact_division: bool,
    memory: u64,
    largest_buffer: u64,
    /// Locked during a launch, because arguments are set one by one on a kernel object that threads
    /// share.
    launch_lock: Mutex<()>,
    is_pocl: bool,
    waits_after_launch: bool,
    /// Whether the driver caches compiled kernels on disk. Then this crate does not.
    has_kernel_cache: bool,
    /// None if the device has no images.
    texture_limits: Option<TextureLimits>,
    /// One for each combination of settings in use. Never released, because OpenCL does not say
    /// whether a queued launch has a reference to its samplers.
    samplers: Mutex<Vec<(TextureSettings, Sampler)>>,
}

// SAFETY: OpenCL functions may be called from any thread, except for setting the arguments of a
// kernel, which `launch_lock` guards.
unsafe impl Send for OpenCl {}
// SAFETY: as above.
unsafe impl Sync for OpenCl {}

fn to_handle<T>(pointer: *mut T) -> Handle {
    Handle(pointer as usize as u64)
}

fn queue_of(queue: Handle) -> cl_command_queue {
    queue.0 as usize as cl_command_queue
}

fn memory_of(memory: Handle) -> cl_mem {
    memory.0 as usize as cl_mem
}

fn event_of(event: Handle) -> cl_event {
    event.0 as usize as cl_event
}

fn program_of(module: Handle) -> cl_program {
    module.0 as usize as cl_program
}

fn kernel_of(function: Handle) -> cl_kernel {
    function.0 as usize as cl_kernel
}

#[cold]
fn new_fault(call: &'static str, code: cl_int) -> DriverFault {
    let is_allocation = ["clCreateBuffer", "clCreateImage", "clEnqueueFillBuffer"].contains(&call);
    // NVIDIA's driver also reports CL_OUT_OF_RESOURCES if a kernel accessed memory outside its
    // buffers.
    let is_out_of_resources = code == CL_OUT_OF_RESOURCES;
    DriverFault {
        call,
        message: ClError(code).to_string(),
        out_of_memory: code == CL_MEM_OBJECT_ALLOCATION_FAILURE || (is_out_of_resources && is_allocation),
        may_be_earlier_kernel: is_out_of_resources && !is_allocation,
    }
}

/// Checks the result of an enqueued command and releases its event, which is not used.
fn check_queued(call: &'static str, result: Result<cl_event, cl_int>) -> Result<(), DriverFault> {
    let event = result.map_err(|code| new_fault(call, code))?;
    // SAFETY: OpenCL just returned the event, and it is not used again.
    let _ = unsafe { events::release_event(event) };
    Ok(())
}

impl OpenCl {
    fn new(device: Device, language: &str, memory: u64) -> Result<Self, DriverFault> {
        let context = create_context(&[device.id()], ptr::null(), None, ptr::null_mut())
            .map_err(|code| new_fault("clCreateContext", code))?;
        let info_error = |error: ClError| new_fault("clGetDeviceInfo", error.0);
        let config = device.single_fp_config().map_err(info_error)?;
        let is_pocl = device.version().map_err(info_error)?.to_lowercase().contains("pocl");
        // PoCL 5.0 aborts if threads launch while other launches run. Not tested: whether `pocl`
        // alone is enough.
        let waits_after_launch = is_pocl && device.driver_version().map_err(info_error)?.starts_with("5.");
        // PoCL has a cache unless this variable turns it off. A request for the binary would make
        // it compile every kernel twice: for any block size, and at the first launch for the actual
        // one.
        let has_kernel_cache = is_pocl && std::env::var_os("POCL_KERNEL_CACHE").is_none_or(|on| on != "0");
        let extensions = device.extensions().map_err(info_error)?;
        Ok(Self {
            device,
            context,
            map_queue: create_queue(context, device)?,
            queues: Mutex::default(),
            // Without -w, PoCL prints the number of warnings to the standard error of the program.
            options: format!("{language}{CONTRACTION} -w"),
            limits_registers: extensions.contains("cl_nv_compiler_options"),
            has_exact_division: config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0,
            memory,
            largest_buffer: device.max_mem_alloc_size().map_err(info_error)?,
            launch_lock: Mutex::new(()),
            is_pocl,
            waits_after_launch,
            has_kernel_cache,
            texture_limits: textures::read_limits(device, context),
            samplers: Mutex::default(),
        })
    }

    /// Returns the compiler options for a kernel.
    fn build_options(&self, CompileOptions { math, max_registers }: CompileOptions) -> String {
        // OpenCL has no equivalent of KERNEL_MIN_BLOCKS. With 128 registers per thread, an NVIDIA
        // SM can run 16 warps.
        let limit = max_registers.unwrap_or(128);
        let registers =
            if self.limits_registers { format!(" -cl-nv-maxrregcount={limit}") } else { String::new() };
        let options = format!("{}{registers}", self.options);
        let Some(flags) = math.flags() else {
            return format!("{options} -cl-denorms-are-zero -cl-fast-relaxed-math");
        };
        let options = if flags.no_contraction { options.replace(CONTRACTION, "") } else { options };
        let is_exact = self.has_exact_division && !flags.approximate_division && !flags.approximate_sqrt;
        let exact = if is_exact { " -cl-fp32-correctly-rounded-divide-sqrt" } else { "" };
        let denormals = if flags.flush_to_zero { " -cl-denorms-are-zero" } else { "" };
        format!("{options}{exact}{denormals}")
    }

    fn build_program(&self, program: cl_program, options: &str) -> Result<(), BuildFault> {
        let options = CString::new(options)
            .map_err(|_| DriverFault::new("clBuildProgram", "the options contain a NUL byte"))?;
        programs::build_program(program, &[self.device.id()], &options, None, ptr::null_mut()).map_err(
            |code| {
                if code != CL_BUILD_PROGRAM_FAILURE {
                    return new_fault("clBuildProgram", code).into();
                }
                let log = programs::get_program_build_data(
                    program,
                    self.device.id(),
                    programs::CL_PROGRAM_BUILD_LOG,
                );
                let log = String::from_utf8_lossy(&log.unwrap_or_default()).trim_matches('\0').to_owned();
                BuildFault::Log(log)
            },
        )
    }

    /// Returns the time in ns at which the command of an event ended.
    fn end_time_ns(event: Handle) -> Result<u64, DriverFault> {
        events::get_event_profiling_info(event_of(event), events::CL_PROFILING_COMMAND_END)
            .map(u64::from)
            .map_err(|code| new_fault("clGetEventProfilingInfo", code))
    }
}

fn create_queue(context: cl_context, device: Device) -> Result<cl_command_queue, DriverFault> {
    // The newer function with properties does not exist before OpenCL 2.0.
    // SAFETY: the device belongs to the context.
    unsafe { queues::create_command_queue(context, device.id(), CL_QUEUE_PROFILING_ENABLE) }
        .map_err(|code| new_fault("clCreateCommandQueue", code))
}

// SAFETY of the blocks below: handles are valid OpenCL objects, sizes and host pointers are correct
// (the contract in driver/mod.rs), and wait lists are empty or contain one valid event.
impl Driver for OpenCl {
    fn new_queue(&self) -> Result<Handle, DriverFault> {
        let queue = create_queue(self.context, self.device)?;
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
        if self.is_pocl {
            pocl::add_queue(queue);
        }
        Ok(to_handle(queue))
    }

    unsafe fn free_queue(&self, queue: Handle) {
        let queue = queue_of(queue);
        // Wait here, because `finish_all` cannot wait for a queue that was released.
        let _ = queues::finish(queue);
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != queue);
        if self.is_pocl {
            pocl::remove_queue(queue);
        }
        // SAFETY: see above.
        let _ = unsafe { queues::release_command_queue(queue) };
    }

    unsafe fn finish(&self, queue: Handle) -> Result<(), DriverFault> {
        queues::finish(queue_of(queue)).map_err(|code| new_fault("clFinish", code))
    }

    fn finish_all(&self) -> Result<(), DriverFault> {
        // Locked while waiting, so that no queue is released.
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for &queue in queues.iter() {
            queues::finish(queue).map_err(|code| new_fault("clFinish", code))?;
        }
        Ok(())
    }

    unsafe fn record(&self, queue: Handle) -> Result<Handle, DriverFault> {
        // SAFETY: see above.
        let event = unsafe { queues::enqueue_marker_with_wait_list(queue_of(queue), 0, ptr::null()) }
            .map_err(|code| new_fault("clEnqueueMarkerWithWaitList", code))?;
        // Flush, because a caller that polls the event, or another queue that waits for it, needs
        // this queue to start.
        queues::flush(queue_of(queue)).map_err(|code| new_fault("clFlush", code))?;
        Ok(to_handle(event))
    }

    unsafe fn wait_for(&self, queue: Handle, event: Handle) -> Result<(), DriverFault> {
        let event = event_of(event);
        // SAFETY: see above.
        let waits = unsafe { queues::enqueue_barrier_with_wait_list(queue_of(queue), 1, &raw const event) };
        check_queued("clEnqueueBarrierWithWaitList", waits)
    }

    unsafe fn is_done(&self, event: Handle) -> Result<bool, DriverFault> {
        let status = events::get_event_info(event_of(event), events::CL_EVENT_COMMAND_EXECUTION_STATUS)
            .map(i32::from)
            .map_err(|code| new_fault("clGetEventInfo", code))?;
        match status {
            failed if failed < 0 => Err(new_fault("clGetEventInfo", failed)),
            status => Ok(status == events::CL_COMPLETE),
        }
    }

    unsafe fn wait(&self, event: Handle) -> Result<(), DriverFault> {
        events::wait_for_events(&[event_of(event)]).map_err(|code| new_fault("clWaitForEvents", code))
    }

    unsafe fn seconds_between(&self, earlier: Handle, later: Handle) -> Result<f64, DriverFault> {
        let (earlier, later) = (Self::end_time_ns(earlier)?, Self::end_time_ns(later)?);
        Ok((later as f64 - earlier as f64) * 1e-9)
    }

    unsafe fn free_event(&self, event: Handle) {
        // SAFETY: see above.
        let _ = unsafe { events::release_event(event_of(event)) };
    }

    fn compile_module(
        &self,
        _name: &str,
        text: &str,
        options: CompileOptions,
    ) -> Result<(Handle, Vec<u8>), BuildFault> {
        let program = programs::create_program_with_source(self.context, &[text])
            .map_err(|code| new_fault("clCreateProgramWithSource", code))?;
        let built = self.build_program(program, &self.build_options(options)).and_then(|()| {
            if self.has_kernel_cache {
                return Ok(Vec::new());
            }
            let binaries = programs::get_program_info(program, programs::CL_PROGRAM_BINARIES)
                .map_err(|code| new_fault("clGetProgramInfo", code))?;
            Ok(Vec::<Vec<u8>>::from(binaries).into_iter().next().unwrap_or_default())
        });
        match built {
            Ok(binary) => Ok((to_handle(program), binary)),
            Err(fault) => {
                // SAFETY: the program is not used elsewhere.
                unsafe { self.unload_module(to_handle(program)) };
                Err(match fault {
                    BuildFault::Log(log) => BuildFault::Log(log::with_file_names(&log, text)),
                    BuildFault::Fault(_) => fault,
                })
            }
        }
    }

    fn load_module(&self, binary: &[u8]) -> Result<Handle, DriverFault> {
        const CALL: &str = "clCreateProgramWithBinary";
        // SAFETY: the device belongs to the context. The driver wrote the binary, and its hash is
        // valid.
        let program =
            unsafe { programs::create_program_with_binary(self.context, &[self.device.id()], &[binary]) }
                .map_err(|code| new_fault(CALL, code))?;
        self.build_program(program, "").map_err(|why| {
            // SAFETY: the program is not used elsewhere.
            unsafe { self.unload_module(to_handle(program)) };
            match why {
                BuildFault::Fault(fault) => fault,
                BuildFault::Log(log) => DriverFault::new(CALL, log),
            }
        })?;
        Ok(to_handle(program))
    }

    unsafe fn unload_module(&self, module: Handle) {
        // SAFETY: see above. Kernels have their own reference.
        let _ = unsafe { programs::release_program(program_of(module)) };
    }

    unsafe fn find_function(&self, module: Handle, name: &str) -> Result<Option<Handle>, DriverFault> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        match kernels::create_kernel(program_of(module), &name) {
            Ok(kernel) => Ok(Some(to_handle(kernel))),
            Err(CL_INVALID_KERNEL_NAME) => Ok(None),
            Err(code) => Err(new_fault("clCreateKernel", code)),
        }
    }

    unsafe fn free_function(&self, function: Handle) {
        if self.is_pocl {
            pocl::remove_kernel(kernel_of(function));
        }
        // SAFETY: see above. Queued launches have their own reference.
        let _ = unsafe { kernels::release_kernel(kernel_of(function)) };
    }

    unsafe fn parameters(&self, function: Handle) -> Result<Parameters, DriverFault> {
        let count = kernels::get_kernel_info(kernel_of(function), kernels::CL_KERNEL_NUM_ARGS)
            .map(u32::from)
            .map_err(|code| new_fault("clGetKernelInfo", code))?;
        Ok(Parameters { count: Some(count as usize), bytes: Vec::new() })
    }

    unsafe fn resources(&self, function: Handle) -> Result<Resources, DriverFault> {
        let read_info = |what| {
            kernels::get_kernel_work_group_info(kernel_of(function), self.device.id(), what)
                .map_err(|code| new_fault("clGetKernelWorkGroupInfo", code))
        };
        let largest = usize::from(read_info(kernels::CL_KERNEL_WORK_GROUP_SIZE)?) as u32;
        let declared = Vec::<usize>::from(read_info(kernels::CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?);
        let declared = declared.iter().product::<usize>() as u32;
        Ok(Resources {
            registers: None,
            shared_bytes: u64::from(read_info(kernels::CL_KERNEL_LOCAL_MEM_SIZE)?) as u32,
            spill_bytes: None,
            max_block_size: if declared == 0 { largest } else { declared },
        })
    }

    unsafe fn allow_dynamic_shared(&self, function: Handle, bytes: u32) -> Result<(), DriverFault> {
        const CALL: &str = "dynamic shared memory";
        // SAFETY: see above.
        let declared = unsafe { self.resources(function) }?.shared_bytes;
        let limit = self.device.local_mem_size().map_err(|error| new_fault(CALL, error.0))?;
        if u64::from(declared) + u64::from(bytes) > limit {
            let message =
                format!("{declared} bytes declared and {bytes} requested, expected at most {limit}");
            return Err(DriverFault::new(CALL, message));
        }
        Ok(())
    }

    unsafe fn blocks_per_sm(&self, _: Handle, _block_size: u32, _dynamic_shared: u32) -> Option<u32> {
        None
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
        let kernel = kernel_of(function);
        let block_size = [block.x, block.y, block.z].map(|threads| threads as usize);
        let blocks = [grid.x, grid.y, grid.z];
        let threads: [usize; 3] = std::array::from_fn(|axis| blocks[axis] as usize * block_size[axis]);
        let _lock = self.launch_lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropped after the launch, which then has its own references.
        // SAFETY: see above. OpenCL copies the arguments.
        let _ranges = unsafe { arguments::set_arguments(kernel, arguments, dynamic_shared) }?;
        let dimensions = if grid.z > 1 || block.z > 1 { 3 } else { 1 + u32::from(grid.y > 1 || block.y > 1) };
        let enqueue = || {
            // SAFETY: see above.
            let launched = unsafe {
                queues::enqueue_nd_range_kernel(
                    queue_of(queue),
                    kernel,
                    dimensions,
                    ptr::null(),
                    threads.as_ptr(),
                    block_size.as_ptr(),
                    0,
                    ptr::null(),
                )
            };
            check_queued("clEnqueueNDRangeKernel", launched)
        };
        if self.is_pocl {
            pocl::launch(queue_of(queue), kernel, block_size, threads, enqueue)?;
        } else {
            enqueue()?;
        }
        if self.waits_after_launch {
            queues::finish(queue_of(queue)).map_err(|code| new_fault("clFinish", code))?;
        }
        Ok(())
    }
}
