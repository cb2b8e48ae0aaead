//! Labels by single pixels: compiles and launches `pixels.cu`, `wavefront.cu` and `tiles.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, kernel_source};

use super::numbering::Numbering;
use super::{Connectivity, MaskShape};

// SAFETY: the kernels access the pixels of mask and labels, whose number is their argument or the
// product of the extents. `Label::launch` checks both lengths. Labels are indices of pixels or the
// background, which no kernel uses as an index. The parent of a pixel has a lower index, so
// searches end.
const PIXELS: KernelFile = unsafe { KernelFile::new("pixels.cu", kernel_source!("forest.cu", "pixels.cu")) };

// SAFETY: a block accesses the pixels of its tile and those around it that are within the image.
// Every repetition of its sweeps lowers a label, so it ends.
const WAVEFRONT: KernelFile = unsafe { KernelFile::new("wavefront.cu", include_str!("wavefront.cu")) };

// SAFETY: as for `PIXELS`. A block accesses the pixels of its tile that are within the image, and
// their neighbours.
const TILES: KernelFile =
    unsafe { KernelFile::new("tiles.cu", kernel_source!("forest.cu", "pixels.cu", "tiles.cu")) };

// SAFETY: the kernels access n labels and a word for each 32 of them. `PixelLabels::new` allocates
// as many. Labels are pixels below n or the background.
const NUMBER: KernelFile = unsafe { KernelFile::new("number.cu", kernel_source!("ranks.cu", "number.cu")) };

/// Threads per block of `pixels.cu` and `number.cu`.
const BLOCK_SIZE: u32 = 256;
/// Rows and columns of a tile of `wavefront.cu`.
const WAVEFRONT_TILE: u32 = 32;
/// Columns and rows of a tile of `tiles.cu`.
const TILE: [u32; 2] = [32, 16];
/// Sweeps between two looks of the host at whether a label has changed. A look takes about as long
/// as a sweep over 10^7 pixels.
const SWEEPS_PER_LOOK: usize = 16;

/// Algorithm that gives every pixel the index of the first pixel of its component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PixelAlgorithm {
    Propagation,
    Wavefront,
    TileMerge,
    UnionFind,
}

/// Kernels and memory of one algorithm, for masks of one shape.
#[derive(Debug)]
pub(super) struct PixelLabels {
    shape: MaskShape,
    steps: Steps,
    numbering: Numbering,
    mark_roots: Kernel,
    number_pixels: Kernel,
}

#[derive(Debug)]
enum Steps {
    /// Sweeps until no label changes. `changed` has one element.
    Sweeps { start: Kernel, sweep: Kernel, tile: Option<u32>, changed: Buffer<u32> },
    /// Merges tiles.
    Tiles { label: Kernel, merge: Kernel, flatten: Kernel },
    /// Merges pixels.
    Pixels { start: Kernel, merge: Kernel, flatten: Kernel },
}

impl PixelLabels {
    /// Compiles the kernels and allocates memory.
    pub(super) fn new(
        device: &Device,
        shape: MaskShape,
        connectivity: Connectivity,
        algorithm: PixelAlgorithm,
    ) -> Result<Self, DeviceError> {
        let has_corners = ("HAS_CORNERS", u32::from(connectivity == Connectivity::Corners).to_string());
        let is_volume = ("IS_VOLUME", u32::from(!shape.is_image()).to_string());
        let build_pixels = || device.build(&PIXELS, &[is_volume.clone(), has_corners.clone()], Math::Precise);
        let steps = match algorithm {
            PixelAlgorithm::Propagation => {
                let module = build_pixels()?;
                let (start, sweep) = (module.kernel("start_labels")?, module.kernel("propagate")?);
                Steps::Sweeps { start, sweep, tile: None, changed: device.zeros(1)? }
            }
            PixelAlgorithm::Wavefront => {
                let definitions = [("TILE", WAVEFRONT_TILE.to_string()), has_corners.clone()];
                let module = device.build(&WAVEFRONT, &definitions, Math::Precise)?;
                let (start, sweep) = (build_pixels()?.kernel("start_labels")?, module.kernel("sweep_tiles")?);
                Steps::Sweeps { start, sweep, tile: Some(WAVEFRONT_TILE), changed: device.zeros(1)? }
            }
            PixelAlgorithm::TileMerge => {
                let [columns, rows] = TILE.map(|extent| format!("{extent}u"));
                let definitions =
                    [("TILE_COLUMNS", columns), ("TILE_ROWS", rows), is_volume.clone(), has_corners.clone()];
                let module = device.build(&TILES, &definitions, Math::Precise)?;
                let [label, merge, flatten] =
                    ["label_tiles", "merge_borders", "flatten"].map(|name| module.kernel(name));
                Steps::Tiles { label: label?, merge: merge?, flatten: flatten? }
            }
            PixelAlgorithm::UnionFind => {
                let module = build_pixels()?;
                let [start, merge, flatten] =
                    ["start_labels", "merge_pixels", "flatten"].map(|name| module.kernel(name));
                Steps::Pixels { start: start?, merge: merge?, flatten: flatten? }
            }
        };
        let number = device.build(&NUMBER, &[], Math::Precise)?;
        Ok(Self {
            shape,
            steps,
            numbering: Numbering::new(device, shape.pixel_count().div_ceil(32))?,
            mark_roots: number.kernel("mark_roots")?,
            number_pixels: number.kernel("number_pixels")?,
        })
    }

