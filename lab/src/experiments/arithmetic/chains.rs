//! Chains of one operation on a device.

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, DeviceKind, Kernel, KernelFile, Queue, Resources};

use super::ulp::larger_error;
use super::{ArithmeticOperation, ChainNumber, CodeSize};

// SAFETY: each thread accesses CHAINS elements of `start` and `out` and one of `second` and
// `third`, and each block one of `cycles`. `Chains::new` and `Chains::evaluate` allocate as many
// for the number of threads that `Chains::launch_on` starts, or more.
const ARITHMETIC: KernelFile = unsafe { KernelFile::new("arithmetic.cu", include_str!("arithmetic.cu")) };

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainShape {
    /// Independent numbers per thread.
    pub chains: usize,
    /// Unrolled steps per round.
    pub steps: usize,
    /// Threads per block.
    pub block_size: u32,
    /// Whether a round ends with a barrier. OpenCL on a CPU turns the threads between two barriers
    /// into a loop, which it vectorises.
    pub has_barrier: bool,
    /// Bytes of dynamic shared memory that limit the blocks per SM. Only with CUDA.
    pub dynamic_shared: u32,
}

impl ChainShape {
    /// Returns a shape with many operations in flight.
    pub fn for_throughput(device: &Device, size: CodeSize) -> Self {
        let is_gpu = device.properties().kind == DeviceKind::Gpu;
        // The unrolled code must fit into the cache of instructions. With 512 operations of one
        // instruction, the three instructions of the loop are 0.6%.
        let (chains, steps) = match (is_gpu, size) {
            (true, CodeSize::Small) => (8, 64),
            (true, CodeSize::Medium) => (4, 8),
            (true, CodeSize::Large) => (2, 4),
            // OpenCL on a CPU has the threads of a block as independent chains.
            (false, CodeSize::Small) => (1, 8),
            (false, CodeSize::Medium) => (1, 4),
            (false, CodeSize::Large) => (1, 2),
        };
        let block_size = if is_gpu { 256 } else { 64 };
        // Large functions are not vectorised, and a barrier takes PoCL long to compile.
        let has_barrier = !is_gpu && size != CodeSize::Large;
        Self { chains, steps, block_size, has_barrier, dynamic_shared: 0 }
    }

    /// Returns a shape with one number per thread, for blocks of one warp. No other warp hides the
    /// branch at the end of a round, so rounds are long.
    pub fn for_latency(size: CodeSize) -> Self {
        let steps = match size {
            CodeSize::Small => 512,
            CodeSize::Medium => 64,
            CodeSize::Large => 8,
        };
        Self { chains: 1, steps, block_size: 32, has_barrier: false, dynamic_shared: 0 }
    }

    /// Returns a shape with `chains` numbers per thread for blocks of any size.
    pub fn with_chains(device: &Device, chains: usize, block_size: u32) -> Self {
        let shape = Self::for_throughput(device, CodeSize::Small);
        let unrolled = shape.chains * shape.steps;
        Self { chains, steps: unrolled.div_ceil(chains), block_size, ..shape }
    }
}

/// The kernel of an operation, with its numbers.
#[derive(Debug)]
pub struct Chains<T: ChainNumber> {
    operation: ArithmeticOperation<T>,
    shape: ChainShape,
    block_count: u32,
    kernel: Kernel,
    start: Buffer<T>,
    operands: [Buffer<T>; 2],
    out: Buffer<T>,
    cycles: Buffer<u64>,
}

/// Returns a random number from 0 to 1 for an index.
fn random_number(index: usize) -> f64 {
    (random_bits(index as u64) >> 11) as f64 / 9_007_199_254_740_992.0
}

impl<T: ChainNumber> Chains<T> {
    /// Compiles the kernel and uploads the first numbers of the chains.
    pub fn new(
        device: &Device,
        operation: &ArithmeticOperation<T>,
        shape: ChainShape,
        block_count: u32,
    ) -> Result<Self, DeviceError> {
        let mut definitions = vec![
            ("OPERATION", operation.code.to_owned()),
            ("NUMBER", T::NAME.to_owned()),
            ("BLOCK_SIZE", shape.block_size.to_string()),
            ("CHAINS", shape.chains.to_string()),
            ("STEPS", shape.steps.to_string()),
            ("AFTER_ROUND", if shape.has_barrier { "BARRIER()" } else { "" }.to_owned()),
        ];
        if operation.uses_f16 {
            definitions.push(("USES_F16", "1".to_owned()));
        }
        let module = device.build(&ARITHMETIC, &definitions, operation.math)?;
        let threads = (block_count * shape.block_size) as usize;
        let numbers: Vec<T> = first_numbers(operation, threads * shape.chains);
        let [b, c] = operation.operands.map(|operand| device.upload(&vec![operand; threads]));
        Ok(Self {
            operation: *operation,
            shape,
            block_count,
            kernel: module.kernel_with_shared("run_chains", shape.dynamic_shared)?,
            start: device.upload(&numbers)?,
            operands: [b?, c?],
            out: device.zeros(threads * shape.chains)?,
            cycles: device.zeros(block_count as usize)?,
        })
    }

