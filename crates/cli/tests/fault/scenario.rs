//! A case, what an undisturbed run of it leaves, and runs of it that the shim disturbs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Room, text};
use crate::disk::Call;

/// Every file of a folder by its path in it; a folder has no bytes.
pub type Content = BTreeMap<String, Option<Vec<u8>>>;

/// What the shim is to do; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    /// `ENOSPC`, `EDQUOT`, `EIO`, `SHORT` or `KILL`.
    pub what: &'static str,
    /// The number of the first call that it happens to, from 1.
    pub at: usize,
    /// How many calls in a row; 0 is all that follow.
    pub times: usize,
    /// Counts only calls of this kind.
    pub kind: Option<&'static str>,
}

/// A case and its undisturbed run.
pub struct FaultScenario {
    room: Room,
    /// `CASE --set ...`
    case: Vec<String>,
    /// What the undisturbed run leaves, the lock apart.
    pub expected: Content,
    /// The storage calls of that run.
    pub calls: Vec<Call>,
}

/// A run of the scenario's case on a disk of its own.
pub struct Trial<'a> {
    scenario: &'a FaultScenario,
    disk: PathBuf,
}

impl FaultScenario {
    /// Some thirty bodies for six steps, with every kind of output.
    pub fn small(more: &[&str]) -> Self {
        let sets = [
            "bodies.n=30",
            "time.step=0.01",
            "time.end=0.06",
            "output.snapshot_every=3 steps",
            "output.image_every=2 steps",
            "output.record_every=1 step",
            "checkpoint.every=2 steps",
            "image.size=64",
        ];
        Self::new("plummer", &[&sets[..], more].concat())
    }

    pub fn new(case: &str, sets: &[&str]) -> Self {
        let mut scenario = Self::unwatched(case, sets);
        (scenario.expected, scenario.calls) = scenario.watch();
        scenario
    }

    /// One whose undisturbed run takes too long to be looked at.
    pub fn unwatched(case: &str, sets: &[&str]) -> Self {
        let room = Room::new();
        build_shim(&room.path("shim.so"));
        let mut arguments = vec![case.to_owned()];
        sets.iter().for_each(|set| arguments.extend(["--set".to_owned(), (*set).to_owned()]));
        Self { room, case: arguments, expected: Content::new(), calls: Vec::new() }
    }

    /// What the program leaves by itself, and the calls by which it does so.
    fn watch(&self) -> (Content, Vec<Call>) {
        let (plain, watched) = (self.trial("undisturbed"), self.trial("watched"));
        let run = ended(Command::new(env!("CARGO_BIN_EXE_orrery")).args(plain.arguments(&["--quiet"])));
        assert_eq!(text(&run.stderr), "");
        let expected = plain.content();

        let (run, calls) = watched.run_watched(&["--quiet"], Fault::default());
        assert_eq!(text(&run.stderr), "");
        assert_eq!(difference(&watched.content(), &expected), None, "the shim disturbs by itself");
        let bytes: usize = calls.iter().map(|call| call.bytes.len()).sum();
        let least = expected.values().flatten().map(Vec::len).sum();
        // A file written by a call that the shim does not know would be missing here.
        assert!(bytes >= least, "{bytes} bytes passed the shim, expected the {least} of the folder at least");
        (expected, calls)
    }

    /// A run of its own, on a new disk.
    pub fn trial(&self, name: &str) -> Trial<'_> {
        let disk = self.room.path(name);
        fs::create_dir(&disk).expect("a new folder");
        Trial { scenario: self, disk }
    }

    /// How many storage calls an undisturbed run makes, of one kind or of all.
    pub fn count(&self, kind: Option<&str>) -> usize {
        self.calls.iter().filter(|call| call.number > 0 && kind.is_none_or(|kind| kind == call.kind)).count()
    }
}

