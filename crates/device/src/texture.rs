//! Textures: arrays of f32 that kernels read through the texture unit (CUDA) or as images (OpenCL).
//!
//! Texel i covers the coordinates i to i + 1, so its centre is at i + 0.5. Normalised coordinates
//! are divided by the width or the height: the whole texture covers 0 to 1. With u the coordinate
//! in texels and T the texels, the value along one axis is
//!
//! - nearest: T[floor(u)]
//! - linear: (1 - a) T[i] + a T[i + 1], with i = floor(u - 0.5) and a = u - 0.5 - i
//!
//! An index outside the texture is clamped to the nearest texel, or wraps around. NVIDIA's texture
//! units round the weight a to 8 fractional bits. The value of a 1-D texture is a texel, without
//! interpolation, for an index within the texture.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::TextureObject;
use crate::error::DeviceError;

/// Texels at indices outside a 2-D texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressMode {
    /// The nearest texel of the edge.
    Clamp,
    /// The texture repeats. Only with normalised coordinates, on every device.
    Wrap,
}

/// Interpolation between the texels of a 2-D texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextureFilter {
    /// The value of the texel that contains the point.
    Nearest,
    /// Bilinear interpolation between the four nearest centres of texels.
    Linear,
}

/// How kernels read a 2-D texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextureSettings {
    /// Texels at indices outside the texture.
    pub address: AddressMode,
    /// Interpolation between texels.
    pub filter: TextureFilter,
    /// Whether coordinates are divided by the width and the height.
    pub normalised: bool,
}

/// A texture of f32, freed when dropped. It does not change.
///
/// ```
/// use orrery_device::{AddressMode, TextureFilter, TextureSettings};
/// use orrery_device::{Device, DeviceChoice, KernelFile, Math};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// if !device.properties().has_textures {
///     return Ok(());
/// }
/// let text = "KERNEL(1) read_middle(TEXTURE_2D(image), GLOBAL float* value)
/// {
///     value[0] = READ_TEXTURE_2D(image, 1.0f, 1.0f);
/// }";
/// // SAFETY: the kernel writes one element, and `value` has one.
/// let file = unsafe { KernelFile::new("read_middle.cu", text) };
/// let kernel = device.build(&file, &[], Math::Precise)?.kernel("read_middle")?;
/// let settings = TextureSettings {
///     address: AddressMode::Clamp,
///     filter: TextureFilter::Linear,
///     normalised: false,
/// };
/// let image = device.texture_2d([2, 2], &[0.0, 1.0, 2.0, 5.0], settings)?;
/// let value = device.zeros::<f32>(1)?;
/// device.queue().launch(&kernel, 1, 1, &[(&image).into(), (&value).into()])?;
/// assert_eq!(value.to_vec()?, [2.0]);
/// # Ok(())
/// # }
/// ```
pub struct Texture {
    device: Device,
    object: TextureObject,
    size: TextureSize,
    /// Texels of a 1-D texture, which `object` refers to. Freed after it.
    _texels: Option<Buffer<f32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextureSize {
    Line(usize),
    Plane([usize; 2]),
}

impl Texture {
    pub(crate) fn new_1d(device: &Device, texels: &[f32]) -> Result<Self, DeviceError> {
        const CALL: &str = "texture_1d";
        let bytes = size_of_val(texels) as u64;
        let call_error = |message| call_error(device, CALL, bytes, message);
        let limits = device.driver().texture_limits().ok_or_else(|| call_error(NO_TEXTURES.to_owned()))?;
        if texels.is_empty() || texels.len() > limits.len {
            return Err(call_error(format!(
                "expected 1 to {} texels on this device, got {}",
                limits.len,
                texels.len()
            )));
        }
        let buffer = device.upload(texels)?;
        // SAFETY: the buffer has this many elements, and the texture keeps it.
        let object = unsafe { device.driver().create_texture_1d(buffer.handle(), texels.len()) }
            .map_err(|fault| device.error_from(fault, Some(bytes)))?;
        let size = TextureSize::Line(texels.len());
        Ok(Self { device: device.clone(), object, size, _texels: Some(buffer) })
    }

    pub(crate) fn new_2d(
        device: &Device,
        size: [usize; 2],
        texels: &[f32],
        settings: TextureSettings,
    ) -> Result<Self, DeviceError> {
        const CALL: &str = "texture_2d";
        let ([width, height], bytes) = (size, size_of_val(texels) as u64);
        let call_error = |message| call_error(device, CALL, bytes, message);
        let limits = device.driver().texture_limits().ok_or_else(|| call_error(NO_TEXTURES.to_owned()))?;
        let [max_width, max_height] = limits.size;
        if !(1..=max_width).contains(&width) || !(1..=max_height).contains(&height) {
            return Err(call_error(format!(
                "expected 1 x 1 to {max_width} x {max_height} texels on this device, got {width} x {height}"
            )));
        }
        if width.checked_mul(height) != Some(texels.len()) {
            return Err(call_error(format!(
                "{width} x {height} texels need {} values, got {}",
                width.saturating_mul(height),
                texels.len()
            )));
        }
        if settings.address == AddressMode::Wrap && !settings.normalised {
            return Err(call_error("AddressMode::Wrap needs normalised coordinates".to_owned()));
        }
        // SAFETY: `texels` has width * height elements and is read before the call returns.
        let object = unsafe {
            device.driver().create_texture_2d(device.init_queue(), size, texels.as_ptr(), settings)
        }
        .map_err(|fault| device.error_from(fault, Some(bytes)))?;
        device.held_byte_counter().fetch_add(bytes, Ordering::Relaxed);
        Ok(Self { device: device.clone(), object, size: TextureSize::Plane(size), _texels: None })
    }

    /// Returns width and height in texels. The height of a 1-D texture is 1.
    pub fn size(&self) -> [usize; 2] {
        match self.size {
            TextureSize::Line(len) => [len, 1],
            TextureSize::Plane(size) => size,
        }
    }

    /// Returns the number of dimensions, 1 or 2.
    pub fn dimensions(&self) -> u32 {
        match self.size {
            TextureSize::Line(_) => 1,
            TextureSize::Plane(_) => 2,
        }
    }

    /// Returns the device of the texture.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn object(&self) -> TextureObject {
        self.object
    }
}

const NO_TEXTURES: &str = "this device has no textures";

fn call_error(device: &Device, call: &'static str, bytes: u64, message: String) -> DeviceError {
    DeviceError::Call { device: device.title(), call, size: Some(bytes), message }
}

impl Drop for Texture {
    fn drop(&mut self) {
        if let TextureSize::Plane([width, height]) = self.size {
            let bytes = (width * height * size_of::<f32>()) as u64;
            self.device.held_byte_counter().fetch_sub(bytes, Ordering::Relaxed);
        }
        // SAFETY: this was the last user of the object on the host, and the driver waits for
        // kernels that use it.
        unsafe { self.device.driver().free_texture(self.object) };
    }
}

impl fmt::Debug for Texture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [width, height] = self.size();
        write!(f, "Texture({width} x {height} on {})", self.device.label())
    }
}
