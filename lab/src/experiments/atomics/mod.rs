//! Atomic operations on numbers in global and shared memory, and votes of a warp.
//!
//! An atomic operation replaces a number by a function of it, new = f(old, value), and returns old.
//! No other operation on the number happens between its read and its write. Operations on one
//! number therefore follow one another, in an order that nobody knows. For most functions here the
//! final value does not depend on that order, so it is compared with a sequential execution,
//! [`final_values`]. For exchange and compare-and-swap an invariant is checked:
//! [`check_exchanges`], [`check_swaps`].
//!
//! Cost: one operation at the L2 cache or in shared memory. Limit: the rate of the units that do
//! the operations, and for few numbers the time between two operations on the same number.
//!
//! When not to use them: partial results per thread, warp or block need fewer atomics
//! (`orrery ladder histogram`, `orrery ladder reduce`).

pub mod cpu;
pub mod device;
pub mod selftest;
pub mod shared;
pub mod votes;

use crate::kernel_enum::kernel_enum;

kernel_enum! {
    /// Atomic operation. The functions of old and value are those of CUDA.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum AtomicOperation {
        /// old + value
        Add = 0 => "ADD",
        /// old - value
        Sub = 1 => "SUB",
        /// value
        Exchange = 2 => "EXCHANGE",
        /// Smaller one of old and value.
        Min = 3 => "MINIMUM",
        /// Larger one of old and value.
        Max = 4 => "MAXIMUM",
        /// Bits of both.
        And = 5 => "AND",
        /// Bits of any.
        Or = 6 => "OR",
        /// Bits of exactly one.
        Xor = 7 => "XOR",
        /// Value if old is 0, else old.
        CompareAndSwap = 8 => "CAS",
        /// 0 if old >= value, else old + 1.
        Inc = 9 => "INC",
        /// Value if old is 0 or old > value, else old - 1.
        Dec = 10 => "DEC",
        /// old + value with value 1, by a load and a store. Not atomic: updates get lost.
        RacingAdd = 11 => "RACING_ADD",
    }
}

impl AtomicOperation {
    /// All operations.
    pub const ALL: [Self; 12] = [
        Self::Add,
        Self::Sub,
        Self::Exchange,
        Self::Min,
        Self::Max,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::CompareAndSwap,
        Self::Inc,
        Self::Dec,
        Self::RacingAdd,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Exchange => "exchange",
            Self::Min => "min",
            Self::Max => "max",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::CompareAndSwap => "compare-and-swap",
            Self::Inc => "inc",
            Self::Dec => "dec",
            Self::RacingAdd => "racing add",
        }
    }

    /// Returns whether there is such an operation for a width. CUDA increments and decrements only
    /// 32 bits.
    pub fn has_width(self, width: AtomicWidth) -> bool {
        width == AtomicWidth::Bits32 || !matches!(self, Self::Inc | Self::Dec | Self::RacingAdd)
    }

    /// Returns whether the final values do not depend on the order of the operations.
    pub fn has_fixed_result(self) -> bool {
        !matches!(self, Self::Exchange | Self::CompareAndSwap | Self::RacingAdd)
    }

    /// Returns the value of all numbers before the operations.
    pub fn initial_value(self, width: AtomicWidth) -> u64 {
        if matches!(self, Self::Min | Self::And) { width.mask() } else { 0 }
    }

    /// Returns the value of operation i.
    fn value(self, width: AtomicWidth, i: u32) -> u64 {
        match self {
            Self::Exchange | Self::CompareAndSwap => u64::from(i) + 1,
            Self::And => width.mask() & !width.bit(i),
            Self::Or => width.bit(i),
            Self::Inc | Self::Dec => COUNTER_LIMIT,
            Self::RacingAdd => 1,
            Self::Add | Self::Sub | Self::Min | Self::Max | Self::Xor => width.random(i),
        }
    }

    /// Reference implementation: returns the new number.
    pub fn apply(self, width: AtomicWidth, old: u64, value: u64) -> u64 {
        let new = match self {
            Self::Add | Self::RacingAdd => old.wrapping_add(value),
            Self::Sub => old.wrapping_sub(value),
            Self::Exchange => value,
            Self::Min => old.min(value),
            Self::Max => old.max(value),
            Self::And => old & value,
            Self::Or => old | value,
            Self::Xor => old ^ value,
            Self::CompareAndSwap => {
                if old == 0 {
                    value
                } else {
                    old
                }
            }
            Self::Inc => {
                if old >= value {
                    0
                } else {
                    old + 1
                }
            }
            Self::Dec => {
                if old == 0 || old > value {
                    value
                } else {
                    old - 1
                }
            }
        };
        new & width.mask()
    }
}

