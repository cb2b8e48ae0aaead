//! Checkpoints: all that the next step needs, and how a run finds it again.
//!
//! Invariants: before a checkpoint gets its name, everything that it counts on (rows, frames, snapshots) is
//! on the disk; an older one is removed only after a newer one is there. Random numbers need no place in it:
//! they are functions of the case's seeds, and none is drawn after the start.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orrery_device::{Backend, Device, DeviceChoice};
use orrery_io::{
    Block, Column, Fault, IoError, Limits, format_bytes, make_folder, read_checkpoint, write_checkpoint,
};
use orrery_model::{Particles, Species, Vec3s};
use orrery_particles::bodies::{Bodies, BodiesError};
use orrery_particles::settings::{GravitySettings, SolverChoice};
use orrery_particles::solver::device::DeviceStrategy;
use serde::{Deserialize, Serialize};

use crate::blocks::Blocks;
use crate::case::{BYTES_PER_BODY, Case, CheckpointEvery};
use crate::error::EngineError;
use crate::folder::CHECKPOINTS;
use crate::observers;
use crate::provenance;
use crate::simulation::{Moment, Simulation};
use crate::trigger::Trigger;

const SUFFIX: &str = ".orrery";

/// The header, in JSON. A field that comes later needs a default, so that older files still load.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    /// What wrote it: program, commit and device.
    writer: String,
    /// The resolved case.
    case: String,
    /// Where the run comes from, as its snapshots say it.
    provenance: Vec<(String, String)>,
    step: u64,
    time: f64,
    bodies: usize,
    /// The solver that `auto` came to be.
    solver: String,
    /// How a device computed forces, in JSON; what cannot be read is as good as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    observers: observers::State,
}

/// What a checkpoint holds, in short.
#[derive(Clone, Debug)]
pub struct Description {
    /// What wrote it.
    pub writer: String,
    /// What is simulated.
    pub case: Case,
    /// Bodies.
    pub bodies: usize,
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// How forces are computed.
    pub solver: &'static str,
}

/// Reads a checkpoint whole and tells what it holds.
pub fn describe(path: &Path, limits: &Limits) -> Result<Description, EngineError> {
    let Saved { writer, case, simulation, .. } = read(path, limits)?;
    let Moment { step, time, bodies } = simulation.moment();
    let (solver, bodies) = (bodies.solver_name(), bodies.len());
    Ok(Description { writer, case, bodies, step, time, solver })
}

/// A run as a checkpoint saw it.
pub(crate) struct Saved {
    pub path: PathBuf,
    pub writer: String,
    pub case: Case,
    pub provenance: Vec<(String, String)>,
    /// On the host.
    pub simulation: Simulation,
    strategy: Option<String>,
    pub observers: observers::State,
    /// What the observers kept besides.
    pub blocks: Blocks,
    /// Newer ones that are damaged.
    damaged: Vec<PathBuf>,
    /// How long it took to read.
    pub cost: Duration,
}

impl Saved {
    /// How `device` computed forces, if it wrote the checkpoint.
    pub fn strategy_on(&self, device: &Device) -> Option<DeviceStrategy> {
        let same = self.writer.ends_with(&format!(" on {}", provenance::device(Some(device))));
        let strategy: DeviceStrategy = serde_json::from_str(self.strategy.as_ref().filter(|_| same)?).ok()?;
        let is_of_the_run = strategy.precision() == self.case.gravity.precision
            && strategy.name() == self.simulation.moment().bodies.solver_name();
        (is_of_the_run && strategy.is_for_runs(device)).then_some(strategy)
    }

    /// What `auto` means for a run that goes on: where it was, for as long as that is here. Elsewhere the last bits differ.
    pub fn choice_again(&self, choice: DeviceChoice) -> DeviceChoice {
        let Some((_, before)) = self.writer.split_once(" on ").filter(|_| choice == DeviceChoice::Auto)
        else {
            return choice;
        };
        if before.starts_with("cpu") {
            return DeviceChoice::Cpu;
        }
        let devices = Device::list().devices;
        let same = devices.iter().find(|device| provenance::device(Some(device)) == before);
        same.map_or(choice, |device| {
            let index = Some(device.properties().index);
            match device.properties().backend {
                Backend::Cuda => DeviceChoice::Cuda(index),
                Backend::OpenCl => DeviceChoice::OpenCl(index),
            }
        })
    }

