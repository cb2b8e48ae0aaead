//! The part of a driver that creates textures. The safety contract is that of `driver/mod.rs`.

use super::{DriverFault, Handle};
use crate::texture::TextureSettings;

/// Largest textures of a device, in texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextureLimits {
    /// Length of a 1-D texture.
    pub(crate) len: usize,
    /// Width and height of a 2-D texture.
    pub(crate) size: [usize; 2],
}

/// A texture of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextureObject {
    /// Argument of a kernel: a CUtexObject, or the cl_mem of an image.
    pub(crate) object: Handle,
    /// Texels of a 2-D texture: a CUarray. None if `object` owns them.
    pub(crate) array: Option<Handle>,
    /// Second argument of a kernel: the cl_sampler of a 2-D texture. None on CUDA.
    pub(crate) sampler: Option<Handle>,
}

#[allow(clippy::missing_safety_doc, reason = "one contract, stated in driver/mod.rs")]
pub(crate) trait TextureDriver {
    /// Returns the largest sizes, or None if the device has no textures of f32.
    fn texture_limits(&self) -> Option<TextureLimits>;
    /// Creates a 1-D texture of the first `len` f32 of device memory, which must outlive it.
    unsafe fn create_texture_1d(&self, memory: Handle, len: usize) -> Result<TextureObject, DriverFault>;
    /// Creates a 2-D texture with the given width and height and copies `texels` to it, row by row.
    /// Returns after `texels` was read.
    unsafe fn create_texture_2d(
        &self,
        queue: Handle,
        size: [usize; 2],
        texels: *const f32,
        settings: TextureSettings,
    ) -> Result<TextureObject, DriverFault>;
    /// Frees a texture after the last kernel that uses it.
    unsafe fn free_texture(&self, texture: TextureObject);
}
