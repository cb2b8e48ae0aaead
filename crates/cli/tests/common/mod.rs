//! The `orrery` command in a folder of its own, and what it left there.
#![allow(dead_code, reason = "each test file is a crate of its own and uses a part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use orrery_io::{Limits, Snapshot};
use tempfile::TempDir;

/// A folder that goes away with the test, in which commands run.
pub struct Room(TempDir);

impl Room {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("the room can be written");
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn snapshot(&self, name: &str) -> Snapshot {
        orrery_io::read_snapshot(&self.path(name), &Limits::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The names in a folder, sorted.
    pub fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Every file but locks with its bytes, and every folder, to see whether anything changed.
    pub fn content(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        gather(self.0.path(), &mut found);
        found
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.current_dir(self.0.path()).env_remove("COLUMNS").args(arguments);
        command
    }

    pub fn orrery(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("orrery starts")
    }

    /// What a command that must succeed says; it must not say anything on standard error.
    #[track_caller]
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.orrery(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "orrery {}: {stderr}", arguments.join(" "));
        assert_eq!(stderr, "", "orrery {}", arguments.join(" "));
        stdout
    }

    /// Runs a case quietly into `out`.
    #[track_caller]
    pub fn run(&self, case: &str, out: &str, sets: &[&str]) {
        assert_eq!(self.says(&run_arguments(case, out, sets)), "");
    }

    /// The snapshots of a run, in order.
    pub fn snapshots(&self, out: &str) -> Vec<Snapshot> {
        let folder = format!("{out}/snapshots");
        self.list(&folder).iter().map(|name| self.snapshot(&format!("{folder}/{name}"))).collect()
    }
}

/// `run CASE --quiet --out OUT --set ...`
pub fn run_arguments<'a>(case: &'a str, out: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["run", case, "--quiet", "--out", out];
    sets.iter().for_each(|set| arguments.extend(["--set", set]));
    arguments
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn gather(folder: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
            found.insert(path, None);
        } else if !path.ends_with(".lock") {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, Some(bytes));
        }
    }
}

/// Two bodies, five lines of which a test may change one.
pub const PAIR: &str = "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n\
                        0 0 0 0 0 0 3 10\n2 0 0 0 0 0 5 20\n";

/// The least case that starts from a file.
pub fn from_file(name: &str) -> String {
    format!("units = \"nbody\"\nbodies.file = \"{name}\"\n\n[time]\nstep = 0.25\nend = 0.5\n")
}

/// GADGET binary, format 1: `n` halo bodies of mass 1 on a line, at rest.
pub fn gadget(n: u32) -> Vec<u8> {
    let mut header = [0u8; 256];
    header[4..8].copy_from_slice(&n.to_le_bytes());
    header[32..40].copy_from_slice(&1f64.to_le_bytes());
    header[124..128].copy_from_slice(&1u32.to_le_bytes());
    let positions = (0..n).flat_map(|i| [i as f32, 0.0, 0.0]).flat_map(f32::to_le_bytes).collect();
    let velocities = vec![0; 12 * n as usize];
    let ids = (1..=n).flat_map(u32::to_le_bytes).collect();
    let record = |data: Vec<u8>| {
        let length = (data.len() as u32).to_le_bytes();
        [&length[..], &data, &length].concat()
    };
    [header.to_vec(), positions, velocities, ids].map(record).concat()
}
