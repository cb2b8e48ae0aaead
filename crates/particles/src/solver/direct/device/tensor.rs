//! Distances from the matrix units; see `tensor.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math};

use super::{Frame, PairSumRequest};
use crate::builder::Builder;

/// Threads a group.
pub(super) const BLOCK_SIZE: u32 = 256;
/// Targets of a block and sources of a tile, as in the kernel.
const TARGETS: usize = 512;
const TILE: usize = 128;

pub(super) struct Tensor {
    device: Device,
    frame: Frame,
    curve_keys: Kernel,
    sort_step: Kernel,
    gather: Kernel,
    boxes: Kernel,
    pub(super) kernel: Kernel,
    scatter: Kernel,
    splits: usize,
    tiles_per_split: usize,
    keys: Buffer<u64>,
    place: Buffer<f64>,
    weight: Buffer<f32>,
    tile_box: Buffer<f32>,
    block_box: Buffer<f32>,
    parts: Buffer<[f32; 4]>,
}

fn padded(n: usize) -> usize {
    n.next_multiple_of(TARGETS)
}

/// Sources are summed in this many ranges at least: shorter f32 sums, more even ends.
const SPLITS: usize = 8;

/// Bytes on the device.
pub(super) fn bytes(n: usize) -> u64 {
    (8 * n.next_power_of_two() + 32 * n + (16 * SPLITS + 1) * padded(n)) as u64
}

impl Tensor {
    pub(super) fn new(builder: &mut Builder, n: usize) -> Result<Self, DeviceError> {
        let text = concat!(
            include_str!("frame.cu"),
            "#line 1 \"pair.cu\"\n",
            include_str!("pair.cu"),
            "#line 1 \"tensor.cu\"\n",
            include_str!("tensor.cu")
        );
        let module = builder.build("frame.cu", text, &[], Math::FlushToZero)?;
        let device = builder.device.clone();
        let tiles = n.div_ceil(TILE);
        let tiles_per_split = tiles.div_ceil(SPLITS);
        let splits = tiles.div_ceil(tiles_per_split);
        Ok(Self {
            frame: Frame::new(builder)?,
            curve_keys: module.kernel("curve_keys")?,
            sort_step: module.kernel("sort_step")?,
            gather: module.kernel("gather")?,
            boxes: module.kernel("boxes")?,
            kernel: module.kernel("matrix_pairs")?,
            scatter: module.kernel("scatter")?,
            splits,
            tiles_per_split,
            // A whole group of partners at least.
            keys: device.zeros(n.next_power_of_two().max(256))?,
            place: device.zeros(3 * n)?,
            weight: device.zeros(2 * n)?,
            tile_box: device.zeros(6 * tiles)?,
            block_box: device.zeros(6 * n.div_ceil(TARGETS))?,
            parts: device.zeros(splits * padded(n))?,
            device,
        })
    }

    pub(super) fn queue(&mut self, evaluation: &PairSumRequest) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, acceleration, .. } = *evaluation;
        let frame = self.frame.find(evaluation)?;
        let (queue, length) = (self.device.queue(), mass.len());
        let (n, groups) = (length as i32, (length as u32).div_ceil(128));
        let (keys, place, weight) = (&self.keys, &self.place, &self.weight);
        let [x, y, z] = position.args();
        let many = self.keys.len();
        queue.launch(
            &self.curve_keys,
            (many / 128) as u32,
            128,
            &[x, y, z, frame.into(), n.into(), keys.into()],
        )?;
        for run in (1..=many.trailing_zeros()).map(|bits| 1i32 << bits) {
            let mut apart = run / 2;
            while apart > 0 {
                let args = [keys.into(), run.into(), apart.into()];
                queue.launch(&self.sort_step, (many / 256) as u32, 128, &args)?;
                apart /= 2;
            }
        }
        let args = [x, y, z, mass.into(), frame.into(), keys.into(), n.into(), place.into(), weight.into()];
        queue.launch(&self.gather, groups, 128, &args)?;
        let (tiles, blocks) = (length.div_ceil(TILE), length.div_ceil(TARGETS));
        for (run, count, boxes) in [(TILE, tiles, &self.tile_box), (TARGETS, blocks, &self.block_box)] {
            let args = [place.into(), n.into(), (run as i32).into(), (count as i32).into(), boxes.into()];
            queue.launch(&self.boxes, (count as u32).div_ceil(128), 128, &args)?;
        }
        let args = [
            place.into(),
            weight.into(),
            frame.into(),
            (&self.tile_box).into(),
            (&self.block_box).into(),
            n.into(),
            (tiles as i32).into(),
            (blocks as i32).into(),
            (self.tiles_per_split as i32).into(),
            (&self.parts).into(),
        ];
        queue.launch(&self.kernel, (blocks * self.splits) as u32, BLOCK_SIZE, &args)?;
        let [ax, ay, az] = acceleration.args();
        let (padded, splits) = (padded(length) as i32, self.splits as i32);
        let args = [
            (&self.parts).into(),
            frame.into(),
            keys.into(),
            n.into(),
            padded.into(),
            splits.into(),
            ax,
            ay,
            az,
        ];
        queue.launch(&self.scatter, groups, 128, &args)
    }
}
