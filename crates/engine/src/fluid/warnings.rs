//! Settings of a fluid that are legal and have no effect, or another one than they seem to have.

use orrery_fluids::potential::Truncation;
use orrery_gravity::settings::StepChoice;
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::four_digits;
use orrery_model::simulation_box::BoxSides;

use crate::case::{Case, Every, FluidCase, FluidStart, ThermostatCase, ThermostatMethod};

/// Cutoff of a case that gives none.
const DEFAULT_CUTOFF: f64 = 2.5;

/// Largest force and number of steps of a minimisation, of a case that gives none.
const DEFAULT_MINIMISATION: (f64, u32) = (1.0, 20_000);

/// Largest damping in units of sigma. With it, the minimum is at 1.005 sigma.
const LARGEST_DAMPING: f64 = 0.5;

/// Largest share of the centre of mass in the kinetic energy.
const LARGEST_DRIFT: f64 = 0.01;

/// Returns a line for each setting that has no effect, with numbers and a remedy.
pub(super) fn setup_warnings(case: &Case, fluid: &FluidCase, particles: &FluidParticles) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(cutoff_warning(fluid));
    found.extend(tail_warning(fluid, particles));
    found.extend(wrap_warning(fluid, particles));
    found.extend(species_warnings(fluid, particles));
    found.extend(damping_warning(case, fluid));
    found.extend(rest_warning(fluid, particles));
    found.extend(drift_warning(fluid, particles));
    if let Some(thermostat) = &fluid.thermostat {
        found.extend(thermostat_warnings(case, thermostat));
    }
    found.extend(structure_warnings(case, fluid, particles));
    let (force, steps) = DEFAULT_MINIMISATION;
    let is_force_set = (fluid.minimise_force != force)
        .then(|| format!("particles.minimise_force = {}", four_digits(fluid.minimise_force)));
    let are_steps_set = (fluid.minimise_steps != steps)
        .then(|| format!("particles.minimise_steps = {}", fluid.minimise_steps));
    let unused = is_force_set.into_iter().chain(are_steps_set).filter(|_| !fluid.minimises);
    found.extend(unused.map(|setting| format!("{setting} has no effect without particles.minimise = true")));
    found
}

fn cutoff_warning(fluid: &FluidCase) -> Option<String> {
    (fluid.truncation == Truncation::None && fluid.cutoff != DEFAULT_CUTOFF).then(|| {
        format!(
            "lennard_jones.cutoff = {} has no effect with truncation = \"none\", all pairs interact; \
             truncation = \"truncated\", \"shifted\" or \"switched\" uses it",
            four_digits(fluid.cutoff)
        )
    })
}

fn tail_warning(fluid: &FluidCase, particles: &FluidParticles) -> Option<String> {
    let is_open = particles.bounds.sides == BoxSides::Open;
    let fault = match fluid.start {
        _ if is_open => "has no effect in an open box, which has no uniform density",
        FluidStart::Droplet { .. } => {
            "assumes a uniform density, which a drop in vapour does not have, so energy and pressure are wrong"
        }
        _ => return None,
    };
    fluid.has_tail_corrections.then(|| {
        format!(
            "lennard_jones.tail_corrections = true {fault}; a larger lennard_jones.cutoff includes more pairs"
        )
    })
}

fn wrap_warning(fluid: &FluidCase, particles: &FluidParticles) -> Option<String> {
    let is_open = particles.bounds.sides == BoxSides::Open;
    (matches!(fluid.start, FluidStart::File { wraps: true, .. }) && is_open).then(|| {
        "particles.wrap = true has no effect in an open box, which has no periodic images; a file with a periodic box \
         has particles to move"
            .to_owned()
    })
}

/// Reports a damping that moves or removes the minimum of the potential.
fn damping_warning(case: &Case, fluid: &FluidCase) -> Option<String> {
    let smallest = fluid.species.iter().map(|species| species.sigma).fold(f64::INFINITY, f64::min);
    (fluid.damping > LARGEST_DAMPING * smallest).then(|| {
        // The minimum is at s^6 = 2 sigma^6, or at r = 0 where s is longer.
        let d2 = (fluid.damping / smallest).powi(2);
        let s2 = 2f64.cbrt().max(d2);
        format!(
            "lennard_jones.damping = {} is {} of the smallest sigma, so the potential has its minimum of -{} epsilon at \
             {} sigma instead of -1 epsilon at 1.122 sigma; expected at most {LARGEST_DAMPING} sigma, {}",
            length_text(case, fluid.damping),
            four_digits(d2.sqrt()),
            four_digits(4.0 / s2.powi(3) - 4.0 / s2.powi(6)),
            four_digits((s2 - d2).sqrt()),
            length_text(case, LARGEST_DAMPING * smallest)
        )
    })
}

