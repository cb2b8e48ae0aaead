//! Runs on several ranks: processes of MPI, or threads with one device each. Their files have the
//! bytes of a run on one rank.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use orrery_device::testing::{suite_cases, test_devices_with_f64};
use orrery_device::{Backend, Device};
use orrery_formats::{FieldValues, write_field_npy};
use orrery_measure::tuning::Tuning;
use orrery_model::grid::Grid;

use crate::common::mpi::INSTALLATIONS;
use crate::common::mpi::Installation::{self, Mpich, OpenMpi, OpenMpi5};
use crate::common::{TestDir, error_of, from_file, text};

/// A case of each physics with all kinds of output, also between two steps.
pub struct RankCase {
    pub preset: &'static str,
    pub sets: &'static [&'static str],
    /// Time at which another run ends first. It is not the end of a step.
    early_end: &'static str,
    /// Time after 6 steps.
    end: &'static str,
    /// Time after 120 steps.
    pub long_end: &'static str,
}

const OUTPUT: [&str; 4] = [
    "output.snapshot_every=3 steps",
    "output.record_every=1 step",
    "checkpoint.every=2 steps",
    "image.size=64",
];

pub const DIRECT: RankCase = RankCase {
    preset: "plummer",
    sets: &["bodies.n=30", "time.step=0.01", "output.image_every=0.017"],
    early_end: "0.035",
    end: "0.06",
    long_end: "1.2",
};
pub const TREE: RankCase = RankCase {
    preset: "plummer",
    sets: &["bodies.n=1500", "gravity.solver=tree", "time.step=0.01", "output.image_every=0.017"],
    early_end: "0.035",
    end: "0.06",
    long_end: "1.2",
};
pub const HEAT: RankCase = RankCase {
    preset: "hot-plate",
    sets: &["grid.nx=12", "grid.ny=17", "time.step=0.25 s", "output.image_every=0.4 s"],
    early_end: "0.875 s",
    end: "1.5 s",
    long_end: "30 s",
};
pub const WAVE: RankCase = RankCase {
    preset: "two-layer-shot",
    sets: &[
        "grid.nx=24",
        "grid.ny=61",
        "wave.layer_nodes=6",
        "wave.layer=[{ top = 0, velocity = 1500 }, { top = 150, velocity = 2800 }]",
        "wave.source=[{ x = 40, y = 152, wavelet = \"sine\", frequency = 25 }]",
        "wave.receivers=[{ x = 50, y = 10, count = 7, dy = 40 }]",
        "time.step=0.5 ms",
        "output.image_every=0.7 ms",
    ],
    early_end: "1.75 ms",
    end: "3 ms",
    long_end: "60 ms",
};

/// Particles move between ranks, because the lists are built again after two steps.
pub const FLUID: RankCase = RankCase {
    preset: "lj-melt",
    sets: &[
        "particles.cells=6",
        "particles.temperature=5",
        "lennard_jones.skin=0.05",
        "time.step=0.004",
        "structure.every=2 steps",
        "output.image_every=0.006",
    ],
    early_end: "0.014",
    end: "0.024",
    long_end: "0.48",
};

/// Returns `run PRESET --out OUT --set ...` with the given end.
fn run_words(case: &RankCase, out: &str, end: &str) -> Vec<String> {
    let end = format!("time.end={end}");
    let mut words = vec!["run".to_owned(), case.preset.to_owned(), "--out".to_owned(), out.to_owned()];
    for set in case.sets.iter().chain(&OUTPUT).copied().chain([end.as_str()]) {
        words.extend(["--set".to_owned(), set.to_owned()]);
    }
    words
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Runs orrery on several ranks. Returns `None` if this MPI is not installed.
fn launch(
    dir: &TestDir,
    mpi: Installation,
    ranks: usize,
    arguments: &[String],
    variables: &[(&str, &str)],
) -> Option<Output> {
    let mut command = mpi.command(ranks, arguments, variables)?;
    command.current_dir(dir.path(""));
    Some(end_of(command))
}

/// Runs a command, and kills it if it has not ended after two minutes.
fn end_of(command: Command) -> Output {
    let mut command = assert_cmd::Command::from_std(command);
    command.timeout(Duration::from_secs(120)).output().expect("the command starts")
}

/// Returns the files of a run without its lock and its log.
fn files_of(dir: &TestDir, out: &str) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let folder = dir.path(out);
    let relative = |path: PathBuf| path.strip_prefix(&folder).map(Path::to_owned).ok();
    let files = dir.content().into_iter().filter_map(|(path, bytes)| Some((relative(path)?, bytes)));
    files.filter(|(path, _)| path != Path::new("run.log")).collect()
}

