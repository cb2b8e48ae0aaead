//! Borders of the parts of an evaluation, from measured times.
//!
//! The work per target is taken as constant within each old part: the seconds of the part divided
//! by its width. New borders divide the integral of this density into equal parts. They move half
//! of the way, so that one disturbed measurement has little effect and noise averages out.

/// Mean time of a part, in seconds, below which times are not used. They would be those of starting
/// threads and kernels.
const MIN_SECONDS: f64 = 1e-4;

/// Borders as fractions of the targets.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// From 0 to 1, one more than there are parts. Empty before the first use.
    fractions: Vec<f64>,
}

impl Balance {
    /// Returns a balance with these borders.
    #[cfg(test)]
    pub fn new(fractions: &[f64]) -> Self {
        Self { fractions: fractions.to_vec() }
    }

    /// Returns the borders of `parts` parts, which are equal before the first measurement.
    pub fn fractions(&mut self, parts: usize) -> &[f64] {
        if self.fractions.len() != parts + 1 {
            self.fractions = (0..=parts).map(|border| border as f64 / parts as f64).collect();
        }
        &self.fractions
    }

    /// Moves the borders according to the `seconds` of each part.
    pub fn update(&mut self, seconds: &[f64]) {
        let parts = seconds.len();
        let old = self.fractions(parts).to_vec();
        // A part without targets says nothing about the work per target.
        let work = |part: usize| if old[part + 1] > old[part] { seconds[part] } else { 0.0 };
        let total: f64 = (0..parts).map(work).sum();
        // Also false for NaN.
        let is_measured = total > MIN_SECONDS * parts as f64;
        if !is_measured {
            return;
        }
        let (mut part, mut work_before) = (0, 0.0);
        for border in 1..parts {
            let wanted = total * border as f64 / parts as f64;
            while part + 1 < parts && work_before + work(part) < wanted {
                work_before += work(part);
                part += 1;
            }
            let width = old[part + 1] - old[part];
            let inside = if work(part) > 0.0 { (wanted - work_before) / work(part) } else { 1.0 };
            let balanced = old[part] + width * inside.min(1.0);
            self.fractions[border] = 0.5 * (old[border] + balanced);
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::analysis::max_or_nan;

    use super::*;

    /// Seconds of each part if the work at fraction f is the integral `work_below(f)`.
    fn seconds_of(fractions: &[f64], work_below: impl Fn(f64) -> f64) -> Vec<f64> {
        fractions.windows(2).map(|border| work_below(border[1]) - work_below(border[0])).collect()
    }

    #[test]
    fn borders_converge_to_parts_of_equal_work() {
        // Nearly all work is in a small range of the targets, as for a cluster in a thin halo.
        let step = |f: f64| if f < 0.9 { f } else { 0.9 + 200.0 * (f - 0.9) };
        let power = |f: f64| 10.0 * f.powi(4);
        let works: [&dyn Fn(f64) -> f64; 2] = [&step, &power];
        for (work, parts) in works.into_iter().flat_map(|work| [2, 3, 4, 7].map(|parts| (work, parts))) {
            let mut balance = Balance::default();
            for _ in 0..30 {
                let seconds = seconds_of(balance.fractions(parts), work);
                balance.update(&seconds);
                let fractions = balance.fractions(parts);
                assert!(fractions.is_sorted() && fractions[0] == 0.0 && fractions[parts] == 1.0);
            }
            let seconds = seconds_of(balance.fractions(parts), work);
            let mean = work(1.0) / parts as f64;
            // Half of the remaining error of the density is left after each step.
            let largest = seconds.iter().copied().fold(0.0, max_or_nan);
            assert!(largest < 1.01 * mean, "{parts} parts: {seconds:?}");
        }
    }

    #[test]
    fn borders_move_half_of_the_way() {
        let mut balance = Balance::default();
        balance.update(&[3.0, 1.0]);
        // Equal work is at 2/3 of the first half.
        assert!((balance.fractions(2)[1] - 0.5 * (0.5 + 1.0 / 3.0)).abs() < 1e-15);
    }

    #[test]
    fn short_times_and_nan_do_not_move_borders() {
        let mut balance = Balance::default();
        for seconds in [[0.0, 0.0], [1e-4, 0.0], [f64::NAN, 1.0]] {
            balance.update(&seconds);
            assert_eq!(balance.fractions(2), [0.0, 0.5, 1.0]);
        }
        // Times of parts without targets do not matter.
        balance = Balance::new(&[0.0, 0.0, 1.0]);
        balance.update(&[5.0, 0.0]);
        assert_eq!(balance.fractions(2), [0.0, 0.0, 1.0]);
    }
}
