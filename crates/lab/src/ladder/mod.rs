//! Ladders: one computation by several kernels, from the textbook version to the production kernel.
//!
//! Every rung is a strategy that the tests cover. A ladder only times them. All ladders have the
//! same structure, so tables, JSON and plots are written once: a rate in the ladder's unit, and
//! FLOP/s for computations with a conventional operation count. A [`sweep::Sweep`] is a ladder
//! whose rungs are measured for several values of a parameter, such as the block size.

pub mod direct;
pub mod histogram;
mod peaks;
pub mod reduce;
mod roofline;
pub mod sweep;
mod table;
pub mod tree;

use serde::Serialize;

pub use table::{hardware_table, results_table};

/// Unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RateUnit {
    /// Pairs of bodies per second.
    #[serde(rename = "interactions/s")]
    Interactions,
    /// Bodies per second whose forces are computed.
    #[serde(rename = "bodies/s")]
    Bodies,
    /// Bytes moved per second.
    #[serde(rename = "bytes/s")]
    Bytes,
    /// Elements or grid points per second.
    #[serde(rename = "elements/s")]
    Elements,
}

impl RateUnit {
    /// Returns the heading of the table column, and the factor that its prefix stands for.
    fn column_heading(self) -> (&'static str, f64) {
        match self {
            Self::Interactions => ("Gpair/s", 1e9),
            Self::Bodies => ("Mbody/s", 1e6),
            Self::Bytes => ("GB/s", 1e9),
            Self::Elements => ("Gelem/s", 1e9),
        }
    }

    /// Returns the name of one counted item, for example `pair`.
    fn item_name(self) -> &'static str {
        match self {
            Self::Interactions => "pair",
            Self::Bodies => "body",
            Self::Bytes => "byte",
            Self::Elements => "element",
        }
    }
}

/// Roofs of the roofline model: peak rates of the device, measured and from the data sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Roofs {
    /// Measured bytes per second of a copy, reads and writes both counted.
    pub bandwidth: Option<f64>,
    /// Measured f32 operations per second.
    pub flops: Option<f64>,
    /// Theoretical bytes per second.
    pub theoretical_bandwidth: Option<f64>,
    /// Theoretical f32 operations per second.
    pub theoretical_flops: Option<f64>,
}

/// Results of all rungs of a computation on one device, in order.
///
/// ```
/// use orrery_lab::ladder::{Ladder, RateUnit, Roofs, RungResult, results_table};
///
/// let mut ladder = Ladder {
///     title: "all-pairs gravity".into(),
///     device: "cpu".into(),
///     n: 4096,
///     size_unit: "bodies",
///     unit: RateUnit::Interactions,
///     flops_per_unit: Some(20.0),
///     remarks: &[],
///     roofs: Roofs::default(),
///     rungs: Vec::new(),
/// };
/// for (name, rate) in [("scalar", 2e8), ("SIMD", 3e9)] {
///     let (name, seconds) = (name.into(), 4096.0 * 4096.0 / rate);
///     ladder.add_rung(RungResult { name, n: 4096, seconds, rate, ..RungResult::default() });
/// }
/// assert_eq!(ladder.rungs[1].gain, 15.0);
/// assert!(results_table(&ladder).iter().any(|line| line.contains("SIMD")));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ladder {
    /// Name of the computation.
    pub title: String,
    /// Label and name of the device.
    pub device: String,
    /// Problem size.
    pub n: usize,
    /// Plural noun for the items that `n` counts, for example `bodies`.
    pub size_unit: &'static str,
    /// Unit of the rates.
    pub unit: RateUnit,
    /// Floating-point operations per counted item (pair, byte or element). `None` if the
    /// computation only moves data.
    pub flops_per_unit: Option<f64>,
    /// Remarks printed below the table's heading, one line each.
    pub remarks: &'static [&'static str],
    /// Roofs of the device.
    pub roofs: Roofs,
    /// Results of the rungs.
    pub rungs: Vec<RungResult>,
}

/// Measured result of one rung.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RungResult {
    /// Name of the rung.
    pub name: String,
    /// Problem size of the measurement. It is smaller than the ladder's if that would take too
    /// long.
    pub n: usize,
    /// Median time of one run.
    pub seconds: f64,
    /// Number of timed runs.
    pub repeats: usize,
    /// Rate at the median time, in the ladder's unit. In JSON the unit is repeated in each rung.
    pub rate: f64,
    /// Floating-point operations per second, by the ladder's operation count.
    pub flops: Option<f64>,
    /// Fraction of the hardware's peak for this rung's precision. It is not clamped: a value above
    /// 1 shows that the model does not fit, for example that the operation count is too high.
    pub share_of_peak: Option<f64>,
    /// Arithmetic intensity: operations per byte that threads request from device memory.
    pub intensity: Option<f64>,
    /// Rate relative to the previous rung.
    pub gain: f64,
    /// Rate relative to the first rung.
    pub total_gain: f64,
    /// Registers per thread.
    pub registers: Option<u32>,
    /// Bytes of shared memory per block.
    pub shared_bytes: Option<u32>,
    /// Fraction of an SM's thread slots that resident blocks fill.
    pub occupancy: Option<f64>,
    /// Median relative error of the accelerations, compared with the sum over all pairs in f64.
    pub error: Option<f64>,
    /// Remark for readers of the table.
    pub note: String,
    /// Gains that the course reports for this rung on its three GPUs.
    pub course: Option<[f64; 3]>,
}

impl Ladder {
    /// Adds a rung and sets its gains relative to the previous and the first rung.
    pub fn add_rung(&mut self, mut rung: RungResult) {
        let gain_over = |other: Option<&RungResult>| other.map_or(1.0, |other| rung.rate / other.rate);
        let gains = (gain_over(self.rungs.last()), gain_over(self.rungs.first()));
        (rung.gain, rung.total_gain) = gains;
        self.rungs.push(rung);
    }

    /// Returns all fields as a JSON object. Each rung also contains the unit of its rate.
    pub fn to_json(&self) -> serde_json::Value {
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
