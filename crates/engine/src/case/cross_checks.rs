//! Checks of settings against each other: methods that exclude one another, schedules against the
//! length of the run, and the initial state against the memory.

use std::io::ErrorKind;
use std::path::Path;

use orrery_formats::{Limits, format_bytes};
use orrery_gravity::settings::{IntegratorChoice, SolverChoice, StepChoice};
use orrery_model::wave::{AXIS_NAMES, SideCondition, Sides, WaveGrid};
use orrery_model::{format_count, short_number};

use super::document::{Entry, Location, Value};
use super::load::BYTES_PER_BODY;
use super::physics::PhysicsSections;
use super::reader::Section;
use super::sections::heat::HeatSections;
use super::sections::wave::WaveSections;
use super::{Case, Every, FluidCase, GravityCase, HeatCase, Physics, WaveCase};
use crate::error::EngineError;
use crate::{fluid, heat, wave};

/// Largest number of files of one kind. More are most likely a typing error.
const MAX_FILES: f64 = 1e6;
/// Largest number of outputs of one kind within a step. The states between two steps hardly differ,
/// so a smaller interval is most likely a typing error.
pub(crate) const MAX_OUTPUTS_PER_STEP: f64 = 100.0;
/// Largest number of rows of `conserved.csv`. They are more than 2 GB on disk, and 1 GB of memory
/// because the plot needs them.
const MAX_RECORDS: f64 = 1e7;

/// How a run starts.
#[derive(Clone, Copy)]
pub(super) enum RunStart {
    /// With the bodies of the case, on a machine with this amount of memory, in bytes, if known.
    New { available: Option<u64> },
    /// With the bodies of a checkpoint.
    Resumed,
}

/// The sections that are checked against each other.
pub(super) struct Sections<'a> {
    pub physics: PhysicsSections<'a>,
    pub time: Section<'a>,
    pub output: Section<'a>,
    pub checkpoint: Section<'a>,
}