/// Largest value of the counters that wrap.
const COUNTER_LIMIT: u64 = 99;

/// Bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicWidth {
    /// 32 bits: uint or float.
    Bits32,
    /// 64 bits: ulong or double.
    Bits64,
}

impl AtomicWidth {
    /// Both widths.
    pub const ALL: [Self; 2] = [Self::Bits32, Self::Bits64];

    /// Returns the number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    fn random(self, i: u32) -> u64 {
        match self {
            Self::Bits32 => u64::from(hash(i)),
            Self::Bits64 => u64::from(hash(i)) << 32 | u64::from(hash(!i)),
        }
    }

    fn bit(self, i: u32) -> u64 {
        1 << (hash(i) & (self.bits() - 1))
    }
}

/// Returns random bits for an index, as the kernels do.
fn hash(i: u32) -> u32 {
    let hash = i.wrapping_mul(2_654_435_761);
    hash ^ hash >> 15
}

/// Returns the value that the additions of floats add in operation i: a small integer, so that all
/// sums are exact.
fn real_value(i: u32) -> f64 {
    f64::from(1 + (hash(i) & 7))
}

/// Numbers that the operations work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicPattern {
    /// Operation i works on number i modulo their count: neighbouring lanes on neighbouring
    /// numbers.
    InOrder,
    /// On a random number.
    Random,
}

/// A number of operations on a number of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicWorkload {
    /// Operations.
    pub operations: u32,
    /// Numbers: a power of two.
    pub numbers: usize,
    /// Order of the numbers.
    pub pattern: AtomicPattern,
}

impl AtomicWorkload {
    /// Returns the index of the number that operation i works on.
    pub fn index(&self, i: u32) -> usize {
        let index = match self.pattern {
            AtomicPattern::InOrder => i,
            AtomicPattern::Random => hash(i ^ 0x5555_5555),
        };
        index as usize & (self.numbers - 1)
    }
}

/// Reference implementation: returns the numbers after all operations, done one after the other.
pub fn final_values(operation: AtomicOperation, width: AtomicWidth, work: &AtomicWorkload) -> Vec<u64> {
    let mut numbers = vec![operation.initial_value(width); work.numbers];
    for i in 0..work.operations {
        let number = &mut numbers[work.index(i)];
        *number = operation.apply(width, *number, operation.value(width, i));
    }
    numbers
}

/// Reference implementation: returns the sums of all additions of floats, which are exact in f32
/// below 2^24.
pub fn real_sums(work: &AtomicWorkload) -> Vec<f64> {
    let mut sums = vec![0.0; work.numbers];
    for i in 0..work.operations {
        sums[work.index(i)] += real_value(i);
    }
    sums
}

/// Checks exchanges: of each number, the values that operations returned and the final one are the
/// initial 0 and the values of all operations, each once. `old_values` has one value per operation,
/// `numbers` are the final values.
pub fn check_exchanges(work: &AtomicWorkload, old_values: &[u64], numbers: &[u64]) -> Result<(), String> {
    let mut expected: Vec<Vec<u64>> = vec![vec![0]; work.numbers];
    let mut found: Vec<Vec<u64>> = numbers.iter().map(|number| vec![*number]).collect();
    for i in 0..work.operations {
        expected[work.index(i)].push(u64::from(i) + 1);
        found[work.index(i)].push(old_values[i as usize]);
    }
    for (index, (expected, found)) in expected.iter_mut().zip(&mut found).enumerate() {
        expected.sort_unstable();
        found.sort_unstable();
        if expected != found {
            return Err(format!("number {index}: a value was returned twice or got lost"));
        }
    }
    Ok(())
}

