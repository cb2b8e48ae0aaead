//! `bench scaling`: steps on 1, 2, 4, ... ranks, their model, and a prediction for many GPUs.
//!
//! The ranks are processes that an MPI launcher started, or threads of this process with one device
//! each. Unlike in a run, all ranks execute the same sequence of measurements, and rank 0 prints.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use orrery_cluster::{Transport, threads};
use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::available_memory;
use orrery_measure::devices::cpu_name;
use orrery_measure::format::{format_rate, format_seconds, format_thousands, wrap_text};
use orrery_measure::scaling::model::MessageLink;
use orrery_measure::scaling::{
    self as measure, DEFAULT_LINK, MeasuredPhysics, MeasuredRank, PingPong, Processors, ScalingSettings,
    ScalingStudy,
};
use orrery_model::format_count;
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::{about_cpu, json_report};
use crate::args::{BenchArgs, BenchCase};
use crate::commands::use_threads;
use crate::failure::{Failure, check_new_output};
use crate::print::print_line;
use crate::ranks::threads_of_process;
use crate::terminal_line::TerminalLine;

/// Timed runs per measurement.
const REPEATS: u32 = 3;
/// Seconds of a timed run.
const RUN_SECS: f64 = 0.25;
/// Bytes of the long messages of the ping-pong: the border of a wave with 256² nodes per plane.
const PING_PONG_BYTES: usize = 1 << 20;
/// Share of the memory that a measurement may use.
const MEMORY_SHARE: f64 = 0.8;
/// Columns of the output.
const WIDTH: usize = 80;

/// Refuses flags of other cases, and invalid values.
pub fn check_scaling_flags(arguments: &BenchArgs) -> Result<(), Failure> {
    let unused = [("--precision", arguments.precision.is_some()), ("--simd", arguments.simd.is_some())];
    if let Some((flag, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!("{flag} has no effect on bench scaling")));
    }
    if !arguments.n.is_empty() && (arguments.n.len() > 1 || arguments.physics.len() != 1) {
        let message = "-n is the size of one physics, expected one number and one --physics";
        return Err(Failure::Usage(message.to_owned()));
    }
    if let (Some(&n), Some(physics)) = (arguments.n.first(), arguments.physics.first()) {
        let least = MeasuredPhysics::from(*physics).min_size();
        if n < least {
            return Err(Failure::Usage(format!("-n {n} is outside n >= {least}")));
        }
    }
    let positive =
        [("--link-gb-per-s", arguments.link_gb_per_s), ("--link-latency-us", arguments.link_latency_us)];
    for (flag, value) in positive {
        if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
            return Err(Failure::Usage(format!("{flag} {value} is outside value > 0")));
        }
    }
    Ok(())
}

/// Refuses flags of `bench scaling` for other cases.
pub fn check_other_flags(arguments: &BenchArgs) -> Result<(), Failure> {
    let flags = [
        ("--physics", !arguments.physics.is_empty()),
        ("--link-gb-per-s", arguments.link_gb_per_s.is_some()),
        ("--link-latency-us", arguments.link_latency_us.is_some()),
        ("--plot", arguments.plot.is_some()),
    ];
    match flags.iter().find(|(_, is_given)| *is_given && arguments.case != BenchCase::Scaling) {
        Some((flag, _)) => {
            Err(Failure::Usage(format!("{flag} is for bench scaling, expected orrery bench scaling")))
        }
        None => Ok(()),
    }
}

/// Measures on rank 0, prints the results, and writes the JSON file and the plots.
pub fn lead_scaling(arguments: &BenchArgs, transport: &Transport) -> Result<(), Failure> {
    super::check_flags(arguments)?;
    let json = arguments.json.prepare()?;
    let physics = selected_physics(arguments);
    if let Some(path) = &arguments.plot {
        check_plots(path, &physics, arguments.json.force)?;
    }
    let report = if transport.size() > 1 {
        let threads = threads_of_process(arguments.threads, transport)?;
        use_threads(threads)?;
        let choice = arguments.devices.of_process(transport.local_rank());
        measure_in_pool(arguments, transport, choice)?
    } else {
        match &arguments.devices.of_threads()?[..] {
            [choice] => {
                use_threads(arguments.threads)?;
                measure_in_pool(arguments, transport, *choice)?
            }
            devices => measure_on_threads(arguments, devices)?,
        }
    };
    let report = report.expect("rank 0 has the results");
    if let Some(path) = &arguments.plot {
        report.write_plots(path)?;
    }
    json.write(|| report.to_json())
}

