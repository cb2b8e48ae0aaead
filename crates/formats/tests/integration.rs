//! Tests of the public interface of `orrery-formats`. Every file of this folder is a module.

mod bad_snapshots;
mod common;
mod damage;
mod fields;
mod fluids;
mod foreign_headers;
mod gadget_binary;
mod hdf5_files;
mod hostile;
mod image_data;
mod manifest;
mod python_readers;
mod round_trip;
mod segy;
mod volumes;