/// Formats a length in the unit of the case.
fn length_text(case: &Case, length: f64) -> String {
    format!("{} {}", four_digits(length), case.units.names().length).trim_end().to_owned()
}

/// Reports species of the case without a particle.
fn species_warnings(fluid: &FluidCase, particles: &FluidParticles) -> Vec<String> {
    let n = particles.len();
    let is_file = matches!(fluid.start, FluidStart::File { .. });
    let species = fluid.species.iter().enumerate();
    let missing = species.filter(|(k, species)| {
        let has_any = particles.species.iter().any(|&index| usize::from(index) == *k);
        !has_any && (is_file || species.fraction > 0.0)
    });
    let text = |(k, species): (usize, &crate::case::SpeciesCase)| match is_file {
        true => format!("species {} has no particle in the file", species.name),
        false => format!(
            "species {} has no particle: its fraction {} of {n} particles rounds to 0; a fraction of {} is one \
             particle (lennard_jones.species[{}].fraction)",
            species.name,
            four_digits(species.fraction),
            four_digits(1.0 / n as f64),
            k + 1
        ),
    };
    missing.map(text).collect()
}

/// Reports particles at rest that nothing moves, or that a thermostat cannot heat.
fn rest_warning(fluid: &FluidCase, particles: &FluidParticles) -> Option<String> {
    let v = &particles.velocity;
    if [&v.x, &v.y, &v.z].into_iter().flatten().any(|&component| component != 0.0) {
        return None;
    }
    if let (1, Some(temperature)) = (particles.len(), fluid.temperature) {
        let is_langevin = fluid.thermostat.is_some_and(|found| found.method == ThermostatMethod::Langevin);
        return (!is_langevin).then(|| {
            format!(
                "particles.temperature = {} has no effect on one particle, whose motion is that of the centre of mass \
                 and is removed; expected at least 2 particles, or thermostat.method = \"langevin\"",
                four_digits(temperature)
            )
        });
    }
    let all = match particles.len() {
        1 => "the particle is".to_owned(),
        n => format!("all {n} particles are"),
    };
    let is_lattice = matches!(fluid.start, FluidStart::Lattice { sides: BoxSides::Periodic, .. });
    match fluid.thermostat {
        Some(ThermostatCase { method: ThermostatMethod::Rescaling, temperature, .. }) => Some(format!(
            "{all} at rest, and the rescaling thermostat multiplies velocities: it cannot heat velocities of 0 to \
             {}; set particles.temperature, or thermostat.method = \"langevin\"",
            four_digits(temperature)
        )),
        None if is_lattice && fluid.species.len() == 1 && !fluid.minimises => Some(format!(
            "{all} at rest on a lattice and nothing moves {}; set particles.temperature, or a thermostat",
            if particles.len() == 1 { "it" } else { "them" }
        )),
        _ => None,
    }
}

/// Reports a motion of the centre of mass, which the temperature contains.
fn drift_warning(fluid: &FluidCase, particles: &FluidParticles) -> Option<String> {
    let is_langevin =
        fluid.thermostat.is_some_and(|thermostat| thermostat.method == ThermostatMethod::Langevin);
    if fluid.removes_drift || fluid.temperature.is_some() || is_langevin {
        return None;
    }
    let mass: Vec<f64> = fluid.species.iter().map(|species| species.mass).collect();
    let share = drift_share(&particles.velocity, |k| mass[usize::from(particles.species[k])]);
    // Random velocities of n particles have 1/n of their energy in the centre of mass.
    let limit = LARGEST_DRIFT.max(10.0 / particles.len() as f64);
    (share > limit).then(|| {
        format!(
            "the motion of the centre of mass is {} of the kinetic energy, and the temperature contains it{}; expected at \
             most {}: particles.remove_drift = true removes it",
            four_digits(share),
            if fluid.thermostat.is_some() { ", also that of the thermostat" } else { "" },
            four_digits(limit)
        )
    })
}

