//! A fluid as a system of the engine, on the CPU and on every available device.

use std::time::Instant;

use orrery_device::Device;
use orrery_device::testing::test_devices_with_f64;
use orrery_formats::Limits;

use crate::blocks::Blocks;
use crate::case::{Case, CaseSource};
use crate::compute_device::ComputeDevice;
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::system::{SavedSystem, Stamp, System};

const DT: f64 = 0.004;

fn load(text: &str, sets: &[&str]) -> Case {
    let source = CaseSource::Text { label: "fluid".into(), text: text.into(), folder: Default::default() };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Case::load(&source, &sets).unwrap_or_else(|error| panic!("{error}"))
}

fn start(case: &Case, device: Option<Device>) -> System {
    let selected = ComputeDevice { device, reason: None };
    System::start(case, selected, &Control::default(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"))
        .1
}

fn stamp(step: u64) -> Stamp {
    Stamp { step, time: step as f64 * DT }
}

/// Takes steps from `first` to `last`.
fn advance(system: &mut System, first: u64, last: u64) {
    system.advance(DT, last - first, &|k| stamp(first + k)).unwrap();
}

fn bits(system: &System) -> Vec<Vec<u8>> {
    let columns = system.columns().unwrap();
    columns.into_iter().map(|column| format!("{:?}", column.values.into_block()).into_bytes()).collect()
}

fn restored(case: &Case, system: &System, step: u64) -> System {
    let blocks = system.columns().unwrap().into_iter();
    let blocks = blocks.map(|column| (column.name.to_owned(), column.values.into_block())).collect();
    let (path, count, limits) =
        (std::path::Path::new("checkpoint"), system.size().count as usize, Limits::default());
    let method = system.method();
    let saved = SavedSystem { path, case, count, method, limits: &limits, stamp: stamp(step) };
    System::restore(&saved, &mut Blocks::new(path, blocks)).unwrap()
}

const MIXTURE: &str = "[particles]\nstart = \"fcc\"\ncells = 5\ndensity = 0.8\ntemperature = 1.0\n[lennard_jones]\n\
                       cutoff = 2.2\n[[lennard_jones.species]]\nfraction = 0.8\n[[lennard_jones.species]]\n\
                       sigma = 0.9\nepsilon = 0.5\nmass = 2\nfraction = 0.2\n[time]\nstep = 0.004\nend = 1\n";

/// The thermostats are switched off in the middle of a batch.
#[test]
fn batches_restored_states_and_devices_give_the_same_bits_in_each_ensemble() {
    for method in ["none", "langevin", "rescaling"] {
        let method = format!("thermostat.method={method}");
        let until = if method.ends_with("none") { "time.end=1" } else { "thermostat.until=0.1" };
        let case = load(MIXTURE, &[&method, until]);
        let mut single = start(&case, None);
        (0..40).for_each(|step| advance(&mut single, step, step + 1));
        let expected = (bits(&single), single.measure().unwrap());

        let mut batched = start(&case, None);
        advance(&mut batched, 0, 17);
        let mut parts = restored(&case, &batched, 17);
        assert_eq!(bits(&parts), bits(&batched));
        advance(&mut batched, 17, 40);
        advance(&mut parts, 17, 40);
        for system in [&batched, &parts] {
            assert_eq!((bits(system), system.measure().unwrap()), expected, "{method}");
        }
        for device in test_devices_with_f64() {
            let mut whole = start(&case, Some(device.clone()));
            advance(&mut whole, 0, 40);
            let mut host = start(&case, None);
            advance(&mut host, 0, 9);
            let selected = ComputeDevice { device: Some(device.clone()), reason: None };
            let mut moved = host.moved_to(&case, &selected, None, &Control::default(), &mut |_| {}).unwrap();
            advance(&mut moved, 9, 40);
            for system in [&whole, &moved] {
                assert_eq!(
                    (bits(system), system.measure().unwrap()),
                    expected,
                    "{method} on {}",
                    device.label()
                );
                assert!(system.device().is_some());
            }
        }
    }
}

#[test]
fn a_look_ahead_shows_a_shorter_step_and_changes_nothing() {
    let case = load(MIXTURE, &["thermostat.method=langevin"]);
    let mut system = start(&case, None);
    advance(&mut system, 0, 5);
    let before = bits(&system);
    let mut shorter = start(&case, None);
    advance(&mut shorter, 0, 5);
    let later = Stamp { step: 6, time: 5.3 * DT };
    shorter.advance(0.3 * DT, 1, &|k| if k == 0 { stamp(5) } else { later }).unwrap();
    let mut seen = None;
    let observed = system.look_ahead(0.3 * DT, &mut |ahead| {
        seen = Some((bits(ahead), ahead.measure().unwrap()));
        Ok(())
    });
    observed.unwrap().unwrap();
    assert_eq!(seen, Some((bits(&shorter), shorter.measure().unwrap())));
    assert_eq!(bits(&system), before);
}

/// LAMMPS prints these numbers for its benchmark at step 0.
#[test]
fn the_melt_has_the_energies_of_lammps() {
    let text = crate::case::find_preset("lj-melt").unwrap().text;
    let values = start(&load(text, &[]), None).measure().unwrap();
    for (found, expected) in values.iter().zip([1.44, -6.773_368_1, 2.159_932_5, -4.613_435_6, -5.019_707_3])
    {
        assert!((found - expected).abs() < 6e-8, "{found} {expected}");
    }
}

/// 864 atoms of argon in real units are 864 atoms in reduced units.
#[test]
fn real_units_are_reduced_units_times_their_scale() {
    let real = load(crate::case::find_preset("argon").unwrap().text, &[]);
    let density = 1.374e-24 * 3.4f64.powi(3) / (39.948 * 1.660_539_066_60e-24);
    let text = format!(
        "[particles]\nstart = \"fcc\"\ncells = 6\ndensity = {density:?}\ntemperature = {:?}\n[lennard_jones]\n\
         cutoff = 2.25\n[time]\nstep = 0.004\nend = 1\n",
        94.4 / 120.0
    );
    let [real, reduced] = [real, load(&text, &[])].map(|case| start(&case, None).measure().unwrap());
    // ε is 120 K k_B N_A = 0.99774 kJ/mol, and ε/σ³ is 42.153 MPa.
    let epsilon = 120.0 * 8.314_462_618e-3;
    let pressure = 120.0 * 1.380_649e-23 / 3.4e-10f64.powi(3) * 1e-6;
    let scales = [120.0, epsilon, epsilon, epsilon, pressure];
    for ((real, reduced), scale) in real.iter().zip(reduced).zip(scales) {
        assert!((real / (reduced * scale) - 1.0).abs() < 1e-8, "{real} {}", reduced * scale);
    }
}

/// The published problem: helium at 10,000 K has a kinetic energy of 1,470 ε per particle. With a
/// depth of 1e-6 and of 0, the table has the temperature of the start too.
#[test]
fn the_table_has_the_temperature_of_gases() {
    for epsilon in ["1e-3", "1e-7", "0"] {
        let text = "[particles]\nstart = \"fcc\"\ncells = 4\ndensity = 0.1\ntemperature = 3.0\n[lennard_jones]\n\
                    cutoff = 2.5\n[[lennard_jones.species]]\nepsilon = EPS\n[time]\nstep = 0.004\nend = 1\n";
        for method in ["none", "rescaling"] {
            let case = load(&text.replace("EPS", epsilon), &[&format!("thermostat.method={method}")]);
            let mut system = start(&case, None);
            let row = system.measure().unwrap();
            assert!((row[0] - 3.0).abs() < 1e-9, "{epsilon}: {row:?}");
            // p = ρ kT for an ideal gas, with 3 N - 3 degrees of freedom.
            let ideal = 0.1 * 3.0 * (1.0 - 1.0 / 256.0);
            assert!((row[4] - ideal).abs() < 3e-3, "{epsilon}: {row:?}");
            advance(&mut system, 0, 20);
            let restored = restored(&case, &system, 20);
            assert_eq!(restored.measure().unwrap(), system.measure().unwrap());
            assert!(system.measure().unwrap()[0] > 2.0);
        }
    }
}

/// Forces have a resolution relative to the largest depth.
#[test]
fn depths_that_forces_do_not_resolve_are_refused() {
    let case = |epsilon: &str| {
        let text = MIXTURE.replace("epsilon = 0.5", &format!("epsilon = {epsilon}"));
        let source = CaseSource::Text { label: "fluid".into(), text, folder: Default::default() };
        Case::load(&source, &[]).map(|_| ()).map_err(|error| error.to_string())
    };
    for accepted in ["1e-6", "0", "1e6"] {
        case(accepted).unwrap_or_else(|error| panic!("{error}"));
    }
    let error = case("1e-8").unwrap_err();
    assert!(error.contains("epsilon = 1e-8 is below 1e-7 of the largest epsilon, 1, and"), "{error}");
    assert!(case("-1").unwrap_err().contains("epsilon = -1"));
}

/// Random positions, which overlap.
const RANDOM: &str = "[particles]\nstart = \"random\"\nn = 300\ndensity = 1.0\n[lennard_jones]\ncutoff = 2.2\n\
                      [time]\nstep = 0.004\nend = 1\n";

fn start_with(case: &Case, control: &Control, events: &mut Vec<String>) -> Result<System, EngineError> {
    let selected = ComputeDevice { device: None, reason: None };
    let started = System::start(case, selected, control, &mut |event| match event {
        RunEvent::Minimising(status) => events.push(format!("{} {status}", status.state.steps)),
        RunEvent::Minimised(status) => events.push(format!("end {status}")),
        _ => {}
    });
    started.map(|(_, system)| system)
}

/// The energy at the start is positive, and at the end that of a dense fluid.
#[test]
fn a_minimisation_reports_energy_and_force_and_is_the_same_on_devices() {
    let case = load(RANDOM, &[]);
    let mut events = Vec::new();
    let mut system = start_with(&case, &Control::default(), &mut events).unwrap();
    assert!(
        events[0].starts_with("0 energy per particle ") && !events[0].contains("particle -"),
        "{events:?}"
    );
    let last = events.last().unwrap();
    let energy =
        last.strip_prefix("end energy per particle ").and_then(|text| text.split_once(" epsilon, largest"));
    let energy: f64 = energy.unwrap_or_else(|| panic!("{last}")).0.parse().unwrap();
    assert!((-7.5..-6.0).contains(&energy), "{last}");
    let at_start = bits(&system);
    advance(&mut system, 0, 5);
    let expected = bits(&system);
    for device in test_devices_with_f64() {
        let mut other = start(&case, Some(device));
        assert!(bits(&other) == at_start);
        advance(&mut other, 0, 5);
        assert!(bits(&other) == expected);
    }
}

#[test]
fn a_minimisation_is_stopped_by_requests_and_by_the_wall_time() {
    let case = load(RANDOM, &[]);
    let message = |control: &Control| {
        let error = start_with(&case, control, &mut Vec::new()).map(drop).unwrap_err();
        assert!(!error.is_user_error());
        error.to_string()
    };
    let stopped = Control::default();
    stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let text = message(&stopped);
    assert!(text.starts_with("stopped by a signal in the minimisation after 0 steps: energy per "), "{text}");
    assert!(text.ends_with("; nothing was written, and the same command starts it again"), "{text}");
    let text = message(&Control { deadline: Some(Instant::now()), ..Control::default() });
    assert!(text.starts_with("stopped at the wall-time limit in the minimisation after 0 steps"), "{text}");
    assert!(text.ends_with("and the same command with a longer wall time starts it again"), "{text}");
}

#[test]
fn a_minimisation_that_does_not_converge_is_an_error_with_numbers() {
    let case = load(RANDOM, &["particles.minimise_steps=30", "particles.minimise_force=0.01"]);
    let text = start_with(&case, &Control::default(), &mut Vec::new()).map(drop).unwrap_err().to_string();
    let start =
        "[particles]: the minimisation of the energy did not converge in 30 steps: the largest force is ";
    assert!(text.starts_with(start), "{text}");
    for part in ["expected at most 0.01 (particles.minimise_force)", "a larger particles.minimise_steps"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("particles.minimise = true"));
}

/// The remedy for overlapping particles fits their start, which has no file.
#[test]
fn advice_about_overlapping_particles_fits_their_start() {
    let message = |text: &str, sets: &[&str]| {
        let case = load(text, sets);
        start_with(&case, &Control::default(), &mut Vec::new()).map(drop).unwrap_err().to_string()
    };
    let random = message(RANDOM, &["particles.minimise_force=1e11"]);
    let expected = "expected a lower particles.density or another particles.seed";
    assert!(random.contains("overlap") && random.ends_with(expected), "{random}");
    assert!(
        message(RANDOM, &["particles.minimise=false"])
            .ends_with("particles.minimise = true moves them apart")
    );
    let lattice = "[particles]\nstart = \"fcc\"\ncells = 4\ndensity = 20\n[lennard_jones]\ncutoff = 1\n[time]\n\
                   step = 0.001\nend = 1\n";
    assert!(message(lattice, &[]).ends_with("a lower particles.density moves them apart"));
}

/// A file with overlapping particles keeps its velocities. Particles at one place have no direction
/// in which forces could move them, and the advice is not to minimise.
#[test]
fn a_minimised_file_keeps_its_velocities() {
    let folder = tempfile::tempdir().unwrap();
    let case = |second: &str| {
        let frame = format!(
            "2\nLattice=\"9 0 0 0 9 0 0 0 9\" Properties=species:S:1:pos:R:3:velo:R:3\nA 1 1 1 0.5 0 0\n\
             A {second} 1 1 -0.5 0.25 0\n"
        );
        std::fs::write(folder.path().join("a.xyz"), frame).unwrap();
        let text = "[particles]\nfile = \"a.xyz\"\nminimise = true\nremove_drift = false\n[lennard_jones]\n\
                    [time]\nstep = 0.001\nend = 1\n";
        let folder = folder.path().to_owned();
        Case::load(&CaseSource::Text { label: "file".into(), text: text.into(), folder }, &[]).unwrap()
    };
    let System::Fluid(system) = start(&case("1.2"), None) else { unreachable!() };
    let particles = system.particles().unwrap();
    assert_eq!((particles.velocity.x, particles.velocity.y), (vec![0.5, -0.5], vec![0.0, 0.25]));
    let [a, b] = [0, 1].map(|k| particles.bounds.coordinate(0, particles.position[0][k]));
    assert!((b - a).abs() > 1.05, "{a} {b}");
    let text =
        start_with(&case("1"), &Control::default(), &mut Vec::new()).map(drop).unwrap_err().to_string();
    assert!(
        text.ends_with(
            "the minimisation did not move them apart, particles at the same place must be moved in the file"
        ),
        "{text}"
    );
}

/// The energy at constant energy is the mean of the second half of the thermostatted phase, with
/// the correction of its kinetic part, and not that of its last step.
#[test]
fn a_thermostat_hands_over_its_mean_energy() {
    for method in ["langevin", "rescaling"] {
        let method = format!("thermostat.method={method}");
        let case = load(MIXTURE, &["particles.cells=3", &method, "thermostat.until=1.6", "time.end=2"]);
        let mut system = start(&case, None);
        let (mut potential, mut kinetic, mut samples, mut last) = (0.0, 0.0, 0.0, 0.0);
        for step in (0..400).step_by(20) {
            advance(&mut system, step, step + 20);
            // Columns are temperature, potential, kinetic and total energy per particle.
            let row = system.measure().unwrap();
            last = row[3];
            if step + 20 >= 200 {
                (potential, kinetic, samples) = (potential + row[1], kinetic + row[2], samples + 1.0);
            }
        }
        advance(&mut system, 400, 401);
        let n = 108.0;
        // Langevin dynamics move the centre of mass, whose motion is stopped.
        let (freedom, stopped) =
            if method.ends_with("langevin") { (3.0 * n, 3.0) } else { (3.0 * n - 3.0, 0.0) };
        let (potential, kinetic) = (potential / samples, kinetic / samples);
        let expected = potential + kinetic - 1.5 * (kinetic - 0.5 * freedom / n) - 0.5 * stopped / n;
        let found = system.measure().unwrap()[3];
        // The energy changes by less than 1e-3 in the one step at constant energy.
        assert!((found - expected).abs() < 2e-3, "{method}: {found}, expected {expected}");
        assert!((last - expected).abs() > 0.01, "{method}: the test cannot fail: {last}, {expected}");
    }
}

/// A run of a version without the mean energies hands over one draw, as it did.
#[test]
fn a_checkpoint_without_mean_energies_is_continued() {
    let case = load(MIXTURE, &["thermostat.method=rescaling", "thermostat.until=0.1"]);
    let mut system = start(&case, None);
    advance(&mut system, 0, 25);
    let total = system.measure().unwrap()[3];
    let old = |name: &str| name != "mean_energy";
    let blocks = system.columns().unwrap().into_iter().filter(|column| old(column.name));
    let blocks = blocks.map(|column| (column.name.to_owned(), column.values.into_block())).collect();
    let path = std::path::Path::new("checkpoint");
    let (count, limits, method) = (system.size().count as usize, Limits::default(), system.method());
    let saved = SavedSystem { path, case: &case, count, method, limits: &limits, stamp: stamp(25) };
    let mut restored = System::restore(&saved, &mut Blocks::new(path, blocks)).unwrap();
    advance(&mut restored, 25, 26);
    assert!((restored.measure().unwrap()[3] - total).abs() < 2e-3);
    // The run with its mean energies has another energy afterwards.
    advance(&mut system, 25, 26);
    assert!((system.measure().unwrap()[3] - total).abs() > 0.01);
}

/// Coordinates outside of a periodic box are an error, or moved by whole boxes. Unwrapped positions
/// are those of the file.
#[test]
fn particles_outside_of_a_periodic_box_are_wrapped_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let load = |second: &str, box_sides: &str, wrap: bool| {
        let frame = format!(
            "2\nLattice=\"9 0 0 0 9 0 0 0 9\" {box_sides} Properties=species:S:1:pos:R:3\nA 1 1 1\nA {second} 1 1\n"
        );
        std::fs::write(folder.path().join("a.xyz"), frame).unwrap();
        let text = format!(
            "[particles]\nfile = \"a.xyz\"\nwrap = {wrap}\n[lennard_jones]\n[time]\nstep = 0.001\nend = 1\n"
        );
        let folder = folder.path().to_owned();
        let case = Case::load(&CaseSource::Text { label: "file".into(), text, folder }, &[]).unwrap();
        start_with(&case, &Control::default(), &mut Vec::new())
    };
    let inside = load("3.25", "", false).unwrap();
    for second in ["-5.75", "12.25", "30.25"] {
        let refused = load(second, "", false).map(drop).unwrap_err().to_string();
        let expected = format!(
            "particle 1 has x = {second}, outside of the box from 0 to 9; particles.wrap = true moves particles into \
             the periodic box"
        );
        assert!(refused.ends_with(&expected), "{refused}");
        let wrapped = load(second, "", true).unwrap();
        assert_eq!(wrapped.measure().unwrap(), inside.measure().unwrap(), "{second}");
        let System::Fluid(fluid) = wrapped else { unreachable!() };
        let particles = fluid.particles().unwrap();
        let unwrapped =
            particles.bounds.coordinate(0, particles.position[0][1]) + 9.0 * f64::from(particles.image[0][1]);
        assert!((unwrapped - second.parse::<f64>().unwrap()).abs() < 1e-12, "{unwrapped}");
    }
    let refused = load("1e20", "", true).map(drop).unwrap_err().to_string();
    assert!(
        refused.ends_with("outside of the box from 0 to 9, by too many boxes to move it there"),
        "{refused}"
    );
}

/// Particles of an ideal gas may be anywhere.
#[test]
fn random_positions_of_an_ideal_gas_do_not_overlap() {
    let text = "[particles]\nstart = \"random\"\nn = 500\ndensity = 0.8\ntemperature = 1.0\n[lennard_jones]\n\
                [[lennard_jones.species]]\nepsilon = 0\n[time]\nstep = 0.004\nend = 1\n";
    let system = start_with(&load(text, &[]), &Control::default(), &mut Vec::new()).unwrap();
    let [temperature, potential, ..] = system.measure().unwrap()[..] else { unreachable!() };
    assert!((temperature - 1.0).abs() < 1e-6 && potential == 0.0, "{temperature} {potential}");
}