    /// Returns the kernel that merges pixels, and its threads per block.
    pub(super) fn main_kernel(&self) -> (&Kernel, u32) {
        match &self.steps {
            Steps::Sweeps { sweep, tile, .. } => (sweep, tile.unwrap_or(BLOCK_SIZE)),
            Steps::Tiles { label, .. } => (label, TILE[0] * TILE[1]),
            Steps::Pixels { merge, .. } => (merge, BLOCK_SIZE),
        }
    }

    /// Queues all kernels. Waits for the sweeps, if the algorithm has any.
    pub(super) fn launch(
        &mut self,
        queue: &Queue,
        mask: &Buffer<u8>,
        labels: &Buffer<u32>,
        count: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        self.queue_roots(queue, mask, labels)?;
        let n = self.shape.pixel_count() as u32;
        let Numbering { roots, before, .. } = &self.numbering;
        let args = [labels.into(), n.into(), roots.into(), before.into()];
        queue.launch(&self.mark_roots, n.div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)?;
        self.numbering.queue_scan(queue)?;
        let Numbering { roots, before, .. } = &self.numbering;
        let args = [labels.into(), n.into(), roots.into(), before.into(), count.into()];
        queue.launch(&self.number_pixels, n.div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }

    /// Queues the kernels that write the index of the first pixel of its component to every pixel.
    fn queue_roots(&self, queue: &Queue, mask: &Buffer<u8>, labels: &Buffer<u32>) -> Result<(), DeviceError> {
        let n = self.shape.pixel_count() as u32;
        let [planes, rows, columns] =
            [self.shape.planes, self.shape.rows, self.shape.columns].map(|extent| extent as u32);
        let blocks = n.div_ceil(BLOCK_SIZE);
        let tiles = |width: u32, height: u32| columns.div_ceil(width) * rows.div_ceil(height);
        let start_args = [mask.into(), labels.into(), n.into()];
        match &self.steps {
            Steps::Sweeps { start, sweep, tile: None, changed } => {
                queue.launch(start, blocks, BLOCK_SIZE, &start_args)?;
                let args = [labels.into(), planes.into(), rows.into(), columns.into(), changed.into()];
                sweep_until_stable(queue, changed, || queue.launch(sweep, blocks, BLOCK_SIZE, &args))
            }
            Steps::Sweeps { start, sweep, tile: Some(tile), changed } => {
                queue.launch(start, blocks, BLOCK_SIZE, &start_args)?;
                let args = [labels.into(), rows.into(), columns.into(), changed.into()];
                sweep_until_stable(queue, changed, || queue.launch(sweep, tiles(*tile, *tile), *tile, &args))
            }
            Steps::Tiles { label, merge, flatten } => {
                let [width, height] = TILE;
                let args = [mask.into(), labels.into(), rows.into(), columns.into()];
                queue.launch(label, tiles(width, height), width * height, &args)?;
                let args = [labels.into(), rows.into(), columns.into()];
                queue.launch(merge, tiles(width, height), width + height, &args)?;
                queue.launch(flatten, blocks, BLOCK_SIZE, &[labels.into(), n.into()])
            }
            Steps::Pixels { start, merge, flatten } => {
                queue.launch(start, blocks, BLOCK_SIZE, &start_args)?;
                let args = [labels.into(), planes.into(), rows.into(), columns.into()];
                queue.launch(merge, blocks, BLOCK_SIZE, &args)?;
                queue.launch(flatten, blocks, BLOCK_SIZE, &[labels.into(), n.into()])
            }
        }
    }
}

/// Queues sweeps until none of [`SWEEPS_PER_LOOK`] has set `changed`, which has one element.
fn sweep_until_stable(
    queue: &Queue,
    changed: &Buffer<u32>,
    queue_sweep: impl Fn() -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let mut found = [1];
    while found[0] != 0 {
        queue.write(changed, &[0])?;
        for _ in 0..SWEEPS_PER_LOOK {
            queue_sweep()?;
        }
        queue.read(changed, &mut found)?;
    }
    Ok(())
}