/// Returns the share of the centre of mass in the kinetic energy, 0 at rest.
fn drift_share(velocity: &Vec3s, mass: impl Fn(usize) -> f64) -> f64 {
    let (mut total, mut momentum, mut energy) = (0.0, [0.0; 3], 0.0);
    for (k, v) in velocity.iter().enumerate() {
        let m = mass(k);
        total += m;
        for (momentum, v) in momentum.iter_mut().zip(v) {
            *momentum += m * v;
            energy += m * v * v;
        }
    }
    if energy > 0.0 { momentum.iter().map(|p| p * p).sum::<f64>() / (total * energy) } else { 0.0 }
}

fn thermostat_warnings(case: &Case, thermostat: &ThermostatCase) -> Vec<String> {
    let end = case.time.end;
    let text = |time: f64| case.units.format_time_in_message(time);
    let mut found = Vec::new();
    if let Some(until) = thermostat.until.filter(|until| *until > end) {
        found.push(format!(
            "thermostat.until = {} is after the end of the run at {}: the thermostat is on until the end",
            text(until),
            text(end)
        ));
    }
    if let StepChoice::Fixed(step) = case.time.step
        && thermostat.time < step
    {
        found.push(format!(
            "thermostat.time = {} is shorter than the step {}: each step forgets the velocities; a relaxation time \
             of at least {} is usual",
            text(thermostat.time),
            text(step),
            text(100.0 * step)
        ));
    }
    let duration = thermostat.until.map_or(end, |until| until.min(end)) - case.time.known_start();
    if thermostat.time > duration {
        let key = if thermostat.until.is_some() { "thermostat.until" } else { "time.end" };
        found.push(format!(
            "thermostat.time = {} is longer than the {} for which the thermostat is on, so it hardly acts; expected \
             at most {}, or a later {key}",
            text(thermostat.time),
            text(duration),
            text(0.2 * duration)
        ));
    }
    found
}