    /// Takes the damaged ones out of the way, so that they are neither counted nor found again.
    pub fn set_damaged_aside(&self) {
        for path in &self.damaged {
            let mut aside = path.clone().into_os_string();
            aside.push(".damaged");
            let _ = fs::rename(path, aside);
        }
    }
}

/// What writes checkpoints here and now, in words.
pub(crate) fn writer(device: Option<&Device>) -> String {
    format!("orrery {} ({}) on {}", provenance::VERSION, provenance::COMMIT, provenance::device(device))
}

/// The checkpoints of a run: when they are due, and their files.
pub(crate) struct Checkpoints {
    folder: PathBuf,
    every: CheckpointEvery,
    trigger: Trigger,
    keep: usize,
    /// When the last one was written, or the run taken up.
    last: Instant,
    /// Steps completed at the last one.
    saved: Option<u64>,
}

impl Checkpoints {
    /// For a run in `folder` that is at `moment`.
    pub fn new(case: &Case, folder: &Path, moment: &Moment) -> Result<Self, EngineError> {
        let every = case.checkpoint.every;
        let mut trigger = Trigger::new(every.schedule());
        trigger.advance(moment.time, 0.0);
        let folder = folder.join(CHECKPOINTS.folder);
        make_folder(&folder).map_err(EngineError::Output)?;
        let keep = case.checkpoint.keep as usize;
        Ok(Self { folder, every, trigger, keep, last: Instant::now(), saved: None })
    }

    /// Steps completed at the last one that this process wrote.
    pub fn saved(&self) -> Option<u64> {
        self.saved
    }

    /// Whether one is due after a step of length `dt`.
    pub fn is_due(&self, moment: &Moment, dt: f64) -> bool {
        match self.every {
            CheckpointEvery::WallClock(interval) => self.last.elapsed() >= interval,
            _ => self.trigger.fires(moment.step, moment.time, dt),
        }
    }

    /// Writes one, and removes those that are no longer kept. The observers must be on the disk already.
    pub fn save(
        &mut self,
        case: &Case,
        provenance: &[(String, String)],
        simulation: &Simulation,
        observers: &observers::Observers,
        state: observers::State,
        dt: f64,
    ) -> Result<PathBuf, EngineError> {
        let moment = simulation.moment();
        let path = self.folder.join(format!("{}{:09}{SUFFIX}", CHECKPOINTS.prefix, moment.step));
        if self.saved != Some(moment.step) {
            let header = Header {
                writer: writer(moment.bodies.device()),
                case: case.to_toml(),
                provenance: provenance.to_vec(),
                step: moment.step,
                time: moment.time,
                bodies: moment.bodies.len(),
                solver: moment.bodies.solver_name().to_owned(),
                strategy: moment.bodies.device_strategy().map(provenance::strategy_text),
                observers: state,
            };
            write(&path, &header, &moment, &observers.blocks())?;
            self.saved = Some(moment.step);
            self.remove_all_but(self.keep);
        }
        self.trigger.advance(moment.time, dt);
        self.last = Instant::now();
        Ok(path)
    }

