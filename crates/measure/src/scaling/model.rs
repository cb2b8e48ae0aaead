//! Time of a step on P ranks.
//!
//! | part | seconds |
//! |---|---|
//! | computation | c(w / P) + r(n), where c is that of the work w which ranks divide, and r that of
//! the work which every rank repeats |
//! | one message | latency + bytes / bandwidth |
//! | borders of slabs | one message for all neighbours, of which there are min(P - 1, 2) |
//! | all-gather of results | P - 1 messages of n / P results, and log2 P short ones |
//! | ghosts of particles | one message for both sides, and log2 P short ones |
//! | step | computation + communication, or the larger of the two if they overlap |
//!
//! c and r are straight lines through the times of one rank. The work w is n, except for the walk
//! of a tree, where it is n log2 n.

use orrery_model::analysis::max_or_nan;
use serde::Serialize;

/// A straight line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StraightLine {
    /// Value at 0.
    pub fixed: f64,
    /// Slope.
    pub per_unit: f64,
}

impl StraightLine {
    /// Fits the line with the smallest sum of squared relative deviations. Both numbers are at
    /// least 0. Points are (x, y) with positive y. One point gives a line through the origin.
    pub fn fit(points: &[(f64, f64)]) -> Self {
        Self::fit_relative_to(&points.iter().map(|&(x, y)| (x, y, y)).collect::<Vec<_>>())
    }

    /// Fits the line with the smallest sum of ((y - line) / s)^2 to points (x, y, s). Otherwise
    /// like [`StraightLine::fit`], but y may be negative.
    pub fn fit_relative_to(points: &[(f64, f64, f64)]) -> Self {
        let sum = |term: fn(f64, f64) -> f64| {
            points.iter().map(|&(x, y, scale)| term(x, y) / (scale * scale)).sum::<f64>()
        };
        // Normal equations of a/s + b x/s = y/s.
        let aa = sum(|_, _| 1.0);
        let ab = sum(|x, _| x);
        let bb = sum(|x, _| x * x);
        let (a1, b1) = (sum(|_, y| y), sum(|x, y| x * y));
        let determinant = aa * bb - ab * ab;
        let fixed = (a1 * bb - b1 * ab) / determinant;
        let per_unit = (aa * b1 - ab * a1) / determinant;
        let is_singular = points.len() < 2 || determinant <= 1e-12 * aa * bb;
        match (fixed >= 0.0, per_unit >= 0.0) {
            (true, true) if !is_singular => Self { fixed, per_unit },
            (_, false) if !is_singular => Self { fixed: (a1 / aa).max(0.0), per_unit: 0.0 },
            _ => Self { fixed: 0.0, per_unit: if bb > 0.0 { (b1 / bb).max(0.0) } else { 0.0 } },
        }
    }

    /// Returns the value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.fixed + self.per_unit * x
    }

    /// Returns the largest relative deviation from the points. NaN of a point is returned.
    pub fn largest_deviation(&self, points: &[(f64, f64)]) -> f64 {
        let deviations = points.iter().map(|&(x, y)| (self.at(x) / y - 1.0).abs());
        deviations.fold(0.0, max_or_nan)
    }
}

/// A connection between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MessageLink {
    /// Seconds of an empty message.
    pub latency_secs: f64,
    /// Bytes per second of a long message.
    pub bytes_per_s: f64,
}

impl MessageLink {
    /// Returns the link with these times of messages: (bytes, seconds).
    pub fn fit(points: &[(f64, f64)]) -> Self {
        let StraightLine { fixed, per_unit } = StraightLine::fit(points);
        Self { latency_secs: fixed, bytes_per_s: 1.0 / per_unit }
    }

    /// Returns the seconds of a message.
    pub fn secs(&self, bytes: f64) -> f64 {
        self.latency_secs + bytes / self.bytes_per_s
    }

    /// Returns the largest relative deviation from measured times.
    pub fn largest_deviation(&self, points: &[(f64, f64)]) -> f64 {
        StraightLine { fixed: self.latency_secs, per_unit: 1.0 / self.bytes_per_s }.largest_deviation(points)
    }
}