    /// Queues `rounds` rounds of steps, then `tail` single steps, in all threads. Does not wait.
    pub fn launch(&self, queue: &Queue, rounds: i32, tail: i32) -> Result<(), DeviceError> {
        let [b, c] = &self.operands;
        self.launch_on(queue, self.block_count, [&self.start, b, c], rounds, tail)
    }

    /// Queues `rounds` rounds of steps in the threads of `block_count` blocks, at most as many as
    /// at the construction. Does not wait.
    pub fn launch_blocks(&self, queue: &Queue, block_count: u32, rounds: i32) -> Result<(), DeviceError> {
        assert!(block_count <= self.block_count, "{block_count} of {} blocks", self.block_count);
        let [b, c] = &self.operands;
        self.launch_on(queue, block_count, [&self.start, b, c], rounds, 0)
    }

    fn launch_on(
        &self,
        queue: &Queue,
        block_count: u32,
        [x, b, c]: [&Buffer<T>; 3],
        rounds: i32,
        tail: i32,
    ) -> Result<(), DeviceError> {
        let args = [
            x.into(),
            b.into(),
            c.into(),
            rounds.into(),
            tail.into(),
            (&self.out).into(),
            (&self.cycles).into(),
        ];
        queue.launch(&self.kernel, block_count, self.shape.block_size, &args)
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(self.shape.block_size))
    }

    /// Returns the number of blocks that the device runs at once.
    pub fn resident_blocks(&self) -> u32 {
        self.kernel.resident_blocks(self.shape.block_size)
    }

    /// Returns the last number of each chain in the last launch.
    pub fn results(&self) -> Result<Vec<T>, DeviceError> {
        self.out.to_vec()
    }

    /// Returns the results that a launch should have, by the reference implementation.
    pub fn expected_results(&self, rounds: i32, tail: i32) -> Vec<T> {
        let steps = self.steps(rounds, tail);
        let start: Vec<T> = first_numbers(&self.operation, self.out.len());
        start.into_iter().map(|x| self.operation.apply_repeatedly(x, steps)).collect()
    }

    /// Returns the number of steps of each chain in a launch.
    pub fn steps(&self, rounds: i32, tail: i32) -> usize {
        rounds as usize * self.shape.steps + tail as usize
    }

    /// Returns the number of rounds with at least `n` counted operations per thread.
    pub fn rounds_for(&self, n: usize) -> i32 {
        let per_round = (self.shape.chains * self.shape.steps) as f64 * self.operation.count;
        (n as f64 / per_round).ceil().clamp(1.0, f64::from(i32::MAX)) as i32
    }

    /// Returns the number of counted operations in a launch of `rounds` rounds.
    pub fn operation_count(&self, rounds: i32) -> f64 {
        self.out.len() as f64 * self.steps(rounds, 0) as f64 * self.operation.count
    }

    /// Returns the cycles of the slowest block in the last launch. None if kernels cannot read a
    /// clock. Schedulers prefer some warps, so blocks that start together end at different times.
    pub fn cycles(&self) -> Result<Option<u64>, DeviceError> {
        Ok(self.cycles.to_vec()?.into_iter().max().filter(|cycles| *cycles > 0))
    }

    /// Applies the operation once to random arguments of the operation. `pass` selects other random
    /// numbers. Returns arguments and results.
    pub fn evaluate(
        &self,
        device: &Device,
        pass: usize,
        arguments: fn([f64; 3]) -> [T; 3],
    ) -> Result<Vec<([T; 3], T)>, DeviceError> {
        let (count, threads) = (self.out.len(), self.operands[0].len());
        let random = |index: usize, argument: usize| random_number(3 * (pass * count + index) + argument);
        // All numbers of a thread share b and c.
        let operands: Vec<[T; 3]> = (0..threads)
            .map(|thread| arguments([0, 1, 2].map(|argument| random(thread, argument))))
            .collect();
        let numbers: Vec<T> = (0..count)
            .map(|index| {
                arguments([random(index, 0), random(index % threads, 1), random(index % threads, 2)])[0]
            })
            .collect();
        let [b, c] = [1, 2].map(|argument| operands.iter().map(|all| all[argument]).collect::<Vec<T>>());
        let buffers = [device.upload(&numbers)?, device.upload(&b)?, device.upload(&c)?];
        self.launch_on(device.queue(), self.block_count, buffers.each_ref(), 0, 1)?;
        let found = self.results()?;
        let with_arguments = |(index, found): (usize, T)| {
            let thread = index % threads;
            ([numbers[index], b[thread], c[thread]], found)
        };
        Ok(found.into_iter().enumerate().map(with_arguments).collect())
    }

    /// Returns the largest error in ulp over `passes` sets of random arguments. None if the
    /// operation has no measure of errors.
    pub fn largest_error(&self, device: &Device, passes: usize) -> Result<Option<f64>, DeviceError> {
        let Some(error) = self.operation.error else { return Ok(None) };
        let mut largest = 0.0;
        for pass in 0..passes {
            for (arguments, found) in self.evaluate(device, pass, self.operation.arguments)? {
                largest = larger_error(largest, error(arguments, found));
            }
        }
        Ok(Some(largest))
    }
}

/// Returns the first numbers of chains.
fn first_numbers<T: ChainNumber>(operation: &ArithmeticOperation<T>, count: usize) -> Vec<T> {
    (0..count).map(|index| (operation.start)(random_number(index))).collect()
}