impl Sections<'_> {
    /// Reports settings of `case` that contradict each other.
    pub fn check_settings(&self, case: &Case, run_start: RunStart) {
        if let (PhysicsSections::Gravity { gravity, .. }, Physics::Gravity(given)) =
            (&self.physics, &case.physics)
        {
            self.check_gravity(case, gravity, given);
        }
        self.check_time(case);
        let output = &self.output;
        self.check_count(case, output, "snapshot_every", case.output.snapshot_every, MAX_FILES, "snapshots");
        self.check_count(case, output, "image_every", case.output.image_every, MAX_FILES, "images");
        self.check_count(case, output, "record_every", case.output.record_every, MAX_RECORDS, "rows");
        // An earlier version has started runs with any interval.
        if matches!(run_start, RunStart::New { .. }) {
            self.check_outputs_per_step(case);
        }
        let every = case.checkpoint.every.schedule();
        self.check_count(case, &self.checkpoint, "every", every, MAX_FILES, "checkpoints");
    }

    /// Sets the keys that a resumed run of an earlier version does not have to their meaning in
    /// that version.
    pub fn keep_earlier_defaults(&self, case: &mut Case, run_start: RunStart) {
        if let (PhysicsSections::Wave { wave, .. }, Physics::Wave(given), RunStart::Resumed) =
            (&self.physics, &mut case.physics, run_start)
            && !wave.wave.has_key("time_dispersion")
        {
            given.time_dispersion = None;
        }
    }

    /// Reports an initial state that does not fit into memory, and files that do not exist. A
    /// resumed run does not need them.
    pub fn check_initial_state(&self, case: &Case, run_start: RunStart) {
        let RunStart::New { available } = run_start else { return };
        match (&self.physics, &case.physics) {
            (PhysicsSections::Gravity { bodies, .. }, Physics::Gravity(given)) => {
                check_bodies(case, bodies, given, available);
            }
            (PhysicsSections::Heat { grid, heat, initial }, Physics::Heat(given)) => {
                check_grid(grid, given, available);
                check_field_files(case, heat, initial);
            }
            (PhysicsSections::Wave { grid, wave }, Physics::Wave(given)) => {
                check_wave_grid(grid, case, given, available);
                check_wave_files(case, wave);
                check_wave_points(wave, given);
            }
            (PhysicsSections::LennardJones { particles, .. }, Physics::LennardJones(given)) => {
                check_particles(case, particles, given, available);
            }
            _ => {}
        }
    }

    /// Reports a step of a field beyond the stability limit. An automatic step becomes 0.9 times
    /// the limit, rounded down to three digits. A shorter run gets one step.
    pub fn check_stability(&self, case: &mut Case, is_step_auto: bool, run_start: RunStart) {
        let (section, file_key) = match &self.physics {
            PhysicsSections::Gravity { .. } | PhysicsSections::LennardJones { .. } => return,
            PhysicsSections::Heat { heat, .. } => (&heat.heat, "conductivity_file"),
            PhysicsSections::Wave { wave, .. } => (&wave.wave, "velocity_file"),
        };
        let RunStart::New { available } = run_start else {
            // A run writes its step to the case. To compute it could need any amount of memory.
            match (is_step_auto, self.time.has_key("step")) {
                (false, _) => {}
                (true, false) => self.time.report_missing("step", "the step of the run"),
                (true, true) => self.time.reject("step", " is for a new run, expected the step of the run"),
            }
            return;
        };
        let limits = Limits { memory: available.unwrap_or(u64::MAX) };
        let max_step = match &case.physics {
            Physics::Gravity(_) | Physics::LennardJones(_) => return,
            Physics::Heat(given) => heat::max_stable_step(case, given, &limits),
            Physics::Wave(given) => wave::max_stable_step(case, given, &limits),
        };
        match (max_step, case.time.step) {
            (Err(EngineError::Case(error)), _) => section.add_problem(&error.location, error.message),
            (Err(error), _) => section.add_problem(section.location_of(file_key), error.to_string()),
            (Ok(limit), _) if is_step_auto => {
                let (stable, length) = (round_down(0.9 * limit, 3), case.time.end - case.time.known_start());
                let is_shorter = length > 0.0 && length < stable;
                case.time.step = StepChoice::Fixed(if is_shorter { length } else { stable });
            }
            (Ok(limit), StepChoice::Fixed(dt)) if dt > limit => {
                // A step of this length is accepted.
                let limit = short_number(round_down(limit, 4));
                let fault = format!(" is unstable on this grid, expected at most {limit}, or \"auto\"");
                self.time.reject("step", &fault);
            }
            _ => {}
        }
    }

    /// Reports methods of gravity that exclude one another.
    fn check_gravity(&self, case: &Case, gravity: &Section<'_>, given: &GravityCase) {
        if given.settings.solver != SolverChoice::Tree {
            return;
        }
        let (time, solver) = (&self.time, gravity.location_of("solver"));
        if given.integrator == IntegratorChoice::Hermite4 {
            let fault =
                " needs direct forces, expected gravity.solver = \"direct\" or \"auto\", got \"tree\"";
            time.reject_at(conflict_location(time.location_of("integrator"), solver), "integrator", fault);
        }
        if matches!(case.time.step, StepChoice::Adaptive { .. }) && given.settings.eps == 0.0 {
            let fault = " needs gravity.softening > 0 or gravity.solver = \"direct\", got 0 and \"tree\"";
            let location = conflict_location(time.location_of("step"), solver);
            let location = conflict_location(location, gravity.location_of("softening"));
            time.reject_at(location, "step", fault);
        }
    }

    /// Reports a step, start and end that contradict each other.
    fn check_time(&self, case: &Case) {
        let time = &self.time;
        let (start, end) = (case.time.known_start(), case.time.end);
        let end_text = short_number(end);
        if start >= end {
            let location = conflict_location(time.location_of("start"), time.location_of("end"));
            time.reject_at(
                location,
                "start",
                &format!(" is not before the end, expected start < end = {end_text}"),
            );
            return;
        }
        let length = end - start;
        let step_or_end = conflict_location(time.location_of("step"), time.location_of("end"));
        match case.time.step {
            StepChoice::Fixed(dt) if dt > length => {
                let most = if start == 0.0 { "end" } else { "end - start" };
                let fault =
                    format!(" is longer than the run, expected step <= {most} = {}", short_number(length));
                time.reject_at(step_or_end, "step", &fault);
            }
            // Above 2^53 steps, step counts are no longer exact in f64.
            StepChoice::Fixed(dt) if length / dt > 2f64.powi(53) => {
                let steps = length / dt;
                let fault =
                    format!(" takes {steps:.0e} steps to end = {end_text}, expected at most 2^53 steps");
                time.reject_at(step_or_end, "step", &fault);
            }
            _ => {}
        }
    }

    /// Reports `key` of `section` if its schedule `every` gives more than `most` outputs. `noun`
    /// names them in the message. The number of adaptive steps is not known before the run, so
    /// schedules that count them are not checked.
    fn check_count(
        &self,
        case: &Case,
        section: &Section<'_>,
        key: &str,
        every: Every,
        most: f64,
        noun: &str,
    ) {
        let (end, time) = (case.time.end, &self.time);
        let length = end - case.time.known_start();
        let count = match (every, case.time.step) {
            (Every::Time(interval), _) => length / interval,
            (Every::Steps(steps), StepChoice::Fixed(dt)) => length / dt / steps as f64,
            (Every::Never, _) | (Every::Steps(_), StepChoice::Adaptive { .. }) => return,
        };
        let count = count.round();
        if count <= most {
            return;
        }
        let many = if count < 1e15 { format!("{count}") } else { format!("{count:.0e}") };
        let end = short_number(end);
        let fault = format!(" gives {many} {noun} until end = {end}, expected at most {most:e}");
        let length = match every {
            Every::Steps(_) => conflict_location(time.location_of("step"), time.location_of("end")),
            Every::Never | Every::Time(_) => time.location_of("end"),
        };
        let location =
            if section.has_key(key) { conflict_location(section.location_of(key), length) } else { length };
        section.reject_at(location, key, &fault);
    }
}

