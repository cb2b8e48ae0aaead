//! Verdicts on steps, on their way from the device.
//!
//! After each step a kernel looks for numbers that are not finite; its flag follows into page-locked memory, and the host
//! reads the flag of the step before the last: the device's queue never runs dry, and the host never runs far ahead.

use std::collections::VecDeque;

use orrery_device::{Buffer, Device, DeviceError, Event, Pinned};

use super::Stamp;

/// Verdicts that may be on their way at once.
const LAG: usize = 2;

/// A flag that comes, and the step that it judges.
#[derive(Debug)]
struct Verdict {
    at: Option<Stamp>,
    flag: Pinned<u32>,
    arrived: Event,
}

/// The verdicts that are on their way, the oldest first.
#[derive(Debug, Default)]
pub struct Watch {
    pending: VecDeque<Verdict>,
    /// Flags to use again.
    spare: Vec<Pinned<u32>>,
    /// The first step that was found wrong, if one was.
    wrong: Option<Wrong>,
}

/// A step that left a wrong number, by its stamp where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrong(pub Option<Stamp>);

impl Watch {
    /// Sends for the flag that the kernels queued so far leave in `halt`.
    pub fn send(
        &mut self,
        device: &Device,
        halt: &Buffer<u32>,
        at: Option<Stamp>,
    ) -> Result<(), DeviceError> {
        let mut flag = match self.spare.pop() {
            Some(flag) => flag,
            None => device.pinned(1)?,
        };
        let arrived = device.queue().read_later(halt, &mut flag)?;
        self.pending.push_back(Verdict { at, flag, arrived });
        Ok(())
    }

    /// Hears the verdicts that are due; what was wrong first stays.
    pub fn hear(&mut self) -> Result<Option<Wrong>, DeviceError> {
        self.hear_down_to(LAG)
    }

    /// Hears all verdicts.
    pub fn hear_all(&mut self) -> Result<Option<Wrong>, DeviceError> {
        self.hear_down_to(0)
    }

    fn hear_down_to(&mut self, left: usize) -> Result<Option<Wrong>, DeviceError> {
        while self.pending.len() > left {
            let Some(Verdict { at, flag, arrived }) = self.pending.pop_front() else { break };
            arrived.wait()?;
            if flag[0] != 0 {
                self.wrong.get_or_insert(Wrong(at));
            }
            self.spare.push(flag);
        }
        Ok(self.wrong)
    }
}
