//! Patterns of paths and lengths: the branches of the course, branches on data, and loops.

use orrery_device::testing::random_bits;
use rayon::prelude::*;

use super::{BLOCK_SIZE, LANES};

/// Paths and numbers of steps of all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadWork {
    /// Path of each thread, below 32.
    pub paths: Vec<u32>,
    /// Steps of each thread, as many elements as `paths`.
    pub lengths: Vec<u32>,
}

/// Pattern of the threads' paths or of their numbers of steps. `tid` is the index of the thread in
/// its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DivergencePattern {
    /// All threads take the same path.
    Uniform,
    /// `if (tid % 2)`
    Parity,
    /// `if (tid > limit)`. The course has 2 and, as `>= 13` and `>= 32`, 12 and 31.
    Above(u32),
    /// `if (tid / 32 > limit)`. The course has 2.
    WarpAbove(u32),
    /// A random bit decides.
    RandomData,
    /// The same bits, sorted: the threads with 0 come first.
    SortedData,
    /// Path lane mod k.
    PathsByLane(u32),
    /// Path warp mod k.
    PathsByWarp(u32),
    /// One path with a random number of steps, from 1 to twice the mean minus 1.
    RandomLengths,
    /// The same numbers, sorted.
    SortedLengths,
    /// One lane of each warp has as many steps as the other 31 together.
    OneLongLane,
}

impl DivergencePattern {
    /// Returns the work of `n` threads with `mean_steps` steps, at least 1. Patterns of lengths
    /// have this mean, [`Self::OneLongLane`] only nearly.
    pub fn work(self, n: usize, mean_steps: u32) -> ThreadWork {
        let threads = (0..n).into_par_iter();
        let mut paths: Vec<u32> = threads.clone().map(|thread| self.path(thread)).collect();
        let mut lengths: Vec<u32> = threads.map(|thread| self.length(thread, mean_steps)).collect();
        if self == Self::SortedData {
            paths.par_sort_unstable();
        }
        if self == Self::SortedLengths {
            lengths.par_sort_unstable();
        }
        ThreadWork { paths, lengths }
    }

    fn path(self, thread: usize) -> u32 {
        let (tid, lane) = ((thread % BLOCK_SIZE) as u32, (thread % LANES) as u32);
        let warp_of_block = tid / LANES as u32;
        match self {
            Self::Uniform | Self::RandomLengths | Self::SortedLengths | Self::OneLongLane => 0,
            Self::Parity => tid % 2,
            Self::Above(limit) => u32::from(tid > limit),
            Self::WarpAbove(limit) => u32::from(warp_of_block > limit),
            Self::RandomData | Self::SortedData => random_bits(thread as u64) as u32 & 1,
            Self::PathsByLane(paths) => lane % paths,
            Self::PathsByWarp(paths) => (thread / LANES) as u32 % paths,
        }
    }