impl Sections<'_> {
    /// Reports intervals of output that are far shorter than a fixed step. The length of adaptive
    /// steps is not known before the run.
    fn check_outputs_per_step(&self, case: &Case) {
        let StepChoice::Fixed(dt) = case.time.step else { return };
        let output = &case.output;
        let schedules = [
            (&self.output, "snapshot_every", output.snapshot_every, "snapshots"),
            (&self.output, "image_every", output.image_every, "images"),
            (&self.output, "record_every", output.record_every, "rows"),
        ];
        let of_structure = match (&self.physics, case.fluid()) {
            (PhysicsSections::LennardJones { structure, .. }, Some(fluid)) => {
                Some((structure, "every", fluid.structure.every, "measurements"))
            }
            _ => None,
        };
        for (section, key, every, noun) in schedules.into_iter().chain(of_structure) {
            let Every::Time(interval) = every else { continue };
            let count = (dt / interval).round();
            if count > MAX_OUTPUTS_PER_STEP {
                let many = if count < 1e15 { format!("{count}") } else { format!("{count:.0e}") };
                let (step, least) = (short_number(dt), short_number(dt / MAX_OUTPUTS_PER_STEP));
                let fault = format!(
                    " gives {many} {noun} per step of {step}, expected at most {MAX_OUTPUTS_PER_STEP}: \
                     {key} >= {least}, or a shorter step"
                );
                let step = self.time.location_of("step");
                section.reject_at(conflict_location(section.location_of(key), step), key, &fault);
            }
        }
    }
}

/// Rounds a positive number down to this number of significant digits.
fn round_down(x: f64, digits: usize) -> f64 {
    let rounded = |x: f64| format!("{x:.*e}", digits - 1).parse().unwrap_or(x);
    let nearest: f64 = rounded(x);
    // One unit of the last digit is at least this part of x.
    let unit = 0.999 * 10f64.powi(-(digits as i32));
    if nearest <= x { nearest } else { rounded(x - unit * x) }
}

