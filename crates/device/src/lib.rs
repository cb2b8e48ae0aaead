//! The machine: the only room that names CUDA or OpenCL. A [`Device`] gives out [`Buffer`]s, builds
//! [`Kernel`]s from one source that is both CUDA C++ and OpenCL C (see `prelude/`), and runs them on
//! [`Queue`]s. Both drivers are looked for at run time: without them the program builds and runs all the
//! same, and [`DeviceList::notes`] says what is missing. Nothing here knows what is computed.
//!
//! All `unsafe` code of the program's device side is in `driver/` and in the handles right above it. The
//! kernels themselves are part of the program and trusted like its Rust: a kernel that writes outside its
//! buffers breaks what no type can guard.

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
