//! Files of volumes: round trips, order of the axes, and files that are refused.

use std::fs;

use orrery_formats::{
    FieldFrame, FieldLabels, FieldValues, Limits, VolumeData, read_field_npy, read_field_vti,
    read_volume_npy, read_volume_vti, write_volume_npy, write_volume_vti,
};
use orrery_model::Precision;

const NODES: [usize; 3] = [4, 3, 2];

fn doubles() -> Vec<f64> {
    (0..24).map(|k| f64::from(k) / 7.0 - 1.0).collect()
}

fn labels() -> FieldLabels<3> {
    FieldLabels {
        name: Some("pressure".to_owned()),
        unit: Some("Pa".to_owned()),
        time: Some(0.25),
        frame: Some(FieldFrame { origin: [-1.0, 0.5, 100.0], spacing: [0.5, 0.25, 10.0] }),
        other_arrays: Vec::new(),
    }
}

#[test]
fn volumes_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (npy, vti) = (folder.path().join("u.npy"), folder.path().join("u.vti"));
    let limits = Limits::unbounded();
    let singles: Vec<f32> = doubles().iter().map(|&u| u as f32).collect();
    let widened: Vec<f64> = singles.iter().map(|&u| u.into()).collect();
    for (precision, values, expected) in [
        (Precision::Single, FieldValues::Single(&singles), widened),
        (Precision::Double, FieldValues::Double(&doubles()), doubles()),
    ] {
        // A volume, a plane, and a plane that is normal to y.
        for nodes in [NODES, [8, 3, 1], [12, 1, 2]] {
            write_volume_npy(&npy, nodes, values).unwrap();
            write_volume_vti(&vti, nodes, &labels(), values).unwrap();
            let expected = VolumeData { nodes, precision, values: expected.clone() };
            assert_eq!(read_volume_npy(&npy, &limits).unwrap(), expected);
            assert_eq!(read_volume_vti(&vti, &limits).unwrap(), (expected, labels()));
        }
    }
    let error = write_volume_vti(&vti, [4, 3, 3], &labels(), FieldValues::Single(&singles)).unwrap_err();
    assert!(error.to_string().ends_with("u.vti: field has 24 entries, expected 36"), "{error}");
}

#[test]
fn planes_are_read_as_planes() {
    let folder = tempfile::tempdir().unwrap();
    let (npy, vti) = (folder.path().join("u.npy"), folder.path().join("u.vti"));
    let (limits, values) = (Limits::unbounded(), doubles());
    write_volume_npy(&npy, [8, 3, 1], FieldValues::Double(&values)).unwrap();
    let plane = read_field_npy(&npy, &limits).unwrap();
    assert_eq!((plane.nx, plane.ny, &plane.values), (8, 3, &values));
    write_volume_vti(&vti, [12, 1, 2], &labels(), FieldValues::Double(&values)).unwrap();
    let (plane, labels) = read_field_vti(&vti, &limits).unwrap();
    assert_eq!((plane.nx, plane.ny, &plane.values), (12, 2, &values));
    assert_eq!(labels.frame, Some(FieldFrame { origin: [-1.0, 100.0], spacing: [0.5, 10.0] }));
}

/// A volume is not a plane. The readers of planes refuse it, and do not read its first plane.
#[test]
fn readers_of_planes_refuse_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let (npy, vti) = (folder.path().join("u.npy"), folder.path().join("u.vti"));
    let (limits, values) = (Limits::unbounded(), doubles());
    write_volume_npy(&npy, NODES, FieldValues::Double(&values)).unwrap();
    write_volume_vti(&vti, NODES, &labels(), FieldValues::Double(&values)).unwrap();
    let error = read_field_npy(&npy, &limits).unwrap_err().to_string();
    assert!(error.ends_with("array u: got shape [2, 3, 4], expected shape [ny, nx]"), "{error}");
    let error = read_field_vti(&vti, &limits).unwrap_err().to_string();
    assert!(error.ends_with("got 4 x 3 x 2 nodes, expected a plane, an axis with one node"), "{error}");
    // The limit is exact: 24 values of 8 bytes.
    for memory in [192, 191] {
        let outcome = read_volume_npy(&npy, &Limits { memory });
        assert_eq!(outcome.is_ok(), memory == 192);
    }
}

#[test]
fn arrays_in_fortran_order_are_transposed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.npy");
    // Shape (nz, ny, nx) = (2, 3, 4) with the first index fastest: the value is its C index.
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let dict = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4), }\n";
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    for i in 0..4 {
        for j in 0..3 {
            for k in 0..2 {
                bytes.extend((((k * 3 + j) * 4 + i) as f32).to_le_bytes());
            }
        }
    }
    fs::write(&path, &bytes).unwrap();
    let volume = read_volume_npy(&path, &Limits::unbounded()).unwrap();
    assert_eq!(volume.nodes, NODES);
    assert_eq!(volume.values, (0..24).map(f64::from).collect::<Vec<_>>());
    // One axis is too few, and four are too many.
    for shape in ["(24,)    ", "(1,2,3,4)"] {
        let at = bytes.windows(9).position(|part| part == b"(2, 3, 4)").unwrap();
        let mut changed = bytes.clone();
        changed[at..at + 9].copy_from_slice(shape.as_bytes());
        fs::write(&path, &changed).unwrap();
        let error = read_volume_npy(&path, &Limits::unbounded()).unwrap_err().to_string();
        assert!(error.ends_with("expected shape [nz, ny, nx] or [ny, nx]"), "{error}");
    }
}