/// Reports a grid that needs more memory than there is.
fn check_grid(grid: &Section<'_>, given: &HeatCase, available: Option<u64>) {
    // A device may have the fields, so only the host memory of a run on a device is known to be
    // needed. The rest is checked when the device is selected.
    let needed = heat::host_bytes(given, true);
    if let Some(available) = available.filter(|&available| needed > available) {
        let (needed, available) = (format_bytes(needed), format_bytes(available));
        let (nx, ny) = (given.grid.nx, given.grid.ny);
        let message = format!("{nx} x {ny} nodes need {needed} of memory, {available} are available");
        let location = grid.location_of("nx").max(grid.location_of("ny"));
        grid.add_problem(location, message);
    }
}

/// Reports a grid of waves that needs more memory than there is.
fn check_wave_grid(grid: &Section<'_>, case: &Case, given: &WaveCase, available: Option<u64>) {
    // A grid that no problem accepts is reported with the problem.
    if given.grid.validate().is_err() || given.sides.validate(&given.grid).is_err() {
        return;
    }
    let needed = wave::host_bytes(case, given, true);
    if let Some(available) = available.filter(|&available| needed > available) {
        let (needed, available) = (format_bytes(needed), format_bytes(available));
        let [nx, ny, nz] = given.grid.nodes;
        let message = format!("{nx} x {ny} x {nz} nodes need {needed} of memory, {available} are available");
        let location = ["nx", "ny", "nz"].into_iter().map(|key| grid.location_of(key)).max();
        grid.add_problem(location.unwrap_or(grid.location_of("nx")), message);
    }
}

/// Reports files of waves that do not exist.
fn check_wave_files(case: &Case, wave: &WaveSections<'_>) {
    let sources = wave.sources.iter().map(|source| (source, "file", "an NPY file"));
    let velocity = (&wave.wave, "velocity_file", "an NPY or SEG-Y file");
    for (section, key, expected) in sources.chain([velocity]) {
        if let Some(Entry { value: Value::String(path), .. }) = section.entry(key) {
            check_file(section, key, &case.folder.join(path), expected);
        }
    }
}

/// Reports sources and receivers outside the grid, sources that cannot emit waves, and receivers
/// that are all at one place.
fn check_wave_points(sections: &WaveSections<'_>, given: &WaveCase) {
    let grid = &given.grid;
    // A grid that no problem accepts is reported with the problem.
    if grid.validate().is_err() {
        return;
    }
    for (section, source) in sections.sources.iter().zip(&given.sources) {
        check_within(section, grid, source.position, "");
        for &side in Sides::used(grid) {
            let axis = side.axis();
            let surface = if side.is_max() { grid.extent(axis) } else { 0.0 };
            let is_on_side = (source.position[axis] - surface).abs() < 1e-6 * grid.spacing[axis];
            if is_on_side && matches!(given.sides.on(side), SideCondition::Free) {
                let (side, spacing) = (side.as_str(), short_number(grid.spacing[axis]));
                let fault = format!(
                    " is on the free surface {side}, where a source emits nothing, expected a distance of at least one \
                     spacing = {spacing}"
                );
                section.reject(AXIS_NAMES[axis], &fault);
            }
        }
    }
    for (section, line) in sections.receivers.iter().zip(&given.receivers) {
        let is_within = check_within(section, grid, line.first, " of the first receiver");
        let last = line.position(line.count.saturating_sub(1));
        if is_within && let Some(axis) = grid.first_axis_outside(last) {
            let (key, name) = (["dx", "dy", "dz"][axis], AXIS_NAMES[axis]);
            let (at, extent) = (short_number(last[axis]), short_number(grid.extent(axis)));
            let fault = format!(
                " places receiver {} of the line at {name} = {at}, outside of the grid, expected 0 <= {name} <= {extent}",
                line.count
            );
            section.reject(key, &fault);
        }
        if line.count > 1 && line.spacing[..grid.dimensions()].iter().all(|d| *d == 0.0) {
            let expected = if grid.dimensions() == 2 { "dx or dy" } else { "dx, dy or dz" };
            section.reject(
                "count",
                &format!(" has no spacing, so all receivers are at one place, expected {expected}"),
            );
        }
    }
}

