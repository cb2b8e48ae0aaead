//! A case, the files of its undisturbed run, and runs of it that the shim disturbs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use orrery_device::testing::{is_soak, suite_cases};

use super::disk::Call;
use crate::common::{TestDir, let_children_be_interrupted, text};

/// Files of a folder by their relative paths. Subfolders have no bytes.
pub type Content = BTreeMap<String, Option<Vec<u8>>>;

/// Fault that the shim causes. The default is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    /// Kind of fault: `ENOSPC`, `EDQUOT`, `EIO`, `SHORT`, `KILL`, `STOP` or `TERM`.
    pub action: &'static str,
    /// Number of the first disturbed call, from 1.
    pub at: usize,
    /// Number of consecutive disturbed calls. 0 means all following calls.
    pub times: usize,
    /// Kind of calls to count and disturb. `None` means all kinds except for those on `run.log`.
    pub kind: Option<&'static str>,
}

/// A case of six steps with all kinds of output.
pub struct SmallCase {
    preset: &'static str,
    sets: &'static [&'static str],
    /// Setting of an end that cuts the last step, and at which no output is due.
    pub early_end: &'static str,
    /// Start of the line of `run.log` that describes the method.
    pub setup: &'static str,
    /// Start of the summary.
    pub summary: &'static str,
}

/// One case of each physics.
pub const SMALL_CASES: [SmallCase; 3] = [
    SmallCase {
        preset: "plummer",
        sets: &["bodies.n=30", "time.step=0.01", "time.end=0.06"],
        early_end: "time.end=0.035",
        setup: "solver: ",
        summary: "30 bodies, 6 steps (direct forces) to t = 0.06 in ",
    },
    SmallCase {
        preset: "hot-plate",
        sets: &["grid.nx=12", "grid.ny=16", "time.step=0.25 s", "time.end=1.5 s"],
        early_end: "time.end=0.875 s",
        setup: "heat: 12 x 16 nodes, ",
        summary: "192 nodes, 6 steps (explicit five-point scheme) to t = 1.5 s in ",
    },
    SmallCase {
        preset: "two-layer-shot",
        sets: &[
            "grid.nx=24",
            "grid.ny=20",
            "wave.layer_nodes=6",
            "wave.layer=[{ top = 0, velocity = 1500 }, { top = 50, velocity = 2800 }]",
            "wave.source=[{ x = 40, y = 20, wavelet = \"sine\", frequency = 25 }]",
            "wave.receivers=[{ x = 42, y = 20, count = 3, dx = 1 }]",
            "time.step=0.5 ms",
            "time.end=3 ms",
        ],
        early_end: "time.end=1.75 ms",
        setup: "wave: 24 x 20 nodes, ",
        summary: "480 nodes, 6 steps (order 8 in space, 2 in time) to t = 3 ms in ",
    },
];

/// Setting of scenarios without plots, which take as long as all the rest of a small run.
pub const NO_PLOTS: &str = "output.plots=false";

/// Returns the faults of a list that are tested: all in `cargo xtask soak`. In `cargo xtask test`,
/// one of `stride` from number `first` on. For example, three tests with a stride of 3 disturb all
/// calls.
pub fn tested_faults<T>(faults: impl IntoIterator<Item = T>, first: usize, stride: usize) -> Vec<T> {
    let (skipped, stride) = if is_soak() { (0, 1) } else { (first, stride) };
    faults.into_iter().skip(skipped).step_by(stride).collect()
}

/// Library that disturbs storage calls. It is compiled once per process.
static SHIM: LazyLock<PathBuf> = LazyLock::new(build_shim);

/// A case and its undisturbed run.
pub struct FaultScenario {
    dir: TestDir,
    /// Arguments `CASE --set ...`.
    case: Vec<String>,
    /// Device of all runs, if it is not `auto`.
    device: Option<String>,
    /// Files of the undisturbed run, without the lock and the log.
    pub expected: Content,
    /// Storage calls of the undisturbed run.
    pub calls: Vec<Call>,
}

/// A run of the scenario's case in a separate folder.
pub struct Trial<'a> {
    scenario: &'a FaultScenario,
    disk: PathBuf,
}

