//! The run: step, look, report, until the end.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orrery_io::IoError;

pub use crate::observers::Record;

use crate::case::Case;
use crate::error::EngineError;
use crate::observers::Observers;
use crate::provenance;
use crate::simulation::{Moment, Simulation};
use crate::start;

/// Where a run writes, and whether it may replace what is there.
#[derive(Clone, Debug)]
pub struct Output {
    /// The folder.
    pub folder: PathBuf,
    /// Whether an earlier run's files there may be replaced.
    pub force: bool,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// When it ends.
    pub end: f64,
    /// Since the first step began.
    pub elapsed: Duration,
    /// (E − E₀) / |E₀| at the last row of the table.
    pub energy_error: f64,
}

/// What a finished run leaves to say.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Bodies.
    pub bodies: usize,
    /// Steps taken.
    pub steps: u64,
    /// Wall time of the steps and their output.
    pub elapsed: Duration,
    /// How forces were computed.
    pub solver: &'static str,
    /// The first and the last row of the table.
    pub first_and_last: (Record, Record),
}

/// The files that a run makes in its folder.
const MADE: [&str; 6] =
    ["case.toml", "provenance.txt", "conserved.csv", "energy.svg", "energy.png", "animation.gif"];
/// The folders of numbered files that it makes there, and how their names start.
const SERIES: [(&str, &str); 2] = [("snapshots", "snapshot_"), ("images", "image_")];

/// Simulates `case` into `output`, telling `report` after every step.
pub fn run(case: &Case, output: &Output, report: impl FnMut(&Status) + Send) -> Result<Summary, EngineError> {
    // On a thread of the pool: parallel loops begun outside it would wake it each time, which cost nine
    // bodies ten times what their step does.
    rayon::scope(|_| run_here(case, output, report))
}

fn run_here(case: &Case, output: &Output, mut report: impl FnMut(&Status)) -> Result<Summary, EngineError> {
    output.check()?;
    output.check_is_not_input(case)?;
    let particles = start::bodies(case)?;
    let case = &start::located(case);
    let bodies = particles.len();
    let mut simulation = Simulation::new(case, particles);
    // Bodies apart in f64 may coincide in f32, and a softening may be too small to count.
    let (step, time) = (0, 0.0);
    simulation.moment().bodies.check_finite().map_err(|source| EngineError::NotFinite {
        step,
        time,
        source,
    })?;
    let solver = simulation.moment().bodies.strategy().name();
    let provenance = provenance::of_run(case, solver).map_err(EngineError::Input)?;
    prepare_folder(output)?;
    write_text(&output.folder.join("case.toml"), &case.to_toml())?;
    write_text(&output.folder.join("provenance.txt"), &provenance_text(&provenance))?;
    let mut observers =
        Observers::new(case, simulation.moment().bodies.particles(), &output.folder, &provenance)?;

    let began = Instant::now();
    let outcome = to_the_end(&mut simulation, &mut observers, |simulation, energy_error| {
        let Moment { step, time, .. } = simulation.moment();
        report(&Status { step, time, end: case.time.end, elapsed: began.elapsed(), energy_error });
    });
    // What was seen until an error is worth keeping; the error itself comes first.
    let finished = observers.finish();
    outcome?;
    finished?;
    let records = observers.conserved.records();
    let first_and_last = (records[0], records[records.len() - 1]);
    Ok(Summary { bodies, steps: simulation.moment().step, elapsed: began.elapsed(), solver, first_and_last })
}

fn to_the_end(
    simulation: &mut Simulation,
    observers: &mut Observers,
    mut report: impl FnMut(&Simulation, f64),
) -> Result<(), EngineError> {
    observers.show_all(&simulation.moment())?;
    while !simulation.is_over() {
        step(simulation, observers)?;
        report(simulation, observers.conserved.energy_error());
    }
    observers.show_all(&simulation.moment())
}

/// One step, and the moments on the way to its end that someone wants to see.
fn step(simulation: &mut Simulation, observers: &mut Observers) -> Result<(), EngineError> {
    let now = simulation.moment().time;
    let next = simulation.next_time()?;
    let dt = next - now;
    while let Some(due) = observers.next_due_time().filter(|due| *due < next - crate::trigger::SAME_TIME * dt)
    {
        let bodies = simulation.bodies_at(due);
        let step = simulation.moment().step;
        observers.show_between(&Moment { step, time: due, bodies: &bodies })?;
    }
    simulation.advance(next)?;
    observers.after_step(&simulation.moment());
    observers.show_step(&simulation.moment(), dt)
}

impl Output {
    /// Whether a run may write here, without writing anything.
    pub fn check(&self) -> Result<(), EngineError> {
        let folder = &self.folder;
        let wrong = |reason: String| EngineError::OutputFolder { path: folder.clone(), reason };
        match fs::read_dir(folder) {
            Ok(entries) => match entries.count() {
                0 => Ok(()),
                _ if !self.force => Err(EngineError::OutputNotEmpty(folder.clone())),
                _ if holds_a_run(folder) => Ok(()),
                _ => {
                    Err(wrong("it holds no earlier run that --force could replace, expected one".to_owned()))
                }
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                let which = if folder.exists() { "it" } else { "a part of its path" };
                Err(wrong(format!("{which} is a file, expected a directory")))
            }
            Err(e) => Err(wrong(IoError::system(folder, e).fault.to_string())),
        }
    }

    /// A run that replaces another must not remove the snapshot that it starts from.
    fn check_is_not_input(&self, case: &Case) -> Result<(), EngineError> {
        let input = case.bodies_file().and_then(|path| path.canonicalize().ok());
        match (input, self.folder.canonicalize()) {
            (Some(input), Ok(folder)) if input.starts_with(&folder) => Err(EngineError::OutputFolder {
                path: self.folder.clone(),
                reason: "the bodies' file lies in it, expected another directory".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Whether a run has written its provenance here; nothing else is ever replaced.
fn holds_a_run(folder: &Path) -> bool {
    fs::read_to_string(folder.join("provenance.txt")).is_ok_and(|text| text.starts_with("program: orrery"))
}

/// Makes the folder and clears away an earlier run's files; other files there are left alone.
fn prepare_folder(output: &Output) -> Result<(), EngineError> {
    let folder = &output.folder;
    let wrong = |e: std::io::Error| EngineError::OutputFolder {
        path: folder.clone(),
        reason: format!("it cannot be made or cleared: {}", IoError::system(folder, e).fault),
    };
    fs::create_dir_all(folder).map_err(wrong)?;
    let files = MADE.into_iter().map(|name| folder.join(name));
    let series =
        SERIES.into_iter().flat_map(|(name, prefix)| files_starting_with(&folder.join(name), prefix));
    // What an interrupted run left unfinished.
    let parts =
        files_starting_with(folder, ".").into_iter().filter(|path| path.extension() == Some("part".as_ref()));
    for path in files.chain(series).chain(parts) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(wrong(e)),
            _ => {}
        }
    }
    Ok(())
}

/// The files in `folder`, none where it is not there, whose names start with `prefix`.
fn files_starting_with(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

fn write_text(path: &Path, text: &str) -> Result<(), EngineError> {
    fs::write(path, text).map_err(|e| EngineError::Output(IoError::system(path, e)))
}

/// The provenance for people; the case has its own file.
fn provenance_text(provenance: &[(String, String)]) -> String {
    provenance
        .iter()
        .filter(|(name, _)| name != "case")
        .map(|(name, text)| format!("{name}: {text}\n"))
        .collect()
}
