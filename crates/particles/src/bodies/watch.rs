//! Verdicts on steps, on their way from the device.
//!
//! After each step a kernel looks for numbers that are not finite and leaves the number of its check in a flag. The flag
//! follows into page-locked memory, with every check where a step takes long and with every few where steps are short;
//! the host reads the flag before the last one sent: the device's queue never runs dry, and the host never runs far ahead.

use std::collections::VecDeque;

use orrery_device::{Buffer, Device, DeviceError, Event, Pinned};

use super::Stamp;

/// Verdicts that may be on their way at once.
const LAG: usize = 2;

/// A flag that comes, and the last check that it speaks of.
#[derive(Debug)]
struct Verdict {
    check: u32,
    flag: Pinned<u32>,
    arrived: Event,
}

/// The verdicts that are on their way, the oldest first.
#[derive(Debug, Default)]
pub struct Watch {
    /// Checks so far. Their numbers begin with 1: 0 in the flag is no complaint.
    checks: u32,
    /// What the checks without a verdict judge, the oldest first.
    judged: VecDeque<(u32, Option<Stamp>)>,
    pending: VecDeque<Verdict>,
    /// Flags to use again.
    spare: Vec<Pinned<u32>>,
    /// The first step that was found wrong, if one was.
    wrong: Option<Wrong>,
}

/// A step that left a wrong number, by its stamp where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrong(pub Option<Stamp>);

/// Checks to a flag: a copy to the host costs as much as a kernel, so that it counts where a step takes a millisecond or
/// less. All pairs of 65,536 bodies take longer than that.
pub fn checks_per_copy(n: usize) -> u32 {
    ((1u64 << 32) / (n as u64).saturating_mul(n as u64).max(1)).clamp(1, 16) as u32
}

impl Watch {
    /// The number of the next check.
    pub fn number(&mut self, at: Option<Stamp>) -> u32 {
        self.checks = self.checks.wrapping_add(1).max(1);
        self.judged.push_back((self.checks, at));
        self.checks
    }

    /// Sends for the flag that the checks queued so far leave in `halt`, if it is time to.
    pub fn send(
        &mut self,
        device: &Device,
        halt: &Buffer<u32>,
        checks_per_copy: u32,
    ) -> Result<(), DeviceError> {
        if !self.checks.is_multiple_of(checks_per_copy) {
            return Ok(());
        }
        let mut flag = match self.spare.pop() {
            Some(flag) => flag,
            None => device.pinned(1)?,
        };
        let arrived = device.queue().read_async(halt, &mut flag)?;
        self.pending.push_back(Verdict { check: self.checks, flag, arrived });
        Ok(())
    }

    /// Hears the verdicts that are due; what was wrong first stays.
    pub fn hear(&mut self) -> Result<Option<Wrong>, DeviceError> {
        self.hear_down_to(LAG)
    }

    /// Hears all verdicts.
    pub fn hear_all(&mut self, device: &Device, halt: &Buffer<u32>) -> Result<Option<Wrong>, DeviceError> {
        let heard = self.pending.back().map(|verdict| verdict.check);
        let last = self.judged.back().map(|(check, _)| *check);
        if last.is_some() && heard != last {
            self.send(device, halt, 1)?;
        }
        self.hear_down_to(0)
    }

    fn hear_down_to(&mut self, left: usize) -> Result<Option<Wrong>, DeviceError> {
        while self.pending.len() > left {
            let Some(Verdict { check, flag, arrived }) = self.pending.pop_front() else { break };
            arrived.wait()?;
            let complaint = flag[0];
            while let Some((judged, at)) = self.judged.pop_front() {
                if judged == complaint {
                    self.wrong.get_or_insert(Wrong(at));
                }
                if judged == check {
                    break;
                }
            }
            self.spare.push(flag);
        }
        Ok(self.wrong)
    }
}