#[track_caller]
fn assert_same_files(dir: &TestDir, out: &str, expected: &str) {
    let (found, expected) = (files_of(dir, out), files_of(dir, expected));
    assert!(found.keys().eq(expected.keys()), "{:?} {:?}", found.keys(), expected.keys());
    for (name, bytes) in &found {
        assert!(*bytes == expected[name], "{out}: {} differs", name.display());
    }
}

/// Runs a case on one rank.
fn run_alone(dir: &TestDir, case: &RankCase, device: &str, out: &str, end: &str) {
    let mut arguments = run_words(case, out, end);
    arguments.extend(words(&["--device", device, "--threads", "1", "--quiet"]));
    let output = dir.orrery(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Runs a case on one rank to its early end, and then to its end. The snapshots of the first part
/// record the early end in their provenance.
fn run_in_parts_alone(dir: &TestDir, case: &RankCase, device: &str, out: &str) {
    run_alone(dir, case, device, out, case.early_end);
    let output = dir.orrery(&["resume", out, "--end", case.end, "--device", device, "--threads", "1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[track_caller]
fn assert_success(output: &Output) -> String {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    // Receivers are in all slabs, and runs are short.
    let is_expected = |line: &str| line.contains("before a wave arrives");
    assert!(!stderr.lines().any(|line| line.contains("warning") && !is_expected(line)), "{stderr}");
    stdout
}

/// Checks that runs on these numbers of ranks have the files of a run on one rank: all of them in
/// `cargo xtask soak`, and the first in `cargo xtask test`. Also checks that a run which another
/// number of ranks continues has them.
fn check_case(
    case: &RankCase,
    runs: &[(Installation, usize)],
    (first, second): ((Installation, usize), (Installation, usize)),
) {
    let dir = TestDir::new();
    run_alone(&dir, case, "cpu", "one", case.end);
    let cpu = words(&["--device", "cpu"]);
    for (number, &(mpi, ranks)) in suite_cases(runs, 1).iter().enumerate() {
        let out = format!("out-{number}");
        let arguments = [run_words(case, &out, case.end), cpu.clone()].concat();
        let Some(output) = launch(&dir, mpi, ranks, &arguments, &[]) else { continue };
        let stdout = assert_success(&output);
        let (lines, rows) = (stdout.matches("\nranks: ").count(), stdout.matches("\nrank ").count());
        assert_eq!((lines, rows), if ranks > 1 { (1, ranks) } else { (0, 0) }, "{stdout}");
        assert_eq!(stdout.contains("\nimbalance "), ranks > 1, "{stdout}");
        let log = dir.text(&format!("{out}/run.log"));
        assert_eq!(log.contains(&format!(" ranks: {ranks} (")), ranks > 1, "{log}");
        assert_same_files(&dir, &out, "one");
    }
    run_in_parts_alone(&dir, case, "cpu", "parts-one");
    let arguments = [run_words(case, "parts", case.early_end), cpu.clone()].concat();
    let Some(output) = launch(&dir, first.0, first.1, &arguments, &[]) else { return };
    assert_success(&output);
    let arguments = [words(&["resume", "parts", "--end", case.end]), cpu].concat();
    let Some(output) = launch(&dir, second.0, second.1, &arguments, &[]) else { return };
    assert_success(&output);
    assert_same_files(&dir, "parts", "parts-one");
}

#[test]
fn direct_sums_have_the_same_files_on_any_number_of_ranks() {
    check_case(&DIRECT, &[(OpenMpi, 4), (Mpich, 1), (Mpich, 3)], ((Mpich, 1), (OpenMpi5, 2)));
}

#[test]
fn trees_have_the_same_files_on_any_number_of_ranks() {
    check_case(&TREE, &[(OpenMpi5, 3), (OpenMpi, 2), (OpenMpi, 4), (Mpich, 2)], ((OpenMpi, 1), (Mpich, 3)));
}

#[test]
fn heat_has_the_same_files_on_any_number_of_ranks() {
    let runs = [(OpenMpi, 3), (OpenMpi, 1), (OpenMpi, 2), (OpenMpi5, 4), (Mpich, 3)];
    check_case(&HEAT, &runs, ((Mpich, 4), (OpenMpi, 2)));
}

#[test]
fn waves_have_the_same_files_on_any_number_of_ranks() {
    check_case(&WAVE, &[(Mpich, 2), (OpenMpi, 2), (OpenMpi5, 3), (OpenMpi, 4)], ((Mpich, 3), (OpenMpi, 1)));
}

#[test]
fn fluids_have_the_same_files_on_any_number_of_ranks() {
    check_case(&FLUID, &[(OpenMpi, 4), (OpenMpi, 2), (OpenMpi5, 3), (Mpich, 3)], ((OpenMpi, 3), (Mpich, 2)));
}

/// Returns an OpenCL device with double precision, if there is one.
pub fn opencl_device() -> Option<Device> {
    test_devices_with_f64().into_iter().find(|device| device.properties().backend == Backend::OpenCl)
}

/// Several devices of one process: first the same one twice, then all devices of PoCL, of which
/// there are three here. In `cargo xtask test` for two physics: the crates test all of them with
/// ranks that are threads.
#[test]
fn several_devices_give_the_files_of_one() {
    let Some(device) = opencl_device() else { return };
    let label = device.label();
    let is_pocl = device.properties().version.contains("PoCL");
    for &case in suite_cases(&[&TREE, &FLUID, &DIRECT, &HEAT, &WAVE], 2) {
        let dir = TestDir::new();
        run_in_parts_alone(&dir, case, &label, "one");
        let twice = format!("{label},{label}");
        let (all, count) = if is_pocl { ("opencl:all", 3) } else { (twice.as_str(), 2) };
        let mut arguments = run_words(case, "several", case.early_end);
        arguments.extend(words(&["--device", &twice, "--threads", "1"]));
        let resume = words(&["resume", "several", "--end", case.end, "--device", all, "--threads", "3"]);
        for (arguments, ranks) in [(arguments, 2), (resume, count)] {
            let mut command = dir.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let output = command.env("POCL_DEVICES", "pthread pthread pthread").output().unwrap();
            let stdout = assert_success(&output);
            assert!(stdout.contains(&format!("\nranks: {ranks} (threads), ")), "{stdout}");
        }
        assert_same_files(&dir, "several", "one");
    }
}

/// Processes that compute on devices, which they get in turn. Their messages pass through memory
/// that they share.
#[test]
fn processes_with_devices_give_the_files_of_one() {
    let Some(device) = opencl_device() else { return };
    let label = device.label();
    let is_pocl = device.properties().version.contains("PoCL");
    for (case, runs) in [
        (&DIRECT, &[(Mpich, 3)][..]),
        (&TREE, &[(OpenMpi, 2), (Mpich, 3)]),
        (&HEAT, &[(OpenMpi, 2), (Mpich, 3)]),
        (&WAVE, &[(OpenMpi, 3), (Mpich, 2)]),
        (&FLUID, &[(Mpich, 2), (OpenMpi, 3)]),
    ] {
        let dir = TestDir::new();
        run_alone(&dir, case, &label, "one", case.end);
        for &(mpi, ranks) in suite_cases(runs, 1) {
            let out = format!("out-{ranks}");
            let arguments = [run_words(case, &out, case.end), words(&["--device", "opencl"])].concat();
            let variables = [("POCL_DEVICES", "pthread pthread")];
            let Some(output) = launch(&dir, mpi, ranks, &arguments, &variables) else { continue };
            let stdout = assert_success(&output);
            let line = stdout.lines().find(|line| line.starts_with("ranks: ")).unwrap_or_default();
            for rank in 0..ranks {
                let expected = format!("{rank} on opencl:{}, ", rank % 2);
                assert!(!is_pocl || line.contains(&expected), "{expected}: {stdout}");
            }
            assert_same_files(&dir, &out, "one");
        }
    }
}

#[test]
fn shots_are_computed_one_after_another_by_the_same_ranks() {
    let dir = TestDir::new();
    let source = "wave.source=[{ x = 40, y = 152, wavelet = \"sine\", frequency = 25, shot = 7 }, \
                  { x = 60, y = 20, wavelet = \"sine\", frequency = 30, shot = 9 }]";
    for (out, ranks) in [("one", 1), ("two", 2)] {
        let mut arguments = run_words(&WAVE, out, "1.5 ms");
        let word = arguments.iter_mut().find(|word| word.starts_with("wave.source=")).unwrap();
        *word = source.to_owned();
        arguments.extend(words(&["--device", "cpu"]));
        let Some(output) = launch(&dir, Mpich, ranks, &arguments, &[]) else { return };
        assert_success(&output);
    }
    assert_same_files(&dir, "two/shot-7", "one/shot-7");
    assert_same_files(&dir, "two/shot-9", "one/shot-9");
}

/// Counts the lines of both outputs that contain `text`.
fn count(output: &Output, part: &str) -> usize {
    let all = [&output.stdout, &output.stderr].map(|bytes| text(bytes)).concat();
    all.lines().filter(|line| line.contains(part)).count()
}

/// Errors of rank 0 are printed once, and the launcher has their exit status.
#[test]
fn errors_of_rank_0_are_printed_once() {
    let dir = TestDir::new();
    let too_thin = &["run", "hot-plate", "--set", "grid.ny=5", "--device", "cpu"];
    let expected = "error: [grid]: the grid has 5 nodes along y, expected at least 6 for 3 ranks";
    for (mpi, arguments, message) in [
        (Mpich, &["run", "plummer", "--no-such-flag"][..], "error: unexpected argument '--no-such-flag'"),
        (Mpich, &["run", "nothing.toml"], "error: nothing.toml: "),
        (Mpich, too_thin, expected),
        (OpenMpi, too_thin, expected),
    ] {
        let before = dir.content();
        let Some(output) = launch(&dir, mpi, 3, &words(arguments), &[]) else { continue };
        let all = text(&output.stdout) + &text(&output.stderr);
        assert_eq!((output.status.code(), count(&output, message)), (Some(2), 1), "{all}");
        assert_eq!(count(&output, "error: "), 1, "{all}");
        assert!(dir.content() == before, "{arguments:?} wrote something");
    }
}

#[test]
fn other_commands_are_executed_by_rank_0() {
    let dir = TestDir::new();
    let expected = dir.stdout_of(&["presets"]);
    for mpi in INSTALLATIONS {
        let Some(output) = launch(&dir, mpi, 2, &words(&["presets"]), &[]) else { continue };
        assert_eq!(assert_success(&output), expected);
        let Some(output) = launch(&dir, mpi, 2, &words(&["run", "plummer", "--dry-run"]), &[]) else {
            continue;
        };
        let stdout = assert_success(&output);
        assert_eq!(stdout.matches("# 2 ranks, on rank 0:\n# device: ").count(), 1, "{stdout}");
    }
}

/// Ranks with different commands would compute the case of rank 0, or wait for one another.
#[test]
fn different_commands_are_refused() {
    let dir = TestDir::new();
    let before = dir.content();
    let Some(mut command) = Mpich.command(2, words(&["presets"]), &[]) else { return };
    let other = [":", "-n", "1", env!("CARGO_BIN_EXE_orrery"), "run", "two words", "--device", "cpu"];
    command.args(other).current_dir(dir.path(""));
    let output = end_of(command);
    let stderr = text(&output.stderr);
    let message = "rank 0 executes 'orrery presets', rank 2 executes 'orrery run 'two words' --device cpu'; expected \
                   one command. Set ORRERY_MPI=off for independent runs";
    assert_eq!((output.status.code(), count(&output, message)), (Some(2), 1), "{stderr}");
    assert!(dir.content() == before);

    let off = [("ORRERY_MPI", "off")];
    let Some(mut command) = Mpich.command(2, words(&["presets"]), &off) else { return };
    let other = [":", "-n", "1", "env", "ORRERY_MPI=off", env!("CARGO_BIN_EXE_orrery"), "schema"];
    command.args(other).current_dir(dir.path(""));
    let output = end_of(command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!([count(&output, "galaxy-collision"), count(&output, "json-schema.org")], [2, 1]);
}

/// The processes of the self-test are no ranks, also if their parent is one. Rank 0 executes it.
#[test]
fn the_processes_of_the_self_test_are_no_ranks() {
    let Some(device) = opencl_device() else { return };
    let dir = TestDir::new();
    let label = device.label();
    for mpi in INSTALLATIONS {
        let arguments = ["selftest", "--device", &label, "device: atomics lose no update"];
        let Some(output) = launch(&dir, mpi, 2, &arguments.map(str::to_owned), &[]) else { continue };
        let stdout = assert_success(&output);
        assert_eq!(stdout.matches("1 of 1 passed").count(), 1, "{stdout}");
    }
}

/// Starts `orrery ARGUMENTS` on rank 0 in the folder `a`, and on two ranks in the folder `b`.
fn launch_in_two_folders(dir: &TestDir, mpi: Installation, arguments: &[&str]) -> Option<Output> {
    let mut command = mpi.command(1, arguments, &[])?;
    command.args([":", "-n", "2", "env", "-C"]).arg(dir.path("b"));
    command.arg(env!("CARGO_BIN_EXE_orrery")).args(arguments).current_dir(dir.path("a"));
    Some(end_of(command))
}

/// Files of each rank in its working directory, as on disks of different nodes. A velocity that
/// differs on one node, or another case file, is refused at the start and when a run is resumed.
#[test]
fn different_files_of_ranks_are_refused() {
    let case = "[grid]\nnx = 24\nny = 50\nhx = 1.0\n\
                [wave]\nvelocity_file = \"/proc/self/cwd/velocity.npy\"\nlayer_nodes = 6\n\
                source = [{ x = 12, y = 25, wavelet = \"sine\", frequency = 0.1 }]\nreceivers = [{ x = 8, y = 20, count = 2, dx = 3 }]\n\
                [time]\nstep = 0.125\nend = 1\n[image]\nsize = 64\n";
    let grid = Grid { nx: 24, ny: 50, hx: 1.0, hy: 1.0 };
    for &mpi in suite_cases(&[OpenMpi, Mpich], 1) {
        let dir = TestDir::new();
        let write = |folder: &str, velocity: f64, case: &str| {
            std::fs::create_dir_all(dir.path(folder)).unwrap();
            let values = vec![velocity; 24 * 50];
            let file = dir.path(folder).join("velocity.npy");
            write_field_npy(&file, &grid, FieldValues::Double(&values)).unwrap();
            dir.write(&format!("{folder}/case.toml"), case);
        };
        let expect_refusal = |arguments: &[&str], message: &str| {
            let output = launch_in_two_folders(&dir, mpi, arguments).unwrap();
            let all = text(&output.stdout) + &text(&output.stderr);
            assert_eq!((output.status.code(), count(&output, message)), (Some(2), 1), "{all}");
            assert_eq!(count(&output, "error: "), 1, "{all}");
        };
        write("a", 1.0, case);
        write("b", 1.5, case);
        let out = dir.path("out");
        let out = out.to_str().unwrap();
        let start = ["run", "case.toml", "--out", out, "--device", "cpu"];
        if mpi.command(1, start, &[]).is_none() {
            continue;
        }
        let differs =
            "error: /proc/self/cwd/velocity.npy: rank 1 of 3 has read another file than rank 0: blake3:";
        expect_refusal(&start, differs);
        assert!(!dir.path("out").exists());
        write("b", 1.0, &format!("{case}# stale\n"));
        expect_refusal(&start, "case.toml: rank 1 of 3 finds another case file than rank 0: blake3:");
        assert!(!dir.path("out").exists());
        // Rank 0 alone needs the case file.
        std::fs::remove_file(dir.path("b/case.toml")).unwrap();
        assert_success(&launch_in_two_folders(&dir, mpi, &start).unwrap());
        let resume = ["resume", out, "--end", "2", "--device", "cpu"];
        write("b", 1.5, case);
        expect_refusal(&resume, differs);
        write("b", 1.0, case);
        assert_success(&launch_in_two_folders(&dir, mpi, &resume).unwrap());
    }
}

/// Rank 0 warns about a damaged file with tuned strategies. The others print nothing.
#[test]
fn only_rank_0_prints_warnings() {
    let Some(device) = opencl_device() else { return };
    let dir = TestDir::new();
    let cache = dir.path("cache");
    let alone = |cache: &Path| {
        let arguments = run_words(&HEAT, "one", HEAT.end);
        let arguments = [arguments, words(&["--device", &device.label(), "--force"])].concat();
        let mut command = dir.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("ORRERY_CACHE_DIR", cache).output().unwrap()
    };
    assert!(alone(&cache).status.success());
    let Some(tuning) = Tuning::file_path(&device) else { return };
    std::fs::create_dir_all(cache.join("tuning")).unwrap();
    std::fs::write(cache.join("tuning").join(tuning.file_name().unwrap()), "no tuning").unwrap();
    assert_eq!(count(&alone(&cache), "warning: "), 1);
    let arguments = run_words(&HEAT, "three", HEAT.end);
    let arguments = [arguments, words(&["--device", &device.label()])].concat();
    let variables = [("ORRERY_CACHE_DIR", cache.to_str().unwrap())];
    let Some(output) = launch(&dir, Mpich, 3, &arguments, &variables) else { return };
    assert_eq!(count(&output, "warning: "), 1, "{}", text(&output.stderr));
}

/// An error or a panic of a follower ends all ranks with its message, before anything is written.
#[test]
fn a_failure_of_a_follower_ends_all_ranks() {
    let dir = TestDir::new();
    for (mpi, failure) in [(OpenMpi, "panic:1"), (Mpich, "error:2"), (Mpich, "panic:2")] {
        let arguments = [run_words(&HEAT, "out", HEAT.end), words(&["--device", "cpu"])].concat();
        let variables = [("ORRERY_TEST_RANK_FAILURE", failure)];
        let Some(output) = launch(&dir, mpi, 3, &arguments, &variables) else { continue };
        let (kind, rank) = failure.split_once(':').unwrap();
        let all = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(count(&output, &format!("error: rank {rank} of 3: ")), 1, "{all}");
        assert_eq!(count(&output, &format!("planned {kind}")), 1, "{all}");
        assert_eq!(output.status.code(), Some(1), "{all}");
        assert!(!dir.path("out").exists());
    }
    let Some(device) = test_devices_with_f64().into_iter().next() else { return };
    let list = format!("{0},{0}", device.label());
    for kind in ["error", "panic"] {
        let arguments = [run_words(&HEAT, "out", HEAT.end), words(&["--device", &list])].concat();
        let mut command = dir.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let output = command.env("ORRERY_TEST_RANK_FAILURE", format!("{kind}:1")).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("error: rank 1: ") && stderr.lines().count() == 1, "{stderr}");
        assert!(stderr.contains(&format!("planned {kind}")), "{stderr}");
        assert!(!dir.path("out").exists());
    }
}

#[test]
fn lists_with_the_cpu_or_a_missing_device_are_refused() {
    let dir = TestDir::new();
    let message = error_of(&dir, &["run", "plummer", "--device", "cpu,cpu"]);
    assert!(message.contains("the CPU is not one of several devices; expected"), "{message}");
    assert!(message.contains("cpu with --threads"), "{message}");
    let Some(device) = test_devices_with_f64().into_iter().next() else { return };
    let (label, backend) = (device.label(), device.properties().backend.as_str());
    let missing = format!("{label},{backend}:99");
    let message = error_of(&dir, &["run", "plummer", "--device", &missing]);
    assert!(message.starts_with(&format!("{backend}:99 does not exist, found: ")), "{message}");
    assert!(!dir.path("out").exists());
}

/// A non-finite value ends a run on several ranks as on one, with the state in a file. The wave has
/// its first one on rank 2, the plate on the last rank.
#[test]
fn a_non_finite_value_is_reported_as_by_one_rank() {
    let dir = TestDir::new();
    dir.write(
        "pair.xyz",
        "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n0 0 0 0 0 0 1 10\n2 0 0 1e99 0 0 0 20\n",
    );
    let case = from_file("pair.xyz").replace("step = 0.25\nend = 0.5\n", "step = 1e250\nend = 1e251\n");
    dir.write("pair.toml", format!("{case}[image]\nsize = 64\n"));
    let plate = "grid = { nx = 8, ny = 17, hx = 1 }\n\
                 heat = { conductivity = 1, north = { condition = \"flux\", value = 1e307 } }\n\
                 initial.state = \"uniform\"\ntime = { step = 0.2, end = 100 }\n\
                 output.record_every = \"1 step\"\nimage.size = 64\n";
    dir.write("plate.toml", plate);
    let source = "wave.source=[{ x = 40, y = 252, frequency = 25, delay = 0.01, amplitude = 3e38 }]";
    let wave = run_words(&WAVE, "out", "30 ms");
    let wave = wave.iter().map(|word| if word.starts_with("wave.source=") { source } else { word });
    let fluid = run_words(&FLUID, "out", "30");
    let fluid = fluid.iter().map(|word| if word.starts_with("time.step=") { "time.step=0.1" } else { word });
    let all = &INSTALLATIONS[..];
    for (arguments, expected, file, installations) in [
        (vec!["run", "pair.toml"], "step 1, time 1e250: body 20 has position x =", "post-mortem.hdf5", all),
        (
            vec!["run", "plate.toml"],
            "step 13, time 2.6: the heat content is inf,",
            "post-mortem.npy",
            &[OpenMpi],
        ),
        (
            wave.collect(),
            "step 14, time 0.007: u is -inf at node (8, 50, 0),",
            "post-mortem-wave.npy",
            &[OpenMpi],
        ),
        (fluid.collect(), "step 1, time 0.1: the temperature is inf", "post-mortem.gsd", &[OpenMpi]),
    ] {
        let out: &[&str] = if arguments.contains(&"--out") { &[] } else { &["--out", "out"] };
        let arguments = [&arguments[..], out, &["--device", "cpu", "--force"]].concat();
        let alone = dir.orrery(&arguments);
        assert_eq!(alone.status.code(), Some(1));
        let stderr = text(&alone.stderr);
        let message = stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(message.starts_with(&format!("error: {expected}")), "{stderr}");
        let state = dir.bytes(&format!("out/{file}"));
        for &mpi in installations {
            let Some(output) = launch(&dir, mpi, 3, &words(&arguments), &[]) else { continue };
            let all = text(&output.stdout) + &text(&output.stderr);
            assert_eq!((output.status.code(), count(&output, message)), (Some(1), 1), "{all}");
            assert!(dir.bytes(&format!("out/{file}")) == state, "{file} differs");
        }
    }
}