/// Takes part in the measurements of rank 0, in a process that a launcher started.
pub fn follow_scaling(arguments: &BenchArgs, transport: &Transport) -> Result<(), Failure> {
    super::check_flags(arguments)?;
    let threads = threads_of_process(arguments.threads, transport)?;
    use_threads(threads)?;
    let choice = arguments.devices.of_process(transport.local_rank());
    measure_in_pool(arguments, transport, choice).map(drop)
}

/// Measures with one thread of this process per device.
fn measure_on_threads(
    arguments: &BenchArgs,
    devices: &[DeviceChoice],
) -> Result<Option<ScalingReport>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, |threads| threads as usize);
    let report = Mutex::new(None);
    threads::run(devices.len(), |transport| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads((threads / devices.len()).max(1))
            .build()
            .map_err(|e| Failure::Machine(format!("cannot start the threads of a rank: {e}")))?;
        let measured = pool.install(|| measure(arguments, transport, devices[transport.rank()]))?;
        if transport.rank() == 0 {
            *report.lock().unwrap_or_else(PoisonError::into_inner) = measured;
        }
        Ok::<_, Failure>(())
    })?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Measures in a thread of the pool, as runs do.
fn measure_in_pool(
    arguments: &BenchArgs,
    transport: &Transport,
    choice: DeviceChoice,
) -> Result<Option<ScalingReport>, Failure> {
    rayon::scope(|_| measure(arguments, transport, choice))
}

/// Measures on one rank. All ranks must call it. Rank 0 prints and returns the results.
fn measure(
    arguments: &BenchArgs,
    transport: &Transport,
    choice: DeviceChoice,
) -> Result<Option<ScalingReport>, Failure> {
    let device = Device::open_for_rank(choice, transport.local_rank())?;
    let device = device.map(|device| device.for_rank(transport.local_rank())).transpose()?;
    let device = device.as_ref();
    let settings = ScalingSettings {
        threads: rayon::current_num_threads(),
        repeats: arguments.repeats.unwrap_or(REPEATS) as usize,
        run_secs: RUN_SECS,
        memory: None,
    };
    let mut rank = MeasuredRank { transport, device, settings };
    let processors = Processors::find(&rank)?;
    rank.settings.memory = memory_per_rank(&rank, &processors)?;
    let sizes = selected_sizes(arguments, &rank)?;
    let link = predicted_link(arguments);
    let mut report = ScalingReport::new(&rank, &processors, link);
    let is_leader = transport.rank() == 0;
    if is_leader {
        report.print_heading();
    }
    report.ping_pong = measure::measure_ping_pong(&rank, PING_PONG_BYTES)?;
    if is_leader {
        report.print_ping_pong();
    }
    for (physics, n) in sizes {
        let mut line = is_leader.then(TerminalLine::new);
        let mut progress = |text: &str| line.iter_mut().for_each(|line| line.draw(text));
        let study = measure::measure(&rank, &processors, physics, n, &mut progress)?;
        drop(line);
        if let Some(study) = study {
            print_line!("");
            measure::physics_lines(&study, &link).iter().for_each(|line| print_line!("{line}"));
            report.studies.push(study);
        }
    }
    Ok(is_leader.then_some(report))
}

fn selected_physics(arguments: &BenchArgs) -> Vec<MeasuredPhysics> {
    match arguments.physics.is_empty() {
        true => MeasuredPhysics::ALL.to_vec(),
        false => arguments.physics.iter().map(|flag| MeasuredPhysics::from(*flag)).collect(),
    }
}

/// Returns the physics with their sizes, or an error if the ranks cannot divide one of them.
fn selected_sizes(
    arguments: &BenchArgs,
    rank: &MeasuredRank<'_>,
) -> Result<Vec<(MeasuredPhysics, usize)>, Failure> {
    let ranks = rank.transport.size();
    let size_of = |physics: MeasuredPhysics| {
        let n = arguments.n.first().copied().unwrap_or_else(|| physics.default_size(rank.device));
        let least = ranks * physics.min_size() / 2;
        if n >= least {
            return Ok((physics, n));
        }
        let (name, elements) = (physics.name(), physics.elements());
        Err(Failure::Usage(format!(
            "{name} with {n} {elements}: {ranks} ranks need at least {least}; give --physics {name} -n {least}"
        )))
    };
    selected_physics(arguments).into_iter().map(size_of).collect()
}

fn predicted_link(arguments: &BenchArgs) -> MessageLink {
    MessageLink {
        latency_secs: arguments.link_latency_us.map_or(DEFAULT_LINK.latency_secs, |us| 1e-6 * us),
        bytes_per_s: arguments.link_gb_per_s.map_or(DEFAULT_LINK.bytes_per_s, |gb| 1e9 * gb),
    }
}