impl Trial<'_> {
    pub fn scenario(&self) -> &FaultScenario {
        self.scenario
    }

    pub fn disk(&self) -> &Path {
        &self.disk
    }

    pub fn out(&self) -> PathBuf {
        self.disk.join("out")
    }

    /// `run CASE --out DISK/out --threads 1` and more; one thread, since many runs share the machine.
    pub fn arguments(&self, more: &[&str]) -> Vec<String> {
        let out = self.out().display().to_string();
        let mut arguments = vec!["run".to_owned()];
        arguments.extend(self.scenario.case.iter().cloned());
        arguments.extend(
            ["--out", &out, "--threads", "1"].into_iter().chain(more.iter().copied()).map(str::to_owned),
        );
        arguments
    }

    /// The run, with the shim.
    pub fn command(&self, more: &[&str], fault: Fault) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.args(self.arguments(more));
        command.env("LD_PRELOAD", self.scenario.room.path("shim.so")).env("FAULT_ROOT", &self.disk);
        if fault.at > 0 {
            command.env("FAULT_DO", fault.what).env("FAULT_AT", fault.at.to_string());
            command.env("FAULT_TIMES", fault.times.to_string());
        }
        if let Some(kind) = fault.kind {
            command.env("FAULT_KIND", kind);
        }
        command
    }

    pub fn run(&self, more: &[&str], fault: Fault) -> Output {
        ended(&mut self.command(more, fault))
    }

    /// The same, and the calls that it made.
    pub fn run_watched(&self, more: &[&str], fault: Fault) -> (Output, Vec<Call>) {
        let log = self.disk.join("calls");
        let run = ended(self.command(more, fault).env("FAULT_LOG", &log));
        (run, Call::read(&log))
    }

    /// Goes on undisturbed, which must lead to the undisturbed run's folder; the step that it went on from.
    pub fn complete(&self) -> Result<u64, String> {
        let run = self.run(&["--resume"], Fault::default());
        let said = text(&run.stderr);
        if !run.status.success() {
            return Err(format!("not resumed, {}: {said}", run.status));
        }
        if said.contains("damaged") {
            return Err(format!("a checkpoint was damaged: {said}"));
        }
        match difference(&self.content(), &self.scenario.expected) {
            None => Ok(step_taken_up(&said)),
            Some(difference) => Err(format!("resumed, but {difference}")),
        }
    }

    /// What lies in the run's folder.
    pub fn content(&self) -> Content {
        let mut found = Content::new();
        if self.out().exists() {
            gather(&self.out(), "", &mut found);
        }
        found.remove(".lock");
        found
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // Thousands of them would fill the disk before the scenario ends.
        let _ = fs::remove_dir_all(&self.disk);
    }
}

/// Starts a command and waits for its end.
pub fn ended(command: &mut Command) -> Output {
    wait_for(started(command))
}

/// What it says on standard error is kept.
pub fn started(command: &mut Command) -> Child {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    child.expect("orrery starts")
}

/// Waits for the end; a run that does not come to it in two minutes hangs.
pub fn wait_for(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > Duration::from_secs(120) {
            child.kill().expect("it runs");
            let said = child.wait_with_output().expect("it was killed").stderr;
            panic!("orrery hangs; it said: {}", text(&said));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().expect("it has ended")
}

/// The step in "going on after step N", or 0 where the run was begun anew.
pub fn step_taken_up(said: &str) -> u64 {
    let words = said.split_once(" after step ").map_or("0", |(_, rest)| rest);
    words.split(',').next().and_then(|step| step.parse().ok()).unwrap_or(0)
}

/// The first file that is not the same in both.
pub fn difference(found: &Content, expected: &Content) -> Option<String> {
    let missing =
        expected.keys().find(|name| !found.contains_key(*name)).map(|name| format!("{name} is missing"));
    let other = || found.iter().find(|(name, bytes)| expected.get(*name) != Some(bytes));
    missing.or_else(|| {
        other().map(|(name, bytes)| match expected.get(name) {
            None => format!("{name} should not be there"),
            Some(expected) => {
                let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
                format!("{name} differs: {} bytes, expected {}", length(bytes), length(expected))
            }
        })
    })
}

fn gather(folder: &Path, prefix: &str, found: &mut Content) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            gather(&entry.path(), &format!("{name}/"), found);
            found.insert(name, None);
        } else {
            found.insert(name, Some(fs::read(entry.path()).expect("a file")));
        }
    }
}

fn build_shim(shim: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/shim.c");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(shim)
        .arg(source)
        .output();
    let cc = cc
        .unwrap_or_else(|e| panic!("cc, which compiles the shim that these tests need, did not start: {e}"));
    assert!(cc.status.success(), "the shim does not compile: {}", text(&cc.stderr));
}

/// Numbers that look random and are the same every time (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }
}
