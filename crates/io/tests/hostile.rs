//! Hostile files: each is refused at once and without memory, whatever it announces.
//!
//! Each is read in a process of its own (this program again, with one test that is otherwise ignored), which
//! tells how long the refusal took and how much its memory grew at the peak.
#![cfg(target_os = "linux")]

#[path = "hostile/files.rs"]
mod files;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use orrery_io::{Limits, read_snapshot};

const FILE: &str = "ORRERY_HOSTILE_FILE";
const LIMIT: &str = "ORRERY_HOSTILE_LIMIT";
const LIMITS: Limits = Limits { memory: 256 << 20 };
/// The aim is 100 ms for a program built for speed on a quiet machine; this is neither.
const LONGEST_MS: u64 = 1000;
const MOST_KIB: u64 = 64 << 10;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Reads the file that the environment names.
#[test]
#[ignore = "the other tests start it in a process of its own"]
fn read_one() {
    let Ok(path) = std::env::var(FILE) else { return };
    let limits = Limits { memory: std::env::var(LIMIT).unwrap().parse().unwrap() };
    let (before, start) = (peak_kib(), Instant::now());
    let outcome = read_snapshot(Path::new(&path), &limits);
    let (took, grown) = (start.elapsed().as_millis(), peak_kib() - before);
    let said = outcome.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
    println!("\nOUTCOME {took} {grown} {said}");
}

/// How long reading took, by how much memory grew, and what was said.
fn read_apart(path: &Path, limits: Limits) -> (u64, u64, String) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "read_one", "--nocapture"])
        .env(FILE, path)
        .env(LIMIT, limits.memory.to_string())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    let line = printed.lines().find_map(|line| line.strip_prefix("OUTCOME "));
    let Some(line) = line else { panic!("{}: {child:?}", path.display()) };
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse().unwrap();
    let (took, grown) = (number(), number());
    (took, grown, words.next().unwrap().to_owned())
}

#[test]
fn each_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut surprises = Vec::new();
    for hostile in files::all() {
        let path = folder.path().join(hostile.name);
        (hostile.make)(&path);
        let (took, grown, said) = read_apart(&path, LIMITS);
        std::fs::remove_file(&path).unwrap();
        println!("{took:5} ms {grown:6} KiB  {said}");
        if took > LONGEST_MS || grown > MOST_KIB || !said.contains(hostile.message) {
            surprises.push(format!("expected {}\n    got {took} ms, {grown} KiB: {said}", hostile.message));
        }
    }
    assert!(surprises.is_empty(), "{} differ:\n{}", surprises.len(), surprises.join("\n"));
}

#[test]
fn a_device_is_no_snapshot() {
    let (.., said) = read_apart(Path::new("/dev/zero"), LIMITS);
    assert_eq!(said, "/dev/zero: path: got a device or a pipe, expected a file");
}

/// A name that leads out of the folder is never looked up: nothing appears, and the array counts as absent.
#[test]
fn no_name_becomes_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    let path = inner.join("s.npz");
    files::archive(&path, &[("../../position.npy", b"anything"), ("/x.npy", b"anything")]);
    let said = read_snapshot(&path, &LIMITS).unwrap_err().to_string();
    assert!(said.ends_with("array position: got nothing, expected it in the file"), "{said}");
    let count = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!((count(folder.path()), count(&inner)), (1, 1));
}

/// The bytes that are counted for a body are those it takes: with as many the file is read, with one less it is
/// not, and the peak stays below them and the fixed buffers.
#[test]
fn memory_is_what_was_counted() {
    const BODIES: u64 = 1_000_000;
    const BUFFERS_KIB: u64 = 28 << 10;
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes_each) in [("s.hdf5", 81), ("s.xyz", 65), ("s.npz", 65), ("snapshot_000", 73)] {
        let path = folder.path().join(name);
        files::many_bodies(&path, BODIES as usize);
        let memory = BODIES * bytes_each;
        let (.., said) = read_apart(&path, Limits { memory: memory - 1 });
        assert!(said.contains("1000000 bodies need"), "{said}");
        let (_, grown, said) = read_apart(&path, Limits { memory });
        assert_eq!(said, "accepted");
        println!("{name}: {grown} KiB for {} KiB of bodies", memory >> 10);
        assert!(grown < (memory >> 10) + BUFFERS_KIB, "{name}: {grown} KiB for {memory} bytes");
        std::fs::remove_file(&path).unwrap();
    }
}
