//! A ladder: one computation done in several ways, from the naive first to the production kernel.
//!
//! Every rung is a strategy that the tests cover; a ladder only times them. Its form is the same for all
//! computations, so that tables, JSON and plots need to be written once: a rate in the ladder's own unit, and
//! flops where the computation has a usual count of them.

pub mod direct;
pub mod grid;
pub mod histogram;
mod peaks;
pub mod reduce;
mod roofline;
mod table;
pub mod tree;

use serde::Serialize;

pub use table::{figures, hardware};

/// What a rate counts, each a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Pairs of bodies.
    #[serde(rename = "interactions/s")]
    Interactions,
    /// Bodies whose forces are computed.
    #[serde(rename = "bodies/s")]
    Bodies,
    /// Bytes moved.
    #[serde(rename = "bytes/s")]
    Bytes,
    /// Elements or grid points.
    #[serde(rename = "elements/s")]
    Elements,
}

impl Unit {
    /// Over the column of rates, and how many it counts by.
    fn heading(self) -> (&'static str, f64) {
        match self {
            Self::Interactions => ("Gpair/s", 1e9),
            Self::Bodies => ("Mbody/s", 1e6),
            Self::Bytes => ("GB/s", 1e9),
            Self::Elements => ("Gelem/s", 1e9),
        }
    }
}

/// What the hardware could do: measured here, and by its data sheet where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Roofs {
    /// Copied bytes a second, read and write both counted.
    pub bandwidth: Option<f64>,
    /// f32 operations a second.
    pub flops: Option<f64>,
    /// The bandwidth's theoretical figure.
    pub theoretical_bandwidth: Option<f64>,
    /// The operations' theoretical figure.
    pub theoretical_flops: Option<f64>,
}

/// A computation's rungs on one device, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ladder {
    /// What is computed.
    pub title: String,
    /// Where: label and name.
    pub device: String,
    /// Size of the problem.
    pub n: usize,
    /// What `n` counts.
    pub counted: &'static str,
    /// What the rates count.
    pub unit: Unit,
    /// Operations that one pair (or byte, or element) counts for; absent where only movement counts.
    pub flops_per_unit: Option<f64>,
    /// What else a reader of the table should know, a line each.
    pub remarks: &'static [&'static str],
    /// The device's roofs.
    pub roofs: Roofs,
    /// The rungs.
    pub rungs: Vec<Measured>,
}

/// One rung as measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Size it was measured with: less than the ladder's where that would have taken too long.
    pub n: usize,
    /// Median time.
    pub seconds: f64,
    /// Runs that the median is of.
    pub repeats: usize,
    /// Work a second, at the median; its unit stands with the ladder and, in JSON, with each rung.
    pub rate: f64,
    /// Operations a second by the ladder's convention.
    pub flops: Option<f64>,
    /// Of the hardware's peak for this rung's arithmetic. Not clamped: beating the model is a finding about it.
    pub share_of_peak: Option<f64>,
    /// Operations a byte that threads ask of the device's memory: the rung's place on the roofline.
    pub intensity: Option<f64>,
    /// Times the rate of the rung before.
    pub gain: f64,
    /// Times the rate of the first rung.
    pub total_gain: f64,
    /// Registers a thread.
    pub registers: Option<u32>,
    /// Shared (local) memory a group, bytes.
    pub shared_bytes: Option<u32>,
    /// Share of a multiprocessor's threads that are resident.
    pub occupancy: Option<f64>,
    /// Median relative error against the plain sum in f64.
    pub error: Option<f64>,
    /// What a reader should know of this rung.
    pub note: String,
    /// The gain that the ladder's source reports for its own three GPUs.
    pub course: Option<[f64; 3]>,
}

impl Ladder {
    /// Adds a rung; its gains follow from those before it.
    pub fn push(&mut self, mut rung: Measured) {
        let over = |other: Option<&Measured>| other.map_or(1.0, |other| rung.rate / other.rate);
        let gains = (over(self.rungs.last()), over(self.rungs.first()));
        (rung.gain, rung.total_gain) = gains;
        self.rungs.push(rung);
    }

    /// `device`, `n`, `rungs` and the conventions; each rung names its unit.
    pub fn json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).expect("plain data always serialises");
        let unit = value["unit"].clone();
        for rung in value["rungs"].as_array_mut().into_iter().flatten() {
            rung["unit"] = unit.clone();
        }
        value
    }
}

#[cfg(test)]
mod tests;
