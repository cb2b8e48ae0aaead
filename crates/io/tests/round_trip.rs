//! What is written is what is read, to the bit, in every format.

mod common;

use std::path::Path;

use common::{EXTENSIONS, bytes_of, mixed, read};
use orrery_io::{Format, Limits, NpzArray, Snapshot, describe_snapshot, write_npz_arrays, write_snapshot};
use orrery_model::{Particle, Particles, Species, Units, Vec3s};
use proptest::prelude::*;

fn there_and_back(snapshot: &Snapshot, extension: &str) -> Snapshot {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("snapshot.{extension}"));
    write_snapshot(&path, snapshot).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "a temporary file stayed behind");
    read(&path).unwrap()
}

/// `==` takes -0.0 for 0.0; the bits must be the same.
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
fn species_order_units_and_provenance_come_back() {
    let units = [Units::NBody, Units::Galactic, Units::Solar, mixed().units];
    for extension in EXTENSIONS {
        for units in units {
            let snapshot = Snapshot { units, ..mixed() };
            assert_same(&there_and_back(&snapshot, extension), &snapshot, extension);
        }
    }
}

#[test]
fn a_long_case_and_a_system_of_many_windows_come_back() {
    let mut snapshot = mixed();
    snapshot.provenance.push(("long".to_owned(), "0123456789 =\"\n".repeat(20_000)));
    for i in 0..300_000 {
        let body = Particle { id: i, ..snapshot.particles.get((i % 5) as usize) };
        snapshot.particles.push(body);
    }
    for extension in EXTENSIONS {
        assert_same(&there_and_back(&snapshot, extension), &snapshot, extension);
    }
}

#[test]
fn no_bodies_is_a_file_too() {
    let snapshot = Snapshot { particles: Particles::default(), ..mixed() };
    for extension in EXTENSIONS {
        assert_same(&there_and_back(&snapshot, extension), &snapshot, extension);
    }
}

#[test]
fn the_same_snapshot_gives_the_same_bytes() {
    for extension in EXTENSIONS {
        assert_eq!(bytes_of(&mixed(), extension), bytes_of(&mixed(), extension), "{extension}");
    }
}

#[test]
fn content_tells_the_format_where_the_name_does_not() {
    let folder = tempfile::tempdir().unwrap();
    for (extension, format) in
        EXTENSIONS.into_iter().zip([Format::GadgetHdf5, Format::ExtendedXyz, Format::Npz])
    {
        let path = folder.path().join(format!("{extension}_000"));
        std::fs::write(&path, bytes_of(&mixed(), extension)).unwrap();
        let description = describe_snapshot(&path, &Limits::default()).unwrap();
        assert_eq!(description.format, format);
        assert_eq!(description.species, [(Species::Halo, 2), (Species::Disc, 2), (Species::Bulge, 1)]);
        assert_eq!(description.body_count(), 5);
        let [low, high] = description.extent.unwrap();
        assert_eq!((low[0], high[0], low[1], high[1]), (0.1, 4.1, -4.0 / 3.0, 0.0));
    }
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.npz");
    write_snapshot(&path, &mixed()).unwrap();
    let mut broken = mixed();
    broken.particles.mass.pop();
    let message = write_snapshot(&path, &broken).unwrap_err().to_string();
    assert!(message.ends_with("s.npz: mass has 4 entries, expected 5"), "{message}");
    assert_same(&read(&path).unwrap(), &mixed(), "npz");

    let message = write_snapshot(&folder.path().join("s.png"), &mixed()).unwrap_err().to_string();
    assert!(message.contains("s.png: unknown extension .png, expected .hdf5"), "{message}");
    let message = write_snapshot(&folder.path().join("no/such/s.xyz"), &mixed()).unwrap_err().to_string();
    assert!(message.ends_with("no/such/s.xyz: could not be created: no such file or directory"), "{message}");
}

#[test]
fn provenance_that_no_format_could_keep_is_refused() {
    for (key, value, expected) in
        [("", "x", "an empty name"), ("version", "2", "'version' twice"), ("k", "a\0b", "a NUL")]
    {
        let mut snapshot = mixed();
        snapshot.provenance.push((key.to_owned(), value.to_owned()));
        let message = write_snapshot(Path::new("never.npz"), &snapshot).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(!Path::new("never.npz").exists());
    }
}

#[test]
fn arrays_of_any_kind_are_written() {
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
    let snapshot = read(&path).unwrap();
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
    fn any_system_comes_back(snapshot in any_snapshot()) {
        for extension in EXTENSIONS {
            assert_same(&there_and_back(&snapshot, extension), &snapshot, extension);
        }
    }
}
