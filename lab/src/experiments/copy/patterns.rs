//! Copies with an offset, to_i = from_(i + o), and with a stride, to_(s i) = from_(s i).
//!
//! The effective bandwidth counts the useful bytes, 8 per copied float, as the course does. A warp
//! loads whole sectors of 32 bytes, so a stride of 8 floats or more moves eight times the useful
//! bytes.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Texture};

use super::expect_at_least;

// SAFETY: the kernels write the first n elements of `to` and read up to n + offset elements of
// `from`. The launches below check both lengths.
const PATTERNS: KernelFile = unsafe { KernelFile::new("patterns.cu", include_str!("patterns.cu")) };

// SAFETY: the kernel writes the first n elements of `to` and reads n + offset texels. The launch
// checks both lengths.
const TEXTURE_COPY: KernelFile =
    unsafe { KernelFile::new("texture_copy.cu", include_str!("texture_copy.cu")) };

/// Offsets of the course's plot.
pub const OFFSETS: std::ops::RangeInclusive<usize> = 0..=32;
/// Strides of the course's plot.
pub const STRIDES: std::ops::RangeInclusive<usize> = 1..=32;

/// Threads per block.
const BLOCK_SIZE: u32 = 256;

fn block_count(threads: usize) -> u32 {
    threads.div_ceil(BLOCK_SIZE as usize) as u32
}

/// Reference implementation of the copy with an offset: copies `to.len()` floats. `from` has at
/// least `offset` more.
pub fn shifted_reference(from: &[f32], offset: usize, to: &mut [f32]) {
    for (index, target) in to.iter_mut().enumerate() {
        *target = from[index + offset];
    }
}

/// Reference implementation of the copy with a stride of at least 1. `from` is as long as `to`.
pub fn strided_reference(from: &[f32], stride: usize, to: &mut [f32]) {
    for index in (0..to.len()).step_by(stride) {
        to[index] = from[index];
    }
}

/// Copies with an offset and with a stride on a device.
#[derive(Debug)]
pub struct PatternCopy {
    shifted: Kernel,
    strided: Kernel,
}

impl PatternCopy {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let module = device.build(&PATTERNS, &[("BLOCK_SIZE", BLOCK_SIZE.to_string())], Math::Precise)?;
        Ok(Self { shifted: module.kernel("copy_shifted")?, strided: module.kernel("copy_strided")? })
    }

    /// Queues the copy with an offset, see [`shifted_reference`]. Does not wait.
    pub fn launch_shifted(
        &self,
        queue: &Queue,
        from: &Buffer<f32>,
        offset: usize,
        to: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        let n = to.len();
        expect_at_least(from, n.saturating_add(offset))?;
        let args = [from.into(), (offset as u64).into(), (n as u64).into(), to.into()];
        queue.launch(&self.shifted, block_count(n), BLOCK_SIZE, &args)
    }

    /// Queues the copy with a stride of at least 1, see [`strided_reference`]. Does not wait.
    pub fn launch_strided(
        &self,
        queue: &Queue,
        from: &Buffer<f32>,
        stride: usize,
        to: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        let n = to.len();
        expect_at_least(from, n)?;
        let args = [from.into(), (stride as u64).into(), (n as u64).into(), to.into()];
        queue.launch(&self.strided, block_count(n.div_ceil(stride)), BLOCK_SIZE, &args)
    }
}

/// Copy with an offset through a 1-D texture. Needs a device with textures.
#[derive(Debug)]
pub struct TextureCopy {
    kernel: Kernel,
    texture: Texture,
}

impl TextureCopy {
    /// Compiles the kernel and uploads the source, fewer than 2^31 floats. Returns an error if the
    /// device has no texture of this length.
    pub fn new(device: &Device, from: &[f32]) -> Result<Self, DeviceError> {
        let texture = device.texture_1d(from)?;
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let module = device.build(&TEXTURE_COPY, &definitions, Math::Precise)?;
        Ok(Self { kernel: module.kernel("copy_shifted_texture")?, texture })
    }

    /// Queues the copy with an offset, see [`shifted_reference`]. Does not wait.
    pub fn launch(&self, queue: &Queue, offset: usize, to: &Buffer<f32>) -> Result<(), DeviceError> {
        let (n, [got, _]) = (to.len(), self.texture.size());
        let expected = n.saturating_add(offset);
        if got < expected || expected > i32::MAX as usize {
            return Err(DeviceError::Length { device: queue.device().title(), expected, got });
        }
        let args = [(&self.texture).into(), (offset as i32).into(), (n as i32).into(), to.into()];
        queue.launch(&self.kernel, block_count(n), BLOCK_SIZE, &args)
    }
}
