//! Votes and matches of the lanes of a warp.
//!
//! Cost: one instruction for all lanes. A device without warps exchanges numbers through shared
//! memory.

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, join_sources, kernel_source,
};

use crate::kernel_enum::kernel_enum;

// SAFETY: the kernel writes one sum per thread, and `Votes` allocates as many.
const VOTES: KernelFile =
    unsafe { KernelFile::new("votes.cu", join_sources!(Vote::DEFINES, kernel_source!("votes.cu"))) };

/// Lanes of a warp.
const LANES: u32 = 32;
/// Threads per block.
const BLOCK_SIZE: u32 = 128;

kernel_enum! {
    /// Vote or match of a warp.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Vote {
        /// Whether a condition is true in any lane.
        Any = 0 => "VOTE_ANY",
        /// Whether it is true in all lanes.
        All = 1 => "VOTE_ALL",
        /// Mask of the lanes in which it is true.
        Ballot = 2 => "VOTE_BALLOT",
        /// Mask of the lanes with the same number as this one.
        MatchAny = 3 => "VOTE_MATCH_ANY",
        /// Mask of all lanes if their numbers are equal, else 0.
        MatchAll = 4 => "VOTE_MATCH_ALL",
    }
}

impl Vote {
    /// All votes and matches.
    pub const ALL: [Self; 5] = [Self::Any, Self::All, Self::Ballot, Self::MatchAny, Self::MatchAll];

    /// Returns the name of the function in CUDA.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "__any_sync",
            Self::All => "__all_sync",
            Self::Ballot => "__ballot_sync",
            Self::MatchAny => "__match_any_sync",
            Self::MatchAll => "__match_all_sync",
        }
    }

    /// Reference implementation: returns the result of a thread in a round.
    fn result(self, thread: u32, round: u32) -> u32 {
        let warp = thread / LANES;
        let numbers = (0..LANES).map(|lane| number(warp * LANES + lane, round));
        let mask_of = |is_set: &dyn Fn(u32) -> bool| {
            numbers
                .clone()
                .enumerate()
                .fold(0, |mask, (lane, number)| mask | u32::from(is_set(number)) << lane)
        };
        match self {
            Self::Any => u32::from(mask_of(&|number| number & 31 == 0) != 0),
            Self::All => u32::from(mask_of(&|number| number & 31 != 0) == u32::MAX),
            Self::Ballot => mask_of(&|number| number & 1 != 0),
            Self::MatchAny => mask_of(&|other| other & 7 == number(thread, round) & 7),
            Self::MatchAll => {
                let has_equal_numbers = number(warp, round) & 1 != 0;
                let first = number(warp * LANES, round) & 7;
                if has_equal_numbers || mask_of(&|other| other & 7 == first) == u32::MAX {
                    u32::MAX
                } else {
                    0
                }
            }
        }
    }
}

/// Returns the random number of a thread in a round.
fn number(thread: u32, round: u32) -> u32 {
    let hash = thread.wrapping_add(round.wrapping_mul(2_246_822_519)).wrapping_mul(2_654_435_761);
    hash ^ hash >> 15
}

/// Votes on a device.
#[derive(Debug)]
pub struct Votes {
    kernel: Kernel,
    sums: Buffer<u32>,
}

impl Votes {
    /// Compiles the kernel for `blocks` blocks.
    pub fn new(device: &Device, blocks: u32) -> Result<Self, DeviceError> {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let kernel = device.build(&VOTES, &definitions, Math::Precise)?.kernel("vote")?;
        Ok(Self { kernel, sums: device.zeros((blocks * BLOCK_SIZE) as usize)? })
    }

    /// Returns the number of blocks that run at once.
    pub fn resident_blocks(&self) -> u32 {
        self.kernel.resident_blocks(BLOCK_SIZE)
    }

    /// Queues `rounds` votes of each warp. Does not wait.
    pub fn launch(&self, queue: &Queue, vote: Vote, rounds: i32) -> Result<(), DeviceError> {
        let blocks = self.sums.len() as u32 / BLOCK_SIZE;
        queue.launch(
            &self.kernel,
            blocks,
            BLOCK_SIZE,
            &[(&self.sums).into(), rounds.into(), (vote as i32).into()],
        )
    }

    /// Returns the number of warps of all blocks.
    pub fn warp_count(&self) -> usize {
        self.sums.len() / LANES as usize
    }

    /// Returns the sums of all threads after the last launch.
    pub fn sums(&self) -> Result<Vec<u32>, DeviceError> {
        self.sums.to_vec()
    }

    /// Reference implementation: returns the sums after `rounds` rounds.
    pub fn expected_sums(&self, vote: Vote, rounds: u32) -> Vec<u32> {
        let sum = |thread| (0..rounds).fold(0u32, |sum, round| sum.wrapping_add(vote.result(thread, round)));
        (0..self.sums.len() as u32).map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Votes that always have the same result would test nothing.
    #[test]
    fn votes_have_different_results() {
        for vote in Vote::ALL {
            let first = vote.result(0, 0);
            assert!((0..200).any(|round| vote.result(0, round) != first), "{vote:?}");
        }
    }

    #[test]
    fn lanes_of_a_warp_agree() {
        for round in 0..50 {
            let ballot = Vote::Ballot.result(64, round);
            assert!((0..LANES).all(|lane| ballot >> lane & 1 == number(64 + lane, round) & 1));
            for lane in 0..LANES {
                let mask = Vote::MatchAny.result(64 + lane, round);
                assert_eq!(mask >> lane & 1, 1, "a lane matches itself");
                let other = mask.trailing_zeros();
                assert_eq!(Vote::MatchAny.result(64 + other, round), mask);
            }
            let equal = Vote::MatchAll.result(64, round);
            assert!((1..LANES).all(|lane| Vote::MatchAll.result(64 + lane, round) == equal));
        }
    }
}
