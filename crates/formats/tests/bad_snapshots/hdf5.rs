//! Invalid HDF5 files: files written by h5py (hostile/make.py and data/make.py), some with a few
//! changed bytes.

use std::fs;
use std::path::Path;

use hdf5_pure::{AttrValue, FileBuilder};

use super::{BadFile, bad};

fn fixture(name: &str) -> Vec<u8> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let hostile = tests.join("hostile").join(name);
    fs::read(if hostile.exists() { hostile } else { tests.join("data").join(name) }).unwrap()
}

fn fixture_case(name: &'static str, message: &'static str) -> BadFile {
    bad(name, fixture(name), message)
}

/// plain.hdf5 where the first `from` after `name` is replaced by `to`.
fn changed_case(name: &str, from: &[u8], to: &[u8], message: &'static str) -> BadFile {
    bad("s.hdf5", with_change("plain.hdf5", name.as_bytes(), from, to), message)
}

fn with_change(file: &str, after: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = fixture(file);
    let find = |start: usize, pattern: &[u8]| {
        let at = bytes[start..].windows(pattern.len()).position(|window| window == pattern);
        start + at.expect("the file contains the pattern")
    };
    let at = find(find(0, after), from);
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

/// Coordinates in two chunks of two rows. The second chunk gets the first row `row` and, if given,
/// the length `length`.
fn changed_chunk(row: u64, length: Option<u32>, message: &'static str) -> BadFile {
    let offset = [2u64, 0, 0].map(u64::to_le_bytes).concat();
    let mut bytes = with_change("single_precision.hdf5", b"TREE\x01", &offset, &row.to_le_bytes());
    if let Some(length) = length {
        let at =
            bytes.windows(24).position(|window| window == offset).expect("the file contains the offset") - 8;
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
    bad("s.hdf5", bytes, message)
}

/// plain.hdf5 with a count of `n` bodies in the header.
fn with_count(n: u64, message: &'static str) -> BadFile {
    changed_case("NumPart_ThisFile", &3u64.to_le_bytes(), &n.to_le_bytes(), message)
}

/// A file with a header only.
fn header_only(attributes: &[(&str, AttrValue)], message: &'static str) -> BadFile {
    let mut builder = FileBuilder::new();
    let mut group = builder.create_group("Header");
    for (name, value) in attributes {
        group.set_attr(name, value.clone());
    }
    builder.add_group(group.finish());
    bad("s.hdf5", builder.finish().unwrap(), message)
}

pub fn all() -> Vec<BadFile> {
    let plain = fixture("plain.hdf5");
    let counts = |n: u64| AttrValue::U64Array(vec![0, n, 0, 0, 0, 0]);
    vec![
        bad("s.hdf5", "", "the file is empty, expected a snapshot"),
        bad("s.hdf5", "not HDF5", "byte 0: got no HDF5 signature, expected an HDF5 file"),
        bad(
            "s.hdf5",
            &plain[..8],
            "file: got HDF5 format error: unexpected EOF: need 9 bytes, have 8, expected an intact HDF5 file",
        ),
        bad(
            "s.hdf5",
            &plain[..plain.len() / 2],
            "file: got 3140 bytes, expected 6280: the file is truncated",
        ),
        bad(
            "s.hdf5",
            &plain[..plain.len() - 1],
            "file: got 6279 bytes, expected 6280: the file is truncated",
        ),
        fixture_case(
            "external_link.hdf5",
            "group /PartType1: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        fixture_case(
            "external_link_dataset.hdf5",
            "dataset /PartType1/Masses: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        fixture_case(
            "external_storage.hdf5",
            "dataset /PartType1/Masses: got external storage, or no values at all, expected values inside this file (data outside are not read)",
        ),
        fixture_case(
            "virtual.hdf5",
            "dataset /PartType1/Masses: got a virtual dataset, expected values inside this file (data outside are not read)",
        ),
        fixture_case(
            "soft_link_group.hdf5",
            "group /PartType1: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        fixture_case(
            "soft_link_dataset.hdf5",
            "dataset /PartType1/Masses: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        fixture_case(
            "oversized_chunk.hdf5",
            "dataset /PartType1/Masses: got chunks of 800000000 bytes, expected at most the 24 of the dataset",
        ),
        fixture_case(
            "many_chunks.hdf5",
            "dataset /PartType1/Coordinates: got 100000 chunks, expected no more than fit into a file of 3688 bytes",
        ),
        fixture_case("many_filters.hdf5", "dataset /PartType1/Masses: got 20 filters, expected at most 8"),
        fixture_case("dense.hdf5", "20000 bodies need 2.9 MiB of memory, the limit is 1.0 MiB"),
        fixture_case(
            "never_written.hdf5",
            "attribute /Header/NumPart_ThisFile: got 1099511627776 bodies, expected no more than fit into a file of 3688 bytes",
        ),
        fixture_case(
            "dataset_instead_of_group.hdf5",
            "group /PartType1: got not a group: PartType1, expected an intact HDF5 file",
        ),
        fixture_case(
            "group_instead_of_dataset.hdf5",
            "dataset /PartType1/Masses: got not a dataset: PartType1/Masses, expected an intact HDF5 file",
        ),
        fixture_case(
            "wrong_shape.hdf5",
            "dataset /PartType1/Velocities: got shape [3, 2], expected shape [3, 3]",
        ),
        fixture_case("wrong_type.hdf5", "dataset /PartType1/Masses: got i32 values, expected f32 or f64"),
        fixture_case("wrong_count.hdf5", "dataset /PartType1/Masses has 2 entries, expected 3"),
        fixture_case("negative_id.hdf5", "dataset /PartType1/ParticleIDs: got -2, expected integers >= 0"),
        fixture_case("texts.hdf5", "dataset /PartType1/Masses: got string values, expected f32 or f64"),
        fixture_case("no_text.hdf5", "attribute /Orrery/Provenance/case: got nothing, expected a text"),
        fixture_case(
            "many_attributes.hdf5",
            "attribute /Header/UnitSystem: got 'cubits', expected nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'",
        ),
        fixture_case(
            "several_files.hdf5",
            "attribute /Header/NumFilesPerSnapshot: got 8, expected 1 file per snapshot",
        ),
        fixture_case(
            "no_header.hdf5",
            "group /Header: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        fixture_case(
            "huge.hdf5",
            "attribute /Header/NumPart_ThisFile: got 1000000000000 bodies, expected no more than fit into a file of 4192 bytes",
        ),
        with_count(2, "dataset /PartType1/Coordinates has 3 entries, expected 2"),
        with_count(20_000, "dataset /PartType1/Coordinates has 3 entries, expected 20000"),
        with_count(
            1 << 31,
            "attribute /Header/NumPart_ThisFile: got 2147483648 bodies, expected no more than fit into a file of 6280 bytes",
        ),
        with_count(
            1 << 40,
            "attribute /Header/NumPart_ThisFile: got 1099511627776 bodies, expected no more than fit into a file of 6280 bytes",
        ),
        with_count(
            1 << 63,
            "attribute /Header/NumPart_ThisFile: got 9223372036854775808 bodies, expected no more than fit into a file of 6280 bytes",
        ),
        with_count(
            u64::MAX,
            "attribute /Header/NumPart_ThisFile: got 18446744073709551615 bodies, expected no more than fit into a file of 6280 bytes",
        ),
        // The number of entries of the attribute.
        changed_case(
            "NumPart_ThisFile",
            &6u64.to_le_bytes(),
            &(1u64 << 40).to_le_bytes(),
            "attributes of group /Header: got HDF5 format error: unexpected EOF: need 8796093022280 bytes, have 120, expected an intact HDF5 file",
        ),
        changed_case(
            "NumPart_ThisFile",
            &6u64.to_le_bytes(),
            &5u64.to_le_bytes(),
            "attribute /Header/MassTable has 6 entries, expected 5",
        ),
        changed_case(
            "NumPart_ThisFile",
            b"NumPart_ThisFile",
            b"NumPart_ThatFile",
            "attribute /Header/NumPart_ThisFile: got nothing, expected a number for each type of particle",
        ),
        // The signature of the local heap of the root group.
        changed_case(
            "TREE",
            b"HEAP",
            b"HEAR",
            "group /Header: got HDF5 format error: invalid local heap signature, expected an intact HDF5 file",
        ),
        changed_chunk(
            0,
            None,
            "dataset /PartType1/Coordinates: got two chunks at the same position, expected chunks on a regular grid",
        ),
        changed_chunk(
            1,
            None,
            "dataset /PartType1/Coordinates: got a chunk off the grid, expected chunks on a regular grid",
        ),
        changed_chunk(
            4,
            None,
            "dataset /PartType1/Coordinates: got a chunk off the grid, expected chunks on a regular grid",
        ),
        changed_chunk(
            2,
            Some(u32::MAX),
            "dataset /PartType1/Coordinates: got chunks of 4294967316 bytes, expected no more than fit into a file of 9104 bytes",
        ),
        changed_chunk(
            2,
            Some(1),
            "dataset /PartType1/Coordinates: got HDF5 format error: filter error: deflate: stream ended before the chunk was complete, expected an intact HDF5 file",
        ),
        fixture_case("no_chunks.hdf5", "dataset /PartType1/Masses: got 0 of 1 chunks, expected all of them"),
        header_only(
            &[],
            "attribute /Header/NumPart_ThisFile: got nothing, expected a number for each type of particle",
        ),
        header_only(
            &[("NumPart_ThisFile", AttrValue::F64(1.0))],
            "attribute /Header/NumPart_ThisFile: got 1, expected numbers >= 0",
        ),
        header_only(
            &[("NumPart_ThisFile", AttrValue::I64Array(vec![0, -1, 0, 0, 0, 0]))],
            "attribute /Header/NumPart_ThisFile: got 0 -1 0 0 0 0, expected numbers >= 0",
        ),
        header_only(
            &[("NumPart_ThisFile", AttrValue::U64Array(vec![1; 7]))],
            "group /PartType0: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        header_only(
            &[("NumPart_ThisFile", AttrValue::VarLenString("three".to_owned()))],
            "attribute /Header/NumPart_ThisFile: got 'three', expected numbers >= 0",
        ),
        header_only(
            &[("NumPart_ThisFile", counts(1))],
            "group /PartType1: got nothing, or a link, expected an object in this file (links are not followed)",
        ),
        header_only(
            &[("NumPart_ThisFile", counts(0)), ("MassTable", AttrValue::F64Array(vec![0.0; 5]))],
            "attribute /Header/MassTable has 5 entries, expected 6",
        ),
        header_only(
            &[("NumPart_ThisFile", counts(0)), ("NumFilesPerSnapshot", AttrValue::I32(2))],
            "attribute /Header/NumFilesPerSnapshot: got 2, expected 1 file per snapshot",
        ),
        header_only(
            &[("NumPart_ThisFile", counts(0)), ("UnitSystem", AttrValue::VarLenString("ells".to_owned()))],
            "attribute /Header/UnitSystem: got 'ells', expected nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'",
        ),
        header_only(
            &[
                ("NumPart_ThisFile", counts(0)),
                ("UnitLength_in_cm", AttrValue::F64(-1.0)),
                ("UnitMass_in_g", AttrValue::F64(1.0)),
                ("UnitVelocity_in_cm_per_s", AttrValue::F64(1.0)),
            ],
            "attribute /Header/UnitLength_in_cm: got -1, expected a finite number > 0",
        ),
    ]
}
