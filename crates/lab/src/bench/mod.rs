//! How fast the solvers are, against what the machine could do, and how right.

pub mod cpu;
pub mod device;

use orrery_particles::accuracy::ForceErrors;
use orrery_particles::settings::Precision;
use orrery_particles::solver::tree::Report;
use serde_json::{Value, json};

use crate::precision_name;
use crate::timing::Times;

/// A cell-body term with quadrupoles: 3 for the difference, 6 for ρ², 1 root, 18 for M d and d M d, 15 for the
/// weights, 12 for the sums.
pub const FLOPS_A_CELL: f64 = 55.0;

/// One solver at one size.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The solver.
    pub case: &'static str,
    /// Number of bodies.
    pub n: usize,
    /// The arithmetic.
    pub precision: Precision,
    /// How it was computed.
    pub strategy: Value,
    /// Of one force evaluation.
    pub times: Times,
    /// Work a second, at the median.
    pub rate: f64,
    /// What the rate counts.
    pub unit: &'static str,
    /// Operations a second by the usual counts.
    pub flops: f64,
    /// Operations a second that this machine reached on registers alone.
    pub measured_peak: f64,
    /// The same by the data sheet, where it is known.
    pub theoretical_peak: Option<f64>,
    /// Against the sum over all pairs in f64.
    pub errors: ForceErrors,
    /// What a tree did.
    pub report: Option<Report>,
}

impl Measurement {
    /// The theoretical peak where there is one, else the measured.
    pub fn peak(&self) -> f64 {
        self.theoretical_peak.unwrap_or(self.measured_peak)
    }

    /// As an object for files.
    pub fn json(&self) -> Value {
        let tree = self.report.map(|r| {
            json!({
                "build_seconds": r.build_secs, "walk_seconds": r.walk_secs, "body_terms": r.body_terms,
                "cell_terms": r.cell_terms, "bytes": r.bytes,
            })
        });
        let ForceErrors { median, p99, max, rms, .. } = self.errors;
        json!({
            "case": self.case, "n": self.n, "precision": precision_name(self.precision),
            "strategy": self.strategy, "seconds": self.times.median(), "fastest": self.times.fastest(),
            "slowest": self.times.slowest(), "repeats": self.times.count(), "rate": self.rate,
            "unit": self.unit, "flops": self.flops, "peak_flops": self.peak(),
            "share_of_peak": self.flops / self.peak(), "measured_peak_flops": self.measured_peak,
            "share_of_measured_peak": self.flops / self.measured_peak,
            "error": { "median": median, "p99": p99, "max": max, "rms": rms },
            "tree": tree,
        })
    }
}
