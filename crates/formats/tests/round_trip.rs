//! In every format, reading returns the written snapshot with identical bits.

use std::path::Path;

use crate::common::{EXTENSIONS, file_bytes, mixed_snapshot, read_unlimited};
use orrery_formats::{
    Format, Limits, NpzArray, Snapshot, describe_snapshot, write_npz_arrays, write_snapshot,
};
use orrery_model::{Particle, Particles, Species, Units, Vec3s};
use proptest::prelude::*;

fn write_and_read(snapshot: &Snapshot, extension: &str) -> Snapshot {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("snapshot.{extension}"));
    write_snapshot(&path, snapshot).unwrap();
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "a temporary file was not removed");
    read_unlimited(&path).unwrap()
}

/// Compares bits, too, because -0.0 == 0.0.
fn assert_same(got: &Snapshot, expected: &Snapshot, extension: &str) {
    assert_eq!(got, expected, "{extension}");
    let bits = |s: &Snapshot| {
        let p = &s.particles;
        let columns = [&p.position.x, &p.position.y, &p.position.z, &p.velocity.y, &p.mass];
        columns.map(|column| column.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
    };
    assert_eq!(bits(got), bits(expected), "{extension}");
}

#[test]
fn species_order_units_and_provenance_are_preserved() {
    let units = [Units::NBody, Units::Galactic, Units::Solar, mixed_snapshot().units];
    for extension in EXTENSIONS {
        for units in units {
            let snapshot = Snapshot { units, ..mixed_snapshot() };
            assert_same(&write_and_read(&snapshot, extension), &snapshot, extension);
        }
    }
}

#[test]
fn long_provenance_and_many_bodies_are_preserved() {
    let mut snapshot = mixed_snapshot();
    snapshot.provenance.push(("long".to_owned(), "0123456789 =\"\n".repeat(20_000)));
    for i in 0..300_000 {
        let body = Particle { id: i, ..snapshot.particles.get((i % 5) as usize) };
        snapshot.particles.push(body);
    }
    for extension in EXTENSIONS {
        assert_same(&write_and_read(&snapshot, extension), &snapshot, extension);
    }
}

#[test]
fn snapshot_without_bodies_is_preserved() {
    let snapshot = Snapshot { particles: Particles::default(), ..mixed_snapshot() };
    for extension in EXTENSIONS {
        assert_same(&write_and_read(&snapshot, extension), &snapshot, extension);
    }
}

#[test]
fn same_snapshot_gives_the_same_bytes() {
    for extension in EXTENSIONS {
        assert_eq!(
            file_bytes(&mixed_snapshot(), extension),
            file_bytes(&mixed_snapshot(), extension),
            "{extension}"
        );
    }
}

#[test]
fn format_is_detected_from_the_content_without_an_extension() {
    let folder = tempfile::tempdir().unwrap();
    for (extension, format) in
        EXTENSIONS.into_iter().zip([Format::GadgetHdf5, Format::ExtendedXyz, Format::Npz])
    {
        let path = folder.path().join(format!("{extension}_000"));
        std::fs::write(&path, file_bytes(&mixed_snapshot(), extension)).unwrap();
        let description = describe_snapshot(&path, &Limits::default()).unwrap();
        assert_eq!(description.format, format);
        assert_eq!(description.species, [(Species::Halo, 2), (Species::Disc, 2), (Species::Bulge, 1)]);
        assert_eq!(description.body_count(), 5);
        let [x, y, _] = description.extent;
        assert_eq!((x, y), (Some([0.1, 4.1]), Some([-4.0 / 3.0, 0.0])));
        assert_eq!((description.non_finite, description.negative_masses), (Vec::new(), 0));
        assert_eq!((description.repeated_ids, description.warnings), (0, Vec::new()));
    }
}

/// NaN is counted, and not hidden by the range of the other values.
#[test]
fn description_counts_nan_negative_masses_and_repeated_ids() {
    let folder = tempfile::tempdir().unwrap();
    let mut snapshot = mixed_snapshot();
    let p = &mut snapshot.particles;
    (p.position.x[1], p.position.x[2], p.velocity.z[0]) = (f64::NAN, f64::INFINITY, f64::NAN);
    p.position.y.fill(f64::NAN);
    (p.mass[0], p.mass[3], p.mass[4]) = (-1.0, -2.0, f64::NAN);
    p.id[4] = p.id[0];
    for extension in EXTENSIONS {
        let path = folder.path().join("s").with_extension(extension);
        write_snapshot(&path, &snapshot).unwrap();
        let found = describe_snapshot(&path, &Limits::default()).unwrap();
        assert_eq!(found.non_finite, [("position x", 2), ("position y", 5), ("velocity z", 1), ("mass", 1)]);
        assert_eq!((found.negative_masses, found.repeated_ids), (2, 1));
        assert_eq!(found.extent[..2], [Some([0.1, 4.1]), None]);
    }
}

#[test]
fn failed_write_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.npz");
    write_snapshot(&path, &mixed_snapshot()).unwrap();
    let mut broken = mixed_snapshot();
    broken.particles.mass.pop();
    let message = write_snapshot(&path, &broken).unwrap_err().to_string();
    assert!(message.ends_with("s.npz: mass has 4 entries, expected 5"), "{message}");
    assert_same(&read_unlimited(&path).unwrap(), &mixed_snapshot(), "npz");

    let message = write_snapshot(&folder.path().join("s.png"), &mixed_snapshot()).unwrap_err().to_string();
    assert!(message.contains("s.png: unknown extension .png, expected .hdf5"), "{message}");
    let message =
        write_snapshot(&folder.path().join("no/such/s.xyz"), &mixed_snapshot()).unwrap_err().to_string();
    assert!(message.ends_with("no/such/s.xyz: could not be created: no such file or directory"), "{message}");
}

