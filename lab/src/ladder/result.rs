//! Results of a ladder: measured times and counted work, and the figures that follow from them.

use orrery_measure::timing::Times;
use serde_json::{Value, json};

use super::{DataTable, FigureTable, LadderEntry, Roofs, Sweep, Timeline};

/// Results of all rungs of a computation on one device, in order.
///
/// ```
/// use orrery_lab::ladder::{Ladder, RungResult, all_tables, find_ladder};
///
/// let mut ladder = Ladder::new(find_ladder("direct").unwrap(), "cpu".into(), 4096);
/// for (name, rate) in [("scalar", 2e8), ("SIMD", 3e9)] {
///     let (name, seconds) = (name.into(), 4096.0 * 4096.0 / rate);
///     ladder.add_rung(RungResult { name, n: 4096, seconds, rate, ..RungResult::default() });
/// }
/// assert_eq!(ladder.rungs[1].gain, 15.0);
/// assert!(all_tables(&ladder).iter().any(|line| line.contains("SIMD")));
/// ```
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Entry of the registry.
    pub entry: &'static LadderEntry,
    /// Label and name of the device.
    pub device: String,
    /// Problem size.
    pub n: usize,
    /// Peak rates of the device, for the roofline plot.
    pub roofs: Roofs,
    /// Peak rates of the host's CPU, for its rungs and for the roofline plot.
    pub host_roofs: Roofs,
    /// Roof that the rungs are compared with, if there is one.
    pub roof: Option<Roof>,
    /// Remarks printed below the table's heading, one line each.
    pub remarks: Vec<String>,
    /// Parameter that rungs are measured for several values of, if there is one.
    pub parameter: Option<Parameter>,
    /// Figures from another source, if there are any.
    pub reference: Option<ReferenceTable>,
    /// Further tables of figures from another source.
    pub figures: Vec<FigureTable>,
    /// Results of the rungs.
    pub rungs: Vec<RungResult>,
    /// Further measurements over a parameter, for example the bandwidth over the offset of a copy.
    pub sweeps: Vec<Sweep>,
    /// Results that are not rates, for example counted outcomes.
    pub tables: Vec<DataTable>,
    /// Intervals of calls and device work, for ladders about overlap.
    pub timelines: Vec<Timeline>,
}

/// Hardware limit that rungs are compared with. Each rung contains its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roof {
    /// Name of at most four characters, for example `peak`. The table has a column `of peak`.
    pub name: &'static str,
    /// Description for the reader of the table, for example `4.20 TB/s`.
    pub description: String,
}

/// Parameter that rungs are measured for several values of, for example the block size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name, for example `threads per block`.
    pub name: &'static str,
    /// Values as column headings of a few characters.
    pub values: Vec<String>,
    /// Value whose time and rate represent the rung.
    pub shown: ShownValue,
}

/// Value of a [`Parameter`] whose time and rate represent a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// The value with the highest rate.
    Fastest,
    /// The first value.
    First,
}

/// Figures of the rungs from another source, for example from a course.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceTable {
    /// Quantity and source, for example `GB/s reported in the course`.
    pub caption: String,
    /// Column headings of a few characters. [`RungResult::reference`] has one value for each.
    pub columns: Vec<String>,
    /// Explanations printed below the table, one line each.
    pub legend: &'static [&'static str],
}

/// Work per counted item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations. `None` if the computation has no conventional count.
    pub flops: Option<f64>,
    /// Bytes that threads request from memory. For grids, bytes that a step must move. For the
    /// direct sum, bytes that warps or blocks request.
    pub bytes: Option<f64>,
}

/// Timed runs of a rung at one problem size.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRuns {
    /// Problem size.
    pub n: usize,
    /// Items counted in one run.
    pub items: f64,
    /// Times of the runs.
    pub times: Times,
}

impl TimedRuns {
    /// Returns the items per second at the median time.
    pub fn rate(&self) -> f64 {
        self.items / self.times.median()
    }
}

/// Measured result of one rung.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RungResult {
    /// Name of the rung.
    pub name: String,
    /// Remark for readers of the table.
    pub note: String,
    /// Problem size of the measurement. It is smaller than the ladder's if that would take too
    /// long.
    pub n: usize,
    /// Median time of one run.
    pub seconds: f64,
    /// Number of timed runs.
    pub repeats: usize,
    /// Counted items per second at the median time.
    pub rate: f64,
    /// Work per counted item.
    pub work: Work,
    /// Highest rate that the hardware allows for this rung, in counted items per second.
    pub roof: Option<f64>,
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
    /// Error of the result. The ladder's remarks say how it is measured.
    pub error: Option<f64>,
    /// Index of the parameter value that `n`, `seconds`, `repeats` and `rate` belong to. `None` if
    /// the rung does not depend on the parameter.
    pub value: Option<usize>,
    /// Rate for each value of the ladder's parameter. `None` if the device does not support the
    /// value. Empty if the rung does not depend on the parameter.
    pub rates: Vec<Option<f64>>,
    /// Figures from another source, one for each column of the ladder's reference table. Empty if
    /// the source has none for this rung.
    pub reference: Vec<f64>,
}

