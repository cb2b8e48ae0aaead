//! Mask of the pixels above a threshold:  mᵢ = 1 if xᵢ > t, else 0. A NaN is not above any
//! threshold.
//!
//! Cost: 4 bytes are read and one byte is written per pixel, so memory bandwidth is the limit. Not
//! for a mask that is used once: a kernel that compares the pixels itself saves the mask.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};
use rayon::prelude::*;

// SAFETY: the kernel accesses n elements of image and mask, the first n / 4 * 4 of them as vectors.
// The launch passes the length of both as n, and buffers are aligned to 16 bytes.
const THRESHOLD: KernelFile = unsafe { KernelFile::new("threshold.cu", include_str!("threshold.cu")) };

/// Threads per block, as in `threshold.cu`.
const BLOCK_SIZE: u32 = 256;
/// Pixels per thread, as in `threshold.cu`.
const PIXELS_PER_THREAD: usize = 4;
/// Pixels per task on the CPU.
const CHUNK_LEN: usize = 1 << 16;

/// Reference implementation: compares one pixel after the other.
///
/// # Panics
/// If the slices have different lengths.
pub fn threshold_reference(image: &[f32], threshold: f32, mask: &mut [u8]) {
    assert!(image.len() == mask.len(), "{} pixels of the image, {} of the mask", image.len(), mask.len());
    for (pixel, set) in image.iter().zip(mask) {
        *set = u8::from(*pixel > threshold);
    }
}

/// Writes 1 to `mask` where the image is above the threshold and 0 elsewhere, on all CPU cores.
///
/// # Panics
/// If the slices have different lengths.
pub fn threshold_on_cpu(image: &[f32], threshold: f32, mask: &mut [u8]) {
    assert!(image.len() == mask.len(), "{} pixels of the image, {} of the mask", image.len(), mask.len());
    let chunks = image.par_chunks(CHUNK_LEN).zip(mask.par_chunks_mut(CHUNK_LEN));
    chunks.for_each(|(image, mask)| threshold_reference(image, threshold, mask));
}

/// Threshold that is compiled for a device and can be launched many times.
#[derive(Debug)]
pub struct Threshold {
    kernel: Kernel,
}

impl Threshold {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { kernel: device.build(&THRESHOLD, &[], Math::Precise)?.kernel("apply_threshold")? })
    }

    /// Queues the comparison of all pixels of `image` into `mask`, which has the same length. Does
    /// not wait.
    pub fn launch(
        &self,
        queue: &Queue,
        image: &Buffer<f32>,
        threshold: f32,
        mask: &Buffer<u8>,
    ) -> Result<(), DeviceError> {
        let n = image.len();
        if mask.len() != n {
            return Err(DeviceError::Length { device: mask.device().title(), expected: n, got: mask.len() });
        }
        let blocks = u32::try_from(n.div_ceil(BLOCK_SIZE as usize * PIXELS_PER_THREAD))
            .expect("an image has fewer than 2^32 blocks");
        let args = [image.into(), threshold.into(), mask.into(), (n as u64).into()];
        queue.launch(&self.kernel, blocks, BLOCK_SIZE, &args)
    }
}
