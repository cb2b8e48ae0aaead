//! Tests of the public interface. Each module is a file of this folder.
//!
//! The library has no unit tests, so that it is compiled once: its loops take minutes.

mod division;
mod heat_capacity;
mod heat_cpu;
mod heat_field;
mod heat_host;
mod heat_reference;
mod heat_schedule;
mod heat_team;
mod pixel_means;
mod selftest;
mod time_dispersion;
mod wave_accuracy;
mod wave_cpu;
mod wave_device;
mod wave_field;
mod wave_layers;
mod wave_layout;
mod wave_points;
mod wave_reference;
mod wave_stencil;
mod wave_team;
