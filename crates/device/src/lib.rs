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

/// Concatenates kernel files, for [`KernelFile::new`]. Paths are relative to the calling file. The
/// messages of compilers name the file and line of an error.
///
/// `kernel_source!("nodes.cu", "walk.cu")`
#[macro_export]
macro_rules! kernel_source {
    ($($file:literal),+) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file), "\n"),+)
    };
}

/// Joins constant texts of kernel files, for [`KernelFile::new`]. Unlike those of
/// [`kernel_source!`], the texts may be constants of other crates.
///
/// `join_sources!(other_crate::FRAME_SOURCE, kernel_source!("walk.cu"))`
#[macro_export]
macro_rules! join_sources {
    ($($text:expr),+ $(,)?) => {{
        const TEXTS: &[&str] = &[$($text),+];
        const BYTES: [u8; $crate::joined_length(TEXTS)] = $crate::joined_bytes(TEXTS);
        match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("texts that are joined stay UTF-8"),
        }
    }};
}

/// Returns the number of bytes of all texts, for [`join_sources!`].
#[doc(hidden)]
pub const fn joined_length(texts: &[&str]) -> usize {
    let (mut length, mut text) = (0, 0);
    while text < texts.len() {
        length += texts[text].len();
        text += 1;
    }
    length
}

/// Returns the bytes of all texts, for [`join_sources!`]. `N` is their [`joined_length`].
#[doc(hidden)]
pub const fn joined_bytes<const N: usize>(texts: &[&str]) -> [u8; N] {
    let (mut bytes, mut length, mut text) = ([0; N], 0, 0);
    while text < texts.len() {
        let (_, rest) = bytes.split_at_mut(length);
        let (part, _) = rest.split_at_mut(texts[text].len());
        part.copy_from_slice(texts[text].as_bytes());
        length += texts[text].len();
        text += 1;
    }
    bytes
}

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
pub use kernel::{Kernel, KernelFile, Math, MathFlags, Module, Origin, Resources};
pub use launch::{Arg, BufferArg, Dim3};
pub use nan_watch::{FailedCheck, NanWatch};
pub use pending_copy::HostRange;
pub use pinned::Pinned;
pub use pitched::Pitched;
pub use properties::{DeviceKind, Memory, Properties};
pub use queue::Queue;
pub use shared_memory::SharedName;
pub use shared_pinned::SharedPinned;
pub use texture::{AddressMode, Texture, TextureFilter, TextureSettings};

#[cfg(test)]
mod tests {
    #[test]
    fn sources_are_joined_in_order() {
        const FIRST: &str = "#define METRE 1.0\n";
        const JOINED: &str = join_sources!(FIRST, "// 1 Å\n", "");
        assert_eq!(JOINED, "#define METRE 1.0\n// 1 Å\n");
    }
}
