//! Hostile files. Each is rejected quickly and with little memory, for any counts in its header.
//!
//! Each file is read in a separate process: this test program, started with a test that is normally
//! ignored. The process prints the CPU time until the rejection and the growth of its peak memory.
#![cfg(target_os = "linux")]

mod files;
mod fluids;
mod image_data;
mod seismic;

use std::path::Path;
use std::process::Command;

use orrery_formats::{
    FluidFrames, IoError, Limits, read_field_npy, read_field_vti, read_fluid, read_model_segy,
    read_seismograms_segy, read_snapshot,
};

const FILE: &str = "ORRERY_HOSTILE_FILE";
const LIMIT: &str = "ORRERY_HOSTILE_LIMIT";
const LIMITS: Limits = Limits { memory: 256 << 20 };
/// Largest CPU time in ms. The goal is 100 ms for a release build, and tests may run in another
/// one. Other processes have no influence on CPU time.
const MAX_MS: u64 = 1000;
const MAX_KIB: u64 = 64 << 10;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Returns the CPU time of this process in ms, with a resolution of 10 ms.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The second field is a name in parentheses. Fields 14 and 15 are the user time and the system
    // time in ticks of 10 ms.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = |field: usize| fields.split_whitespace().nth(field - 3).unwrap().parse::<u64>().unwrap();
    10 * (ticks(14) + ticks(15))
}

fn read_all_frames(path: &Path, limits: &Limits) -> Result<(), IoError> {
    let mut frames = FluidFrames::open(path, limits)?;
    while frames.next_frame()?.is_some() {}
    Ok(())
}

/// Reads the file given in the environment.
#[test]
#[ignore = "the other tests start it in a separate process"]
fn read_one_file() {
    let Ok(path) = std::env::var(FILE) else { return };
    let limits = Limits { memory: std::env::var(LIMIT).unwrap().parse().unwrap() };
    let (before, start) = (peak_kib(), cpu_ms());
    let path = Path::new(&path);
    let outcome = match path.extension().and_then(|extension| extension.to_str()) {
        Some("vti") => read_field_vti(path, &limits).map(drop),
        Some("npy") => read_field_npy(path, &limits).map(drop),
        Some("sgy") => read_seismograms_segy(path, &limits).map(drop),
        Some("segy") => read_model_segy(path, &limits).map(drop),
        Some("gsd" | "extxyz" | "data") => {
            // Reading all frames must be as safe. It may find a fault in an earlier frame.
            let all = read_all_frames(path, &limits);
            drop(all);
            read_fluid(path, &limits).map(drop)
        }
        _ => read_snapshot(path, &limits).map(drop),
    };
    let (took, grown) = (cpu_ms() - start, peak_kib() - before);
    let message = outcome.map_or_else(|error| error.to_string(), |()| "accepted".to_owned());
    println!("\nOUTCOME {took} {grown} {message}");
}

