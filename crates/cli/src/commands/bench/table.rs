//! Table of a benchmark, whose rows are printed as they are measured.

use orrery_device::Device;
use orrery_measure::bench::{BenchPlace, BenchRow};
use orrery_measure::devices::cpu_name;
use orrery_measure::text_table::{RowColumn, format_cells, format_headings};
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::about_cpu;
use crate::args::BenchArgs;
use crate::commands::tune::load_tuning;
use crate::failure::Failure;
use crate::print::print_line;

/// Measures the peak rates of the device, and loads its tuning unless the flags say otherwise.
pub fn bench_place<'a>(
    arguments: &BenchArgs,
    device: Option<&'a Device>,
    set: InstructionSet,
) -> Result<BenchPlace<'a>, Failure> {
    let tuning = device.and_then(|device| load_tuning(device, arguments.no_tuned));
    let place = BenchPlace::new(device, arguments.repeats.map(|k| k as usize))?;
    Ok(place.with_instruction_set(set).with_tuning(tuning))
}

/// Returns the title of the device, or that of the CPU.
pub fn title_of(device: Option<&Device>, set: InstructionSet) -> String {
    let cpu = || format!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads());
    device.map_or_else(cpu, Device::title)
}

/// Table that is printed, and its results.
pub struct BenchTable {
    columns: &'static [RowColumn],
    results: Vec<Value>,
}

impl BenchTable {
    /// Prints the title, the notes and the headings.
    pub fn start(title: &str, notes: &[String], columns: &'static [RowColumn]) -> Self {
        print_line!("{title}");
        notes.iter().for_each(|note| print_line!("{note}"));
        print_line!("");
        print_line!("{}", format_headings(columns));
        Self { columns, results: Vec::new() }
    }

    /// Prints a row and keeps its result.
    pub fn print(&mut self, row: BenchRow) {
        print_line!("{}", format_cells(self.columns, row.cells));
        if !row.note.is_empty() {
            print_line!("{}", row.note);
        }
        self.results.push(row.json);
    }

    /// Returns the device with its measured peaks, and the results.
    pub fn finish(self, place: &BenchPlace) -> (Value, Value) {
        let about = place.device_json().unwrap_or_else(|| about_cpu(place.instruction_set()));
        (about, json!(self.results))
    }
}