impl FaultScenario {
    /// Returns a scenario of a small case, with more settings.
    pub fn small(case: &SmallCase, more: &[&str]) -> Self {
        let sets = [
            "output.snapshot_every=3 steps",
            "output.image_every=2 steps",
            "output.record_every=1 step",
            "checkpoint.every=2 steps",
            "image.size=64",
        ];
        Self::new(case.preset, &[case.sets, &sets, more].concat())
    }

    /// Returns a scenario of each small case for tests of `run.log`, one after the other: of one
    /// case in `cargo xtask test`, because the log does not depend on what is computed.
    pub fn each_with_log() -> impl Iterator<Item = (&'static SmallCase, Self)> {
        suite_cases(&SMALL_CASES, 1).iter().map(|case| (case, Self::small(case, &[NO_PLOTS])))
    }

    /// Returns a scenario of each small case, one after the other.
    pub fn each_small(more: &[&str]) -> impl Iterator<Item = Self> {
        SMALL_CASES.iter().map(move |case| Self::small(case, more))
    }

    pub fn new(case: &str, sets: &[&str]) -> Self {
        let mut scenario = Self::without_reference(case, sets);
        (scenario.expected, scenario.calls) = scenario.record_reference();
        scenario
    }

    /// Returns a scenario whose runs use a device, unless their arguments name another one.
    pub fn on_device(device: &str, case: &str, sets: &[&str]) -> Self {
        let mut scenario = Self::without_reference(case, sets);
        scenario.device = Some(device.to_owned());
        (scenario.expected, scenario.calls) = scenario.record_reference();
        scenario
    }

    /// Returns a scenario whose undisturbed run is not executed, because it takes too long.
    pub fn without_reference(case: &str, sets: &[&str]) -> Self {
        let dir = TestDir::new();
        let mut arguments = vec![case.to_owned()];
        sets.iter().for_each(|set| arguments.extend(["--set".to_owned(), (*set).to_owned()]));
        Self { dir, case: arguments, device: None, expected: Content::new(), calls: Vec::new() }
    }

    /// Runs the case without faults. Returns its files and its storage calls.
    fn record_reference(&self) -> (Content, Vec<Call>) {
        let (plain, recorded) = (self.trial("undisturbed"), self.trial("recorded"));
        let run = run_to_end(Command::new(env!("CARGO_BIN_EXE_orrery")).args(plain.arguments(&["--quiet"])));
        assert_eq!(text(&run.stderr), "");
        let expected = plain.content();

        let (run, calls) = recorded.run_recorded(&["--quiet"], Fault::default());
        assert_eq!(text(&run.stderr), "");
        assert_eq!(
            first_difference(&recorded.content(), &expected),
            None,
            "the shim changes the files without a fault"
        );
        let bytes: usize = calls.iter().map(|call| call.bytes.len()).sum();
        let least = expected.values().flatten().map(Vec::len).sum();
        // A call that the shim does not intercept would be missing here.
        assert!(
            bytes >= least,
            "the shim saw {bytes} bytes, expected at least the {least} bytes of the folder"
        );
        (expected, calls)
    }

