//! Asynchronous NaN check for steps on a device.
//!
//! After each step a kernel of the physics scans the state. On the first non-finite value it stores
//! the number of that check in a device flag. The flag is copied to page-locked memory after every
//! `checks_per_copy` checks, and the host reads each copy two copies later. The device's queue
//! therefore never runs empty, and the host is never far ahead of the device.

use std::collections::VecDeque;

use crate::buffer::Buffer;
use crate::error::DeviceError;
use crate::event::Event;
use crate::pinned::Pinned;
use crate::queue::Queue;

/// Copies of the flag that may be in flight.
const MAX_IN_FLIGHT: usize = 2;

/// A copy of the flag on its way to the host.
#[derive(Debug)]
struct FlagCopy {
    /// Number of the last check that the copy includes.
    last_check: u32,
    flag: Pinned<u32>,
    done: Event,
}

/// Checks that were queued on a device, and their results as far as they are known. `S` identifies
/// a step, for example its number and time.
#[derive(Debug)]
pub struct NanWatch<S> {
    /// Number of the latest check. Numbers start at 1, because 0 in the flag means "all finite".
    last_check: u32,
    /// Checks whose result is not known yet, oldest first, with the step that each belongs to.
    unresolved: VecDeque<(u32, Option<S>)>,
    /// Copies of the flag, oldest first.
    in_flight: VecDeque<FlagCopy>,
    /// Page-locked memory to use again.
    free_flags: Vec<Pinned<u32>>,
    first_failure: Option<FailedCheck<S>>,
}

/// A check that found a non-finite value, with the step that it belongs to, if any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailedCheck<S>(pub Option<S>);

// Not derived: that would require `S: Default`.
impl<S> Default for NanWatch<S> {
    fn default() -> Self {
        Self {
            last_check: 0,
            unresolved: VecDeque::new(),
            in_flight: VecDeque::new(),
            free_flags: Vec::new(),
            first_failure: None,
        }
    }
}

impl<S: Copy> NanWatch<S> {
    /// Registers the next check and returns its number.
    pub fn register(&mut self, step: Option<S>) -> u32 {
        self.last_check = self.last_check.wrapping_add(1).max(1);
        self.unresolved.push_back((self.last_check, step));
        self.last_check
    }

    /// Queues a copy of the flag `failed_check` if one is due after the checks queued so far: after
    /// every `checks_per_copy` checks.
    pub fn copy_flag_if_due(
        &mut self,
        queue: &Queue,
        failed_check: &Buffer<u32>,
        checks_per_copy: u32,
    ) -> Result<(), DeviceError> {
        if !self.last_check.is_multiple_of(checks_per_copy) {
            return Ok(());
        }
        let mut flag = match self.free_flags.pop() {
            Some(flag) => flag,
            None => queue.device().pinned(1)?,
        };
        let done = queue.read_async(failed_check, &mut flag)?;
        self.in_flight.push_back(FlagCopy { last_check: self.last_check, flag, done });
        Ok(())
    }

    /// Processes all copies except the two newest. Returns the first failure found so far.
    pub fn poll(&mut self) -> Result<Option<FailedCheck<S>>, DeviceError> {
        self.process_copies(MAX_IN_FLIGHT)
    }

    /// Waits for the results of all checks. Returns the first failure found so far.
    pub fn drain(
        &mut self,
        queue: &Queue,
        failed_check: &Buffer<u32>,
    ) -> Result<Option<FailedCheck<S>>, DeviceError> {
        let last_copied = self.in_flight.back().map(|copy| copy.last_check);
        let last_registered = self.unresolved.back().map(|(check, _)| *check);
        if last_registered.is_some() && last_copied != last_registered {
            self.copy_flag_if_due(queue, failed_check, 1)?;
        }
        self.process_copies(0)
    }

    /// Waits for the oldest copies, until at most `remaining` are in flight.
    fn process_copies(&mut self, remaining: usize) -> Result<Option<FailedCheck<S>>, DeviceError> {
        while self.in_flight.len() > remaining {
            let Some(FlagCopy { last_check, flag, done }) = self.in_flight.pop_front() else { break };
            done.wait()?;
            let failed_check = flag[0];
            while let Some((check, step)) = self.unresolved.pop_front() {
                if check == failed_check {
                    self.first_failure.get_or_insert(FailedCheck(step));
                }
                if check == last_check {
                    break;
                }
            }
            self.free_flags.push(flag);
        }
        Ok(self.first_failure)
    }
}
