//! Launchers of the atomic operations on global memory.

use orrery_device::{
    Arg, Buffer, Device, DeviceError, DeviceKind, Element, Kernel, KernelFile, Math, Module, Queue,
    Resources, join_sources, kernel_source,
};

use super::{AtomicOperation, AtomicPattern, AtomicWidth, AtomicWorkload};
use crate::kernel_enum::kernel_enum;

// SAFETY: the kernels access number i & mask of `data`, which has mask + 1 numbers, and one old
// value per thread or operation, whose count the launches check. `add_in_scope` accesses SLOTS
// numbers per block. Loops of compare-and-swap end, because in each round one thread succeeds.
const ATOMICS: KernelFile = unsafe {
    KernelFile::new(
        "atomics.cu",
        join_sources!(
            AtomicOperation::DEFINES,
            Returns::DEFINES,
            AtomicScope::DEFINES,
            kernel_source!("atomics.cu")
        ),
    )
};

/// Threads per block.
const BLOCK_SIZE: u32 = 256;
/// Numbers per block of the additions with a scope.
const SLOTS: usize = 32;

kernel_enum! {
    /// Use of the values that operations return.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Returns {
        /// None. The hardware need not send them back.
        Unused = 0 => "RETURNS_UNUSED",
        /// Summed per thread.
        Summed = 1 => "RETURNS_SUMMED",
        /// Stored per operation.
        Stored = 2 => "RETURNS_STORED",
    }
}

/// Atomics that a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicSupport {
    /// Operations on 64 bits.
    pub has_u64: bool,
    /// Addition of f32 by hardware.
    pub has_f32_add: bool,
    /// Addition of f64 by hardware.
    pub has_f64_add: bool,
    /// Scopes of a block and of the system.
    pub has_scopes: bool,
}

impl AtomicSupport {
    /// Asks the compiler of a device.
    pub fn of_device(device: &Device) -> Result<Self, DeviceError> {
        let module = build(device, AtomicWidth::Bits32, Returns::Unused)?;
        let support = device.zeros::<u32>(4)?;
        device.queue().launch(&module.kernel("report_support")?, 1, 1, &[(&support).into()])?;
        let support = support.to_vec()?;
        Ok(Self {
            has_u64: support[0] != 0,
            has_f32_add: support[1] != 0,
            has_f64_add: support[2] != 0,
            has_scopes: support[3] != 0,
        })
    }
}

fn build(device: &Device, width: AtomicWidth, returns: Returns) -> Result<Module, DeviceError> {
    let definitions = [
        ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
        ("WIDTH", width.bits().to_string()),
        ("RETURNS", returns.kernel_name().to_owned()),
        ("HAS_F64", i32::from(device.properties().has_f64).to_string()),
        ("SLOTS", SLOTS.to_string()),
    ];
    device.build(&ATOMICS, &definitions, Math::Precise)
}

/// Returns the number of blocks: those that run at once, or fewer if there are fewer operations.
fn block_count(device: &Device, kernel: &Kernel, operations: u32) -> u32 {
    let resident = match device.properties().kind {
        DeviceKind::Gpu => kernel.resident_blocks(BLOCK_SIZE),
        // A CPU runs one block per core at a time. A few more balance their load.
        DeviceKind::Cpu | DeviceKind::Other => 4 * device.properties().sm_count.max(1),
    };
    operations.div_ceil(BLOCK_SIZE).clamp(1, resident)
}

/// Number type of a buffer: `u32` or `u64`.
pub trait AtomicWord: Element {
    /// AtomicWidth of the type.
    const WIDTH: AtomicWidth;
    /// Returns the low bits of a number.
    fn from_bits(bits: u64) -> Self;
    /// Returns the number.
    fn to_bits(self) -> u64;
}

impl AtomicWord for u32 {
    const WIDTH: AtomicWidth = AtomicWidth::Bits32;
    fn from_bits(bits: u64) -> Self {
        bits as Self
    }
    fn to_bits(self) -> u64 {
        self.into()
    }
}

