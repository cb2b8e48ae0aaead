//! The ladder of reductions: the steps of a course (notes on GPU computing), with the bandwidths that it reports for
//! its GPU, and two beyond it. f32 sums, each the whole way to one number.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math, Source};

use super::device::Shape;
use super::{Operation, Reduce};

/// Threads a group that the course's table goes over.
pub const BLOCK_SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];

/// How a rung sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReductionVariant {
    /// Pairs of neighbours, then of neighbours' sums; every second, fourth, … thread works.
    Divergent,
    /// The same pairs, by the first threads.
    Addresses,
    /// Halves: neighbouring threads on neighbouring numbers.
    Banks,
    /// Half the groups, whose threads add a first pair as they load.
    FirstAdd,
    /// The last warp without barriers of the group.
    LastWarp,
    /// Shuffles within warps.
    Shuffles,
    /// [`Reduce`]: a fixed number of groups, loads of 16 bytes, many of them a thread, one launch.
    Production,
}

/// A step of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What is new in it.
    pub name: &'static str,
    /// How it sums.
    pub variant: ReductionVariant,
    /// The course's GB/s, for each of [`BLOCK_SIZES`].
    pub course: Option<[f64; 6]>,
    /// What a reader should know beside it.
    pub note: &'static str,
}

/// The rungs, from the first to the last.
pub fn rungs() -> Vec<Rung> {
    let rung = |name, variant, course, note| Rung { name, variant, course, note };
    vec![
        rung(
            "interleaved, divergent",
            ReductionVariant::Divergent,
            Some([7.39, 12.57, 16.77, 14.67, 12.33, 9.05]),
            "one launch a layer, here and below; the course times the first",
        ),
        rung(
            "interleaved addresses",
            ReductionVariant::Addresses,
            Some([10.46, 18.33, 23.88, 18.96, 14.5, 10.02]),
            "the first threads work; strides of two meet in a bank",
        ),
        rung(
            "without bank conflicts",
            ReductionVariant::Banks,
            Some([11.05, 19.54, 30.83, 27.51, 23.67, 17.99]),
            "",
        ),
        rung(
            "first add during load",
            ReductionVariant::FirstAdd,
            Some([21.68, 37.15, 58.03, 51.31, 43.75, 33.66]),
            "",
        ),
        rung(
            "last warp unrolled",
            ReductionVariant::LastWarp,
            Some([22.59, 36.91, 68.38, 62.35, 53.06, 43.78]),
            "with a barrier of the warp, without which it is a race",
        ),
        rung("warp shuffles", ReductionVariant::Shuffles, None, ""),
        rung(
            "vector loads, many items a thread",
            ReductionVariant::Production,
            None,
            "what `Reduce` does; one launch, equal bits from run to run",
        ),
    ]
}

/// A rung's sum on a device.
#[derive(Debug)]
pub struct RungSum {
    device: Device,
    block: u32,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Layers {
        kernel: Kernel,
        /// Numbers that a group makes one of.
        share: usize,
        /// The layers between the first and the last, as long as the last sum needed them.
        between: [Buffer<f32>; 2],
    },
    Production(Reduce<f32>),
}

impl RungSum {
    /// Builds it for groups of `block` threads, one of [`BLOCK_SIZES`].
    pub fn new(device: &Device, variant: ReductionVariant, block: u32) -> Result<Self, DeviceError> {
        let number = match variant {
            ReductionVariant::Divergent => 1,
            ReductionVariant::Addresses => 2,
            ReductionVariant::Banks => 3,
            ReductionVariant::FirstAdd => 4,
            ReductionVariant::LastWarp => 5,
            ReductionVariant::Shuffles => 6,
            ReductionVariant::Production => {
                let shape = Shape { block, ..Shape::default() };
                let method = Method::Production(Reduce::shaped(device, Operation::Sum, shape)?);
                return Ok(Self { device: device.clone(), block, method });
            }
        };
        let definitions = [("FORM", number.to_string()), ("BLOCK_SIZE", block.to_string())];
        let text = include_str!("rungs.cu");
        let source = Source { name: "rungs.cu", text, definitions: &definitions, math: Math::Precise };
        let method = Method::Layers {
            kernel: device.build(&source)?.kernel("layer")?,
            share: block as usize * if number >= 4 { 2 } else { 1 },
            between: [device.zeros(0)?, device.zeros(0)?],
        };
        Ok(Self { device: device.clone(), block, method })
    }

    /// Queues the sum of all of `from` into the one element of `to`; the first for its length finds memory for the layers.
    pub fn queue(&mut self, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<(), DeviceError> {
        let (kernel, share, between) = match &mut self.method {
            Method::Production(reduce) => return reduce.queue(from, to),
            Method::Layers { kernel, share, between } => (&*kernel, *share, between),
        };
        let groups = |n: usize| n.div_ceil(share).max(1);
        for (layer, n) in between.iter_mut().zip([groups(from.len()), groups(groups(from.len()))]) {
            if layer.len() < n {
                *layer = self.device.zeros(n)?;
            }
        }
        let (mut source, mut n, mut turn) = (from, from.len(), 0);
        loop {
            let groups = groups(n);
            let target = if groups == 1 { to } else { &between[turn] };
            let args = [source.into(), (n as u64).into(), target.into()];
            self.device.queue().launch(kernel, groups as u32, self.block, &args)?;
            if groups == 1 {
                return Ok(());
            }
            (source, n, turn) = (target, groups, 1 - turn);
        }
    }
}