    /// Creates a new folder for a run.
    pub fn trial(&self, name: &str) -> Trial<'_> {
        let disk = self.dir.path(name);
        fs::create_dir(&disk).expect("a new folder");
        Trial { scenario: self, disk }
    }

    /// Returns the number of storage calls of the undisturbed run, of one kind or of all.
    pub fn call_count(&self, kind: Option<&str>) -> usize {
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

    /// Returns the arguments `run CASE --out DISK/out --threads 1` and more. Each run uses one
    /// thread, because many run in parallel.
    pub fn arguments(&self, more: &[&str]) -> Vec<String> {
        let out = self.out().display().to_string();
        let mut arguments = vec!["run".to_owned()];
        arguments.extend(self.scenario.case.iter().cloned());
        arguments.extend(
            ["--out", &out, "--threads", "1"].into_iter().chain(more.iter().copied()).map(str::to_owned),
        );
        let device = self.scenario.device.iter().filter(|_| !more.contains(&"--device"));
        arguments.extend(device.flat_map(|device| ["--device".to_owned(), device.clone()]));
        arguments
    }

    /// Returns the command of a run with the shim.
    pub fn command(&self, more: &[&str], fault: Fault) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command.args(self.arguments(more)).envs(self.shim_variables(fault));
        command
    }

    /// Returns the environment variables that load the shim and cause a fault.
    pub fn shim_variables(&self, fault: Fault) -> Vec<(&'static str, String)> {
        let shim = SHIM.display().to_string();
        let mut variables = vec![("LD_PRELOAD", shim), ("FAULT_ROOT", self.disk.display().to_string())];
        if fault.at > 0 {
            variables.push(("FAULT_DO", fault.action.to_owned()));
            variables.push(("FAULT_AT", fault.at.to_string()));
            variables.push(("FAULT_TIMES", fault.times.to_string()));
        }
        variables.extend(fault.kind.map(|kind| ("FAULT_KIND", kind.to_owned())));
        variables
    }

    pub fn run(&self, more: &[&str], fault: Fault) -> Output {
        run_to_end(&mut self.command(more, fault))
    }

    /// Runs the case with the shim. Returns its output and its storage calls.
    pub fn run_recorded(&self, more: &[&str], fault: Fault) -> (Output, Vec<Call>) {
        let log = self.disk.join("calls");
        let run = run_to_end(self.command(more, fault).env("FAULT_LOG", &log));
        (run, Call::read_log(&log))
    }

    /// Resumes the run without faults and checks that the files are those of the undisturbed run.
    /// Returns the step of the checkpoint.
    pub fn resume_and_compare(&self) -> Result<u64, String> {
        self.compare_resumed(&self.run(&["--resume"], Fault::default()))
    }

    /// Checks that `run`, which resumed without faults, succeeded and that the files are those of
    /// the undisturbed run. Returns the step of the checkpoint.
    pub fn compare_resumed(&self, run: &Output) -> Result<u64, String> {
        let stderr = text(&run.stderr);
        if !run.status.success() {
            return Err(format!("not resumed, {}: {stderr}", run.status));
        }
        if stderr.contains("damaged") {
            return Err(format!("a checkpoint was damaged: {stderr}"));
        }
        if stderr.contains("it is not written again") || stderr.contains("not checked") {
            return Err(format!("a file differs from the manifest: {stderr}"));
        }
        match first_difference(&self.content(), &self.scenario.expected) {
            None => Ok(resumed_step(&stderr)),
            Some(difference) => Err(format!("resumed, but {difference}")),
        }
    }

    /// Returns the files in the output folder of the run, without the lock and the log.
    pub fn content(&self) -> Content {
        let mut found = Content::new();
        if self.out().exists() {
            collect_files(&self.out(), "", &mut found);
        }
        found.remove(".lock");
        found.remove("run.log");
        found
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // Thousands of folders would fill the disk before the end of the scenario.
        let _ = fs::remove_dir_all(&self.disk);
    }
}

/// Starts a command and waits for its end.
pub fn run_to_end(command: &mut Command) -> Output {
    wait_for(start_run(command))
}

/// Starts a command and captures its standard error.
pub fn start_run(command: &mut Command) -> Child {
    let_children_be_interrupted();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    child.expect("orrery starts")
}

/// Waits for the end of a run. Panics after two minutes.
pub fn wait_for(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().expect("it runs");
            let stderr = child.wait_with_output().expect("it was killed").stderr;
            panic!("orrery did not end within 2 minutes; standard error: {}", text(&stderr));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().expect("it has run_to_end")
}

/// Returns N of "resuming after step N", or 0 if the run started from the beginning.
pub fn resumed_step(stderr: &str) -> u64 {
    let after = stderr.split_once(" after step ").map_or("0", |(_, rest)| rest);
    after.split(',').next().and_then(|step| step.parse().ok()).unwrap_or(0)
}

/// Describes the first file that differs, if any.
pub fn first_difference(found: &Content, expected: &Content) -> Option<String> {
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

fn collect_files(folder: &Path, prefix: &str, found: &mut Content) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect_files(&entry.path(), &format!("{name}/"), found);
            found.insert(name, None);
        } else {
            found.insert(name, Some(fs::read(entry.path()).expect("a file")));
        }
    }
}

fn build_shim() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/shim.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Other processes of this program may use the library now.
    let (shim, part) = (folder.join("shim.so"), folder.join(format!("shim-{}.so", std::process::id())));
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&part)
        .arg(source)
        .output();
    let cc = cc.unwrap_or_else(|e| panic!("cannot start cc, which compiles the shim for these tests: {e}"));
    assert!(cc.status.success(), "the shim does not compile: {}", text(&cc.stderr));
    fs::rename(part, &shim).expect("the folder of the build is writable");
    shim
}