/// Reads a file in a separate process. Returns the CPU time in ms, the growth of memory in KiB, and
/// the message.
fn read_in_process(path: &Path, limits: Limits) -> (u64, u64, String) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "hostile::read_one_file", "--nocapture"])
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
fn each_file_is_rejected_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let mut differences = Vec::new();
    for hostile in [files::all(), image_data::all(), seismic::all(), fluids::all()].into_iter().flatten() {
        let path = folder.path().join(hostile.name);
        (hostile.make)(&path);
        let (took, grown, message) = read_in_process(&path, LIMITS);
        std::fs::remove_file(&path).unwrap();
        println!("{took:5} ms {grown:6} KiB  {message}");
        if took > MAX_MS || grown > MAX_KIB || !message.contains(hostile.message) {
            differences
                .push(format!("expected {}\n    got {took} ms, {grown} KiB: {message}", hostile.message));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn device_is_rejected() {
    let (.., message) = read_in_process(Path::new("/dev/zero"), LIMITS);
    assert_eq!(message, "/dev/zero: path: got a device or a pipe, expected a file");
}

/// A name that points outside the folder is not used as a path. No file appears, and the array
/// counts as absent.
#[test]
fn names_in_archives_are_not_used_as_paths() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    let path = inner.join("s.npz");
    files::archive(&path, &[("../../position.npy", b"anything"), ("/x.npy", b"anything")]);
    let message = read_snapshot(&path, &LIMITS).unwrap_err().to_string();
    assert!(
        message.contains(
            "arrays position, velocity, mass: got only ../../position, /x, expected position (n, 3)"
        ),
        "{message}"
    );
    let count = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!((count(folder.path()), count(&inner)), (1, 1));
}

/// The counted 8 bytes per value are the real ones.
#[test]
fn peak_memory_of_a_field_is_the_counted_memory() {
    const ROWS: usize = 5000;
    const BUFFERS_KIB: u64 = 8 << 10;
    let folder = tempfile::tempdir().unwrap();
    for name in ["s.vti", "s.npy"] {
        let path = folder.path().join(name);
        image_data::many_nodes(&path, ROWS);
        let memory = 8000 * ROWS as u64;
        let (.., message) = read_in_process(&path, Limits { memory: memory - 1 });
        assert!(message.contains("5000000 values need"), "{message}");
        let (_, grown, message) = read_in_process(&path, Limits { memory });
        assert_eq!(message, "accepted");
        assert!(grown < (memory >> 10) + BUFFERS_KIB, "{name}: {grown} KiB for {memory} bytes");
    }
}

/// The counted memory of SEG-Y is 16 bytes per sample and 256 per trace, also for one shot per
/// trace, and for a model.
#[test]
fn peak_memory_of_segy_is_the_counted_memory() {
    const BUFFERS_KIB: u64 = 8 << 10;
    let folder = tempfile::tempdir().unwrap();
    for (name, traces, samples) in [("s.sgy", 200_000, 1), ("s.sgy", 100, 20_000), ("s.segy", 100, 20_000)] {
        let path = folder.path().join(name);
        seismic::many_traces(&path, traces, samples);
        let memory = traces as u64 * (256 + 16 * samples as u64);
        let (.., message) = read_in_process(&path, Limits { memory: memory - 1 });
        assert!(message.contains(&format!("{} values need", traces * samples)), "{message}");
        let (_, grown, message) = read_in_process(&path, Limits { memory });
        assert_eq!(message, "accepted");
        println!("{name}: {grown} KiB for {} KiB", memory >> 10);
        assert!(grown < (memory >> 10) + BUFFERS_KIB, "{name}: {grown} KiB for {memory} bytes");
    }
}

/// The counted bytes per body are the real ones. The file is read with exactly this memory and
/// rejected with one byte less. The peak stays below this memory plus the fixed buffers.
#[test]
fn peak_memory_is_the_counted_memory() {
    const BODIES: u64 = 1_000_000;
    const BUFFERS_KIB: u64 = 28 << 10;
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes_per_body) in [("s.hdf5", 81), ("s.xyz", 65), ("s.npz", 65), ("snapshot_000", 73)] {
        let path = folder.path().join(name);
        files::many_bodies(&path, BODIES as usize);
        let memory = BODIES * bytes_per_body;
        let (.., message) = read_in_process(&path, Limits { memory: memory - 1 });
        assert!(message.contains("1000000 bodies need"), "{message}");
        let (_, grown, message) = read_in_process(&path, Limits { memory });
        assert_eq!(message, "accepted");
        println!("{name}: {grown} KiB for {} KiB of bodies", memory >> 10);
        assert!(grown < (memory >> 10) + BUFFERS_KIB, "{name}: {grown} KiB for {memory} bytes");
        std::fs::remove_file(&path).unwrap();
    }
}

/// The counted memory of fluids is 86 bytes per particle.
#[test]
fn peak_memory_of_fluids_is_the_counted_memory() {
    const PARTICLES: usize = 300_000;
    const BUFFERS_KIB: u64 = 12 << 10;
    let folder = tempfile::tempdir().unwrap();
    for name in ["s.gsd", "s.extxyz", "s.data"] {
        let path = folder.path().join(name);
        fluids::many_particles(&path, PARTICLES);
        let memory = 86 * PARTICLES as u64;
        let (.., message) = read_in_process(&path, Limits { memory: memory - 1 });
        assert!(message.contains("300000 bodies need"), "{message}");
        let (_, grown, message) = read_in_process(&path, Limits { memory });
        assert_eq!(message, "accepted");
        println!("{name}: {grown} KiB for {} KiB", memory >> 10);
        assert!(grown < (memory >> 10) + BUFFERS_KIB, "{name}: {grown} KiB for {memory} bytes");
        std::fs::remove_file(&path).unwrap();
    }
}
