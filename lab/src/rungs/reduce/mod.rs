//! Ladder of reductions: the steps of a course (notes on GPU computing), with the bandwidths that
//! the course reports for its GPU, and two more steps. Every rung sums numbers of 32 bits to one.
//! The course sums `int` and times only the first layer, which leaves one sum per block.

pub mod selftest;

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, join_sources, kernel_source,
};
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::reduce::{Reduce, ReduceOperation, ReduceStrategy};

use crate::kernel_enum::kernel_enum;

// SAFETY: a block reads its share of n elements and writes one. The launches pass the length of the
// input as n, and an output with one element per block.
const RUNGS: KernelFile = unsafe {
    KernelFile::new("rungs.cu", join_sources!(ReductionVariant::DEFINES, kernel_source!("rungs.cu")))
};

/// Number types of the ladder: f32 and i32.
pub trait RungNumber: PrimitiveNumber {
    /// Type in which a kernel adds, and its shuffle.
    const NUMBER_AND_SHUFFLE: [&'static str; 2];
}

impl RungNumber for f32 {
    const NUMBER_AND_SHUFFLE: [&'static str; 2] = ["float", "SHUFFLE_F"];
}

impl RungNumber for i32 {
    const NUMBER_AND_SHUFFLE: [&'static str; 2] = ["uint", "SHUFFLE"];
}

/// Block sizes (threads per block) in the course's table.
pub const BLOCK_SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];

kernel_enum! {
    /// Algorithm of a rung.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ReductionVariant {
        /// Adds pairs of neighbours, then pairs of their sums. Every second thread works, then
        /// every fourth, and so on.
        Divergent = 1 => "RUNG_DIVERGENT",
        /// Adds the same pairs with the first threads of the block, so warps do not diverge.
        Addresses = 2 => "RUNG_INTERLEAVED",
        /// Adds the upper half to the lower half: neighbouring threads use neighbouring banks.
        Banks = 3 => "RUNG_NO_BANK_CONFLICTS",
        /// Half as many blocks, whose threads add a first pair as they load.
        FirstAdd = 4 => "RUNG_FIRST_ADD",
        /// The last warp needs no barriers of the block.
        LastWarp = 5 => "RUNG_LAST_WARP",
        /// Warp shuffles.
        Shuffles = 6 => "RUNG_SHUFFLES",
        /// [`Reduce`]: a limited number of blocks, loads of 16 bytes, many loads per thread, one
        /// launch.
        Production = 7 => "RUNG_PRODUCTION",
    }
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct ReductionRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: ReductionVariant,
    /// GB/s that the course reports, one for each of [`BLOCK_SIZES`]. Empty if it reports none.
    pub course: &'static [f64],
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first.
pub fn rungs() -> Vec<ReductionRung> {
    let rung = |name, variant, course: &'static [f64], note| ReductionRung { name, variant, course, note };
    vec![
        rung(
            "interleaved, divergent",
            ReductionVariant::Divergent,
            &[7.39, 12.57, 16.77, 14.67, 12.33, 9.05],
            "one launch per layer, here and below; the course times only the first",
        ),
        rung(
            "interleaved addresses",
            ReductionVariant::Addresses,
            &[10.46, 18.33, 23.88, 18.96, 14.5, 10.02],
            "the first threads work; strides of two cause bank conflicts",
        ),
        rung(
            "without bank conflicts",
            ReductionVariant::Banks,
            &[11.05, 19.54, 30.83, 27.51, 23.67, 17.99],
            "",
        ),
        rung(
            "first add during load",
            ReductionVariant::FirstAdd,
            &[21.68, 37.15, 58.03, 51.31, 43.75, 33.66],
            "",
        ),
        rung(
            "last warp unrolled",
            ReductionVariant::LastWarp,
            &[22.59, 36.91, 68.38, 62.35, 53.06, 43.78],
            "with a warp barrier; without it there is a race",
        ),
        rung("warp shuffles", ReductionVariant::Shuffles, &[], ""),
        rung(
            "vector loads, many items per thread",
            ReductionVariant::Production,
            &[],
            "the production kernel `Reduce`: one launch, same bits in every run",
        ),
    ]
}

/// Sum on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct RungSum<T: RungNumber> {
    device: Device,
    block_size: u32,
    method: SumMethod<T>,
}

#[derive(Debug)]
enum SumMethod<T: RungNumber> {
    Layers {
        kernel: Kernel,
        /// Numbers that a block sums.
        numbers_per_block: usize,
        /// Results of the layers before the last, used alternately. As long as the longest sum so
        /// far needed.
        layer_results: [Buffer<T>; 2],
    },
    Production(Reduce<T>),
}

impl<T: RungNumber> RungSum<T> {
    /// Compiles the rung for `block_size` threads per block, one of [`BLOCK_SIZES`].
    pub fn new(device: &Device, variant: ReductionVariant, block_size: u32) -> Result<Self, DeviceError> {
        if variant == ReductionVariant::Production {
            let strategy = ReduceStrategy { block_size, ..ReduceStrategy::default() };
            let method =
                SumMethod::Production(Reduce::with_strategy(device, ReduceOperation::Sum, strategy)?);
            return Ok(Self { device: device.clone(), block_size, method });
        }
        let [number, shuffle] = T::NUMBER_AND_SHUFFLE.map(str::to_owned);
        let definitions = [
            ("RUNG", variant.kernel_name().to_owned()),
            ("BLOCK_SIZE", block_size.to_string()),
            ("NUMBER", number),
            ("SHUFFLE_NUMBER", shuffle),
        ];
        let method = SumMethod::Layers {
            kernel: device.build(&RUNGS, &definitions, Math::Precise)?.kernel("sum_layer")?,
            numbers_per_block: block_size as usize
                * if variant >= ReductionVariant::FirstAdd { 2 } else { 1 },
            layer_results: [device.zeros(0)?, device.zeros(0)?],
        };
        Ok(Self { device: device.clone(), block_size, method })
    }