    /// Keeps the newest; one that cannot be removed is in nobody's way.
    pub fn remove_all_but(&self, keep: usize) {
        for (_, path) in numbered(&self.folder).into_iter().skip(keep) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The checkpoints in a folder by their step, the newest first.
fn numbered(folder: &Path) -> Vec<(u64, PathBuf)> {
    let step_of = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix(CHECKPOINTS.prefix)?;
        name.strip_suffix(SUFFIX)?.parse::<u64>().ok()
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = files.filter_map(|path| Some((step_of(&path)?, path))).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Whether a run in `folder` has written a checkpoint.
pub(crate) fn exists_in(folder: &Path) -> bool {
    !numbered(&folder.join(CHECKPOINTS.folder)).is_empty()
}

/// The newest checkpoint of the run in `folder` that is whole. `passed_over` hears of damaged ones.
pub(crate) fn newest(
    folder: &Path,
    limits: &Limits,
    mut passed_over: impl FnMut(&EngineError),
) -> Result<Saved, EngineError> {
    let mut damaged = Vec::new();
    let began = Instant::now();
    for (step, path) in numbered(&folder.join(CHECKPOINTS.folder)) {
        let outcome = read(&path, limits).and_then(|saved| match saved.simulation.moment().step {
            found if found == step => Ok(saved),
            found => Err(wrong(&path, "name", format!("step {step}"), &format!("step {found}, as it holds"))),
        });
        match outcome {
            Ok(saved) => return Ok(Saved { damaged, cost: began.elapsed(), ..saved }),
            // It may be whole; whoever asks for less memory or has no right to read it must know.
            Err(error) if is_out_of_reach(&error) => return Err(error),
            Err(error) => {
                passed_over(&error);
                damaged.push(path);
            }
        }
    }
    Err(EngineError::NoCheckpoint { path: folder.to_owned(), damaged: damaged.len() })
}

fn is_out_of_reach(error: &EngineError) -> bool {
    let error = match error {
        EngineError::Memory { .. } => return true,
        EngineError::Input(error) => error,
        _ => return false,
    };
    let denied = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::PermissionDenied;
    matches!(error.fault, Fault::TooLong { .. } | Fault::Newer { .. })
        || error.system_cause().is_some_and(denied)
}

/// The species of the bodies as numbers.
pub fn species_column(bodies: &Bodies) -> Result<Vec<u8>, BodiesError> {
    Ok(bodies.particles()?.species.iter().map(|&species| species as u8).collect())
}

/// What a checkpoint holds of the bodies; `species` is what [`species_column`] gave.
pub fn columns<'a>(
    bodies: &'a Bodies,
    species: &'a [u8],
) -> Result<Vec<(&'static str, Column<'a>)>, BodiesError> {
    let particles = bodies.particles()?;
    let mut columns = vec![
        ("mass", Column::Reals(&particles.mass)),
        ("id", Column::Integers(&particles.id)),
        ("species", Column::Bytes(species)),
    ];
    let mut vectors = |names: [&'static str; 3], Vec3s { x, y, z }: &'a Vec3s| {
        columns.extend(names.into_iter().zip([x, y, z]).map(|(name, column)| (name, Column::Reals(column))));
    };
    vectors(["position.x", "position.y", "position.z"], &particles.position);
    vectors(["velocity.x", "velocity.y", "velocity.z"], &particles.velocity);
    vectors(["acceleration.x", "acceleration.y", "acceleration.z"], bodies.acceleration()?);
    if let Some(jerk) = bodies.known_jerk()? {
        vectors(["jerk.x", "jerk.y", "jerk.z"], jerk);
    }
    Ok(columns)
}

fn write(
    path: &Path,
    header: &Header,
    moment: &Moment,
    more: &[(&'static str, Block)],
) -> Result<(), EngineError> {
    let header = serde_json::to_string_pretty(header)
        .map_err(|e| wrong(path, "header", e.to_string(), "numbers that JSON can write"))?;
    let failed = |error| moment.failed(error);
    let species = species_column(moment.bodies).map_err(failed)?;
    let mut columns = columns(moment.bodies, &species).map_err(failed)?;
    columns.extend(more.iter().map(|(name, block)| (*name, block.column())));
    write_checkpoint(path, &header, &columns).map_err(EngineError::Output)
}

fn read(path: &Path, limits: &Limits) -> Result<Saved, EngineError> {
    let wrong = |context: &str, got: String, expected: &str| wrong(path, context, got, expected);
    let checkpoint = read_checkpoint(path, limits).map_err(EngineError::Input)?;
    let header: Header = serde_json::from_str(&checkpoint.header)
        .map_err(|e| wrong("header", e.to_string(), "that of a checkpoint"))?;
    let case = Case::load_resumed(&header.case, &path.display().to_string(), &[])?;
    check_header(&header, &case).map_err(|(got, expected)| wrong("header", got, expected))?;
    let needed = (header.bodies as u64).saturating_mul(BYTES_PER_BODY);
    if needed > limits.memory {
        let (needed, available) = (format_bytes(needed), format_bytes(limits.memory));
        return Err(EngineError::Memory { path: path.to_owned(), count: header.bodies, needed, available });
    }
    let mut blocks = Blocks::new(path, checkpoint.blocks);
    let species = blocks.bytes("species")?;
    let species = species.iter().map(|&k| Species::ALL.get(usize::from(k)).copied()).collect::<Option<_>>();
    let particles = Particles {
        position: blocks.vectors("position")?,
        velocity: blocks.vectors("velocity")?,
        mass: blocks.reals("mass")?,
        id: blocks.integers("id")?,
        species: species.ok_or_else(|| wrong("block 'species'", "an unknown one".to_owned(), "0 to 5"))?,
    };
    let acceleration = blocks.vectors("acceleration")?;
    let jerk = blocks.vectors_if_any("jerk")?;
    let vectors = [Some(&particles.position), Some(&particles.velocity), Some(&acceleration), jerk.as_ref()];
    let lengths = vectors.into_iter().flatten().flat_map(|v| [v.x.len(), v.y.len(), v.z.len()]);
    let others = [particles.mass.len(), particles.id.len(), particles.species.len()];
    if let Some(length) = lengths.chain(others).find(|length| *length != header.bodies) {
        return Err(wrong("a column", format!("{length} entries"), &header.bodies.to_string()));
    }
    // The one it had, should the bounds of `auto` ever move.
    let solver = match header.solver.as_str() {
        "direct" => SolverChoice::Direct,
        "tree" => SolverChoice::Tree,
        other => return Err(wrong("solver", other.to_owned(), "direct or tree")),
    };
    let gravity = GravitySettings { solver, ..case.gravity };
    if !header.observers.is_sound(header.bodies, blocks.length_of_reals("trails")) {
        return Err(wrong("observers", "counts that no run has".to_owned(), "those of a run"));
    }
    let bodies = Bodies::restore(particles, acceleration, jerk, &gravity);
    bodies.check_finite().map_err(|e| wrong("bodies", e.to_string(), "finite numbers"))?;
    Ok(Saved {
        path: path.to_owned(),
        writer: header.writer,
        simulation: Simulation::restore(&case, bodies, header.step, header.time),
        case,
        provenance: header.provenance,
        strategy: header.strategy,
        observers: header.observers,
        blocks,
        damaged: Vec::new(),
        cost: Duration::ZERO,
    })
}

/// Whether a run of `case` could have written it; otherwise what was found and expected.
fn check_header(header: &Header, case: &Case) -> Result<(), (String, &'static str)> {
    let Header { writer, solver, step, time, bodies, .. } = header;
    if *bodies == 0 || case.body_count().is_some_and(|count| count != *bodies as u64) {
        return Err((format!("{bodies} bodies"), "as many as the case has"));
    }
    if !Simulation::can_be_at(case, *step, *time) {
        return Err((format!("time {time:e} after {step} steps"), "a time of the case"));
    }
    let texts = header.provenance.iter().flat_map(|(name, _)| name.chars());
    if writer.chars().chain(solver.chars()).chain(texts).any(char::is_control) {
        return Err(("control characters in a name".to_owned(), "text"));
    }
    Ok(())
}

fn wrong(path: &Path, context: &str, got: String, expected: &str) -> EngineError {
    EngineError::Input(IoError { path: path.to_owned(), fault: Fault::malformed(context, got, expected) })
}
