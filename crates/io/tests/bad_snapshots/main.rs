//! Bad snapshots of every format: each is refused with exactly its one line.

mod gadget;
mod hdf5;
mod npz;
mod xyz;

use std::collections::HashSet;
use std::fs;

use orrery_io::{Limits, read_snapshot};

/// A file that must be refused: the name it is given, its bytes, and what is said after its path.
struct Bad {
    file: &'static str,
    bytes: Vec<u8>,
    message: &'static str,
}

fn bad(file: &'static str, bytes: impl Into<Vec<u8>>, message: &'static str) -> Bad {
    Bad { file, bytes: bytes.into(), message }
}

#[test]
fn each_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<Bad> = [xyz::all(), npz::all(), gadget::all(), hdf5::all()].into_iter().flatten().collect();
    assert!(all.len() >= 90, "only {} bad snapshots", all.len());
    let different: HashSet<_> = all.iter().map(|bad| (bad.file, &bad.bytes)).collect();
    assert_eq!(different.len(), all.len());

    let mut surprises = Vec::new();
    for bad in all {
        let path = folder.path().join(bad.file);
        fs::write(&path, &bad.bytes).unwrap();
        let label = format!("{}: ", path.display());
        let got = match read_snapshot(&path, &Limits { memory: 1 << 20 }) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string().strip_prefix(&label).expect("names its file").to_owned(),
        };
        if got != bad.message || got.contains('\n') {
            surprises.push(format!("{}: expected {}\n    got {got}", bad.file, bad.message));
        }
    }
    assert!(surprises.is_empty(), "{} differ:\n{}", surprises.len(), surprises.join("\n"));
}
