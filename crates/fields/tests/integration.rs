//! Tests of the public interface. Each module is a file of this folder.

mod heat_device;
mod heat_field;
mod wave_device;
