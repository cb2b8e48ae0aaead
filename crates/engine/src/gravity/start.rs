//! Initial bodies of a case, checked, and the system that starts with them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use orrery_formats::Limits;
use orrery_gravity::bodies::{Bodies, BodiesTeam, needed_bytes};
use orrery_gravity::resolution::{MAX_PAIR_ROUNDING, MAX_SINGLE_ROUNDING, single_rounding, unresolved_pairs};
use orrery_gravity::settings::{GravitySettings, IntegratorChoice};
use orrery_gravity::tree::Crowding;
use orrery_model::{Particles, Precision, Units, Vec3s};

use super::painter::check_view;
use super::warnings::setup_warnings;
use super::{GravitySystem, body_count, device, settings};
use crate::case::{BYTES_PER_BODY, BodiesSource, Case, GravityCase};
use crate::compute_device::{self, ComputeDevice, select_device_of};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::system::{Dynamics, Plan, ReportFn, Stamp, SystemError};

/// Creates the bodies of `case` and computes their forces on the selected device, or on the CPU if
/// `auto` selected a device with too little memory. Returns them with the case, which then has the
/// time of the start.
pub(crate) fn start(
    case: &Case,
    gravity: &GravityCase,
    selected: ComputeDevice,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Result<(Case, GravitySystem), EngineError> {
    let start = initial_bodies(case, gravity, &control.limits, &control.stop, &mut |warning| {
        report(RunEvent::InputWarning(warning));
    })?;
    let Start { particles, time, file_time } = start;
    check_view(case, &particles)?;
    let mut case = case.with_absolute_paths();
    case.time.start = Some(time);
    if let Some(file_time) = file_time {
        report(RunEvent::StartTime { case: &case, file_time });
    }
    let (n, integrator) = (particles.len(), gravity.integrator);
    let settings = settings(gravity, case.time.step);
    if let Some(warning) = resolution_warning(&particles.position, &settings) {
        report(RunEvent::InputWarning(&warning));
    }
    for warning in setup_warnings(&case, gravity, &particles) {
        report(RunEvent::InputWarning(&warning));
    }
    let selected = ensure_memory(selected, control, n as u64, &settings, integrator)?;
    report(RunEvent::Device(&selected));
    let setup = selected.device.as_ref().map(|device| {
        let setup = device::device_setup(device, n, &settings, None, control.device.tuned);
        device::report_tuned(&setup, n, &settings, report);
        setup
    });
    // Bodies that are distinct in f64 can coincide in f32, and a softening can be too small to
    // matter there. Both give infinite forces, which `check_finite` finds.
    let bodies = match control.ranks.start_bodies(&selected)? {
        Some(team) => Bodies::new_on_team(&BodiesTeam::lead(team), particles, &settings, setup.as_ref()),
        None => Bodies::new(particles, &settings, setup.as_ref()),
    };
    let bodies = bodies
        .and_then(|bodies| bodies.check_finite().map(|()| bodies))
        .map_err(|error| SystemError::from(error).at(Stamp { step: 0, time }))?;
    let mut system = GravitySystem::new(bodies, integrator).with_ranks(control.ranks.size());
    if system.method() == "tree" {
        let particles = system.particles().map_err(|error| error.at(Stamp { step: 0, time }))?;
        let warning = crowding_warning(particles);
        system.is_crowding_reported = warning.is_some();
        if let Some(warning) = warning {
            report(RunEvent::InputWarning(&warning));
        }
    }
    Ok((case, system))
}

/// Returns what a run of `case` would need. Bodies from a file are counted and checked by reading
/// the file.
pub(crate) fn plan(
    case: &Case,
    gravity: &GravityCase,
    control: &Control,
    warn: &mut (dyn FnMut(&str) + Send),
) -> Result<Plan, EngineError> {
    let selected = select_device_of(&control.ranks, control.device.choice)?;
    let (n, start) = match gravity.body_count() {
        Some(n) => (n, case.time.start),
        None => {
            let start = initial_bodies(case, gravity, &control.limits, &control.stop, warn)?;
            (start.particles.len() as u64, Some(start.time))
        }
    };
    let mut case = case.with_absolute_paths();
    case.time.start = start;
    let (settings, integrator) = (settings(gravity, case.time.step), gravity.integrator);
    let selected = ensure_memory(selected, control, n, &settings, integrator)?;
    let ranks = control.ranks.size();
    let device_bytes =
        selected.device.as_ref().map(|device| needed_bytes(device, n, &settings, integrator, ranks));
    let host_bytes = n.saturating_mul(BYTES_PER_BODY);
    Ok(Plan { case, size: body_count(n), host_bytes, selected, device_bytes })
}

/// Checks the memory of the selected device. Every rank has all bodies.
fn ensure_memory(
    selected: ComputeDevice,
    control: &Control,
    n: u64,
    settings: &GravitySettings,
    integrator: IntegratorChoice,
) -> Result<ComputeDevice, EngineError> {
    compute_device::ensure_memory(selected, control.device.choice, body_count(n), |device| {
        let bytes = needed_bytes(device, n, settings, integrator, control.ranks.size());
        bytes.saturating_mul(control.ranks.ranks_on_device())
    })
}

/// Returns a warning of one line if single precision is used and does not resolve the bodies.
pub fn resolution_warning(position: &Vec3s, settings: &GravitySettings) -> Option<String> {
    if settings.precision != Precision::Single {
        return None;
    }
    let rounding = single_rounding(position, settings.eps);
    if rounding > MAX_SINGLE_ROUNDING {
        return Some(format!(
            "single precision does not resolve these bodies: rounding moves a typical body by {rounding:.1e} \
             of the distance to its neighbour or of the softening, expected at most {MAX_SINGLE_ROUNDING:e}; \
             the forces are wrong, use precision mixed"
        ));
    }
    unresolved_pairs(position, settings.eps).map(|pairs| {
        format!(
            "single precision does not resolve {} of the closest pairs: rounding moves a body by {:.1e} of the \
             distance to its neighbour or of the softening, expected at most {MAX_PAIR_ROUNDING:e}; the forces \
             of these pairs are wrong, use precision mixed or a longer softening",
            pairs.count, pairs.rounding
        )
    })
}

/// Distance of an outlier, in units of that within which 99% of the bodies are.
const OUTLIER_DISTANCE: f64 = 100.0;

/// Returns a warning of one line if bodies that share cells of the finest level make the tree
/// clearly slower.
pub(super) fn crowding_warning(particles: &Particles) -> Option<String> {
    let Crowding { bodies, largest, cell_side, pairs_per_body, farthest, distance, most } =
        Crowding::find(&particles.position)?;
    let n = particles.len();
    let cells = format!(
        "the tree cannot separate {bodies} of {n} bodies: up to {largest} share a cell of its finest level (21), \
         {cell_side:.1e} wide, expected at most 32; each step sums {pairs_per_body:.0} pairs per body more"
    );
    let remedy = if distance > OUTLIER_DISTANCE * most {
        format!(
            "body {} is at a distance of {distance:.1e}, 99% of the bodies are within {most:.1e}; remove it \
             or set gravity.solver = \"direct\"",
            particles.id[farthest]
        )
    } else {
        "their parts are far apart or concentrated; set gravity.solver = \"direct\", or simulate the parts alone"
            .to_owned()
    };
    Some(format!("{cells}; {remedy}"))
}

/// Initial bodies of a case, and their time.
#[derive(Clone, Debug)]
pub struct Start {
    /// The bodies, in the units of the case.
    pub particles: Particles,
    /// Time at which the run starts: `time.start`, or else that of the file, or else 0.
    pub time: f64,
    /// Time of the file of bodies, in the units of the case. `None` for a model.
    pub file_time: Option<f64>,
}

/// Fails if there is no memory for this number of bodies, which the file or section has.
fn check_memory(count: u64, limits: &Limits, path: &Path) -> Result<(), EngineError> {
    check_host_memory(count.saturating_mul(BYTES_PER_BODY), limits.memory, path, body_count(count))
}

/// Generates or reads the initial bodies and checks that they can be simulated. Generation ends
/// with an error soon after `stop` is set. Calls `warn` with each warning about the file, which is
/// one line.
pub fn initial_bodies(
    case: &Case,
    gravity: &GravityCase,
    limits: &Limits,
    stop: &AtomicBool,
    warn: &mut dyn FnMut(&str),
) -> Result<Start, EngineError> {
    read_or_generate(case, gravity, limits, stop, warn).map_err(|error| case.error_at("bodies.file", error))
}

fn read_or_generate(
    case: &Case,
    gravity: &GravityCase,
    limits: &Limits,
    stop: &AtomicBool,
    warn: &mut dyn FnMut(&str),
) -> Result<Start, EngineError> {
    let (particles, origin, file_time) = match &gravity.bodies {
        BodiesSource::Model(model) => {
            if let Some(count) = gravity.body_count() {
                check_memory(count, limits, Path::new("[bodies]"))?;
            }
            let bodies = model.generate_until(gravity.settings.g, stop)?;
            (bodies, format!("[bodies] model = \"{}\"", model.name()), None)
        }
        BodiesSource::File(file) => {
            let path = case.folder.join(&file.path);
            let snapshot =
                orrery_formats::read_snapshot_as(&path, limits, file.comoving).map_err(EngineError::Input)?;
            snapshot.warnings().iter().for_each(|warning| warn(&format!("{}: {warning}", path.display())));
            let assumed = snapshot.units_are_assumed();
            if assumed {
                let (path, units) = (path.display(), case.units.name());
                warn(&format!("{path}: the file names no units, those of the case are used: {units}"));
            }
            let (mut particles, mut time, found) = (snapshot.particles, snapshot.time, snapshot.units);
            // A file without units is assumed to be in the units of the case.
            if !assumed && !convert_units(&mut particles, &mut time, &found, &case.units) {
                let (found, expected) = (found.name(), case.units.name());
                return Err(EngineError::UnitsMismatch { path, found, expected });
            }
            let count = particles.len();
            check_memory(count as u64, limits, &path)?;
            (particles, path.display().to_string(), Some(time))
        }
    };
    let time = case.time.start.or(file_time).unwrap_or(0.0);
    // The case is checked with `time.start`, so this is the time of the file.
    if !(0.0..case.time.end).contains(&time) {
        let path = case.snapshot_file().unwrap_or_default();
        return Err(EngineError::StartTime { path, time, end: case.time.end });
    }
    let refused = |source| EngineError::Bodies { origin: origin.clone(), source };
    particles.validate().map_err(refused)?;
    if gravity.settings.eps == 0.0 {
        particles.check_distinct_positions().map_err(refused)?;
    }
    Ok(Start { particles, time, file_time })
}

/// Converts the bodies and their time from one system of units to another. Returns false if only
/// one of them has a physical scale.
fn convert_units(particles: &mut Particles, time: &mut f64, from: &Units, to: &Units) -> bool {
    let (from, to) = match (from.scale(), to.scale()) {
        (None, None) => return true,
        (Some(from), Some(to)) => (from, to),
        _ => return false,
    };
    if from == to {
        return true;
    }
    let length = from.length / to.length;
    let velocity = length * (to.time / from.time);
    for (columns, factor) in [(&mut particles.position, length), (&mut particles.velocity, velocity)] {
        for column in [&mut columns.x, &mut columns.y, &mut columns.z] {
            column.iter_mut().for_each(|value| *value *= factor);
        }
    }
    particles.mass.iter_mut().for_each(|mass| *mass *= from.mass / to.mass);
    *time *= from.time / to.time;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::Species;
    use orrery_model::ic::SolarSystem;
    use orrery_model::particles::Particle;

    /// The warning names the distant body, or else that the system has distant parts.
    #[test]
    fn crowded_cells_are_reported() {
        const AT_REST: Particle =
            Particle { position: [0.0; 3], velocity: [0.0; 3], mass: 0.0, id: 0, species: Species::Stars };
        let mut particles = Particles::default();
        for k in 0..1500u64 {
            let x = |factor: u64| (k * factor % 1500) as f64 / 1500.0;
            particles.push(Particle { position: [x(1), x(7), x(301)], mass: 1.0, id: 10 + k, ..AT_REST });
        }
        assert_eq!(crowding_warning(&particles), None);
        let mut outlier = particles.clone();
        outlier.push(Particle { position: [1e9, 0.0, 0.0], mass: 1.0, id: 7, ..AT_REST });
        let text = crowding_warning(&outlier).unwrap();
        for part in [
            "the tree cannot separate 1500 of 1501 bodies: up to 1500 share",
            "body 7 is at a distance of 1.0e9, ",
            "remove it or set gravity.solver",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let mut parts = particles.clone();
        for (k, body) in particles.iter().enumerate() {
            let [x, y, z] = body.position;
            parts.push(Particle { position: [x + 1e8, y, z], id: 5000 + k as u64, ..body });
        }
        let text = crowding_warning(&parts).unwrap();
        assert!(text.contains("3000 of 3000 bodies") && text.contains("simulate the parts alone"), "{text}");
    }

    /// Converting from solar to galactic units gives the system that is generated in galactic
    /// units.
    #[test]
    fn unit_conversion_matches_generation_in_the_target_units() {
        let made = |units| SolarSystem { units }.generate(units.gravitational_constant()).unwrap();
        let (mut solar, galactic) = (made(Units::Solar), made(Units::Galactic));
        let mut time = 1e9;
        assert!(convert_units(&mut solar, &mut time, &Units::Solar, &Units::Galactic));
        // The galactic unit of time is 0.978 Gyr.
        assert!((time - 1.0 / 0.977_792_221).abs() < 1e-6, "{time}");
        for (a, b) in solar.iter().zip(galactic.iter()) {
            assert!((a.mass - b.mass).abs() <= 1e-12 * b.mass);
            for c in 0..3 {
                assert!((a.position[c] - b.position[c]).abs() <= 1e-11 * b.position[c].abs() + 1e-25);
                assert!((a.velocity[c] - b.velocity[c]).abs() <= 1e-11 * b.velocity[c].abs() + 1e-9);
            }
        }
        assert!(!convert_units(&mut solar, &mut time, &Units::Galactic, &Units::NBody));
    }
}