    /// Returns the numbers that each block of the first layer sums. `None` for the production
    /// kernel, which has no layers.
    pub fn numbers_per_block(&self) -> Option<usize> {
        match &self.method {
            SumMethod::Production(_) => None,
            SumMethod::Layers { numbers_per_block, .. } => Some(*numbers_per_block),
        }
    }

    /// Returns the length of the first layer's output for `n` numbers: one sum per block.
    pub fn first_layer_len(&self, n: usize) -> usize {
        self.numbers_per_block().map_or(1, |numbers| n.div_ceil(numbers).max(1))
    }

    /// Queues the first layer only, as the course times it: the sum of each block of `from` into
    /// `to`, which has [`Self::first_layer_len`] elements. The production kernel queues its whole
    /// sum.
    pub fn launch_first_layer(
        &self,
        queue: &Queue,
        from: &Buffer<T>,
        to: &Buffer<T>,
    ) -> Result<(), DeviceError> {
        let expected = self.first_layer_len(from.len());
        if to.len() != expected {
            return Err(DeviceError::Length { device: to.device().title(), expected, got: to.len() });
        }
        match &self.method {
            SumMethod::Production(reduce) => reduce.launch(queue, from, to),
            SumMethod::Layers { kernel, .. } => {
                let args = [from.into(), (from.len() as u64).into(), to.into()];
                queue.launch(kernel, to.len() as u32, self.block_size, &args)
            }
        }
    }

    /// Queues the sum of all elements of `from` into `to`, which has one element. Allocates memory
    /// for the layers if `from` is longer than in all calls before.
    pub fn launch(&mut self, queue: &Queue, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        let (kernel, numbers_per_block, layer_results) = match &mut self.method {
            SumMethod::Production(reduce) => return reduce.launch(queue, from, to),
            SumMethod::Layers { kernel, numbers_per_block, layer_results } => {
                (&*kernel, *numbers_per_block, layer_results)
            }
        };
        let block_count = |n: usize| n.div_ceil(numbers_per_block).max(1);
        let lengths = [block_count(from.len()), block_count(block_count(from.len()))];
        for (results, n) in layer_results.iter_mut().zip(lengths) {
            if results.len() < n {
                *results = self.device.zeros(n)?;
            }
        }
        let (mut source, mut n, mut parity) = (from, from.len(), 0);
        loop {
            let blocks = block_count(n);
            let target = if blocks == 1 { to } else { &layer_results[parity] };
            let args = [source.into(), (n as u64).into(), target.into()];
            queue.launch(kernel, blocks as u32, self.block_size, &args)?;
            if blocks == 1 {
                return Ok(());
            }
            (source, n, parity) = (target, blocks, 1 - parity);
        }
    }
}
