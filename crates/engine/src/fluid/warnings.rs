//! Settings of a fluid that are legal and have no effect, or another one than they seem to have.

use orrery_model::fluid::FluidParticles;
use orrery_model::four_digits;
use orrery_model::simulation_box::BoxSides;
use orrery_particles::lennard_jones::potential::Truncation;
use orrery_particles::settings::StepChoice;

use crate::case::{Case, Every, FluidCase, FluidStart, ThermostatCase, ThermostatMethod};

/// Cutoff of a case that gives none.
const DEFAULT_CUTOFF: f64 = 2.5;

/// Largest force and number of steps of a minimisation, of a case that gives none.
const DEFAULT_MINIMISATION: (f64, u32) = (1.0, 20_000);

/// Returns a line for each setting that has no effect, with numbers and a remedy.
pub(super) fn setup_warnings(case: &Case, fluid: &FluidCase, particles: &FluidParticles) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(cutoff_warning(fluid));
    found.extend(tail_warning(fluid, particles));
    found.extend(wrap_warning(fluid, particles));
    found.extend(species_warnings(fluid, particles));
    found.extend(rest_warning(fluid, particles));
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
    (fluid.has_tail_corrections && is_open).then(|| {
        "lennard_jones.tail_corrections = true has no effect in an open box, which has no uniform density; a larger \
         lennard_jones.cutoff includes more pairs"
            .to_owned()
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
    let is_lattice = matches!(fluid.start, FluidStart::Lattice { sides: BoxSides::Periodic, .. });
    match fluid.thermostat {
        Some(ThermostatCase { method: ThermostatMethod::Rescaling, temperature, .. }) => Some(format!(
            "all {} particles are at rest, and the rescaling thermostat multiplies velocities: it cannot heat \
             velocities of 0 to {}; set particles.temperature, or thermostat.method = \"langevin\"",
            particles.len(),
            four_digits(temperature)
        )),
        None if is_lattice && fluid.species.len() == 1 && !fluid.minimises => Some(format!(
            "all {} particles are at rest on a lattice and nothing moves them; set particles.temperature, or a \
             thermostat",
            particles.len()
        )),
        _ => None,
    }
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
    found
}

fn structure_warnings(case: &Case, fluid: &FluidCase, particles: &FluidParticles) -> Vec<String> {
    let structure = &fluid.structure;
    let text = |time: f64| case.units.format_time_in_message(time);
    let unit = case.units.names().length;
    let length = |x: f64| format!("{} {unit}", four_digits(x)).trim_end().to_owned();
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
        let source =
            CaseSource::Text { label: "fluid".into(), text: text.into(), folder: Default::default() };
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
        ];
        for (sets, expected) in cases {
            let found = warnings(CASE, sets);
            assert!(found.len() == 1 && found[0].contains(expected), "{sets:?}: {found:?}");
            assert_eq!(found[0].lines().count(), 1);
        }
        let found = warnings(&format!("{CASE}{MIXTURE}"), &[WARM]);
        let expected = "species B has no particle: its fraction 0.0015 of 256 particles rounds to 0; a fraction of \
                        0.003906 is one particle (lennard_jones.species[2].fraction)";
        assert_eq!(found, [expected]);
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
            &["thermostat.method=langevin", "thermostat.temperature=1"],
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
