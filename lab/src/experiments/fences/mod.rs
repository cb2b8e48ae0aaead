//! Litmus tests: in which order does one thread see two writes of another?
//!
//! Two variables start as X = 1 and Y = 2, as in the course. Two threads do one of
//!
//! | test            | first thread   | second thread | forbidden in order |
//! |-----------------|----------------|---------------|--------------------|
//! | course          | X = 10, Y = 20 | A = X, B = Y  | nothing            |
//! | message passing | X = 10, Y = 20 | B = Y, A = X  | A = 1, B = 20      |
//! | store buffering | X = 10, B = Y  | Y = 20, A = X | A = 1, B = 2       |
//!
//! "In order" is sequential consistency: the four accesses happen one after the other, those of a
//! thread in the order of its program. [`LitmusTest::sequential_outcomes`] tries all such orders.
//! A memory model is weaker: compilers and hardware reorder accesses of a thread unless a fence is
//! between them whose scope includes the other thread.
//!
//! Cost: four accesses per trial, limited by the latency of memory and fences. An outcome that is
//! forbidden must never occur. An outcome that is allowed may be rare, so its absence proves
//! nothing.

pub mod cpu;
pub mod selftest;

use std::cell::Cell;

use orrery_device::{
    Buffer, Device, DeviceError, DeviceKind, Kernel, KernelFile, Math, Queue, Resources, join_sources,
    kernel_source,
};

use crate::kernel_enum::kernel_enum;

// SAFETY: the kernels access the cells and the read values of trials below `trials_per_launch`, a
// line of `meeting` and one per block with trials, STRESS_WORDS words of `stress`, five counts and
// two guarantees. `LitmusTrials` allocates as many. Waiting for other blocks ends after MAX_WAITS
// or MAX_TRIAL_WAITS rounds.
const FENCES: KernelFile = unsafe {
    KernelFile::new(
        "fences.cu",
        join_sources!(
            LitmusTest::DEFINES,
            LitmusAccess::DEFINES,
            LitmusFence::DEFINES,
            kernel_source!("fences.cu")
        ),
    )
};

/// Words of a line of 128 bytes. X and Y of a trial have a line each.
const LINE_WORDS: usize = 32;
/// Words that blocks without trials access to load the memory system.
const STRESS_WORDS: usize = 1 << 16;

/// Number of outcomes of a trial.
pub const OUTCOMES: usize = 4;
/// Values of A and B of each outcome. Bit 0 of the index: A is the new X. Bit 1: B is the new Y.
pub const OUTCOME_NAMES: [&str; OUTCOMES] = ["1, 2", "10, 2", "1, 20", "10, 20"];

kernel_enum! {
    /// A litmus test, see the table above.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LitmusTest {
        /// The course's example: the second thread reads in the order of the writes.
        Course = 0 => "COURSE",
        /// The second thread reads in the opposite order: a flag, then the data.
        MessagePassing = 1 => "MESSAGE_PASSING",
        /// Each thread writes a variable and reads the other one.
        StoreBuffering = 2 => "STORE_BUFFERING",
    }
}

/// One access of a litmus test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LitmusStep {
    WriteX,
    WriteY,
    ReadX,
    ReadY,
}

