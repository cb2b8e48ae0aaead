//! How fast the solvers are, against what the machine could do, and how right.

pub mod cpu;
pub mod device;
pub mod primitives;
pub mod tree;

use orrery_particles::accuracy::ForceErrors;
use orrery_particles::settings::Precision;
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
    pub tree: Option<TreeFigures>,
}

/// Where a tree's time went, how much it summed, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeFigures {
    /// Until the cells are there; with their moments where those are not timed apart.
    pub build_secs: f64,
    /// The moments.
    pub moments_secs: Option<f64>,
    /// Walk and sums.
    pub walk_secs: f64,
    /// Cells, leaves included.
    pub cells: Option<u64>,
    /// Groups that walked.
    pub groups: Option<u64>,
    /// Body-body terms, all targets together.
    pub body_terms: u64,
    /// Cell-body terms, all targets together.
    pub cell_terms: u64,
    /// Most terms of one target.
    pub most_terms: Option<u64>,
    /// Memory beyond the bodies.
    pub bytes: u64,
}

impl TreeFigures {
    fn json(&self, n: usize) -> Value {
        let a_body = |all: u64| all as f64 / n as f64;
        json!({
            "build_seconds": self.build_secs, "moments_seconds": self.moments_secs,
            "walk_seconds": self.walk_secs, "cells": self.cells, "groups": self.groups,
            "body_terms": self.body_terms, "cell_terms": self.cell_terms,
            "body_terms_per_body": a_body(self.body_terms), "cell_terms_per_body": a_body(self.cell_terms),
            "most_terms": self.most_terms, "bytes": self.bytes, "bytes_per_body": a_body(self.bytes),
        })
    }
}

impl Measurement {
    /// The theoretical peak where there is one, else the measured.
    pub fn peak(&self) -> f64 {
        self.theoretical_peak.unwrap_or(self.measured_peak)
    }

    /// As an object for files.
    pub fn json(&self) -> Value {
        let tree = self.tree.map(|tree| tree.json(self.n));
        let ForceErrors { median, p99, max, rms, .. } = self.errors;
        json!({
            "case": self.case, "n": self.n, "precision": precision_name(self.precision),
            "strategy": self.strategy, "seconds": self.times.median(), "fastest": self.times.fastest(),
            "slowest": self.times.slowest(), "repeats": self.times.count(), "rate": self.rate,
            "unit": self.unit, "flops": self.flops, "peak_flops": self.theoretical_peak,
            "share_of_peak": self.theoretical_peak.map(|peak| self.flops / peak),
            "measured_peak_flops": self.measured_peak,
            "share_of_measured_peak": self.flops / self.measured_peak,
            "error": { "median": median, "p99": p99, "max": max, "rms": rms },
            "tree": tree,
        })
    }
}
