//! Damaged and invalid files. Reading gives an error of one line, never a panic, and never fewer
//! bodies than written.
#![cfg(unix)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{EXTENSIONS, file_bytes, mixed_snapshot, read_unlimited};
use orrery_formats::{Snapshot, write_npz_arrays};
use orrery_model::rng::philox4x32_10;

fn read_bytes(folder: &Path, name: &str, bytes: &[u8]) -> Result<Snapshot, String> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    read_and_check_error(&path)
}

/// Reads a snapshot and checks that an error message is one line and starts with the path.
fn read_and_check_error(path: &Path) -> Result<Snapshot, String> {
    read_unlimited(path).map_err(|error| {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with(path.to_str().unwrap()), "{message}");
        message
    })
}

#[track_caller]
fn assert_error(outcome: Result<Snapshot, String>, expected: &str) {
    let message = outcome.expect_err("the file should be rejected");
    assert!(message.contains(expected), "got: {message}\nexpected: {expected}");
}

#[test]
fn every_truncation_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let whole = file_bytes(&mixed_snapshot(), extension);
        let path = folder.path().join(format!("cut.{extension}"));
        std::fs::write(&path, &whole).unwrap();
        assert!(read_and_check_error(&path).is_ok());
        let file = File::options().write(true).open(&path).unwrap();
        // The last newline of an XYZ file is optional.
        let shortest = whole.len() - usize::from(extension == "xyz");
        for length in (0..shortest).rev() {
            file.set_len(length as u64).unwrap();
            assert!(
                read_and_check_error(&path).is_err(),
                "{extension} cut at {length} of {} was accepted",
                whole.len()
            );
        }
    }
}

/// Changes every byte of each file in turn. Any result is accepted except a panic or an endless
/// read.
#[test]
fn changed_bytes_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let whole = file_bytes(&mixed_snapshot(), extension);
        let path = folder.path().join(format!("changed.{extension}"));
        std::fs::write(&path, &whole).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        // Long runs of zeros are padding and are skipped.
        let is_padding =
            |offset: usize| whole[offset.saturating_sub(16)..].iter().take(32).all(|&byte| byte == 0);
        for offset in (0..whole.len()).filter(|&offset| !is_padding(offset)) {
            let [random, ..] = philox4x32_10([offset as u32, 0, 0, 0], [7, 7]);
            for value in [0xff, whole[offset] ^ 1 << (random % 8)] {
                file.write_all_at(&[value], offset as u64).unwrap();
                if let Ok(snapshot) = read_and_check_error(&path) {
                    let p = &snapshot.particles;
                    let lengths = [p.position.len(), p.velocity.len(), p.id.len(), p.species.len()];
                    assert_eq!(lengths, [p.mass.len(); 4], "{extension}, byte {offset}");
                }
            }
            file.write_all_at(&whole[offset..=offset], offset as u64).unwrap();
        }
        assert!(read_and_check_error(&path).is_ok());
    }
}

#[test]
fn files_that_are_not_snapshots_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let given = |name: &str, bytes: &[u8]| read_bytes(folder.path(), name, bytes);
    assert_error(given("empty.hdf5", b""), "empty.hdf5: the file is empty, expected a snapshot");
    assert_error(given("noise", b"Lorem ipsum"), "noise: byte 0: got unknown content, expected a GADGET");
    assert_error(given("noise.hdf5", b"Lorem ipsum"), "byte 0: got no HDF5 signature, expected an HDF5 file");
    assert_error(given("noise.npz", b"Lorem ipsum"), "expected an intact zip archive");
    assert_error(
        given("noise.xyz", b"Lorem ipsum\n"),
        "line 1: got 'Lorem ipsum', expected the number of bodies",
    );
    let missing = read_unlimited(&folder.path().join("missing.hdf5")).unwrap_err().to_string();
    assert!(missing.ends_with("missing.hdf5: no such file or directory"), "{missing}");
    let directory = read_unlimited(folder.path()).unwrap_err().to_string();
    assert!(directory.ends_with("path: got a directory, expected a file"), "{directory}");
}