/// Messages of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// Borders of slabs to the neighbours. Their size does not depend on the thickness of a slab.
    Borders {
        /// Bytes of the border to one neighbour.
        bytes: f64,
        /// Steps from one exchange to the next.
        steps: f64,
        /// Fewest slices of a slab.
        min_slices: f64,
    },
    /// Results of each rank to all ranks.
    AllGather {
        /// Bytes per body.
        bytes: f64,
    },
    /// Positions of the particles near the two sides of a slab of a cube.
    Ghosts {
        /// Bytes per particle.
        bytes: f64,
        /// Particles per volume.
        density: f64,
        /// Distance from the side within which particles are sent.
        radius: f64,
    },
}

impl Messages {
    /// Returns the number of neighbours of a rank that has most of them.
    pub fn neighbours(ranks: usize) -> f64 {
        ranks.saturating_sub(1).min(2) as f64
    }

    /// Returns the bytes that a rank sends per exchange. `amount` is the number of slices or of
    /// particles of all ranks.
    pub fn sent_bytes(&self, amount: f64, ranks: usize) -> f64 {
        match *self {
            _ if ranks < 2 => 0.0,
            Self::Borders { bytes, .. } => Self::neighbours(ranks) * bytes,
            Self::AllGather { bytes } => bytes * amount * (ranks - 1) as f64 / ranks as f64,
            Self::Ghosts { bytes, density, radius } => {
                2.0 * bytes * density * radius * (amount / density).powf(2.0 / 3.0)
            }
        }
    }

    /// Returns the seconds of communication per step. `staging` is the connection between a device
    /// and the memory of its host, if messages pass through that memory.
    pub fn secs(&self, amount: f64, ranks: usize, link: &MessageLink, staging: Option<&MessageLink>) -> f64 {
        if ranks < 2 {
            return 0.0;
        }
        let short = (ranks as f64).log2().ceil() * link.latency_secs;
        let sent = self.sent_bytes(amount, ranks);
        let staged = |bytes: f64| staging.map_or(0.0, |staging| staging.secs(bytes));
        match *self {
            Self::Borders { steps, .. } => (link.secs(sent) + 2.0 * staged(sent)) / steps,
            Self::AllGather { bytes } => {
                let others = (ranks - 1) as f64;
                let part = bytes * amount / ranks as f64;
                others * link.secs(part) + short + staged(part) + staged(others * part)
            }
            Self::Ghosts { .. } => link.secs(sent) + short + 2.0 * staged(sent),
        }
    }

    /// Returns whether so many ranks can divide the slices or particles.
    pub fn can_divide(&self, amount: f64, ranks: usize) -> bool {
        let per_rank = amount / ranks as f64;
        match *self {
            _ if ranks < 2 => true,
            Self::Borders { min_slices, .. } => per_rank >= min_slices,
            Self::AllGather { .. } => per_rank >= 1.0,
            Self::Ghosts { density, radius, .. } => (amount / density).cbrt() / ranks as f64 >= radius,
        }
    }
}

/// Time of a step as a function of size and ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepModel {
    /// Seconds of the divided work, over the work of a rank.
    pub divided: StraightLine,
    /// Seconds of the work that every rank repeats, over the slices or particles of all ranks.
    pub replicated: StraightLine,
    /// Whether the divided work is n log2 n instead of n.
    pub is_n_log_n: bool,
    /// Messages of a step.
    pub messages: Messages,
    /// Whether communication and computation take place at the same time.
    pub overlaps: bool,
    /// Connection between a device and the memory of its host, if messages pass through it.
    pub staging: Option<MessageLink>,
}

impl StepModel {
    /// Returns the work of `amount` slices or particles.
    pub fn work(&self, amount: f64) -> f64 {
        if self.is_n_log_n { amount * amount.max(2.0).log2() } else { amount }
    }

    /// Returns the seconds of computation per step, if every rank has its own processor.
    pub fn computation_secs(&self, amount: f64, ranks: usize) -> f64 {
        self.divided.at(self.work(amount) / ranks as f64) + self.replicated.at(amount)
    }

