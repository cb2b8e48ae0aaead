//! Tests of the `orrery` command. Every file of this folder is a module.

mod bench_fields;
mod common;
mod devices;
mod end_to_end;
mod fault;
mod field_files;
mod heat_mistakes;
mod heat_results;
mod heat_runs;
mod help;
mod limits;
mod log;
mod mistakes;
mod no_panic;
mod odd_values;
mod on_device;
mod readme;
mod reference;
mod results;
mod runs;
mod segy_files;
mod seismic_python;
mod start_file;
mod volume_files;
mod wave_files;
mod wave_runs;
