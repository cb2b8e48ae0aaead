//! When something happens: after so many steps, or at multiples of a time.
//!
//! Multiples are computed as k × interval, never by adding up, so the thousandth is as exact as the first.

use crate::case::Every;

/// Times closer than this share of a step are one time.
pub const SAME_TIME: f64 = 1e-9;

/// A schedule and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trigger {
    every: Every,
    /// Number of the next multiple, for a schedule in time.
    next: u64,
}

impl Trigger {
    /// Fires as `every` says, the start not counted.
    pub fn new(every: Every) -> Self {
        Self { every, next: 1 }
    }

    /// How far it has come, for [`Trigger::taken_up`].
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The schedule at a position.
    pub fn taken_up(every: Every, position: u64) -> Self {
        Self { every, next: position }
    }

    /// The next time at which a schedule in time fires.
    pub fn due_time(&self) -> Option<f64> {
        match self.every {
            Every::Time(interval) => Some(self.next as f64 * interval),
            Every::Never | Every::Steps(_) => None,
        }
    }

    /// Whether it fires now, at the end of `step` and time `time`; `dt` is the step's length.
    pub fn fires(&self, step: u64, time: f64, dt: f64) -> bool {
        match self.every {
            Every::Never => false,
            Every::Steps(steps) => step.is_multiple_of(steps),
            Every::Time(_) => self.due_time().is_some_and(|due| due <= time + SAME_TIME * dt),
        }
    }

    /// Moves on past `time`.
    pub fn advance(&mut self, time: f64, dt: f64) {
        if let Every::Time(interval) = self.every {
            // Near it at once, however far it is; then to the multiple itself.
            let now = time + SAME_TIME * dt;
            self.next = self.next.max(((now / interval) as u64).saturating_sub(1));
            while self.due_time().is_some_and(|due| due <= now) && self.next < u64::MAX {
                self.next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thousandth_is_exact() {
        let mut trigger = Trigger::new(Every::Time(0.1));
        let mut fired = 0;
        for step in 1..=20_000u64 {
            let time = step as f64 * 0.005;
            if trigger.fires(step, time, 0.005) {
                assert_eq!(step % 20, 0);
                fired += 1;
                trigger.advance(time, 0.005);
            }
        }
        assert_eq!(fired, 1000);
    }

    #[test]
    fn steps_count_steps() {
        let trigger = Trigger::new(Every::Steps(3));
        let fired: Vec<u64> = (1..10).filter(|&step| trigger.fires(step, 0.0, 1.0)).collect();
        assert_eq!(fired, [3, 6, 9]);
        assert!(!Trigger::new(Every::Never).fires(1, 1.0, 1.0));
    }
}
