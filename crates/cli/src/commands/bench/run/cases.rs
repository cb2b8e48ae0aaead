//! The runs of `bench run`: their settings, and whether they fit into the memory and on the disk.

use clap::ValueEnum;
use orrery_device::{Device, DeviceKind};
use orrery_engine::case::{BYTES_PER_BODY, Case, CaseError, CaseSource, Every, ImageSize, Location};
use orrery_engine::control::Control;
use orrery_engine::system::Plan;
use orrery_engine::{EngineError, System};
use orrery_formats::format_bytes;
use orrery_gravity::settings::StepChoice;
use orrery_measure::bench::wave::HOST_BYTES_PER_NODE;
use orrery_measure::format::format_thousands;
use orrery_model::Precision;

use super::super::{heat, selected_sizes};
use super::scratch::ScratchFolder;
use crate::args::{BenchArgs, RunCase};
use crate::failure::Failure;
use crate::print::eprint_line;

/// Settings without output but the first and the last one.
const NO_OUTPUT: [&str; 3] = ["output.image_every=0", "output.snapshot_every=0", "output.record_every=0"];
/// Settings with images only.
const ONLY_IMAGES: [&str; 3] =
    ["output.image_every=20 steps", "output.snapshot_every=0", "output.record_every=0"];
/// Nodes along a side of the preset wave-3d, and its width in metres. A smaller grid needs a larger
/// spacing, so that source and receivers are inside.
const WAVE_PRESET: (usize, f64) = (121, 1200.0);
/// Bytes per pixel of an image and its frame in the animation, which are compressed.
const BYTES_PER_PIXEL: u64 = 4;

/// Defaults of a run.
struct Defaults {
    preset: &'static str,
    /// Size on the CPU and on other devices that are no GPU.
    cpu_size: usize,
    gpu_size: usize,
    steps: u64,
    /// Settings of the output.
    output: &'static [&'static str],
}

/// A run to measure. The case is never [`RunCase::Threads`], which gives two workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRunCase {
    pub case: RunCase,
    /// Number of bodies, or of nodes along a side.
    pub n: usize,
    pub steps: u64,
    pub precision: Precision,
    /// Number of CPU threads. `None` is the number that `--threads` selects.
    pub threads: Option<usize>,
}

