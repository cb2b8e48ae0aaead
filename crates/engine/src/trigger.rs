//! Triggers: when an output or a checkpoint is due, every n steps or at multiples of a simulated
//! time.
//!
//! The k-th due time is computed as k × interval, not by adding up. The thousandth due time is
//! therefore as exact as the first.

use crate::case::Every;

/// Two times that differ by less than this fraction of a step count as equal.
const TIME_TOLERANCE: f64 = 1e-9;

/// Returns the largest difference at which a due time and the end of a step count as the same time.
/// `dt` is the length of the step that ends at about `time`.
///
/// The end of a step is `step × dt` and a due time is `k × interval`. Even if the two are equal on
/// paper, such as 20 × 0.005 and 1 × 0.1, each product and each factor is rounded. The products
/// then differ by up to `2 EPSILON × time`. From about 4 million steps on, this is more than
/// `TIME_TOLERANCE × dt`. The tolerance stays below half a step, so a due time always belongs to
/// one step only.
pub fn time_tolerance(time: f64, dt: f64) -> f64 {
    let rounding = 4.0 * f64::EPSILON * time.abs();
    (TIME_TOLERANCE * dt).max(rounding.min(0.25 * dt))
}

/// A schedule and its next due time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trigger {
    every: Every,
    /// Number of the next multiple, for a schedule in simulated time.
    next: u64,
}

impl Trigger {
    /// Creates a trigger that fires as `every` says. The start of the run does not count. As in a
    /// case, an interval of 0 is [`Every::Never`].
    pub fn new(every: Every) -> Self {
        let every = match every {
            Every::Steps(0) => Every::Never,
            Every::Time(interval) if interval.is_nan() || interval <= 0.0 => Every::Never,
            every => every,
        };
        Self { every, next: 1 }
    }

    /// Returns the number of the next multiple, for [`Trigger::at_position`].
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Creates a trigger whose next multiple has the number `position`.
    pub fn at_position(every: Every, position: u64) -> Self {
        Self { every, next: position }
    }

    /// Returns the interval in simulated time. `None` unless the schedule is in simulated time.
    pub fn interval(&self) -> Option<f64> {
        match self.every {
            Every::Time(interval) => Some(interval),
            Every::Never | Every::Steps(_) => None,
        }
    }

    /// Returns the next due time. `None` unless the schedule is in simulated time.
    pub fn due_time(&self) -> Option<f64> {
        match self.every {
            Every::Time(interval) => Some(self.next as f64 * interval),
            Every::Never | Every::Steps(_) => None,
        }
    }

    /// Returns the number of steps after step `step` at which the trigger fires. `None` unless the
    /// schedule is in steps.
    pub fn steps_until_due(&self, step: u64) -> Option<u64> {
        match self.every {
            Every::Steps(steps) => Some(steps - step % steps),
            Every::Never | Every::Time(_) => None,
        }
    }

    /// Returns true if the trigger fires at the end of step `step`, at time `time`. `dt` is the
    /// length of that step.
    pub fn is_due(&self, step: u64, time: f64, dt: f64) -> bool {
        match self.every {
            Every::Never => false,
            Every::Steps(steps) => step.is_multiple_of(steps),
            Every::Time(_) => self.due_time().is_some_and(|due| due <= time + time_tolerance(time, dt)),
        }
    }

    /// Moves the next due time past `time`.
    pub fn advance_past(&mut self, time: f64, dt: f64) {
        if let Every::Time(interval) = self.every {
            // The division jumps close to `time` however far away it is. The loop finds the exact
            // multiple.
            let now = time + time_tolerance(time, dt);
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

    /// Runs a trigger in simulated time over `steps` and returns the steps at which it fires.
    fn due_steps(interval: f64, dt: f64, steps: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        let mut trigger = Trigger::new(Every::Time(interval));
        trigger.advance_past((steps.start() - 1) as f64 * dt, dt);
        let mut due = Vec::new();
        for step in steps {
            let time = step as f64 * dt;
            if trigger.is_due(step, time, dt) {
                due.push(step);
                trigger.advance_past(time, dt);
            }
        }
        due
    }

    fn multiples_in(period: u64, mut steps: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        steps.by_ref().filter(|step| step.is_multiple_of(period)).collect()
    }

    #[test]
    fn due_times_do_not_drift() {
        assert_eq!(due_steps(0.1, 0.005, 1..=20_000), multiples_in(20, 1..=20_000));
    }

    #[test]
    fn step_triggers_fire_at_multiples_of_the_count() {
        let trigger = Trigger::new(Every::Steps(3));
        let due: Vec<u64> = (1..10).filter(|&step| trigger.is_due(step, 0.0, 1.0)).collect();
        assert_eq!(due, [3, 6, 9]);
        assert_eq!([0, 1, 2, 3].map(|step| trigger.steps_until_due(step)), [3, 2, 1, 3].map(Some));
        assert!(!Trigger::new(Every::Never).is_due(1, 1.0, 1.0));
    }

    #[test]
    fn an_interval_of_zero_never_fires() {
        for every in [Every::Steps(0), Every::Time(0.0), Every::Time(-1.0), Every::Time(f64::NAN)] {
            assert_eq!(Trigger::new(every), Trigger::new(Every::Never));
        }
    }

    #[test]
    fn step_triggers_are_exact_above_32_bits() {
        for period in [1, 3, 1000, (1 << 32) + 1] {
            let trigger = Trigger::new(Every::Steps(period));
            for start in [1u64 << 32, (1 << 33) + 1, (1 << 53) - 3000] {
                for step in start..start + 3000 {
                    assert_eq!(trigger.is_due(step, 0.0, 1.0), step % period == 0, "{step} every {period}");
                }
            }
        }
        let trigger = Trigger::new(Every::Steps((1 << 32) + 1));
        assert!(trigger.is_due((1 << 32) + 1, 0.0, 1.0) && trigger.is_due((1 << 33) + 2, 0.0, 1.0));
        assert!(!trigger.is_due(1, 0.0, 1.0), "only the low 32 bits are equal");
    }

    /// Step lengths and intervals that f64 cannot represent: all products are rounded.
    #[test]
    fn time_triggers_fire_at_the_end_of_the_right_step_above_32_bits() {
        for (interval, dt, period) in [(0.1, 0.005, 20), (0.3, 0.1, 3), (0.7, 0.01, 70), (1e-3, 1e-4, 10)] {
            for start in [4_000_000u64, (1 << 32) + 1, (1 << 40) + 1] {
                let steps = start..=start + 4000;
                assert_eq!(
                    due_steps(interval, dt, steps.clone()),
                    multiples_in(period, steps),
                    "every {interval} with steps of {dt} from step {start}"
                );
            }
        }
    }

    /// Near 2^53 steps only powers of two are exact, and one step is one unit in the last place.
    #[test]
    fn time_triggers_are_exact_up_to_the_largest_step_count() {
        for dt in [1.0, 0.25] {
            let steps = (1 << 53) - 4000..=(1 << 53) - 1;
            assert_eq!(due_steps(64.0 * dt, dt, steps.clone()), multiples_in(64, steps), "{dt}");
        }
        let tolerance = time_tolerance((1u64 << 53) as f64, 1.0);
        assert!(tolerance < 0.5, "{tolerance}");
    }

    #[test]
    fn short_runs_have_the_fixed_tolerance() {
        for step in [1u64, 1000, 1_000_000] {
            assert_eq!(time_tolerance(step as f64 * 0.005, 0.005), TIME_TOLERANCE * 0.005);
        }
        assert_eq!(time_tolerance(1.0, 0.0), 0.0);
    }
}
