//! Compute devices: the only crate that calls CUDA or OpenCL. A [`Device`] allocates [`Buffer`]s,
//! compiles [`Kernel`]s from one source that is both CUDA C++ and OpenCL C (the dialect, documented
//! in `prelude/cuda.h`), and runs them on [`Queue`]s. Both drivers are loaded at run time. Without
//! them the program still builds and runs, and [`DeviceList::notes`] says what is missing. This
//! crate does not know what is computed.
//!
//! All `unsafe` code for devices is in `driver/` and in the handle types directly above it, with
//! one exception. Kernels are part of the program and trusted like its Rust code: no type can
//! protect against a kernel that writes outside its buffers. So the module that owns a kernel file
//! declares it with an `unsafe` [`KernelFile::new`]. Building and launching are then safe: a launch
//! checks its arguments against the kernel's declaration.

mod buffer;
mod builder;
mod builds;
mod cache;
pub mod ceiling;
pub mod check;
mod choice;
pub mod connections;
mod constant;
mod device;
mod driver;
mod element;
mod error;
mod event;
mod host_access;
mod kernel;
mod launch;
mod memory;
mod nan_watch;
pub mod occupancy;
mod peaks;
mod pending_copy;
mod pinned;
mod pitched;
mod preprocess;
mod properties;
mod queue;
mod shared_memory;
mod shared_pinned;
mod signature;
mod source_text;
pub mod testing;
mod texture;

pub use buffer::{Buffer, BufferRange};
pub use builder::{BuildTime, KernelBuilder};
pub use cache::{CacheError, CacheFolder, cache_folder, take_cache_warnings};
pub use choice::{Backend, DeviceChoice};
pub use constant::Constant;
pub use device::{Device, DeviceList};
pub use driver::opencl::child_environment;
pub use element::{Element, ElementType};
pub use error::DeviceError;
pub use event::Event;
pub use host_access::{Managed, Mapped};
pub use kernel::{Kernel, KernelFile, Math, MathFlags, Module, ModuleOrigin, Resources};
pub use launch::{Arg, BufferArg, Dim3};
pub use nan_watch::{FailedCheck, NanWatch};
pub use pending_copy::HostRange;
pub use pinned::Pinned;
pub use pitched::Pitched;
pub use properties::{DeviceKind, Memory, Properties};
pub use queue::Queue;
pub use shared_memory::SharedName;
pub use shared_pinned::SharedPinned;
pub use source_text::{defined_number, joined_bytes, joined_length};
pub use texture::{AddressMode, Texture, TextureFilter, TextureSettings};