impl RungResult {
    /// Creates the result of a rung that was measured once.
    pub fn new(name: &str, runs: &TimedRuns) -> Self {
        Self {
            name: name.to_owned(),
            n: runs.n,
            seconds: runs.times.median(),
            repeats: runs.times.count(),
            rate: runs.rate(),
            ..Self::default()
        }
    }

    /// Creates the result of a rung that was measured for the values of a parameter. `runs` has one
    /// entry per value, `None` where the device does not support the value. Returns `None` if the
    /// value that represents the rung was not measured.
    pub fn with_sweep(name: &str, runs: &[Option<TimedRuns>], shown: ShownValue) -> Option<Self> {
        let rates: Vec<Option<f64>> = runs.iter().map(|runs| runs.as_ref().map(TimedRuns::rate)).collect();
        let known = rates.iter().enumerate().filter_map(|(value, rate)| Some((value, (*rate)?)));
        let value = match shown {
            ShownValue::Fastest => known.max_by(|a, b| a.1.total_cmp(&b.1))?.0,
            ShownValue::First => 0,
        };
        let result = Self::new(name, runs.get(value)?.as_ref()?);
        Some(Self { value: Some(value), rates, ..result })
    }

    /// Returns the floating-point operations per second.
    pub fn flops(&self) -> Option<f64> {
        Some(self.work.flops? * self.rate)
    }

    /// Returns the bytes per second, see [`Work::bytes`].
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.work.bytes? * self.rate)
    }

    /// Returns the arithmetic intensity: operations per byte that threads request from memory.
    pub fn intensity(&self) -> Option<f64> {
        Some(self.work.flops? / self.work.bytes?)
    }

    /// Returns the rate relative to the roof. It is not clamped: a value above 1 shows that the
    /// model does not fit, for example that the operation count is too high.
    pub fn share_of_roof(&self) -> Option<f64> {
        Some(self.rate / self.roof?)
    }
}

impl Ladder {
    /// Creates a ladder without rungs.
    pub fn new(entry: &'static LadderEntry, device: String, n: usize) -> Self {
        Self {
            entry,
            device,
            n,
            roofs: Roofs::default(),
            host_roofs: Roofs::default(),
            roof: None,
            remarks: Vec::new(),
            parameter: None,
            reference: None,
            figures: Vec::new(),
            rungs: Vec::new(),
            sweeps: Vec::new(),
            tables: Vec::new(),
            timelines: Vec::new(),
        }
    }

    /// Adds a rung and sets its gains relative to the previous and the first rung.
    pub fn add_rung(&mut self, mut rung: RungResult) {
        let gain_over = |other: Option<&RungResult>| other.map_or(1.0, |other| rung.rate / other.rate);
        let gains = (gain_over(self.rungs.last()), gain_over(self.rungs.first()));
        (rung.gain, rung.total_gain) = gains;
        self.rungs.push(rung);
    }

    /// Returns the results as a JSON object. All ladders have the same keys.
    pub fn to_json(&self) -> Value {
        let parameter = self.parameter.as_ref();
        let reference = self.reference.as_ref();
        json!({
            "ladder": self.entry.name,
            "title": self.entry.title,
            "device": self.device,
            "n": self.n,
            "size_unit": self.entry.size_unit,
            "unit": self.entry.counted.rate_unit,
            "roof": self.roof.as_ref().map(|roof| json!({ "name": roof.name, "description": roof.description })),
            "roofs": self.roofs,
            "host_roofs": self.host_roofs,
            "remarks": self.remarks,
            "parameter": parameter.map(|parameter| json!({ "name": parameter.name, "values": parameter.values })),
            "reference": reference.map(|table| json!({ "caption": table.caption, "columns": table.columns })),
            "figures": self.figures,
            "rungs": self.rungs.iter().map(|rung| self.rung_json(rung)).collect::<Vec<_>>(),
            "sweeps": self.sweeps,
            "tables": self.tables,
            "timelines": self.timelines,
        })
    }

    fn rung_json(&self, rung: &RungResult) -> Value {
        let parameter = self.parameter.as_ref().zip(rung.value);
        json!({
            "name": rung.name,
            "note": rung.note,
            "n": rung.n,
            "seconds": rung.seconds,
            "repeats": rung.repeats,
            "rate": rung.rate,
            "unit": self.entry.counted.rate_unit,
            "roof": rung.roof,
            "share_of_roof": rung.share_of_roof(),
            "gain": rung.gain,
            "total_gain": rung.total_gain,
            "flops_per_item": rung.work.flops,
            "bytes_per_item": rung.work.bytes,
            "flops": rung.flops(),
            "bytes_per_s": rung.bytes_per_s(),
            "intensity": rung.intensity(),
            "registers": rung.registers,
            "shared_bytes": rung.shared_bytes,
            "occupancy": rung.occupancy,
            "error": rung.error,
            "value": parameter.map(|(parameter, value)| &parameter.values[value]),
            "rates": rung.rates,
            "reference": rung.reference,
        })
    }
}