impl LitmusTest {
    /// All tests.
    pub const ALL: [Self; 3] = [Self::Course, Self::MessagePassing, Self::StoreBuffering];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Course => "course",
            Self::MessagePassing => "message passing",
            Self::StoreBuffering => "store buffering",
        }
    }

    /// Returns the accesses of the first and of the second thread.
    fn steps(self) -> [[LitmusStep; 2]; 2] {
        match self {
            Self::Course => {
                [[LitmusStep::WriteX, LitmusStep::WriteY], [LitmusStep::ReadX, LitmusStep::ReadY]]
            }
            Self::MessagePassing => {
                [[LitmusStep::WriteX, LitmusStep::WriteY], [LitmusStep::ReadY, LitmusStep::ReadX]]
            }
            Self::StoreBuffering => {
                [[LitmusStep::WriteX, LitmusStep::ReadY], [LitmusStep::WriteY, LitmusStep::ReadX]]
            }
        }
    }

    /// Reference implementation: returns the outcome of the order in which the first thread does
    /// the steps `first_turns` of four, for example 0 and 3.
    fn outcome_of_order(self, first_turns: [usize; 2]) -> usize {
        let [mut first, mut second] = self.steps().map(|steps| steps.into_iter());
        let (mut is_x_new, mut is_y_new, mut outcome) = (false, false, 0);
        for turn in 0..4 {
            let thread = if first_turns.contains(&turn) { &mut first } else { &mut second };
            match thread.next() {
                Some(LitmusStep::WriteX) => is_x_new = true,
                Some(LitmusStep::WriteY) => is_y_new = true,
                Some(LitmusStep::ReadX) => outcome |= usize::from(is_x_new),
                Some(LitmusStep::ReadY) => outcome |= usize::from(is_y_new) << 1,
                None => unreachable!("each thread has two of the four turns"),
            }
        }
        outcome
    }

    /// Returns for each outcome whether it occurs in order, that is, in one of the six orders of
    /// the four accesses that keep the order of each thread.
    pub fn sequential_outcomes(self) -> [bool; OUTCOMES] {
        let mut occurs = [false; OUTCOMES];
        for order in ORDERS {
            occurs[self.outcome_of_order(order)] = true;
        }
        occurs
    }

    /// Returns the outcome that is forbidden in order, if there is one.
    pub fn forbidden_in_order(self) -> Option<usize> {
        self.sequential_outcomes().iter().position(|occurs| !occurs)
    }
}

/// Turns of the first thread in all six orders of two accesses of each thread.
const ORDERS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

kernel_enum! {
    /// Kind of the accesses to X and Y.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LitmusAccess {
        /// Ordinary accesses. The compiler may reorder, merge or omit them, and no memory model
        /// orders them, because they race.
        Plain = 0 => "ACCESS_PLAIN",
        /// Volatile accesses. In the memory model of PTX they are relaxed and of system scope.
        /// OpenCL does not order them.
        Volatile = 1 => "ACCESS_VOLATILE",
        /// Relaxed atomic accesses of device scope.
        Atomic = 2 => "ACCESS_ATOMIC",
    }
}

impl LitmusAccess {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Volatile, Self::Atomic];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Volatile => "volatile",
            Self::Atomic => "atomic",
        }
    }
}

kernel_enum! {
    /// Fence between the two accesses of each thread. The order is that of the scopes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum LitmusFence {
        /// No fence.
        None = 0 => "FENCE_NONE",
        /// `__threadfence_block()`
        Block = 1 => "FENCE_BLOCK",
        /// `__threadfence()`
        Device = 2 => "FENCE_DEVICE",
        /// `__threadfence_system()`
        System = 3 => "FENCE_SYSTEM",
    }
}

impl LitmusFence {
    /// All fences.
    pub const ALL: [Self; 4] = [Self::None, Self::Block, Self::Device, Self::System];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "no fence",
            Self::Block => "block fence",
            Self::Device => "device fence",
            Self::System => "system fence",
        }
    }
}

/// Position of the two threads of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LitmusPlacement {
    /// In different warps of one block.
    SameBlock,
    /// In different blocks.
    DifferentBlocks,
}

impl LitmusPlacement {
    /// Both positions.
    pub const ALL: [Self; 2] = [Self::SameBlock, Self::DifferentBlocks];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SameBlock => "one block",
            Self::DifferentBlocks => "different blocks",
        }
    }

    /// Returns the smallest scope of a fence that includes both threads.
    fn scope(self) -> LitmusFence {
        match self {
            Self::SameBlock => LitmusFence::Block,
            Self::DifferentBlocks => LitmusFence::Device,
        }
    }
}

