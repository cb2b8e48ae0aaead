//! Tests of the public interface of `orrery-engine`. Every file of this folder is a module.

mod bad_cases;
mod cases;
mod common;
mod device;
mod extend;
mod field_inputs;
mod golden;
mod heat_cases;
mod heat_odd_values;
mod hostile_checkpoints;
mod initial_conditions;
mod integrity;
mod large_steps;
mod reference;
mod reliability;
mod resume;
mod start_time;
mod stepping;
mod team;
mod wave_cases;
mod written_units;