#[test]
fn invalid_provenance_is_rejected() {
    for (key, value, expected) in
        [("", "x", "an empty name"), ("version", "2", "'version' twice"), ("k", "a\0b", "a NUL")]
    {
        let mut snapshot = mixed_snapshot();
        snapshot.provenance.push((key.to_owned(), value.to_owned()));
        let message = write_snapshot(Path::new("never.npz"), &snapshot).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(!Path::new("never.npz").exists());
    }
}

#[test]
fn npz_arrays_of_any_kind_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.npz");
    let vectors = Vec3s { x: vec![1.0], y: vec![2.0], z: vec![3.0] };
    let arrays = [
        ("position", NpzArray::Vectors(&vectors)),
        ("velocity", NpzArray::Vectors(&vectors)),
        ("mass", NpzArray::Reals(&[4.0])),
        ("extra", NpzArray::Text("µ")),
    ];
    write_npz_arrays(&path, &arrays).unwrap();
    let snapshot = read_unlimited(&path).unwrap();
    let body = snapshot.particles.get(0);
    assert_eq!((body.position, body.mass, body.id), ([1.0, 2.0, 3.0], 4.0, 0));
    assert_eq!(snapshot.units, Units::Galactic);
    assert_eq!(snapshot.provenance[0].0, "units assumed");
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let finite = || any::<f64>().prop_filter("finite", |v| v.is_finite());
    let body =
        (prop::array::uniform3(finite()), prop::array::uniform3(finite()), finite(), any::<u64>(), 0..6usize)
            .prop_map(|(position, velocity, mass, id, kind)| Particle {
                position,
                velocity,
                mass,
                id,
                species: Species::ALL[kind],
            });
    let texts = prop::collection::btree_map("[^\\x00]{1,12}", "[^\\x00]{0,40}", 0..12);
    (prop::collection::vec(body, 0..9), finite(), any::<u64>(), texts).prop_map(
        |(bodies, time, step, texts)| {
            let mut particles = Particles::default();
            bodies.into_iter().for_each(|body| particles.push(body));
            Snapshot { particles, time, step, units: Units::Solar, provenance: texts.into_iter().collect() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_snapshots_are_preserved(snapshot in any_snapshot()) {
        for extension in EXTENSIONS {
            assert_same(&write_and_read(&snapshot, extension), &snapshot, extension);
        }
    }
}

/// Whole numbers may have the type of integers.
#[test]
fn integer_columns_of_xyz_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.xyz");
    let text = "1\nProperties=pos:I:3:vel:I:3:mass:I:1:id:I:1 units=nbody\n1 -2 3 0 5 0 7 9\n";
    std::fs::write(&path, text).unwrap();
    let body = read_unlimited(&path).unwrap().particles.get(0);
    assert_eq!((body.position, body.velocity, body.mass), ([1.0, -2.0, 3.0], [0.0, 5.0, 0.0], 7.0));
}