/// Counted outcomes of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// Number of trials with each outcome, see [`OUTCOME_NAMES`].
    pub counts: [u64; OUTCOMES],
    /// Number of trials in which a value was read that nobody wrote. Not 0 only if a kernel or the
    /// device is faulty.
    pub invalid: u64,
}

impl OutcomeCounts {
    /// Returns the number of trials.
    pub fn trials(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.invalid
    }

    /// Returns the first outcome that occurred although it is forbidden, or that is invalid.
    pub fn find_forbidden(&self, forbidden: Option<usize>) -> Option<String> {
        let found = forbidden.filter(|outcome| self.counts[*outcome] > 0).map(|outcome| {
            let (name, count) = (OUTCOME_NAMES[outcome], self.counts[outcome]);
            format!("the forbidden outcome A, B = {name} in {count} of {} trials", self.trials())
        });
        let invalid = (self.invalid > 0)
            .then(|| format!("a value that nobody wrote in {} of {} trials", self.invalid, self.trials()));
        found.or(invalid)
    }
}

/// Guarantees of a memory model for one kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Guarantees {
    /// Whether fences order the accesses.
    is_ordered: bool,
    /// Whether fences also order a write before a later read.
    is_full_fence: bool,
}

impl Guarantees {
    /// Returns the outcome that the model forbids, if there is one: the one that is forbidden in
    /// order, if the scope of the fence includes both threads.
    fn forbidden(self, test: LitmusTest, placement: LitmusPlacement, fence: LitmusFence) -> Option<usize> {
        let is_fenced = self.is_ordered && fence >= placement.scope();
        let is_strong = self.is_full_fence || test != LitmusTest::StoreBuffering;
        test.forbidden_in_order().filter(|_| is_fenced && is_strong)
    }
}

/// Launch parameters by kind of device.
#[derive(Clone, Copy, Debug)]
struct LaunchShape {
    block_size: u32,
    /// Blocks with trials, an even number, so that each has a partner at the distance of a half.
    test_blocks: u32,
    /// Blocks that only load the memory system.
    stress_blocks: u32,
    /// Trials per thread and launch.
    rounds: i32,
    /// Largest number of times that a block looks whether the others have arrived.
    max_waits: u32,
    /// The same before each trial.
    max_trial_waits: u32,
    /// Largest random delay before a trial, in iterations of a loop.
    max_delay: u32,
}

impl LaunchShape {
    fn for_device(device: &Device) -> Self {
        let sm_count = device.properties().sm_count.max(1);
        match device.properties().kind {
            // All blocks are resident, so that they meet at the start. One trial per thread,
            // because threads that have just met run at the same time.
            DeviceKind::Gpu => Self {
                block_size: 128,
                test_blocks: 4 * sm_count,
                stress_blocks: 4 * sm_count,
                rounds: 1,
                max_waits: 2000,
                max_trial_waits: 0,
                max_delay: 127,
            },
            // A block is one thread of the CPU, with another speed than the other one, so that they
            // meet before each trial.
            DeviceKind::Cpu | DeviceKind::Other => Self {
                block_size: 64,
                test_blocks: 2,
                stress_blocks: 0,
                rounds: 64,
                max_waits: 2_000_000,
                max_trial_waits: 500,
                max_delay: 15,
            },
        }
    }
}

/// Litmus tests on a device with one kind of access and one kind of fence.
#[derive(Debug)]
pub struct LitmusTrials {
    fence: LitmusFence,
    guarantees: Guarantees,
    run: Kernel,
    reset: Kernel,
    count: Kernel,
    shape: LaunchShape,
    cells: Buffer<u32>,
    x_read: Buffer<u32>,
    y_read: Buffer<u32>,
    meeting: Buffer<u32>,
    stress: Buffer<u32>,
    counts: Buffer<u32>,
    /// Number of launches so far.
    launches: Cell<u32>,
}

