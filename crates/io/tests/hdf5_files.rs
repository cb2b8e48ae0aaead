//! HDF5 files of other programs (data/make.py writes them with h5py): what must be read, and what must not.

mod common;

use std::path::{Path, PathBuf};

use common::read;
use orrery_model::{Species, Units};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[track_caller]
fn says(name: &str, expected: &str) {
    let message = read(&data(name)).expect_err("the file should be refused").to_string();
    assert!(message.contains(&format!("{name}: {expected}")), "got: {message}\nexpected: {expected}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn single_precision_and_compression() {
    let snapshot = read(&data("single_precision.hdf5")).unwrap();
    let p = &snapshot.particles;
    assert_eq!(p.position.y, [1.0, 4.0, 7.0]);
    assert_eq!(p.velocity.z, [-2.0, -5.0, -8.0]);
    assert_eq!(p.mass, [1.0, 2.0, 3.0]);
    assert_eq!(p.id, [7, 8, 9]);
    assert_eq!((snapshot.time, snapshot.step, snapshot.units), (0.25, 0, Units::Galactic));
    assert_eq!(snapshot.provenance, [("units assumed".into(), "galactic, since the file names none".into())]);
}

#[test]
fn mass_table_missing_ids_and_units() {
    let snapshot = read(&data("mass_table.hdf5")).unwrap();
    let p = &snapshot.particles;
    assert_eq!(p.position.x, [0.0, 3.0, 6.0, 0.0, 3.0, 6.0]);
    assert_eq!(p.mass, [0.5, 0.5, 0.5, 2.0, 2.0, 2.0]);
    assert_eq!(p.id, [0, 1, 2, 3, 4, 5]);
    assert_eq!((p.species[0], p.species[3]), (Species::Halo, Species::Stars));
    assert_eq!(snapshot.units, Units::Galactic);
    assert!(snapshot.provenance.is_empty());
}

#[test]
fn nothing_outside_the_file_is_read() {
    says("external_link.hdf5", "group /PartType1: got nothing, or a link, expected it in this file");
    says("external_link_dataset.hdf5", "dataset /PartType1/Masses: got nothing, or a link");
    says("external_storage.hdf5", "dataset /PartType1/Masses: got external storage");
    says(
        "virtual.hdf5",
        "dataset /PartType1/Masses: got a virtual dataset, expected values inside this file",
    );
}

#[test]
fn mistakes_say_the_dataset() {
    says("wrong_count.hdf5", "dataset /PartType1/Masses has 2 entries, expected 3");
    says("wrong_type.hdf5", "dataset /PartType1/Masses: got i32 values, expected f32 or f64");
    says("negative_id.hdf5", "dataset /PartType1/ParticleIDs: got -2, expected integers >= 0");
    says(
        "huge.hdf5",
        "attribute /Header/NumPart_ThisFile: got 1000000000000 bodies, expected no more than fit",
    );
    says("several_files.hdf5", "attribute /Header/NumFilesPerSnapshot: got 8, expected 1, a whole snapshot");
    says("no_header.hdf5", "group /Header: got nothing, or a link");
}