/// Returns the bytes that a problem may need on this rank. Ranks may be on the same computer.
fn memory_per_rank(rank: &MeasuredRank<'_>, processors: &Processors) -> Result<Option<u64>, Failure> {
    let ranks = rank.transport.size();
    let share = |bytes: u64, sharing: usize| (MEMORY_SHARE * bytes as f64) as u64 / sharing.max(1) as u64;
    let host = available_memory().map(|bytes| share(bytes, ranks));
    let sharing = ranks.div_ceil(processors.slots(ranks));
    let on_device = rank.device.map(Device::memory).transpose()?;
    let on_device = on_device.map(|memory| share(memory.free, sharing));
    Ok([host, on_device].into_iter().flatten().min())
}

/// Returns the path of the plot of a physics, or of the efficiency: `FILE-wave.svg`.
fn plot_path(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{name}.svg"))
}

const EFFICIENCY: &str = "efficiency";

fn check_plots(path: &Path, physics: &[MeasuredPhysics], force: bool) -> Result<(), Failure> {
    if path.extension() != Some("svg".as_ref()) {
        return Err(Failure::Usage(format!("{}: expected a name ending in .svg", path.display())));
    }
    let names = physics.iter().map(|physics| physics.name()).chain([EFFICIENCY]);
    names.map(|name| plot_path(path, name)).try_for_each(|path| check_new_output(&path, force))
}

/// Results of all physics.
struct ScalingReport {
    title: String,
    device: Value,
    ranks: usize,
    slots: usize,
    threads: usize,
    transport: String,
    link: MessageLink,
    ping_pong: Vec<PingPong>,
    studies: Vec<ScalingStudy>,
}

impl ScalingReport {
    fn new(rank: &MeasuredRank<'_>, processors: &Processors, link: MessageLink) -> Self {
        let ranks = rank.transport.size();
        let set = InstructionSet::best();
        Self {
            title: match rank.device {
                Some(device) => device.title(),
                None => format!("{}, {}", cpu_name(), set.name()),
            },
            device: match rank.device {
                Some(device) => json!({ "kind": "device", "label": device.label(), "title": device.title() }),
                None => about_cpu(set),
            },
            ranks,
            slots: processors.slots(ranks),
            threads: rank.settings.threads,
            transport: rank.transport.description(),
            link,
            ping_pong: Vec::new(),
            studies: Vec::new(),
        }
    }

    fn print_heading(&self) {
        print_line!("{}", self.title);
        let Self { ranks, slots, threads, transport, .. } = self;
        let count = format_count(*ranks as u64, "rank", "ranks");
        let text = match ranks {
            1 => format!("{count}, threads: {threads}; nothing to compare the model with"),
            _ => format!(
                "{count} ({transport}), threads per rank: {threads}; slots: {slots} of them compute at the same time"
            ),
        };
        wrap_text(&text, WIDTH).iter().for_each(|line| print_line!("{line}"));
        print_line!("times per step, the fastest of several runs; model: from times of ranks");
        print_line!("  that compute without communication (compute) and of messages (communic.)");
    }

    fn print_ping_pong(&self) {
        let part = |message: &PingPong| {
            let rate = format_rate(message.bytes as f64 / message.secs, "B/s");
            format!("{} B in {} ({rate})", format_thousands(message.bytes), format_seconds(message.secs))
        };
        if !self.ping_pong.is_empty() {
            let parts: Vec<String> = self.ping_pong.iter().map(part).collect();
            let text = format!("messages from rank 0 to 1 and back: {}", parts.join(", "));
            wrap_text(&text, WIDTH).iter().for_each(|line| print_line!("{line}"));
        }
    }

    fn write_plots(&self, path: &Path) -> Result<(), Failure> {
        let title = format!("{}, {}", self.title, format_count(self.ranks as u64, "rank", "ranks"));
        for study in &self.studies {
            measure::plot(study, &title).write_svg(&plot_path(path, study.physics.name()))?;
        }
        let efficiency = measure::efficiency_plot(&self.studies, &self.link, &title);
        Ok(efficiency.write_svg(&plot_path(path, EFFICIENCY))?)
    }

    fn to_json(&self) -> Value {
        let studies: Vec<Value> =
            self.studies.iter().map(|study| measure::to_json(study, &self.link)).collect();
        let mut report = json_report(self.device.clone(), json!(studies));
        report["ranks"] = json!({
            "count": self.ranks, "slots": self.slots, "threads": self.threads, "transport": self.transport,
            "ping_pong": self.ping_pong,
        });
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_named_after_their_physics() {
        let path = Path::new("out/scaling.svg");
        assert_eq!(plot_path(path, "wave"), Path::new("out/scaling-wave.svg"));
        let failure = check_plots(Path::new("scaling.png"), &[MeasuredPhysics::Wave], false).unwrap_err();
        assert_eq!(failure.to_string(), "scaling.png: expected a name ending in .svg");
    }
}