impl LitmusTrials {
    /// Compiles the kernels and asks which outcomes the memory model forbids.
    pub fn new(device: &Device, access: LitmusAccess, fence: LitmusFence) -> Result<Self, DeviceError> {
        let shape = LaunchShape::for_device(device);
        let definitions = [
            ("ACCESS", access.kernel_name().to_owned()),
            ("FENCE", fence.kernel_name().to_owned()),
            ("BLOCK_SIZE", shape.block_size.to_string()),
            ("MAX_WAITS", shape.max_waits.to_string()),
            ("MAX_TRIAL_WAITS", shape.max_trial_waits.to_string()),
            ("MAX_DELAY", shape.max_delay.to_string()),
            ("STRESS_ACCESSES", "32".to_owned()),
            ("STRESS_WORDS", STRESS_WORDS.to_string()),
        ];
        let module = device.build(&FENCES, &definitions, Math::Precise)?;
        let reported = device.zeros::<u32>(2)?;
        device.queue().launch(&module.kernel("report_guarantees")?, 1, 1, &[(&reported).into()])?;
        let reported = reported.to_vec()?;
        let trials = (shape.test_blocks * shape.block_size) as usize * shape.rounds as usize;
        Ok(Self {
            fence,
            guarantees: Guarantees { is_ordered: reported[0] != 0, is_full_fence: reported[1] != 0 },
            run: module.kernel("run_trials")?,
            reset: module.kernel("reset_trials")?,
            count: module.kernel("count_outcomes")?,
            shape,
            cells: device.zeros(2 * LINE_WORDS * trials)?,
            x_read: device.zeros(trials)?,
            y_read: device.zeros(trials)?,
            meeting: device.zeros(LINE_WORDS * (1 + shape.test_blocks as usize))?,
            stress: device.zeros(STRESS_WORDS)?,
            counts: device.zeros(OUTCOMES + 1)?,
            launches: Cell::new(0),
        })
    }

    /// Returns the number of trials of a launch.
    pub fn trials_per_launch(&self) -> usize {
        self.x_read.len()
    }

    /// Returns the outcome that the memory model of the device forbids, if there is one.
    pub fn forbidden(&self, test: LitmusTest, placement: LitmusPlacement) -> Option<usize> {
        self.guarantees.forbidden(test, placement, self.fence)
    }

    /// Queues one launch of trials without a preparation, for measurements of time. Does not wait.
    pub fn launch_trials(
        &self,
        queue: &Queue,
        test: LitmusTest,
        placement: LitmusPlacement,
    ) -> Result<(), DeviceError> {
        let launch = self.launches.get().wrapping_add(1);
        self.launches.set(launch);
        let LaunchShape { block_size, test_blocks, stress_blocks, rounds, .. } = self.shape;
        let blocks = test_blocks + stress_blocks;
        let block_shift = match placement {
            LitmusPlacement::SameBlock => 0,
            LitmusPlacement::DifferentBlocks => test_blocks as i32 / 2,
        };
        let args = [
            (&self.cells).into(),
            (&self.x_read).into(),
            (&self.y_read).into(),
            (&self.meeting).into(),
            (&self.stress).into(),
            (test as i32).into(),
            rounds.into(),
            (test_blocks as i32).into(),
            block_shift.into(),
            launch.into(),
        ];
        queue.launch(&self.run, blocks, block_size, &args)
    }

