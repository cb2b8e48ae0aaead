//! Invalid snapshots of every format. Each is rejected with exactly the expected message.

mod gadget;
mod hdf5;
mod npz;
mod xyz;

use std::collections::HashSet;
use std::fs;

use orrery_formats::{Limits, read_snapshot};

/// A file that must be rejected: its name, its bytes, and the message after the path.
struct BadFile {
    file: &'static str,
    bytes: Vec<u8>,
    message: &'static str,
}

fn bad(file: &'static str, bytes: impl Into<Vec<u8>>, message: &'static str) -> BadFile {
    BadFile { file, bytes: bytes.into(), message }
}

#[test]
fn each_file_is_rejected_with_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<BadFile> =
        [xyz::all(), npz::all(), gadget::all(), hdf5::all()].into_iter().flatten().collect();
    assert!(all.len() >= 90, "only {} bad snapshots", all.len());
    let different: HashSet<_> = all.iter().map(|bad| (bad.file, &bad.bytes)).collect();
    assert_eq!(different.len(), all.len());

    let mut differences = Vec::new();
    for bad in all {
        let path = folder.path().join(bad.file);
        fs::write(&path, &bad.bytes).unwrap();
        let label = format!("{}: ", path.display());
        let got = match read_snapshot(&path, &Limits { memory: 1 << 20 }) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => {
                error.to_string().strip_prefix(&label).expect("the message starts with the path").to_owned()
            }
        };
        if got != bad.message || got.contains('\n') {
            differences.push(format!("{}: expected {}\n    got {got}", bad.file, bad.message));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