    /// Returns the seconds of communication per step.
    pub fn communication_secs(&self, amount: f64, ranks: usize, link: &MessageLink) -> f64 {
        self.messages.secs(amount, ranks, link, self.staging.as_ref())
    }

    /// Returns the seconds of a step with these parts.
    pub fn combined_secs(&self, computation: f64, communication: f64) -> f64 {
        if self.overlaps { computation.max(communication) } else { computation + communication }
    }

    fn step_secs(&self, amount: f64, ranks: usize, link: &MessageLink) -> f64 {
        let communication = self.communication_secs(amount, ranks, link);
        self.combined_secs(self.computation_secs(amount, ranks), communication)
    }

    /// Returns the prediction for `amount` slices or particles in all, or `None` if so many ranks
    /// cannot divide them. The efficiency is relative to one rank with the same problem.
    pub fn predict_strong(&self, amount: f64, ranks: usize, link: &MessageLink) -> Option<Prediction> {
        let one = self.step_secs(amount, 1, link);
        self.predict(amount, ranks, link, |step| one / (ranks as f64 * step))
    }

    /// Returns the prediction for `amount` slices or particles per rank. The efficiency is relative
    /// to one rank with `amount`: the speed in slices or particles per second and rank.
    pub fn predict_weak(&self, amount: f64, ranks: usize, link: &MessageLink) -> Option<Prediction> {
        let one = self.step_secs(amount, 1, link);
        self.predict(amount * ranks as f64, ranks, link, |step| one / step)
    }

    fn predict(
        &self,
        amount: f64,
        ranks: usize,
        link: &MessageLink,
        efficiency: impl Fn(f64) -> f64,
    ) -> Option<Prediction> {
        self.messages.can_divide(amount, ranks).then(|| {
            let step_secs = self.step_secs(amount, ranks, link);
            Prediction {
                ranks,
                computation_secs: self.computation_secs(amount, ranks),
                communication_secs: self.communication_secs(amount, ranks, link),
                step_secs,
                efficiency: efficiency(step_secs),
            }
        })
    }

    /// Returns the fewest ranks, at most `most`, for which the communication of a fixed problem
    /// takes at least as long as its computation.
    pub fn crossover_ranks(&self, amount: f64, most: usize, link: &MessageLink) -> Option<usize> {
        let most = (2..=most).take_while(|&ranks| self.messages.can_divide(amount, ranks)).last()?;
        (2..=most).find(|&ranks| {
            self.communication_secs(amount, ranks, link) >= self.computation_secs(amount, ranks)
        })
    }

    /// Returns the thickness of slabs for which communication takes as long as computation, or
    /// `None` if computation takes longer for any thickness, or if there are no slabs.
    pub fn crossover_slices(&self, link: &MessageLink) -> Option<f64> {
        let Messages::Borders { .. } = self.messages else { return None };
        // A rank between two others. The borders do not depend on the number of slices.
        let communication = self.communication_secs(0.0, 3, link);
        let slices = (communication - self.divided.fixed) / self.divided.per_unit;
        (slices > 0.0).then_some(slices)
    }
}

/// Predicted time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Number of ranks.
    pub ranks: usize,
    /// Seconds of computation.
    pub computation_secs: f64,
    /// Seconds of communication.
    pub communication_secs: f64,
    /// Seconds of the step.
    pub step_secs: f64,
    /// Speed per rank relative to one rank.
    pub efficiency: f64,
}

/// Fits the serial fraction f of Amdahl's law, t = t1 (f + (1 - f) / P), by the smallest sum of
/// squared relative deviations. `points` have the number P of ranks that compute at the same time,
/// and t / t1. The result is between 0 and 1, and 0 without points of several ranks.
pub fn fit_serial_fraction(points: &[(f64, f64)]) -> f64 {
    // (1/P - y) / y + f (1 - 1/P) / y = 0
    let (mut slope_squares, mut products) = (0.0, 0.0);
    for &(ranks, relative) in points {
        let slope = (1.0 - 1.0 / ranks) / relative;
        slope_squares += slope * slope;
        products += slope * (1.0 - 1.0 / (ranks * relative));
    }
    if slope_squares > 0.0 { (products / slope_squares).clamp(0.0, 1.0) } else { 0.0 }
}