    /// Runs at least `trials` trials and counts their outcomes. Waits for them.
    pub fn count_outcomes(
        &self,
        queue: &Queue,
        test: LitmusTest,
        placement: LitmusPlacement,
        trials: usize,
    ) -> Result<OutcomeCounts, DeviceError> {
        let (per_launch, block_size) = (self.trials_per_launch(), self.shape.block_size);
        let blocks = (per_launch as u32).div_ceil(block_size);
        let mut total = OutcomeCounts::default();
        let mut launches_left = trials.div_ceil(per_launch).max(1);
        while launches_left > 0 {
            // The counts of the device have 32 bits.
            let launches = launches_left.min(u32::MAX as usize / per_launch);
            queue.write(&self.counts, &[0; OUTCOMES + 1])?;
            for _ in 0..launches {
                let [x_read, y_read] = [(&self.x_read).into(), (&self.y_read).into()];
                let reset_args = [(&self.cells).into(), x_read, y_read, (per_launch as i32).into()];
                queue.launch(&self.reset, blocks, block_size, &reset_args)?;
                self.launch_trials(queue, test, placement)?;
                let count_args = [x_read, y_read, (per_launch as i32).into(), (&self.counts).into()];
                queue.launch(&self.count, blocks, block_size, &count_args)?;
            }
            let counts = self.counts.to_vec()?;
            for (sum, count) in total.counts.iter_mut().zip(&counts) {
                *sum += u64::from(*count);
            }
            total.invalid += u64::from(counts[OUTCOMES]);
            launches_left -= launches;
        }
        Ok(total)
    }

    /// Returns the resources of the kernel with the trials and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.run.resources(), self.run.occupancy(self.shape.block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The course calls 1, 20 impossible in order. It is possible: both writes may happen between
    /// the two reads.
    #[test]
    fn all_outcomes_of_the_course_occur_in_order() {
        assert_eq!(LitmusTest::Course.sequential_outcomes(), [true; OUTCOMES]);
        assert_eq!(OUTCOME_NAMES[LitmusTest::Course.outcome_of_order([1, 2])], "1, 20");
    }

    #[test]
    fn one_outcome_of_the_other_tests_is_forbidden_in_order() {
        let forbidden = |test: LitmusTest| test.forbidden_in_order().map(|outcome| OUTCOME_NAMES[outcome]);
        assert_eq!(forbidden(LitmusTest::Course), None);
        assert_eq!(forbidden(LitmusTest::MessagePassing), Some("1, 20"));
        assert_eq!(forbidden(LitmusTest::StoreBuffering), Some("1, 2"));
    }

    #[test]
    fn a_model_forbids_more_with_a_larger_scope() {
        let [near, far] = LitmusPlacement::ALL;
        let full = Guarantees { is_ordered: true, is_full_fence: true };
        let forbids = |guarantees: Guarantees, test, placement| {
            LitmusFence::ALL.map(|fence| guarantees.forbidden(test, placement, fence).is_some())
        };
        for test in [LitmusTest::MessagePassing, LitmusTest::StoreBuffering] {
            assert_eq!(forbids(full, test, near), [false, true, true, true]);
            assert_eq!(forbids(full, test, far), [false, false, true, true]);
            let racing = Guarantees { is_ordered: false, ..full };
            assert_eq!(forbids(racing, test, near), [false; 4]);
        }
        assert_eq!(forbids(full, LitmusTest::Course, near), [false; 4]);
        let partial = Guarantees { is_full_fence: false, ..full };
        assert_eq!(forbids(partial, LitmusTest::StoreBuffering, near), [false; 4]);
        assert_eq!(forbids(partial, LitmusTest::MessagePassing, far), [false, false, true, true]);
    }

    #[test]
    fn forbidden_and_invalid_outcomes_are_found() {
        let counts = OutcomeCounts { counts: [5, 4, 3, 2], invalid: 0 };
        assert_eq!(counts.trials(), 14);
        assert_eq!(counts.find_forbidden(None), None);
        let message = counts.find_forbidden(Some(2)).unwrap();
        assert_eq!(message, "the forbidden outcome A, B = 1, 20 in 3 of 14 trials");
        let without = OutcomeCounts { counts: [5, 4, 0, 2], invalid: 0 };
        assert_eq!(without.find_forbidden(Some(2)), None);
        let invalid = OutcomeCounts { invalid: 1, ..without };
        assert!(invalid.find_forbidden(Some(2)).unwrap().contains("in 1 of 12 trials"));
    }
}