fn structure_warnings(case: &Case, fluid: &FluidCase, particles: &FluidParticles) -> Vec<String> {
    let structure = &fluid.structure;
    let text = |time: f64| case.units.format_time_in_message(time);
    let length = |x: f64| length_text(case, x);
    let mut found = Vec::new();
    let interval = match (structure.every, case.time.step) {
        (Every::Never, _) | (_, StepChoice::Adaptive { .. }) => {
            if structure.every == Every::Never && (structure.from > 0.0 || structure.radius.is_some()) {
                found.push(
                    "[structure] has from or radius and no interval: nothing is measured; set structure.every"
                        .to_owned(),
                );
            }
            return found;
        }
        (Every::Steps(steps), StepChoice::Fixed(dt)) => steps as f64 * dt,
        (Every::Time(interval), _) => interval,
    };
    let (from, end) = (structure.from.max(case.time.known_start()), case.time.end);
    // Times are products of the step, so they have rounding errors.
    let tolerance = 1e-9 * end;
    if from > end + tolerance {
        found.push(format!(
            "structure.from = {} is after the end of the run at {}: nothing is measured",
            text(from),
            text(end)
        ));
    } else if end - from < interval - tolerance {
        found.push(format!(
            "structure.every = {} is longer than the {} from structure.from to the end: msd.csv needs two \
             measurements; a shorter interval or an earlier structure.from gives more",
            text(interval),
            text(end - from)
        ));
    }
    let bounds = &particles.bounds;
    if bounds.sides == BoxSides::Open {
        found.push(
            "an open box has no density, so rdf.csv has an arbitrary scale; msd.csv is not affected; expected \
             particles.sides = \"periodic\" for rdf.csv"
                .to_owned(),
        );
    }
    let half = 0.5 * bounds.lengths[..bounds.dimensions].iter().copied().fold(f64::INFINITY, f64::min);
    if let Some(radius) = structure.radius.filter(|&radius| radius > half) {
        found.push(format!(
            "structure.radius = {} is more than half of the box: rdf.csv ends at {}, a larger box reaches farther",
            length(radius),
            length(half)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::start::start_particles;
    use super::*;
    use crate::case::{CaseSource, Physics};

    /// 256 particles in a box of side 6.7.
    const CASE: &str = "[particles]\nstart = \"fcc\"\ncells = 4\ndensity = 0.8442\n[lennard_jones]\n[time]\n\
                        step = 0.005\nend = 1\n";
    const MIXTURE: &str = "[[lennard_jones.species]]\nfraction = 0.9985\n[[lennard_jones.species]]\n\
                           fraction = 0.0015\n";

    fn warnings(text: &str, sets: &[&str]) -> Vec<String> {
        warnings_in(std::path::Path::new(""), text, sets)
    }

    fn warnings_in(folder: &std::path::Path, text: &str, sets: &[&str]) -> Vec<String> {
        let source = CaseSource::Text { label: "fluid".into(), text: text.into(), folder: folder.into() };
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let case = Case::load(&source, &sets).unwrap_or_else(|error| panic!("{error}"));
        let Physics::LennardJones(fluid) = &case.physics else { panic!("not a fluid") };
        let settings = fluid.settings(fluid.ensemble(1.0), &case.time);
        let particles =
            start_particles(&case, fluid, &settings, &Default::default(), false, &mut |_| {}).unwrap();
        setup_warnings(&case, fluid, &particles)
    }

    #[test]
    fn settings_without_effect_are_reported_with_numbers() {
        const WARM: &str = "particles.temperature=1";
        const RESCALING: &str = "thermostat.method=rescaling";
        let cases: &[(&[&str], &str)] = &[
            (&[], "all 256 particles are at rest on a lattice and nothing moves them"),
            (&[RESCALING, "thermostat.temperature=2"], "cannot heat velocities of 0 to 2"),
            (&[WARM, "lennard_jones.truncation=none", "lennard_jones.cutoff=3"], "cutoff = 3 has no effect"),
            (&[WARM, "lennard_jones.tail_corrections=true", "particles.sides=open"], "in an open box"),
            (&[WARM, RESCALING, "thermostat.until=2"], "until = 2 is after the end of the run at 1"),
            (&[WARM, RESCALING, "thermostat.time=0.001"], "time = 0.001 is shorter than the step 0.005"),
            (
                &[WARM, "particles.minimise_steps=5"],
                "particles.minimise_steps = 5 has no effect without particles.minimise",
            ),
            (&[WARM, "structure.radius=2"], "nothing is measured; set structure.every"),
            (&[WARM, "structure.every=0.1", "structure.from=2"], "from = 2 is after the end of the run at 1"),
            (&[WARM, "structure.every=0.5", "structure.from=0.75"], "every = 0.5 is longer than the 0.25"),
            (&[WARM, "structure.every=0.1", "structure.radius=5"], "radius = 5 is more than half of the box"),
            (
                &[WARM, "structure.every=0.1", "particles.sides=open"],
                "an open box has no density, so rdf.csv has an arbitrary scale; msd.csv is not affected",
            ),
            (
                &[WARM, RESCALING, "thermostat.time=3"],
                "time = 3 is longer than the 1 for which the thermostat is on, so it hardly acts; expected at most \
                 0.2, or a later time.end",
            ),
            (
                &[WARM, "thermostat.method=langevin", "thermostat.until=0.5"],
                "time = 1 is longer than the 0.5 for which the thermostat is on, so it hardly acts; expected at most \
                 0.1, or a later thermostat.until",
            ),
            (
                &[WARM, "lennard_jones.damping=3"],
                "damping = 3 is 3 of the smallest sigma, so the potential has its minimum of -0.005479 epsilon at 0 sigma",
            ),
        ];
        for (sets, expected) in cases {
            let found = warnings(CASE, sets);
            assert!(found.len() == 1 && found[0].contains(expected), "{sets:?}: {found:?}");
            assert_eq!(found[0].lines().count(), 1);
        }
        let found = warnings(&format!("{CASE}{MIXTURE}"), &[WARM]);
        let droplet = "[particles]\nstart = \"droplet\"\nn = 50\ndensity = 0.7\nlength = 9\ntemperature = 0.7\n\
                       [lennard_jones]\ntail_corrections = true\n[time]\nstep = 0.005\nend = 1\n";
        let uniform = warnings(droplet, &[]);
        assert!(uniform.len() == 1 && uniform[0].contains("assumes a uniform density"), "{uniform:?}");
        let expected = "species B has no particle: its fraction 0.0015 of 256 particles rounds to 0; a fraction of \
                        0.003906 is one particle (lennard_jones.species[2].fraction)";
        assert_eq!(found, [expected]);
    }

    /// One particle has no motion relative to the centre of mass.
    #[test]
    fn a_temperature_of_one_particle_is_reported() {
        let text = "[particles]\nstart = \"simple-cubic\"\ncells = 1\ndensity = 0.001\n[lennard_jones]\n[time]\n\
                    step = 0.005\nend = 5\n";
        let expected = "particles.temperature = 1 has no effect on one particle, whose motion is that of the centre \
                        of mass and is removed; expected at least 2 particles, or thermostat.method = \"langevin\"";
        const WARM: &str = "particles.temperature=1";
        assert_eq!(warnings(text, &[WARM]), [expected]);
        assert_eq!(warnings(text, &[WARM, "thermostat.method=rescaling"]), [expected]);
        assert_eq!(warnings(text, &[WARM, "thermostat.method=langevin"]), [""; 0]);
        let found = warnings(text, &[]);
        assert!(
            found.len() == 1 && found[0].starts_with("the particle is at rest on a lattice and"),
            "{found:?}"
        );
    }

    /// Half of the kinetic energy is that of the centre of mass.
    #[test]
    fn a_drift_in_the_temperature_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut frame =
            "27\nLattice=\"9 0 0 0 9 0 0 0 9\" Properties=species:S:1:pos:R:3:velo:R:3\n".to_owned();
        for k in 0..27 {
            let (x, y, z, v) = (3 * (k % 3), 3 * (k / 3 % 3), 3 * (k / 9), f64::from(k - 13).signum());
            frame += &format!("A {x} {y} {z} 1 {v} 0\n");
        }
        std::fs::write(folder.path().join("a.xyz"), frame).unwrap();
        let found = |sets: &[&str]| {
            let text = "[particles]\nfile = \"a.xyz\"\nremove_drift = false\n[lennard_jones]\n[time]\nstep = 0.005\n\
                        end = 5\n";
            warnings_in(folder.path(), text, sets)
        };
        let expected = "the motion of the centre of mass is 0.5007 of the kinetic energy, and the temperature contains \
                        it; expected at most 0.3704: particles.remove_drift = true removes it";
        assert_eq!(found(&[]), [expected]);
        const TARGET: &str = "thermostat.temperature=1";
        let rescaled = found(&["thermostat.method=rescaling", TARGET]);
        assert!(rescaled.len() == 1 && rescaled[0].contains("also that of the thermostat"), "{rescaled:?}");
        for sets in [
            &["particles.remove_drift=true"][..],
            &["particles.temperature=1"],
            &["thermostat.method=langevin", TARGET],
        ] {
            assert_eq!(found(sets), [""; 0], "{sets:?}");
        }
    }

    #[test]
    fn wrapping_into_an_open_box_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.xyz");
        let text = format!(
            "[particles]\nfile = {path:?}\nwrap = true\n[lennard_jones]\n[time]\nstep = 0.001\nend = 1\n"
        );
        for (pbc, count) in [("F F F", 1), ("T T T", 0)] {
            let lattice = "Lattice=\"9 0 0 0 9 0 0 0 9\"";
            let columns = "Properties=species:S:1:pos:R:3:velo:R:3";
            let frame = format!("2\n{lattice} pbc=\"{pbc}\" {columns}\nA 1 1 1 1 0 0\nA 5 1 1 -1 0 0\n");
            std::fs::write(&path, frame).unwrap();
            let found = warnings(&text, &[]);
            let wraps = found.iter().filter(|line| line.contains("wrap = true has no effect in an open box"));
            assert_eq!(wraps.count(), count, "{found:?}");
        }
    }

    #[test]
    fn usual_settings_are_not_reported() {
        let sets: [&[&str]; 4] = [
            &["particles.temperature=1"],
            &["particles.temperature=1", "thermostat.method=rescaling", "thermostat.until=1"],
            &["thermostat.method=langevin", "thermostat.temperature=1", "lennard_jones.damping=0.5"],
            &["particles.temperature=1", "structure.every=0.1", "structure.from=0.5", "structure.radius=3"],
        ];
        for sets in sets {
            assert_eq!(warnings(CASE, sets), Vec::<String>::new(), "{sets:?}");
        }
        for preset in crate::case::presets() {
            if preset.text.contains("[lennard_jones]") {
                assert_eq!(warnings(preset.text, &[]), Vec::<String>::new(), "{}", preset.name);
            }
        }
    }
}
