//! HDF5 files as other programs write them (data/make.py, with h5py): accepted and rejected files.

use std::path::{Path, PathBuf};

use crate::common::read_unlimited;
use orrery_model::{Species, Units};

fn data_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[track_caller]
fn assert_error(name: &str, expected: &str) {
    let message = read_unlimited(&data_path(name)).expect_err("the file should be rejected").to_string();
    assert!(message.contains(&format!("{name}: {expected}")), "got: {message}\nexpected: {expected}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn single_precision_and_compression_are_read() {
    let snapshot = read_unlimited(&data_path("single_precision.hdf5")).unwrap();
    let p = &snapshot.particles;
    assert_eq!(p.position.y, [1.0, 4.0, 7.0]);
    assert_eq!(p.velocity.z, [-2.0, -5.0, -8.0]);
    assert_eq!(p.mass, [1.0, 2.0, 3.0]);
    assert_eq!(p.id, [7, 8, 9]);
    assert_eq!((snapshot.time, snapshot.step, snapshot.units), (0.25, 0, Units::Galactic));
    assert_eq!(snapshot.provenance, [("units assumed".into(), "galactic, since the file names none".into())]);
}

#[test]
fn file_with_a_mass_table_and_without_ids_is_read() {
    let snapshot = read_unlimited(&data_path("mass_table.hdf5")).unwrap();
    let p = &snapshot.particles;
    assert_eq!(p.position.x, [0.0, 3.0, 6.0, 0.0, 3.0, 6.0]);
    assert_eq!(p.mass, [0.5, 0.5, 0.5, 2.0, 2.0, 2.0]);
    assert_eq!(p.id, [0, 1, 2, 3, 4, 5]);
    assert_eq!((p.species[0], p.species[3]), (Species::Halo, Species::Stars));
    assert_eq!(snapshot.units, Units::Galactic);
    assert!(snapshot.provenance.is_empty());
}

#[test]
fn data_outside_the_file_are_not_read() {
    assert_error(
        "external_link.hdf5",
        "group /PartType1: got nothing, or a link, expected an object in this file",
    );
    assert_error("external_link_dataset.hdf5", "dataset /PartType1/Masses: got nothing, or a link");
    assert_error("external_storage.hdf5", "dataset /PartType1/Masses: got external storage");
    assert_error(
        "virtual.hdf5",
        "dataset /PartType1/Masses: got a virtual dataset, expected values inside this file",
    );
}

#[test]
fn errors_name_the_dataset() {
    assert_error("wrong_count.hdf5", "dataset /PartType1/Masses has 2 entries, expected 3");
    assert_error("wrong_type.hdf5", "dataset /PartType1/Masses: got i32 values, expected f32 or f64");
    assert_error("negative_id.hdf5", "dataset /PartType1/ParticleIDs: got -2, expected integers >= 0");
    assert_error(
        "huge.hdf5",
        "attribute /Header/NumPart_ThisFile: got 1000000000000 bodies, expected no more than fit",
    );
    assert_error(
        "several_files.hdf5",
        "attribute /Header/NumFilesPerSnapshot: got 8, expected 1 file per snapshot",
    );
    assert_error("no_header.hdf5", "group /Header: got nothing, or a link");
}
