//! Benchmarks of the solvers and the primitives: speed, share of the machine's peak, and accuracy.

pub mod cpu;
pub mod direct;
pub mod fluid;
pub mod heat;
mod place;
pub mod primitives;
pub mod tree;
pub mod wave;

use orrery_gravity::accuracy::ForceErrors;
use orrery_model::Precision;
use serde_json::{Value, json};

pub use place::{BenchPlace, BenchRow};

use crate::timing::Times;
use place::result_json;

/// Floating-point operations of a cell-body term with quadrupoles: 3 for the difference, 6 for ρ²,
/// 1 for the reciprocal square root, 18 for M d and d M d, 15 for the weights, 12 for the sums.
pub const FLOPS_PER_CELL: f64 = 55.0;

/// Benchmark result of one solver at one problem size.
#[derive(Clone, Debug)]
pub struct ForceMeasurement {
    /// Name of the solver: `direct` or `tree`.
    pub case: &'static str,
    /// Number of bodies.
    pub n: usize,
    /// Precision of the arithmetic.
    pub precision: Precision,
    /// Strategy of the solver, as JSON.
    pub strategy: Value,
    /// Times of one force evaluation.
    pub times: Times,
    /// Rate at the median time.
    pub rate: f64,
    /// Unit of the rate, for example `bodies/s`.
    pub unit: &'static str,
    /// Floating-point operations per second, by the conventional operation counts.
    pub flops: f64,
    /// Operations per second that this machine reaches in a loop on registers.
    pub measured_peak: f64,
    /// Operations per second from the data sheet, if known.
    pub theoretical_peak: Option<f64>,
    /// Errors of the accelerations, compared with the sum over all pairs in f64.
    pub errors: ForceErrors,
    /// Details of the tree solver.
    pub tree: Option<TreeFigures>,
}

/// Stage times, interaction counts and memory of a tree evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeFigures {
    /// Time to build the cells. Includes the moments if `moments_secs` is `None`.
    pub build_secs: f64,
    /// Time to compute the moments, if timed separately.
    pub moments_secs: Option<f64>,
    /// Time of the walk and the sums.
    pub walk_secs: f64,
    /// Number of cells, including leaves.
    pub cells: Option<u64>,
    /// Number of groups of bodies that walk the tree together.
    pub groups: Option<u64>,
    /// Number of body-body terms of all targets.
    pub body_terms: u64,
    /// Number of cell-body terms of all targets.
    pub cell_terms: u64,
    /// Largest number of terms of one target.
    pub most_terms: Option<u64>,
    /// Bytes of memory in addition to the bodies.
    pub bytes: u64,
}

impl TreeFigures {
    fn to_json(self, n: usize) -> Value {
        let per_body = |total: u64| total as f64 / n as f64;
        json!({
            "build_seconds": self.build_secs, "moments_seconds": self.moments_secs,
            "walk_seconds": self.walk_secs, "cells": self.cells, "groups": self.groups,
            "body_terms": self.body_terms, "cell_terms": self.cell_terms,
            "body_terms_per_body": per_body(self.body_terms),
            "cell_terms_per_body": per_body(self.cell_terms), "max_terms_per_body": self.most_terms,
            "bytes": self.bytes, "bytes_per_body": per_body(self.bytes),
        })
    }
}

impl ForceMeasurement {
    /// Returns the theoretical peak, or the measured one if the theoretical is unknown.
    pub fn peak(&self) -> f64 {
        self.theoretical_peak.unwrap_or(self.measured_peak)
    }

    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> Value {
        let tree = self.tree.map(|tree| tree.to_json(self.n));
        let ForceErrors { median, p99, max, rms, .. } = self.errors;
        let more = json!({
            "case": self.case, "n": self.n, "precision": self.precision.as_str(),
            "strategy": self.strategy, "flops": self.flops, "peak_flops": self.theoretical_peak,
            "share_of_peak": self.theoretical_peak.map(|peak| self.flops / peak),
            "measured_peak_flops": self.measured_peak,
            "share_of_measured_peak": self.flops / self.measured_peak,
            "error": { "median": median, "p99": p99, "max": max, "rms": rms },
            "tree": tree,
        });
        result_json(&self.times, Some(self.rate), self.unit, more)
    }
}