impl AtomicWord for u64 {
    const WIDTH: AtomicWidth = AtomicWidth::Bits64;
    fn from_bits(bits: u64) -> Self {
        bits
    }
    fn to_bits(self) -> u64 {
        self
    }
}

/// Atomic operations on integers of type T.
#[derive(Debug)]
pub struct WordAtomics<T: AtomicWord> {
    device: Device,
    kernel: Kernel,
    returns: Returns,
    numbers: Buffer<T>,
    old_values: Buffer<T>,
}

impl<T: AtomicWord> WordAtomics<T> {
    /// Compiles the kernel. Launches have at most `max_operations` operations on at most
    /// `max_numbers` numbers.
    pub fn new(
        device: &Device,
        returns: Returns,
        max_numbers: usize,
        max_operations: u32,
    ) -> Result<Self, DeviceError> {
        let kernel = build(device, T::WIDTH, returns)?.kernel("update_words")?;
        let threads = block_count(device, &kernel, max_operations) * BLOCK_SIZE;
        let old_values = match returns {
            Returns::Unused => 1,
            Returns::Summed => threads as usize,
            Returns::Stored => max_operations as usize,
        };
        Ok(Self {
            device: device.clone(),
            kernel,
            returns,
            numbers: device.zeros(max_numbers)?,
            old_values: device.zeros(old_values)?,
        })
    }

    /// Sets all numbers to their initial value.
    pub fn reset(&self, queue: &Queue, operation: AtomicOperation) -> Result<(), DeviceError> {
        let initial = T::from_bits(operation.initial_value(T::WIDTH));
        queue.write(&self.numbers, &vec![initial; self.numbers.len()])
    }

    /// Queues all operations. Does not wait.
    pub fn launch(
        &self,
        queue: &Queue,
        operation: AtomicOperation,
        work: &AtomicWorkload,
    ) -> Result<(), DeviceError> {
        check_numbers(&self.numbers, work)?;
        let blocks = block_count(&self.device, &self.kernel, work.operations);
        let needed = match self.returns {
            Returns::Unused => 1,
            Returns::Summed => (blocks * BLOCK_SIZE) as usize,
            Returns::Stored => work.operations as usize,
        };
        if self.old_values.len() < needed {
            let (device, got) = (self.device.title(), self.old_values.len());
            return Err(DeviceError::Length { device, expected: needed, got });
        }
        let [numbers, operations, mask, is_random] = workload_args(&self.numbers, work);
        let args =
            [numbers, operations, mask, is_random, (operation as i32).into(), (&self.old_values).into()];
        queue.launch(&self.kernel, blocks, BLOCK_SIZE, &args)
    }

    /// Returns the first `count` numbers.
    pub fn numbers(&self, count: usize) -> Result<Vec<u64>, DeviceError> {
        let mut numbers = self.numbers.to_vec()?;
        numbers.truncate(count);
        Ok(numbers.into_iter().map(T::to_bits).collect())
    }

    /// Returns the values that operations returned, see [`Returns`].
    pub fn old_values(&self) -> Result<Vec<u64>, DeviceError> {
        Ok(self.old_values.to_vec()?.into_iter().map(T::to_bits).collect())
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(BLOCK_SIZE))
    }
}

/// Checks that a buffer has enough numbers, and that their count is a power of two.
fn check_numbers<T: Element>(buffer: &Buffer<T>, work: &AtomicWorkload) -> Result<(), DeviceError> {
    if work.numbers.is_power_of_two() && work.numbers <= buffer.len() {
        return Ok(());
    }
    Err(DeviceError::Length { device: buffer.device().title(), expected: work.numbers, got: buffer.len() })
}

/// Returns the arguments of a workload: numbers, operations, mask, whether the order is random.
fn workload_args<'a, T: Element>(numbers: &'a Buffer<T>, work: &AtomicWorkload) -> [Arg<'a>; 4] {
    let is_random = i32::from(work.pattern == AtomicPattern::Random);
    [numbers.into(), work.operations.into(), (work.numbers as u32 - 1).into(), is_random.into()]
}

