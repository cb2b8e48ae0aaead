//! Labels on a device, by one of several strategies.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Queue};

use super::pixels::{PixelAlgorithm, PixelLabels};
use super::runs::{RunTiles, TiledRunLabels};
use super::{Connectivity, MaskShape};

/// Algorithm on a device. It does not change the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelStrategy {
    /// Every pixel takes the smallest label of its neighbours, until none changes. The host waits
    /// for the sweeps.
    Propagation,
    /// The same within tiles in shared memory, along diagonals. Images only.
    Wavefront,
    /// Union-find within tiles in shared memory, then across their borders. Images only.
    TileMerge,
    /// Union-find over all pixels in global memory.
    UnionFind,
    /// Union-find over runs of pixels within tiles, then over components that touch the border of
    /// their tile. Images only.
    Runs(RunTiles),
}

impl LabelStrategy {
    /// Returns the default: runs for images, union-find for volumes. Very long and narrow images,
    /// which padding to whole tiles would extend to 2^32 pixels, have union-find, too.
    pub fn default_for(shape: MaskShape) -> Self {
        let runs = Self::Runs(RunTiles::default());
        if runs.supports(shape) { runs } else { Self::UnionFind }
    }

    /// Returns whether masks of this shape can be labelled.
    pub fn supports(self, shape: MaskShape) -> bool {
        let is_short = shape.pixel_count() < u32::MAX as usize;
        match self {
            Self::Propagation | Self::UnionFind => is_short,
            Self::Wavefront | Self::TileMerge => is_short && shape.is_image(),
            Self::Runs(tiles) => is_short && TiledRunLabels::supports(shape, tiles),
        }
    }
}

/// Labels of masks of one shape, compiled for a device. Can be launched many times.
///
/// All launches of one `Label` share its buffers, so they must be queued on one queue, or on
/// several queues that wait for each other's events.
///
/// ```
/// use orrery_device::{Device, DeviceChoice};
/// use orrery_lab::primitives::label::{Connectivity, Label, MaskShape};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let mut label = Label::new(&device, MaskShape::image(2, 3), Connectivity::Faces)?;
/// let (mask, labels) = (device.upload(&[1u8, 0, 1, 1, 0, 0])?, device.zeros(6)?);
/// assert_eq!(label.label(device.queue(), &mask, &labels)?, 2);
/// assert_eq!(labels.to_vec()?, [1, 0, 2, 1, 0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Label {
    shape: MaskShape,
    method: LabelMethod,
    /// Target of [`Self::label`].
    count: Buffer<u32>,
}

#[derive(Debug)]
enum LabelMethod {
    Pixels(Box<PixelLabels>),
    Runs(Box<TiledRunLabels>),
}

impl Label {
    /// Compiles the kernels of the default strategy and allocates memory for masks of this shape.
    pub fn new(device: &Device, shape: MaskShape, connectivity: Connectivity) -> Result<Self, DeviceError> {
        Self::with_strategy(device, shape, connectivity, LabelStrategy::default_for(shape))
    }

    /// Does the same for the given strategy. Returns an error if it does not support the shape.
    pub fn with_strategy(
        device: &Device,
        shape: MaskShape,
        connectivity: Connectivity,
        strategy: LabelStrategy,
    ) -> Result<Self, DeviceError> {
        if !strategy.supports(shape) {
            let message = format!("{strategy:?} does not support {shape:?}");
            return Err(DeviceError::Call { device: device.title(), call: "label", size: None, message });
        }
        let by_pixels = |algorithm| {
            Ok(LabelMethod::Pixels(PixelLabels::new(device, shape, connectivity, algorithm)?.into()))
        };
        let method = match strategy {
            LabelStrategy::Propagation => by_pixels(PixelAlgorithm::Propagation),
            LabelStrategy::Wavefront => by_pixels(PixelAlgorithm::Wavefront),
            LabelStrategy::TileMerge => by_pixels(PixelAlgorithm::TileMerge),
            LabelStrategy::UnionFind => by_pixels(PixelAlgorithm::UnionFind),
            LabelStrategy::Runs(tiles) => {
                Ok(LabelMethod::Runs(TiledRunLabels::new(device, shape, connectivity, tiles)?.into()))
            }
        };
        Ok(Self { shape, method: method?, count: device.zeros(1)? })
    }

    /// Returns the kernel that merges pixels or runs, and its threads per block.
    pub fn main_kernel(&self) -> (&Kernel, u32) {
        match &self.method {
            LabelMethod::Pixels(pixels) => pixels.main_kernel(),
            LabelMethod::Runs(runs) => runs.main_kernel(),
        }
    }

    /// Queues the labels of `mask` into `labels`, and the number of components into `count`, which
    /// has one element. Does not wait, except for strategies with sweeps.
    pub fn launch(
        &mut self,
        queue: &Queue,
        mask: &Buffer<u8>,
        labels: &Buffer<u32>,
        count: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        self.method.launch(self.shape, queue, mask, labels, count)
    }

    /// Writes the labels of `mask` to `labels`, waits and returns the number of components.
    pub fn label(
        &mut self,
        queue: &Queue,
        mask: &Buffer<u8>,
        labels: &Buffer<u32>,
    ) -> Result<u32, DeviceError> {
        self.method.launch(self.shape, queue, mask, labels, &self.count)?;
        let mut count = [0];
        queue.read(&self.count, &mut count)?;
        Ok(count[0])
    }
}

impl LabelMethod {
    fn launch(
        &mut self,
        shape: MaskShape,
        queue: &Queue,
        mask: &Buffer<u8>,
        labels: &Buffer<u32>,
        count: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let n = shape.pixel_count();
        for (expected, got) in [(n, mask.len()), (n, labels.len()), (1, count.len())] {
            if got != expected {
                return Err(DeviceError::Length { device: queue.device().title(), expected, got });
            }
        }
        match self {
            _ if n == 0 => queue.write(count, &[0]),
            Self::Pixels(pixels) => pixels.launch(queue, mask, labels, count),
            Self::Runs(runs) => runs.launch(queue, mask, labels, count),
        }
    }
}
