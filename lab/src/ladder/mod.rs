//! Ladders: one computation by several kernels, from the textbook version to the production kernel.
//!
//! [`LADDERS`] is the registry. Command line, help, tables, JSON, plots and tests follow from its
//! entries. Every rung is a strategy that the tests cover. A ladder only times them, so a ladder is
//! one file with its [`LadderEntry`], for example `reduce.rs`.

mod arithmetic;
mod atomics;
mod banks;
mod copy;
mod coulomb;
mod data_table;
mod direct;
mod divergence;
mod fences;
mod figures;
mod gravity;
mod heat;
mod histogram;
mod hybrid;
mod label;
mod lj;
mod matmul;
mod occupancy;
mod plot;
mod reduce;
mod repeats;
mod result;
mod roofs;
mod rung;
mod saxpy;
mod sweep;
mod table;
mod texture;
mod timeline;
mod transfer;
mod transpose;
mod tree;
mod wave;

use orrery_device::{Device, DeviceKind};

use orrery_measure::MeasureError;
use orrery_measure::tuning::Tuning;

pub use data_table::{DataCell, DataRow, DataTable};
pub use figures::{FigureRow, FigureTable};
pub use result::{Ladder, Parameter, ReferenceTable, Roof, RungResult, ShownValue, TimedRuns, Work};
pub use roofs::Roofs;
pub use rung::{
    CheckedRung, LadderRung, MeasuredRung, PrepareResult, PreparedRung, RungClock, RungDetails, RungLabel,
    RungLimit, RungSet, check_rungs,
};
pub use sweep::{Sweep, SweepScale, SweepSeries};
pub use table::all_tables;
pub use timeline::{Timeline, TimelineLane, TimelineSpan};

/// All ladders, in the order of the help.
pub static LADDERS: [&LadderEntry; 22] = [
    &direct::LADDER,
    &tree::LADDER,
    &reduce::LADDER,
    &histogram::LADDER,
    &transpose::LADDER,
    &matmul::LADDER,
    &label::LADDER,
    &heat::LADDER,
    &wave::LADDER,
    &lj::LADDER,
    &transfer::LADDER,
    &saxpy::LADDER,
    &copy::LADDER,
    &banks::LADDER,
    &texture::LADDER,
    &coulomb::LADDER,
    &fences::LADDER,
    &atomics::LADDER,
    &hybrid::LADDER,
    &divergence::LADDER,
    &arithmetic::LADDER,
    &occupancy::LADDER,
];

/// Returns the ladder with this name.
pub fn find_ladder(name: &str) -> Option<&'static LadderEntry> {
    LADDERS.into_iter().find(|entry| entry.name == name)
}

/// Entry of the registry: everything that distinguishes one ladder from another.
#[derive(Debug)]
pub struct LadderEntry {
    /// Name on the command line, for example `reduce`.
    pub name: &'static str,
    /// Help text: a noun phrase that starts with a capital.
    pub description: &'static str,
    /// Title of tables and plots, for example `sum of f32`.
    pub title: &'static str,
    /// Plural noun for the items that the problem size counts, for example `bodies`.
    pub size_unit: &'static str,
    /// Returns the host memory for a problem size, in bytes.
    pub host_bytes: fn(usize) -> u64,
    /// Default problem sizes.
    pub sizes: DefaultSizes,
    /// Items whose number per second is the rate of a rung.
    pub counted: Counted,
    /// Rungs on a device, by type.
    pub rungs: &'static [RungSet],
    /// Measures all rungs and adds them to the ladder.
    pub measure: fn(&mut LadderRequest, &mut Ladder) -> Result<(), MeasureError>,
}

impl LadderEntry {
    /// Measures the ladder.
    pub fn run(&'static self, mut request: LadderRequest) -> Result<Ladder, MeasureError> {
        let device = request.device.map_or_else(orrery_measure::devices::cpu_name, Device::title);
        repeats::set_budget(request.device);
        let mut ladder = Ladder { host_roofs: Roofs::of_host(), ..Ladder::new(self, device, request.n) };
        (self.measure)(&mut request, &mut ladder)?;
        if request.device.is_some_and(repeats::is_cpu) {
            ladder.remarks.insert(0, CPU_REMARK.to_owned());
        }
        Ok(ladder)
    }
}

/// Default problem sizes by kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultSizes {
    /// For a GPU.
    pub gpu: usize,
    /// For a CPU or another accelerator through OpenCL.
    pub opencl_cpu: usize,
    /// For the host's CPU without a device.
    pub host: usize,
}

impl DefaultSizes {
    /// Returns the size for a device, or for the host's CPU.
    pub fn for_device(&self, device: Option<&Device>) -> usize {
        match device.map(|device| device.properties().kind) {
            None => self.host,
            Some(DeviceKind::Gpu) => self.gpu,
            Some(DeviceKind::Cpu | DeviceKind::Other) => self.opencl_cpu,
        }
    }
}

/// Item that a ladder counts, and how its rate is shown.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Name of one item, for example `pair`.
    pub item: &'static str,
    /// Unit of rates in JSON, for example `interactions/s`.
    pub rate_unit: &'static str,
    /// Heading of the table column, at most seven characters, for example `Gpair/s`.
    pub heading: &'static str,
    /// Converts items per second to the unit of the heading. For `Gpair/s` that is a division by
    /// 1e9, and for `ns` per item it would be `1e9 / rate`.
    pub to_column: fn(f64) -> f64,
}

/// Remark on ladders of a CPU through OpenCL, such as PoCL.
const CPU_REMARK: &str =
    "This device is the CPU, through OpenCL: gains of rungs for GPUs differ from those on a GPU.";

/// Bytes that a computation must move.
const BYTES: Counted =
    Counted { item: "byte", rate_unit: "bytes/s", heading: "GB/s", to_column: |rate| rate / 1e9 };

/// Parameters of one measurement of a ladder.
pub struct LadderRequest<'a> {
    /// Device. Without one, only the rungs of the CPU are measured.
    pub device: Option<&'a Device>,
    /// Problem size, at least 1.
    pub n: usize,
    /// Results of the tuner for the device.
    pub tuning: Option<&'a Tuning>,
    /// Called with the name of each rung before it is measured.
    pub progress: &'a mut dyn FnMut(&str),
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;