/// Reports a position outside of the grid. `which` follows the value. Returns true if it is inside.
fn check_within(section: &Section<'_>, grid: &WaveGrid, position: [f64; 3], which: &str) -> bool {
    let Some(axis) = grid.first_axis_outside(position) else { return true };
    let (name, extent) = (AXIS_NAMES[axis], short_number(grid.extent(axis)));
    section.reject(name, &format!("{which} is outside of the grid, expected 0 <= {name} <= {extent}"));
    false
}

/// Reports files of a field that do not exist.
fn check_field_files(case: &Case, heat: &HeatSections<'_>, initial: &Section<'_>) {
    let edges = heat.edges.iter().map(|edge| (edge, "file"));
    let nodes = ["conductivity_file", "heat_capacity_file", "source_file"].map(|key| (&heat.heat, key));
    let states = ["file", "image"].map(|key| (initial, key));
    for (section, key) in edges.chain(nodes).chain(states) {
        if let Some(Entry { value: Value::String(path), .. }) = section.entry(key) {
            let expected = if key == "image" { "a PNG image" } else { "an NPY file" };
            check_file(section, key, &case.folder.join(path), expected);
        }
    }
}

/// Reports `key` if its file does not exist.
fn check_file(section: &Section<'_>, key: &str, path: &Path, expected: &str) {
    match path.metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => section.reject(key, &format!(" is not a file, expected {expected}")),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            section.reject(key, &format!(" does not exist, expected {expected}"));
        }
        Err(e) => section.reject(key, &format!(" cannot be read: {e}")),
    }
}

/// Reports a file of bodies that does not exist, and bodies that do not fit into memory.
fn check_bodies(case: &Case, bodies: &Section<'_>, given: &GravityCase, available: Option<u64>) {
    for path in case.input_files() {
        check_file(bodies, "file", &path, "a snapshot");
    }
    if let Some(count) = given.body_count().filter(|&count| count > u64::from(u32::MAX))
        && available.is_none()
    {
        let message = format!("{count} bodies, expected at most {}", u32::MAX);
        bodies.add_problem(bodies.location_of("model"), message);
    }
    if let (Some(count), Some(available)) = (given.body_count(), available) {
        let needed = count.saturating_mul(BYTES_PER_BODY);
        if needed > available {
            let (needed, available) = (format_bytes(needed), format_bytes(available));
            let verb = if count == 1 { "needs" } else { "need" };
            let bodies_text = format_count(count, "body", "bodies");
            let message = format!("{bodies_text} {verb} {needed} of memory, {available} are available");
            let counts = ["n", "n_disc", "n_bulge", "n_halo"].into_iter().filter(|key| bodies.has_key(key));
            let location = counts.map(|key| bodies.location_of(key)).max();
            bodies.add_problem(location.unwrap_or(bodies.location_of("model")), message);
        }
    }
}

/// Reports a file of particles that does not exist, and particles that do not fit into memory.
fn check_particles(case: &Case, particles: &Section<'_>, given: &FluidCase, available: Option<u64>) {
    for path in case.input_files() {
        check_file(particles, "file", &path, "a file of particles");
    }
    let Some(count) = given.particle_count() else { return };
    let location = particles.location_of(if particles.has_key("cells") { "cells" } else { "n" });
    if count > u64::from(u32::MAX) {
        let message = format!("{count} particles, expected at most {}", u32::MAX);
        particles.add_problem(location, message);
        return;
    }
    let needed = fluid::host_bytes(count);
    if let Some(available) = available.filter(|&available| needed > available) {
        let (needed, available) = (format_bytes(needed), format_bytes(available));
        let message = format!("{count} particles need {needed} of memory, {available} are available");
        particles.add_problem(location, message);
    }
}

/// Returns the location to report of two that contradict each other: the first, unless a setting at
/// the other one replaced a value of the file.
pub(super) fn conflict_location<'a>(first: &'a Location, other: &'a Location) -> &'a Location {
    if matches!(other, Location::Set { .. }) { first.max(other) } else { first }
}
