//! What no section can see alone: methods that exclude one another, schedules against the length of the run,
//! bodies against the machine.

use std::io::ErrorKind;

use orrery_io::format_bytes;
use orrery_particles::settings::{IntegratorChoice, SolverChoice, StepChoice};

use super::document::Location;
use super::load::BYTES_PER_BODY;
use super::reader::Section;
use super::sections::output::RECORD_EVERY_STEPS;
use super::{Case, Every};

/// More files of a kind than this are a slip of the keyboard.
const MOST_FILES: f64 = 1e6;
/// So many rows make a table of more than 2 GB and, kept for the plot, take 1 GB of memory.
const MOST_RECORDS: f64 = 1e7;

/// What a run starts from.
#[derive(Clone, Copy)]
pub(super) enum Beginning {
    /// The bodies that the case names, on a machine with so many bytes of memory available, if known.
    Fresh { available: Option<u64> },
    /// Bodies in hand.
    Resumed,
}

/// The sections that are checked against one another.
pub(super) struct Sections<'a> {
    pub bodies: Section<'a>,
    pub gravity: Section<'a>,
    pub time: Section<'a>,
    pub output: Section<'a>,
    pub checkpoint: Section<'a>,
}

impl Sections<'_> {
    /// Reports where the parts of `case`, each right in itself, contradict one another.
    pub fn check(&self, case: &Case, beginning: Beginning) {
        self.check_methods(case);
        self.check_count(case, &self.output, "snapshot_every", case.output.snapshot_every, MOST_FILES);
        self.check_count(case, &self.output, "image_every", case.output.image_every, MOST_FILES);
        self.check_count(case, &self.output, "record_every", case.output.record_every, MOST_RECORDS);
        self.check_count(case, &self.checkpoint, "every", case.checkpoint.every.schedule(), MOST_FILES);
        if let Beginning::Fresh { available } = beginning {
            self.check_bodies(case, available);
        }
    }

    fn check_methods(&self, case: &Case) {
        let Self { gravity, time, .. } = self;
        let tree = case.gravity.solver == SolverChoice::Tree;
        let solver = gravity.location_of("solver");
        if tree && case.time.integrator == IntegratorChoice::Hermite4 {
            let fault =
                " needs direct forces, expected gravity.solver = \"direct\" or \"auto\", got \"tree\"";
            time.refuse_at(blame(time.location_of("integrator"), solver), "integrator", fault);
        }
        let end = case.time.end;
        let (step, blamed) =
            (time.location_of("step"), blame(time.location_of("step"), time.location_of("end")));
        match case.time.step {
            StepChoice::Adaptive { .. } if tree && case.gravity.eps == 0.0 => {
                let fault = " needs gravity.softening > 0 or gravity.solver = \"direct\", got 0 and \"tree\"";
                time.refuse_at(blame(blame(step, solver), gravity.location_of("softening")), "step", fault);
            }
            StepChoice::Fixed(dt) if dt > end => {
                let fault = format!(" is longer than the run, expected step <= end = {end}");
                time.refuse_at(blamed, "step", &fault);
            }
            // Beyond 2^53 steps, time + step is time again.
            StepChoice::Fixed(dt) if end / dt > 2f64.powi(53) => {
                let steps = end / dt;
                let fault = format!(" takes {steps:.0e} steps to end = {end}, expected at most 2^53 steps");
                time.refuse_at(blamed, "step", &fault);
            }
            _ => {}
        }
    }

    /// Reports `key` of `section` where `every` comes due more than `most` times; how often a count of
    /// adaptive steps does is not known before the run.
    fn check_count(&self, case: &Case, section: &Section<'_>, key: &str, every: Every, most: f64) {
        let (end, time) = (case.time.end, &self.time);
        let count = match (every, case.time.step) {
            (Every::Time(interval), _) => end / interval,
            (Every::Steps(steps), StepChoice::Fixed(dt)) => end / dt / steps as f64,
            (Every::Never, _) | (Every::Steps(_), StepChoice::Adaptive { .. }) => return,
        };
        let count = count.round();
        if count <= most {
            return;
        }
        let many = if count < 1e15 { format!("{count}") } else { format!("{count:.0e}") };
        let fault = format!(" asks for {many} of them until end = {end}, expected at most {most:e}");
        let length = match every {
            Every::Steps(_) => blame(time.location_of("step"), time.location_of("end")),
            Every::Never | Every::Time(_) => time.location_of("end"),
        };
        if section.has(key) {
            section.refuse_at(blame(section.location_of(key), length), key, &fault);
        } else {
            // Of all schedules, only that of the records comes due by steps or time without being asked for.
            let fault = format!("\"{RECORD_EVERY_STEPS} steps\" by default{fault}");
            section.refuse_at(length, key, &fault);
        }
    }

    fn check_bodies(&self, case: &Case, available: Option<u64>) {
        let bodies = &self.bodies;
        if let Some(path) = case.bodies_file() {
            match path.metadata() {
                Ok(found) if found.is_file() => {}
                Ok(_) => bodies.refuse("file", " is not a file, expected a snapshot"),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    bodies.refuse("file", " does not exist, expected a snapshot");
                }
                Err(e) => bodies.refuse("file", &format!(" cannot be read: {e}")),
            }
        }
        if case.body_count().is_some_and(|count| count > u64::from(u32::MAX)) && available.is_none() {
            let message = format!("more bodies than {}, expected no more", u32::MAX);
            bodies.problem(bodies.location_of("model"), message);
        }
        if let (Some(count), Some(available)) = (case.body_count(), available) {
            let needed = count.saturating_mul(BYTES_PER_BODY);
            if needed > available {
                let (needed, available) = (format_bytes(needed), format_bytes(available));
                let message = format!("{count} bodies need {needed} of memory, {available} are available");
                let counts = ["n", "n_disc", "n_bulge", "n_halo"].into_iter().filter(|key| bodies.has(key));
                let location = counts.map(|key| bodies.location_of(key)).max();
                bodies.problem(location.unwrap_or(bodies.location_of("model")), message);
            }
        }
    }
}

/// Of two places that contradict each other: the first, unless the other overrode a file that was right.
fn blame<'a>(first: &'a Location, other: &'a Location) -> &'a Location {
    if matches!(other, Location::Set { .. }) { first.max(other) } else { first }
}