/// Checks operations that swap 0 for i + 1: of each number, exactly one operation i got 0, the
/// final value is i + 1, and all other operations got that value.
pub fn check_swaps(work: &AtomicWorkload, old_values: &[u64], numbers: &[u64]) -> Result<(), String> {
    let mut winners = vec![0u64; work.numbers];
    for i in (0..work.operations).filter(|i| old_values[*i as usize] == 0) {
        let winner = &mut winners[work.index(i)];
        if *winner != 0 {
            return Err(format!("number {}: operations {} and {i} got 0", work.index(i), *winner - 1));
        }
        *winner = u64::from(i) + 1;
    }
    for i in (0..work.operations).filter(|i| old_values[*i as usize] != 0) {
        let (index, old) = (work.index(i), old_values[i as usize]);
        if old != winners[index] {
            return Err(format!("operation {i}: got {old}, expected {}", winners[index]));
        }
    }
    match (0..work.numbers).find(|index| numbers[*index] != winners[*index]) {
        None => Ok(()),
        Some(index) => Err(format!("number {index}: got {}, expected {}", numbers[index], winners[index])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the operations in order, as the kernels would in one thread.
    fn run_in_order(operation: AtomicOperation, work: &AtomicWorkload) -> (Vec<u64>, Vec<u64>) {
        let mut numbers = vec![0; work.numbers];
        let old_values = (0..work.operations).map(|i| {
            let number = &mut numbers[work.index(i)];
            let old = *number;
            *number = operation.apply(AtomicWidth::Bits32, old, operation.value(AtomicWidth::Bits32, i));
            old
        });
        let old_values = old_values.collect();
        (old_values, numbers)
    }

    /// The course's slide has `old >= v ? 0 : old - 1` for dec. CUDA wraps from 0 to v.
    #[test]
    fn counters_wrap_as_in_cuda() {
        let step = |operation: AtomicOperation, old, value| operation.apply(AtomicWidth::Bits32, old, value);
        let inc = |old| step(AtomicOperation::Inc, old, 9);
        let dec = |old| step(AtomicOperation::Dec, old, 9);
        assert_eq!([0, 8, 9, 10].map(inc), [1, 9, 0, 0]);
        assert_eq!([0, 1, 9, 10].map(dec), [9, 0, 8, 9]);
        let work = AtomicWorkload { operations: 250, numbers: 1, pattern: AtomicPattern::InOrder };
        assert_eq!(final_values(AtomicOperation::Inc, AtomicWidth::Bits32, &work), [50]);
        assert_eq!(final_values(AtomicOperation::Dec, AtomicWidth::Bits32, &work), [50]);
    }

    #[test]
    fn results_are_those_of_the_width() {
        let apply = |operation: AtomicOperation, width, old, value| operation.apply(width, old, value);
        assert_eq!(apply(AtomicOperation::Sub, AtomicWidth::Bits32, 0, 1), 0xffff_ffff);
        assert_eq!(apply(AtomicOperation::Sub, AtomicWidth::Bits64, 0, 1), u64::MAX);
        assert_eq!(apply(AtomicOperation::Add, AtomicWidth::Bits32, 0xffff_ffff, 2), 1);
        assert!((0..1000).all(|i| AtomicWidth::Bits32.random(i) <= 0xffff_ffff));
        assert!((0..1000).any(|i| AtomicWidth::Bits64.bit(i) > 1 << 32));
    }

    #[test]
    fn patterns_use_all_numbers() {
        for pattern in [AtomicPattern::InOrder, AtomicPattern::Random] {
            let work = AtomicWorkload { operations: 2000, numbers: 64, pattern };
            let mut counts = [0; 64];
            (0..work.operations).for_each(|i| counts[work.index(i)] += 1);
            assert!(counts.iter().all(|count| *count > 0), "{pattern:?}: {counts:?}");
        }
    }

    #[test]
    fn invariants_hold_in_order_and_find_lost_and_doubled_values() {
        for numbers in [1, 8] {
            let work = AtomicWorkload { operations: 100, numbers, pattern: AtomicPattern::Random };
            let (mut old, last) = run_in_order(AtomicOperation::Exchange, &work);
            assert_eq!(check_exchanges(&work, &old, &last), Ok(()));
            old[50] = old[51];
            assert!(check_exchanges(&work, &old, &last).is_err());

            let (mut old, last) = run_in_order(AtomicOperation::CompareAndSwap, &work);
            assert_eq!(check_swaps(&work, &old, &last), Ok(()));
            old[99] = 0;
            assert!(check_swaps(&work, &old, &last).is_err(), "two winners");
            old[99] = 12_345;
            assert!(check_swaps(&work, &old, &last).is_err(), "a value that is not that of the winner");
        }
    }

    #[test]
    fn real_sums_are_whole_numbers() {
        let work = AtomicWorkload { operations: 1000, numbers: 4, pattern: AtomicPattern::InOrder };
        let sums = real_sums(&work);
        assert_eq!(sums.iter().sum::<f64>(), (0..1000).map(real_value).sum::<f64>());
        assert!(sums.iter().all(|sum| sum.fract() == 0.0 && *sum > 250.0));
    }
}
