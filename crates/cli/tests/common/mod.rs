//! Runs the `orrery` command in a temporary directory and reads its output files.

pub mod mpi;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use orrery_formats::{Limits, Snapshot};
use serde_json::Value;
use tempfile::TempDir;

/// Temporary directory in which commands run. It is removed at the end of the test.
pub struct TestDir(TempDir);

impl TestDir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("the test directory is writable");
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn snapshot(&self, name: &str) -> Snapshot {
        orrery_formats::read_snapshot(&self.path(name), &Limits::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the names in a folder, sorted.
    pub fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns all folders, and all files with their bytes, except for locks. Used to check that a
    /// command changes nothing, not even `run.log`.
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

    /// Returns the standard output of a command. Panics if it fails or writes to standard error.
    #[track_caller]
    pub fn stdout_of(&self, arguments: &[&str]) -> String {
        let output = self.orrery(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "orrery {}: {stderr}", arguments.join(" "));
        assert_eq!(stderr, "", "orrery {}", arguments.join(" "));
        stdout
    }

    /// Runs a case with `--quiet` and the output directory `out`.
    #[track_caller]
    pub fn run(&self, case: &str, out: &str, sets: &[&str]) {
        assert_eq!(self.stdout_of(&run_arguments(case, out, sets)), "");
    }

    /// Returns the snapshots of a run, in order of time.
    pub fn snapshots(&self, out: &str) -> Vec<Snapshot> {
        let folder = format!("{out}/snapshots");
        self.list(&folder).iter().map(|name| self.snapshot(&format!("{folder}/{name}"))).collect()
    }
}

/// Returns the arguments `run CASE --quiet --out OUT --set ...`.
pub fn run_arguments<'a>(case: &'a str, out: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["run", case, "--quiet", "--out", out];
    sets.iter().for_each(|set| arguments.extend(["--set", set]));
    arguments
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns the message of a command that fails with status 2 and prints nothing else.
#[track_caller]
pub fn error_of(dir: &TestDir, arguments: &[&str]) -> String {
    let output = dir.orrery(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    message.strip_prefix("error: ").expect("an error").trim_end().to_owned()
}

/// Returns the JSON that a command prints.
pub fn json_of(dir: &TestDir, arguments: &[&str]) -> Value {
    let output = dir.orrery(&[arguments, &["--json", "-"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
}

/// Makes processes that are started later react to SIGINT, even if this process ignores it, as in
/// the background of a shell script. A signal with a handler has its default effect in a new
/// program.
#[cfg(unix)]
pub fn let_children_be_interrupted() {
    use std::sync::atomic::AtomicBool;
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let always = std::sync::Arc::new(AtomicBool::new(true));
        // The handler ends this process, as SIGINT does without one.
        signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, always).unwrap();
    });
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

/// A snapshot of two bodies. Tests replace one of its lines to make it invalid.
pub const PAIR: &str = "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n\
                        0 0 0 0 0 0 3 10\n2 0 0 0 0 0 5 20\n";

/// Returns the shortest case that reads its bodies from a file.
pub fn from_file(name: &str) -> String {
    format!("units = \"nbody\"\nbodies.file = \"{name}\"\n\n[time]\nstep = 0.25\nend = 0.5\n")
}

/// Returns a GADGET binary file, format 1: `n` halo bodies of mass 1 on a line, at rest.
pub fn gadget_binary(n: u32) -> Vec<u8> {
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

/// Returns the file of [`gadget_binary`] with the header of a cosmological snapshot: a = 1/4 and
/// h = 1/2.
pub fn cosmological_gadget_binary(n: u32) -> Vec<u8> {
    let mut bytes = gadget_binary(n);
    for (offset, value) in [(72, 0.25f64), (80, 3.0), (136, 0.3), (152, 0.5)] {
        bytes[4 + offset..][..8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}
