//! A small run, and what it left.
#![allow(dead_code, reason = "each test file is a crate of its own and uses a part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use orrery_engine::case::{Case, CaseSource};
use orrery_engine::run::{Output, Replace};
use tempfile::TempDir;

/// Twelve steps of 40 bodies; snapshots fall between steps.
const CASE: &str = r#"
name = "sphere"
[bodies]
model = "plummer"
n = 40
seed = 3
[gravity]
softening = 0.05
[time]
step = 0.125
end = 1.5
[output]
snapshot_every = 0.4
image_every = "5 steps"
record_every = "1 step"
[image]
size = 64
"#;

pub fn case(sets: &[&str]) -> Case {
    let source = CaseSource::Text { label: "case".into(), text: CASE.into(), folder: PathBuf::new() };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Case::load(&source, &sets).unwrap_or_else(|e| panic!("{e}"))
}

/// In memory where that is possible: these tests are about bits, not disks.
pub fn room() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary folder")
}

/// Every file of a run but its lock, with its bytes.
pub fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with(".lock") {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

pub fn assert_same(a: &Path, b: &Path, what: &str) {
    let (a, b) = (content(a), content(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in &a {
        assert!(*bytes == b[name], "{what}: {} differs", name.display());
    }
}

pub fn to(folder: PathBuf) -> Output {
    Output { folder, replace: Replace::Nothing }
}
