//! Broken and hostile files: an error of one line, never a panic, never fewer bodies than were written.
#![cfg(unix)]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{EXTENSIONS, bytes_of, mixed, read};
use orrery_io::{Snapshot, write_npz_arrays};
use orrery_model::rng::philox4x32_10;

fn read_bytes(folder: &Path, name: &str, bytes: &[u8]) -> Result<Snapshot, String> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    checked_read(&path)
}

/// Reads; an error must be one line that starts with the path.
fn checked_read(path: &Path) -> Result<Snapshot, String> {
    read(path).map_err(|error| {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with(path.to_str().unwrap()), "{message}");
        message
    })
}

#[track_caller]
fn says(outcome: Result<Snapshot, String>, expected: &str) {
    let message = outcome.expect_err("the file should be refused");
    assert!(message.contains(expected), "got: {message}\nexpected: {expected}");
}

#[test]
fn every_truncation_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let whole = bytes_of(&mixed(), extension);
        let path = folder.path().join(format!("cut.{extension}"));
        std::fs::write(&path, &whole).unwrap();
        assert!(checked_read(&path).is_ok());
        let file = File::options().write(true).open(&path).unwrap();
        for length in (0..whole.len()).rev() {
            file.set_len(length as u64).unwrap();
            assert!(checked_read(&path).is_err(), "{extension} cut at {length} of {} was taken", whole.len());
        }
    }
}

/// Every byte of each file in turn becomes something else: any answer but a panic or an endless read.
#[test]
fn no_changed_byte_panics() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let whole = bytes_of(&mixed(), extension);
        let path = folder.path().join(format!("changed.{extension}"));
        std::fs::write(&path, &whole).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        // Long runs of zeros are padding.
        let padding = |place: usize| whole[place.saturating_sub(16)..].iter().take(32).all(|&byte| byte == 0);
        for place in (0..whole.len()).filter(|&place| !padding(place)) {
            let [random, ..] = philox4x32_10([place as u32, 0, 0, 0], [7, 7]);
            for value in [0xff, whole[place] ^ 1 << (random % 8)] {
                file.write_all_at(&[value], place as u64).unwrap();
                if let Ok(snapshot) = checked_read(&path) {
                    let p = &snapshot.particles;
                    let lengths = [p.position.len(), p.velocity.len(), p.id.len(), p.species.len()];
                    assert_eq!(lengths, [p.mass.len(); 4], "{extension}, byte {place}");
                }
            }
            file.write_all_at(&whole[place..=place], place as u64).unwrap();
        }
        assert!(checked_read(&path).is_ok());
    }
}

#[test]
fn files_that_are_no_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let given = |name: &str, bytes: &[u8]| read_bytes(folder.path(), name, bytes);
    says(given("empty.hdf5", b""), "empty.hdf5: the file is empty, expected a snapshot");
    says(given("noise", b"Lorem ipsum"), "noise: byte 0: got unknown content, expected a GADGET");
    says(given("noise.hdf5", b"Lorem ipsum"), "byte 0: got no HDF5 signature, expected an HDF5 file");
    says(given("noise.npz", b"Lorem ipsum"), "expected an intact zip archive");
    says(given("noise.xyz", b"Lorem ipsum\n"), "line 1: got 'Lorem ipsum', expected the number of bodies");
    let missing = read(&folder.path().join("missing.hdf5")).unwrap_err().to_string();
    assert!(missing.ends_with("missing.hdf5: no such file or directory"), "{missing}");
    let directory = read(folder.path()).unwrap_err().to_string();
    assert!(directory.ends_with("path: got a directory, expected a file"), "{directory}");
}

#[test]
fn xyz_mistakes_say_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let given = |text: &str| read_bytes(folder.path(), "s.xyz", text.as_bytes());
    let head = "Properties=pos:R:3:vel:R:3:mass:R:1";
    assert_eq!(given(&format!("1\n{head}\n1 2 3 0 0 0 1\n\n")).unwrap().particles.len(), 1);
    says(
        given(&format!("2\n{head}\n1 2 3 0 0 0 1\n")),
        "line 4: got end of file, expected 2 bodies, found 1",
    );
    says(given(&format!("1\n{head}\n1 2 3 0 0 0 1\n1 2\n")), "line 4: got a further line, expected the end");
    says(given(&format!("1\n{head}\n1 2 3 0 0 0\n")), "line 3: got 6 columns, expected 7");
    says(given(&format!("1\n{head}\n1 2 3 0 0 0 1 1\n")), "line 3: got 8 columns, expected 7");
    says(
        given(&format!("1\n{head}\n1 2 3 0 zero 0 1\n")),
        "line 3: got 'zero' in column 5, expected a number",
    );
    says(given(&format!("1\n{head}\n1 2 3 0 0 0 1")), "line 3: got no newline at its end");
    says(given("1\nProperties=species:S:1:pos:R:3\nH 1 2 3\n"), "without one 'vel'");
    says(given("1\na comment\nH 1 2 3\n"), "line 2, Properties: got 'nothing', expected species:S:1");
    says(given(&format!("1\n{head} units=imperial\n1 2 3 0 0 0 1\n")), "got 'imperial', expected nbody");
    says(
        given(&format!("1000000000000\n{head}\n1 2 3 0 0 0 1\n")),
        "got 1000000000000 bodies, expected no more",
    );
    says(given("99999999999999999999\n\n"), "line 1: got '99999999999999999999'");
}

#[test]
fn npz_mistakes_say_the_array() {
    use orrery_io::NpzArray::{Bytes, Reals, Text, Vectors};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.npz");
    let p = mixed().particles;
    let given = |arrays: &[_]| {
        write_npz_arrays(&path, arrays).unwrap();
        read(&path).map_err(|error| error.to_string())
    };
    let (x, v) = (("position", Vectors(&p.position)), ("velocity", Vectors(&p.velocity)));
    let m = ("mass", Reals(&p.mass));
    says(given(&[x, v]), "s.npz: array mass: got nothing, expected it in the file");
    says(given(&[x, v, ("mass", Reals(&p.mass[..4]))]), "array mass has 4 entries, expected 5");
    says(
        given(&[("position", Reals(&p.mass)), v, m]),
        "array position: got shape [5], expected shape [n, 3]",
    );
    says(given(&[x, v, m, ("species", Bytes(&[1, 1, 9, 1, 1]))]), "array species: got 9, expected 0 to 5");
    says(given(&[x, v, m, ("units", Text("feet"))]), "array units: got 'feet', expected nbody");
    says(
        given(&[x, v, m, ("id", Reals(&p.mass))]),
        "array id: got values of another type, expected integers",
    );
    says(given(&[x, v, m, ("time", Reals(&p.mass))]), "array time: got shape [5], expected one number");
    says(given(&[x, v, m, ("provenance", Bytes(b"{"))]), "expected JSON");
}