    fn length(self, thread: usize, mean_steps: u32) -> u32 {
        match self {
            Self::RandomLengths | Self::SortedLengths => {
                1 + (random_bits(thread as u64) % u64::from(2 * mean_steps - 1)) as u32
            }
            // (31 + 31) / 32 is nearly 2.
            Self::OneLongLane => {
                let short = mean_steps.div_ceil(2);
                if thread.is_multiple_of(LANES) { short * (LANES as u32 - 1) } else { short }
            }
            _ => mean_steps,
        }
    }
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct DivergenceRung {
    /// Name: the condition of the branch, or the lengths of the loops.
    pub name: &'static str,
    /// Pattern.
    pub pattern: DivergencePattern,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs in the order of the table. The first one does not diverge.
pub fn rungs() -> Vec<DivergenceRung> {
    let rung = |name, pattern, note| DivergenceRung { name, pattern, note };
    vec![
        rung("one path", DivergencePattern::Uniform, ""),
        rung("tid % 2", DivergencePattern::Parity, "every warp diverges"),
        rung("tid > 2", DivergencePattern::Above(2), "only the first warp of a block diverges"),
        rung("tid >= 13", DivergencePattern::Above(12), "only the first warp of a block diverges"),
        rung("tid / 32 > 2", DivergencePattern::WarpAbove(2), "no warp diverges"),
        rung("tid >= 32", DivergencePattern::Above(31), "no warp diverges"),
        rung("random data", DivergencePattern::RandomData, "all but 1 warp in 2^31 diverge"),
        rung("sorted data", DivergencePattern::SortedData, "at most one warp diverges"),
        rung("4 paths by lane", DivergencePattern::PathsByLane(4), ""),
        rung("32 paths by lane", DivergencePattern::PathsByLane(32), "each lane is alone"),
        rung("32 paths by warp", DivergencePattern::PathsByWarp(32), "no warp diverges"),
        rung("loops of random length", DivergencePattern::RandomLengths, "a warp waits for its longest lane"),
        rung(
            "loops of sorted length",
            DivergencePattern::SortedLengths,
            "lanes of a warp have nearly equal lengths",
        ),
        rung(
            "one long lane per warp",
            DivergencePattern::OneLongLane,
            "half of the steps are done by one lane",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::StepCounts;
    use super::*;

    fn share(pattern: DivergencePattern) -> f64 {
        StepCounts::by_model(&pattern.work(1 << 14, 64)).active_share()
    }

    /// With 8 warps per block, of which the first executes both sides: 8 of 9.
    #[test]
    fn branches_of_the_course_diverge_within_a_warp_only() {
        assert_eq!(share(DivergencePattern::Uniform), 1.0);
        assert_eq!(share(DivergencePattern::Parity), 0.5);
        assert_eq!(share(DivergencePattern::Above(2)), 8.0 / 9.0);
        assert_eq!(share(DivergencePattern::Above(12)), 8.0 / 9.0);
        assert_eq!(share(DivergencePattern::Above(31)), 1.0);
        assert_eq!(share(DivergencePattern::WarpAbove(2)), 1.0);
    }

    #[test]
    fn sorting_removes_divergence_and_keeps_the_work() {
        for (random, sorted, least) in [
            (DivergencePattern::RandomData, DivergencePattern::SortedData, 0.99),
            (DivergencePattern::RandomLengths, DivergencePattern::SortedLengths, 0.95),
        ] {
            let [mut before, mut after] = [random, sorted].map(|pattern| pattern.work(1 << 14, 64));
            assert!(share(random) < 0.6 && share(sorted) > least, "{} {}", share(random), share(sorted));
            for work in [&mut before, &mut after] {
                work.paths.sort_unstable();
                work.lengths.sort_unstable();
            }
            assert_eq!(before, after);
        }
    }

    #[test]
    fn paths_of_a_warp_follow_the_lane_or_the_warp() {
        for paths in [1, 2, 8, 32] {
            assert_eq!(share(DivergencePattern::PathsByLane(paths)), 1.0 / f64::from(paths));
            assert_eq!(share(DivergencePattern::PathsByWarp(paths)), 1.0);
        }
    }

    #[test]
    fn lengths_have_their_mean() {
        let work = DivergencePattern::RandomLengths.work(1 << 14, 64);
        let mean = work.lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / f64::from(1 << 14);
        // Five standard errors of a uniform distribution over 127 numbers: 5 x 36.7 / 128.
        assert!((mean - 64.0).abs() < 1.5, "{mean}");
        assert!(work.lengths.iter().all(|length| (1..=127).contains(length)));
        // 62 of 992: 31 lanes with one step each, one lane with 31, in 31 steps of the warp.
        assert_eq!(share(DivergencePattern::OneLongLane), 62.0 / (32.0 * 31.0));
        assert_eq!(DivergencePattern::OneLongLane.work(64, 1).lengths[..2], [31, 1]);
    }
}
