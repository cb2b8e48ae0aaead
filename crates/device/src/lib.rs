//! Compute devices: the only crate that calls CUDA or OpenCL. A [`Device`] allocates [`Buffer`]s,
//! compiles [`Kernel`]s from one source that is both CUDA C++ and OpenCL C (the dialect, documented
//! in `prelude/cuda.h`), and runs them on [`Queue`]s. Both drivers are loaded at run time. Without
//! them the program still builds and runs, and [`DeviceList::notes`] says what is missing. This
//! crate does not know what is computed.
//!
//! All `unsafe` code for devices is in `driver/` and in the handle types directly above it. Kernels
//! are part of the program and trusted like its Rust code: no type can protect against a kernel
//! that writes outside its buffers.

mod buffer;
mod builds;
mod cache;
pub mod ceiling;
pub mod check;
mod choice;
mod device;
mod driver;
mod element;
mod error;
mod event;
mod kernel;
mod peaks;
mod pinned;
mod properties;
mod queue;
pub mod testing;

pub use buffer::{AnyBuffer, Buffer};
pub use cache::cache_folder;
pub use choice::{Backend, DeviceChoice};
pub use device::{Device, DeviceList};
pub use element::Element;
pub use error::DeviceError;
pub use event::Event;
pub use kernel::{Kernel, Math, Module, Origin, Resources, Source};
pub use pinned::Pinned;
pub use properties::{DeviceKind, Memory, Properties};
pub use queue::{Arg, Queue};