#[test]
fn xyz_errors_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let given = |text: &str| read_bytes(folder.path(), "s.xyz", text.as_bytes());
    let head = "Properties=pos:R:3:vel:R:3:mass:R:1";
    assert_eq!(given(&format!("1\n{head}\n1 2 3 0 0 0 1\n\n")).unwrap().particles.len(), 1);
    assert_error(
        given(&format!("2\n{head}\n1 2 3 0 0 0 1\n")),
        "line 4: got end of file, expected 2 bodies, found 1",
    );
    assert_error(
        given(&format!("1\n{head}\n1 2 3 0 0 0 1\n1 2\n")),
        "line 4: got another line, expected the end",
    );
    assert_error(given(&format!("1\n{head}\n1 2 3 0 0 0\n")), "line 3: got 6 columns, expected 7");
    assert_error(given(&format!("1\n{head}\n1 2 3 0 0 0 1 1\n")), "line 3: got 8 columns, expected 7");
    assert_error(
        given(&format!("1\n{head}\n1 2 3 0 zero 0 1\n")),
        "line 3: got 'zero' in column 5, expected a number",
    );
    assert_error(given(&format!("1\n{head}\n1 2 3 0 0 0")), "line 3: got 6 columns, expected 7");
    assert_error(given(&format!("0\n{head}")), "line 2: got no newline at its end, expected a whole line");
    assert_error(given("1"), "line 1: got no newline at its end, expected a whole line");
    assert_error(given(&format!("1\n{head}\n")), "line 3: got end of file, expected 1 body, found 0");
    assert_error(given("1\nProperties=species:S:1:pos:R:3\nH 1 2 3\n"), "without one 'vel'");
    for (property, expected) in [
        ("species:I:1", "got 'species:I:1', expected names species:S:1"),
        ("species:R:1", "got 'species:R:1', expected names species:S:1"),
        ("id:R:1", "got 'id:R:1', expected integers id:I:1"),
        ("id:S:1", "got 'id:S:1', expected integers id:I:1"),
    ] {
        let text = format!("1\n{head}:{property}\n1 2 3 0 0 0 1 5\n");
        assert_error(given(&text), &format!("line 2, Properties: {expected}"));
    }
    assert_error(given("1\na comment\nH 1 2 3\n"), "line 2, Properties: got 'nothing', expected species:S:1");
    assert_error(
        given(&format!("1\n{head} units=imperial\n1 2 3 0 0 0 1\n")),
        "got 'imperial', expected nbody",
    );
    assert_error(
        given(&format!("1000000000000\n{head}\n1 2 3 0 0 0 1\n")),
        "got 1000000000000 bodies, expected no more",
    );
    assert_error(given("99999999999999999999\n\n"), "line 1: got '99999999999999999999'");
}

/// Some editors write no newline at the end of a file.
#[test]
fn xyz_without_a_final_newline_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = "2\nProperties=pos:R:3:vel:R:3:mass:R:1\n1 2 3 0 0 0 1\n4 5 6 0 0 0 0.125";
    let without = read_bytes(folder.path(), "s.xyz", text.as_bytes()).unwrap();
    assert_eq!(without.particles.mass, [1.0, 0.125]);
    assert_eq!(without, read_bytes(folder.path(), "s.xyz", format!("{text}\n").as_bytes()).unwrap());
    // Others write a byte order mark at its start. The name without extension tests the detection.
    let marked = format!("\u{feff}{text}");
    assert_eq!(without, read_bytes(folder.path(), "marked", marked.as_bytes()).unwrap());
    let own = file_bytes(&mixed_snapshot(), "xyz");
    let read = read_bytes(folder.path(), "s.xyz", own.strip_suffix(b"\n").unwrap());
    assert_eq!(read.unwrap(), mixed_snapshot());
}

/// All missing arrays are named at once, with the arrays of the file.
#[test]
fn npz_errors_name_the_arrays_found() {
    use orrery_formats::NpzArray::{Reals, Vectors};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.npz");
    let p = mixed_snapshot().particles;
    let given = |arrays: &[_]| {
        write_npz_arrays(&path, arrays).unwrap();
        read_unlimited(&path).map_err(|error| error.to_string())
    };
    assert_error(
        given(&[("vel", Vectors(&p.velocity)), ("position", Vectors(&p.position)), ("m", Reals(&p.mass))]),
        "s.npz: arrays velocity, mass: got only m, position, vel, expected position (n, 3), velocity (n, 3) and mass (n)",
    );
    assert_error(given(&[]), "s.npz: arrays position, velocity, mass: got no arrays, expected position");
    let names: Vec<String> = (0..30).map(|k| format!("a{k:02}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), Reals(&p.mass))).collect();
    assert_error(given(&many), "a18, a19, 10 more, expected position");
}

#[test]
fn npz_errors_name_the_array() {
    use orrery_formats::NpzArray::{Bytes, Reals, Text, Vectors};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.npz");
    let p = mixed_snapshot().particles;
    let given = |arrays: &[_]| {
        write_npz_arrays(&path, arrays).unwrap();
        read_unlimited(&path).map_err(|error| error.to_string())
    };
    let (x, v) = (("position", Vectors(&p.position)), ("velocity", Vectors(&p.velocity)));
    let m = ("mass", Reals(&p.mass));
    assert_error(given(&[x, v]), "s.npz: array mass: got only position, velocity, expected position (n, 3)");
    assert_error(given(&[x, v, ("mass", Reals(&p.mass[..1]))]), "array mass has 1 entry, expected 5");
    assert_error(given(&[x, v, ("mass", Reals(&p.mass[..4]))]), "array mass has 4 entries, expected 5");
    assert_error(
        given(&[("position", Reals(&p.mass)), v, m]),
        "array position: got shape [5], expected shape [n, 3]",
    );
    assert_error(
        given(&[x, v, m, ("species", Bytes(&[1, 1, 9, 1, 1]))]),
        "array species: got 9, expected 0 to 5",
    );
    assert_error(given(&[x, v, m, ("units", Text("feet"))]), "array units: got 'feet', expected nbody");
    assert_error(
        given(&[x, v, m, ("id", Reals(&p.mass))]),
        "array id: got f64 values, expected integers >= 0",
    );
    assert_error(
        given(&[x, v, m, ("time", Reals(&p.mass))]),
        "array time: got shape [5], expected one number",
    );
    assert_error(given(&[x, v, m, ("provenance", Bytes(b"{"))]), "expected JSON");
}