/// Method of an addition of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RealAddition {
    /// By the hardware. By compare-and-swap on a device that has no such addition.
    Hardware,
    /// By a loop of compare-and-swap.
    CompareAndSwap,
}

/// Atomic additions to floats of type T: `f32` or `f64`.
#[derive(Debug)]
pub struct RealAtomics<T: Element> {
    device: Device,
    kernel: Kernel,
    numbers: Buffer<T>,
}

impl<T: Element> RealAtomics<T> {
    /// Compiles the kernel for at most `max_numbers` numbers. f64 needs a device with f64 and
    /// 64-bit atomics.
    pub fn new(device: &Device, max_numbers: usize) -> Result<Self, DeviceError> {
        let width = if size_of::<T>() == 4 { AtomicWidth::Bits32 } else { AtomicWidth::Bits64 };
        let kernel = build(device, width, Returns::Unused)?.kernel("add_reals")?;
        Ok(Self { device: device.clone(), kernel, numbers: device.zeros(max_numbers)? })
    }

    /// Queues all additions. Does not wait.
    pub fn launch(
        &self,
        queue: &Queue,
        method: RealAddition,
        work: &AtomicWorkload,
    ) -> Result<(), DeviceError> {
        check_numbers(&self.numbers, work)?;
        let [numbers, operations, mask, is_random] = workload_args(&self.numbers, work);
        let by_cas = i32::from(method == RealAddition::CompareAndSwap);
        let blocks = block_count(&self.device, &self.kernel, work.operations);
        queue.launch(&self.kernel, blocks, BLOCK_SIZE, &[numbers, operations, mask, is_random, by_cas.into()])
    }

    /// Returns all numbers.
    pub fn numbers(&self) -> Result<Vec<T>, DeviceError> {
        self.numbers.to_vec()
    }
}

kernel_enum! {
    /// Threads for which an operation is atomic.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum AtomicScope {
        /// Threads of the block.
        Block = 0 => "BLOCK_SCOPE",
        /// Threads of the device.
        Device = 1 => "DEVICE_SCOPE",
        /// All devices and the host.
        System = 2 => "SYSTEM_SCOPE",
    }
}

impl AtomicScope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Block, Self::Device, Self::System];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Device => "device",
            Self::System => "system",
        }
    }
}

/// Additions with a scope, to numbers of which each belongs to one block.
#[derive(Debug)]
pub struct ScopedAdditions {
    kernel: Kernel,
    blocks: u32,
    numbers: Buffer<u32>,
}

impl ScopedAdditions {
    /// Compiles the kernel for at most `max_operations` operations.
    pub fn new(device: &Device, max_operations: u32) -> Result<Self, DeviceError> {
        let kernel = build(device, AtomicWidth::Bits32, Returns::Unused)?.kernel("add_in_scope")?;
        let blocks = block_count(device, &kernel, max_operations);
        Ok(Self { kernel, blocks, numbers: device.zeros(SLOTS * blocks as usize)? })
    }

    /// Queues the additions. Does not wait.
    pub fn launch(&self, queue: &Queue, scope: AtomicScope, operations: u32) -> Result<(), DeviceError> {
        let args = [(&self.numbers).into(), operations.into(), (scope as i32).into()];
        queue.launch(&self.kernel, self.blocks, BLOCK_SIZE, &args)
    }

    /// Returns all numbers.
    pub fn numbers(&self) -> Result<Vec<u32>, DeviceError> {
        self.numbers.to_vec()
    }

    /// Reference implementation: returns the numbers after `operations` additions to 0.
    pub fn expected_numbers(&self, operations: u32) -> Vec<u32> {
        let mut numbers = vec![0u32; self.numbers.len()];
        for i in 0..operations {
            let (thread, block) = (i % BLOCK_SIZE, i / BLOCK_SIZE % self.blocks);
            let number = &mut numbers[block as usize * SLOTS + thread as usize % SLOTS];
            *number = number.wrapping_add(AtomicWidth::Bits32.random(i) as u32);
        }
        numbers
    }
}