/// Returns the runs that the flags select, in the order of [`RunCase`].
pub fn selected_workloads(
    arguments: &BenchArgs,
    device: Option<&Device>,
) -> Result<Vec<BenchRunCase>, Failure> {
    let is_selected = |case: RunCase| match arguments.run_cases.as_slice() {
        [] => case != RunCase::Threads || (device.is_none() && rayon::current_num_threads() > 1),
        cases => cases.contains(&case),
    };
    let is_explicit = arguments.run_cases.contains(&RunCase::Threads);
    if let Some(device) = device.filter(|_| is_explicit) {
        let device = device.label();
        return Err(Failure::Usage(format!(
            "--case threads: compares numbers of CPU threads, expected --device cpu instead of {device}"
        )));
    }
    if is_explicit && rayon::current_num_threads() == 1 {
        let message = "--case threads: compares one thread with all, expected more than one thread";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut workloads: Vec<BenchRunCase> = Vec::new();
    for &selected in RunCase::value_variants().iter().filter(|&&case| is_selected(case)) {
        let (case, thread_counts) = match selected {
            RunCase::Threads => (RunCase::GalaxyCollision, &[None, Some(1)][..]),
            case => (case, &[None][..]),
        };
        let default = BenchRunCase::defaults(case);
        let is_gpu = device.is_some_and(|device| device.properties().kind == DeviceKind::Gpu);
        let size = if is_gpu { default.gpu_size } else { default.cpu_size };
        for n in selected_sizes(arguments, &[size]) {
            for &threads in thread_counts {
                let steps = arguments.steps.unwrap_or(default.steps);
                let precision =
                    arguments.precision.map_or_else(|| BenchRunCase::default_precision(case), |flag| flag.0);
                let workload = BenchRunCase { case, n, steps, precision, threads };
                if !workloads.contains(&workload) {
                    workloads.push(workload);
                }
            }
        }
    }
    Ok(workloads)
}

impl BenchRunCase {
    /// Returns true for a run of a field.
    pub fn is_field(case: RunCase) -> bool {
        matches!(case, RunCase::Heat | RunCase::Wave)
    }

    fn default_precision(case: RunCase) -> Precision {
        if Self::is_field(case) { Precision::Single } else { Precision::Mixed }
    }

    /// Returns the defaults. Those of a GPU are the runs of
    /// benchmarks/runs/2026-11-17-h200-whole-runs.
    fn defaults(case: RunCase) -> Defaults {
        let (preset, cpu_size, gpu_size, steps, output): (_, _, _, _, &[&str]) = match case {
            RunCase::GalaxyCollision | RunCase::Threads => ("galaxy-collision", 40_000, 40_000, 1200, &[]),
            RunCase::Plummer => ("plummer", 10_000, 1_000_000, 1000, &[]),
            RunCase::FewBodies => ("plummer", 1024, 4096, 10_000, &NO_OUTPUT),
            RunCase::Heat => ("sine-decay", 2048, 16_384, 2000, &ONLY_IMAGES),
            RunCase::Wave => ("wave-3d", 128, 512, 2000, &ONLY_IMAGES),
        };
        Defaults { preset, cpu_size, gpu_size, steps, output }
    }

    /// Returns the name of the run on the command line.
    pub fn name(&self) -> String {
        self.case.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the name of the run in a table, below the same run with all threads.
    pub fn label(&self) -> String {
        match self.threads {
            Some(1) => "  with 1 thread".to_owned(),
            Some(threads) => format!("  {threads} threads"),
            None => self.name(),
        }
    }

    /// Returns the number of bodies or nodes, such as `40,000`, `2048²` or `128³`.
    pub fn size_text(&self) -> String {
        match self.case {
            RunCase::Heat => format!("{}²", self.n),
            RunCase::Wave => format!("{}³", self.n),
            _ => format_thousands(self.n),
        }
    }

    /// Returns the settings without those of the output and the end.
    fn settings(&self) -> Vec<String> {
        let (n, precision) = (self.n, self.precision.as_str());
        match self.case {
            RunCase::GalaxyCollision | RunCase::Threads => {
                vec![format!("bodies.n={n}"), format!("gravity.precision={precision}")]
            }
            RunCase::Plummer | RunCase::FewBodies => vec![
                format!("bodies.n={n}"),
                format!("gravity.precision={precision}"),
                "time.step=0.001".to_owned(),
            ],
            RunCase::Heat => {
                vec![format!("grid.nx={n}"), format!("grid.ny={n}"), format!("heat.precision={precision}")]
            }
            RunCase::Wave => {
                let (nodes, width) = WAVE_PRESET;
                let spacing = (n > 1 && n < nodes).then(|| format!("grid.hx={:?}", width / (n - 1) as f64));
                let sides = ["nx", "ny", "nz"].map(|side| format!("grid.{side}={n}"));
                let precision = format!("wave.precision={precision}");
                sides.into_iter().chain(spacing).chain([precision]).collect()
            }
        }
    }

    /// Returns the case, or why it cannot run here: its memory, or the space on the disk of
    /// `scratch`.
    pub fn prepare(
        &self,
        arguments: &BenchArgs,
        control: &Control,
        scratch: &ScratchFolder,
    ) -> Result<Result<Case, String>, Failure> {
        // Checked first: the longest stable step of a field is computed from all its nodes.
        let (needed, available) = (self.host_bytes(), control.limits.memory);
        if needed > available {
            let (needed, available) = (format_bytes(needed), format_bytes(available));
            return Ok(Err(format!("needs {needed} of memory, {available} are available")));
        }
        let case = self.load(arguments, available)?;
        let plan = match System::plan(&case, control, &mut |warning| eprint_line!("warning: {warning}")) {
            Ok(plan) => plan,
            Err(error @ (EngineError::DeviceMemory { .. } | EngineError::Memory { .. })) => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        // With --device auto, a run that does not fit on the device would use the CPU.
        if let Some(reason) = plan.selected.reason {
            return Ok(Err(reason));
        }
        let needed = output_bytes(&plan);
        if let Some(free) = scratch.free_bytes().filter(|&free| needed > free) {
            let (needed, free) = (format_bytes(needed), format_bytes(free));
            return Ok(Err(format!("may need {needed} on the disk, {free} are free")));
        }
        Ok(Ok(case))
    }

    /// Returns an upper bound of the memory that the start of the run needs on the host.
    fn host_bytes(&self) -> u64 {
        let n = self.n as u64;
        let (elements, bytes_each) = match self.case {
            RunCase::Heat => (n.saturating_mul(n), heat::BYTES_PER_NODE),
            RunCase::Wave => (n.saturating_mul(n).saturating_mul(n), HOST_BYTES_PER_NODE),
            _ => (n, BYTES_PER_BODY),
        };
        elements.saturating_mul(bytes_each)
    }

    /// Loads the case with its number of steps.
    fn load(&self, arguments: &BenchArgs, memory: u64) -> Result<Case, Failure> {
        let Defaults { preset, output, .. } = Self::defaults(self.case);
        let source = CaseSource::from_argument(preset)?;
        let load = |sets: &[String]| {
            Case::load_within(&source, sets, Some(memory)).map_err(|error| self.name_flag(error, arguments))
        };
        let text = |sets: &[&str]| sets.iter().map(|set| (*set).to_owned()).collect::<Vec<_>>();
        let settings = self.settings();
        // The end follows from the step, which is known when the case is loaded. Until its end the
        // preset may have too many steps for the output.
        let case = load(&[settings.clone(), text(&NO_OUTPUT)].concat())?;
        let end = format!("time.end={:?}", end_after(&case, self.steps));
        Ok(load(&[settings, text(output), vec![end]].concat())?)
    }

    /// Names the flag in an error about its value, in place of a location in the preset.
    fn name_flag(&self, error: CaseError, arguments: &BenchArgs) -> CaseError {
        let CaseError { label, location, message } = error;
        let (index, set) = match &location {
            Location::Set { index, text } => (*index, text.as_str()),
            Location::Whole | Location::File { .. } => (0, ""),
        };
        let text = match arguments.steps {
            _ if set.contains("precision=") => format!("--precision {}", self.precision.as_str()),
            Some(steps) if set.contains("output.") || set.contains("time.") => format!("--steps {steps}"),
            _ => format!("-n {}", self.n),
        };
        CaseError { label, location: Location::Set { index, text }, message }
    }
}

/// Returns the time after `steps` steps.
fn end_after(case: &Case, steps: u64) -> f64 {
    case.time.known_start() + steps as f64 * fixed_step(case)
}

/// Returns the length of a step.
fn fixed_step(case: &Case) -> f64 {
    match case.time.step {
        StepChoice::Fixed(dt) => dt,
        StepChoice::Adaptive { .. } => unreachable!("the presets of bench run have fixed steps"),
    }
}

/// Returns the case with at most `most` steps.
pub fn shortened(case: &Case, most: u64) -> Case {
    let mut short = case.clone();
    short.time.end = short.time.end.min(end_after(case, most));
    short
}

/// Returns an upper bound of the bytes of all files of a run.
///
/// A checkpoint has at most two copies of the state, and so has the memory of a run. A new one is
/// written before an old one is removed. A snapshot has one copy.
fn output_bytes(plan: &Plan) -> u64 {
    let case = &plan.case;
    let checkpoints = u64::from(case.checkpoint.keep) + 1;
    let (width, height) = match case.image.size {
        ImageSize::Longer(side) => (side, side),
        ImageSize::Exact(width, height) => (width, height),
    };
    let image = BYTES_PER_PIXEL * u64::from(width) * u64::from(height);
    let images = output_count(case, case.output.image_every).saturating_mul(image);
    let snapshots = output_count(case, case.output.snapshot_every).saturating_mul(plan.host_bytes / 2);
    checkpoints.saturating_mul(plan.host_bytes).saturating_add(snapshots).saturating_add(images)
}

/// Returns the largest number of outputs of a schedule, with those at the start and the end.
fn output_count(case: &Case, every: Every) -> u64 {
    let length = case.time.end - case.time.known_start();
    let between = match every {
        Every::Never => 0.0,
        Every::Steps(steps) => length / fixed_step(case) / steps as f64,
        Every::Time(interval) => length / interval,
    };
    between as u64 + 2
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use orrery_engine::compute_device::ComputeDevice;
    use orrery_engine::system::Size;

    use super::*;
    use crate::args::{Arguments, Command};
    use crate::commands::bench::check_flags;

    fn flags(text: &str) -> BenchArgs {
        match Arguments::try_parse_from(text.split_whitespace())
            .unwrap_or_else(|e| panic!("{text}: {e}"))
            .command
        {
            Command::Bench(arguments) => arguments,
            _ => panic!("{text}"),
        }
    }

    fn workloads(text: &str) -> Vec<BenchRunCase> {
        let arguments = flags(text);
        check_flags(&arguments).unwrap_or_else(|e| panic!("{text}: {e}"));
        selected_workloads(&arguments, None).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn load(workload: &BenchRunCase) -> Case {
        workload.load(&flags("orrery bench run"), u64::MAX).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn the_help_text_has_the_defaults_of_all_runs() {
        let command = Arguments::command();
        let bench = command.find_subcommand("bench").expect("a command");
        let help = bench.get_after_help().expect("default sizes").to_string();
        for case in RunCase::value_variants() {
            let value = case.to_possible_value().unwrap();
            let Defaults { cpu_size, gpu_size, steps, .. } = BenchRunCase::defaults(*case);
            let gpu_size = if *case == RunCase::Threads { "-".to_owned() } else { gpu_size.to_string() };
            let row = format!("\n  {:<16}  {cpu_size:<5}  {gpu_size:<7}  {steps:>5}  ", value.get_name());
            assert!(help.contains(&row), "{row:?}: {help}");
        }
    }

    #[test]
    fn flags_select_runs_sizes_and_steps() {
        let all = workloads("orrery bench run");
        let names: Vec<_> = all.iter().filter(|run| run.threads.is_none()).map(BenchRunCase::name).collect();
        assert_eq!(names, ["galaxy-collision", "plummer", "few-bodies", "heat", "wave"]);
        assert!(all.iter().all(|run| run.threads.is_none() || run.case == RunCase::GalaxyCollision));
        let some = workloads("orrery bench run --case wave,heat --steps 2e1 --precision double");
        let found: Vec<_> = some.iter().map(|run| (run.case, run.n, run.steps, run.precision)).collect();
        let expected = [(RunCase::Heat, 2048), (RunCase::Wave, 128)];
        assert_eq!(found, expected.map(|(case, n)| (case, n, 20, Precision::Double)));
        let sizes = workloads("orrery bench run --case plummer -n 100,2e3");
        assert_eq!(
            sizes.iter().map(|run| (run.n, run.steps)).collect::<Vec<_>>(),
            [(100, 1000), (2000, 1000)]
        );
        assert_eq!(sizes[0].precision, Precision::Mixed);
    }

    #[test]
    fn flags_without_effect_or_meaning_are_refused() {
        for (text, message) in [
            ("run -n 100", "-n: bench run has runs of different kinds, expected --case with one of its runs"),
            ("run --case heat,wave -n 100", "-n: bench run has runs of different kinds"),
            ("run --case heat -n 0", "-n 0 is outside n >= 1"),
            ("run --theta 0.5", "--theta has no effect on bench run"),
            ("run --simd avx2", "--simd has no effect on bench run"),
            ("run --precision mixed", "--precision mixed: expected single or double for heat and wave"),
            ("run --case plummer,wave --precision mixed", "--precision mixed: expected single or double"),
            ("tree --steps 3", "--steps is for bench run"),
            ("direct --case heat", "--case is for bench run"),
        ] {
            let refused = check_flags(&flags(&format!("orrery bench {text}"))).unwrap_err().to_string();
            assert!(refused.starts_with(message), "{text}: {refused}");
        }
        for text in
            ["--case galaxy", "--case heat --steps 0", "--case heat --steps 1.5", "--case heat --steps -1"]
        {
            let arguments = format!("orrery bench run {text}");
            assert!(Arguments::try_parse_from(arguments.split_whitespace()).is_err(), "{text}");
        }
        assert!(check_flags(&flags("orrery bench run --case plummer --precision mixed")).is_ok());
    }

    /// Also for grids that are smaller than that of the preset.
    #[test]
    fn every_case_has_its_number_of_steps() {
        for (case, n) in [
            (RunCase::GalaxyCollision, 200),
            (RunCase::Plummer, 100),
            (RunCase::FewBodies, 100),
            (RunCase::Heat, 17),
            (RunCase::Wave, 40),
        ] {
            for steps in [1, 7, 2000] {
                let precision = BenchRunCase::default_precision(case);
                let loaded = load(&BenchRunCase { case, n, steps, precision, threads: None });
                assert_eq!((loaded.time.end / fixed_step(&loaded)).round(), steps as f64);
                assert_eq!(shortened(&loaded, 20).time.end, end_after(&loaded, steps.min(20)), "{case:?}");
                assert_eq!(loaded.physics.precision(), precision);
            }
        }
    }

    #[test]
    fn errors_name_the_flags() {
        let precision = Precision::Single;
        for (case, n, steps, flag) in [
            (RunCase::Heat, 2, 10, "-n 2: "),
            (RunCase::GalaxyCollision, 1, 10, "-n 1: "),
            (RunCase::Wave, 20, 10, "-n 20: [wave]: the layers at x need 32 nodes"),
            (RunCase::Heat, 17, 1_000_000_000, "--steps 1000000000: "),
        ] {
            let arguments = flags(&format!("orrery bench run --steps {steps}"));
            let workload = BenchRunCase { case, n, steps, precision, threads: None };
            let message = workload.load(&arguments, u64::MAX).unwrap_err().to_string();
            assert!(message.starts_with(flag), "{message}");
        }
    }

    /// A checkpoint of 100 bodies, for example, has at most 45,000 bytes. Two are kept while a
    /// third is written.
    #[test]
    fn disk_space_is_that_of_checkpoints_snapshots_and_images() {
        let workload = BenchRunCase {
            case: RunCase::Plummer,
            n: 100,
            steps: 400,
            precision: Precision::Mixed,
            threads: None,
        };
        let case = load(&workload);
        let pixels = match case.image.size {
            ImageSize::Longer(side) => u64::from(side).pow(2),
            ImageSize::Exact(..) => panic!("the preset has square images"),
        };
        let size = Size { count: 100, one: "body", many: "bodies" };
        let selected = ComputeDevice { device: None, reason: None };
        let plan = Plan { case, size, host_bytes: 45_000, selected, device_bytes: None };
        // Until t = 0.4 there are 2 snapshots, and images at 0, 0.2 and 0.4. Each schedule may have
        // one more.
        let kept = u64::from(plan.case.checkpoint.keep);
        let least = kept * 45_000 + 2 * 22_500 + 3 * 4 * pixels;
        assert!((least..=least + 45_000 + 22_500 + 4 * pixels).contains(&output_bytes(&plan)));
    }
}
