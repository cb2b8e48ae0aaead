//! Forces against brute force, conservation, and the published values of the melt.

use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{Lattice, random_positions, set_maxwell_velocities};
use orrery_model::rng::Draws;
use orrery_model::simulation_box::SimulationBox;
use orrery_simd::InstructionSet;

use super::arithmetic::{PairArithmetic, PairReal, force_quantum};
use super::ensemble::Ensemble;
use super::potential::{Potential, Truncation};
use super::settings::{PairPrecision, PairSearch};
use super::*;

pub(super) fn settings(potential: Potential) -> FluidSettings {
    let mass = vec![1.0; potential.species_count()];
    FluidSettings {
        potential,
        mass,
        precision: PairPrecision::Mixed,
        search: PairSearch::Lists,
        skin: 0.3,
        ensemble: Ensemble::Nve,
        largest_kinetic: 0.0,
    }
}

pub(super) fn plain_settings(truncation: Truncation) -> FluidSettings {
    settings(Potential::mixed(&[(1.0, 1.0)], 2.5, truncation))
}

/// Sums of the pair forces over all pairs, as integers, in the user's order.
fn brute_force<R: PairReal>(particles: &FluidParticles, settings: &FluidSettings) -> Vec<[i64; 3]> {
    let arithmetic = PairArithmetic::<R>::new(&settings.potential, &particles.bounds);
    (0..particles.len())
        .map(|k| {
            let mut sum = [0i64; 3];
            for other in (0..particles.len()).filter(|&other| other != k) {
                let force = arithmetic.pair_force(
                    particles.fractions(k),
                    particles.species[k],
                    particles.fractions(other),
                    particles.species[other],
                );
                (0..3).for_each(|axis| sum[axis] = i64::wrapping_add(sum[axis], force[axis]));
            }
            sum
        })
        .collect()
}

/// Returns forces of the case in units of integers.
fn integer_forces(fluid: &HostFluid, quantum: f64) -> Vec<[i64; 3]> {
    fluid.forces().iter().map(|f| f.map(|f| (f / quantum).round() as i64)).collect()
}

/// Random boxes, densities and cutoffs, with boxes fewer than three cells wide, in two and three
/// dimensions, with one and two species: the same integers as brute force. Random particles
/// overlap, so large forces occur too.
#[test]
fn forces_have_the_bits_of_brute_force() {
    let mut draws = Draws::new(11, 0, 0);
    for case in 0..24 {
        let dimensions = 2 + case % 2;
        let lengths = [(); 3].map(|()| draws.uniform_in(7.2, 14.0));
        let n = (30.0 + draws.uniform() * 600.0) as usize;
        let mut bounds = SimulationBox::periodic(lengths, dimensions);
        if dimensions == 2 {
            bounds.lengths[2] = 1.0;
        }
        let truncation =
            [Truncation::Truncated, Truncation::Shifted, Truncation::Switched { start: 0.8 }][case / 2 % 3];
        let species: &[(f64, f64)] = if case % 3 == 0 { &[(1.0, 1.0), (0.8, 0.5)] } else { &[(1.0, 1.0)] };
        // Beyond 3.1, and with a shallow species, forces have wide sums.
        let cutoff = if case % 4 < 2 { draws.uniform_in(1.2, 2.55) } else { draws.uniform_in(3.2, 3.6) };
        let mut particles = random_positions(bounds, n, case as u64);
        particles.species.iter_mut().enumerate().for_each(|(k, s)| *s = (k % species.len()) as u8);
        let mut settings = settings(Potential::mixed(species, cutoff, truncation));
        for search in [PairSearch::Lists, PairSearch::AllPairs] {
            settings.search = search;
            settings.precision = PairPrecision::Mixed;
            let fluid = HostFluid::new(particles.clone(), &settings);
            assert_eq!(fluid.particles(), particles);
            let expected = brute_force::<f32>(&particles, &settings);
            // Forces of overlapping particles exceed the integers of f64.
            for (found, expected) in
                integer_forces(&fluid, force_quantum::<f32>(&settings.potential)).iter().zip(&expected)
            {
                for axis in 0..3 {
                    let is_exact = expected[axis].abs() < 1 << 53;
                    assert!(!is_exact || found[axis] == expected[axis], "case {case}, {search:?}");
                }
            }
        }
        settings.precision = PairPrecision::Double;
        let fluid = HostFluid::new(particles.clone(), &settings);
        let expected = brute_force::<f64>(&particles, &settings);
        for (found, expected) in
            integer_forces(&fluid, force_quantum::<f64>(&settings.potential)).iter().zip(&expected)
        {
            assert!((0..3).all(|axis| expected[axis].abs() > 1 << 53 || found[axis] == expected[axis]));
        }
    }
}

#[test]
fn forces_do_not_depend_on_the_instruction_set() {
    let mut particles = Lattice::Fcc.fill([5, 5, 5], 0.9);
    set_maxwell_velocities(&mut particles, &[1.0], 2.0, 1);
    let settings = plain_settings(Truncation::Switched { start: 0.7 });
    let mut fluid = HostFluid::new(particles, &settings);
    fluid.advance(0.004, 0, 20).unwrap();
    let expected = fluid.forces();
    for set in InstructionSet::available() {
        fluid.set_instruction_set(set);
        fluid.update_forces();
        assert_eq!(fluid.forces(), expected, "{}", set.name());
    }
}

/// The start of LAMMPS' melt: pair energy and pressure as published, here to the printed digits.
#[test]
fn the_melt_starts_with_the_published_energy_and_pressure() {
    let mut particles = Lattice::Fcc.fill([10, 10, 10], 0.8442);
    set_maxwell_velocities(&mut particles, &[1.0], 1.44, 1);
    let n = particles.len() as f64;
    let volume = particles.bounds.volume();
    let fluid = HostFluid::new(particles, &plain_settings(Truncation::Truncated));
    let measures = fluid.measure();
    assert!((measures.potential / n + 6.7733681).abs() < 5e-7, "{}", measures.potential / n);
    // The published pressure is that of 32,000 atoms, whose kinetic energy is (3 N - 3) kT / 2.
    let kinetic = 1.5 * 1.44 * (31999.0 / 32000.0) * n;
    let pressure = (2.0 * kinetic + measures.virial) / (3.0 * volume);
    assert!((pressure + 5.0197073).abs() < 5e-6, "{pressure}");
    assert!((measures.kinetic - 1.5 * 1.44 * (n - 1.0)).abs() < 1e-6 * n);
}

/// Momentum is conserved to round-off of the velocities, and energy to the error of the method.
#[test]
fn momentum_and_energy_are_conserved() {
    let mut particles = Lattice::Fcc.fill([6, 6, 6], 0.8442);
    set_maxwell_velocities(&mut particles, &[1.0], 1.44, 5);
    for precision in [PairPrecision::Mixed, PairPrecision::Double] {
        let settings = FluidSettings { precision, ..plain_settings(Truncation::Switched { start: 0.8 }) };
        let mut fluid = HostFluid::new(particles.clone(), &settings);
        let start = fluid.measure();
        fluid.advance(0.002, 0, 1000).unwrap();
        let end = fluid.measure();
        let n = particles.len() as f64;
        assert!(end.momentum.iter().all(|p| p.abs() < 1e-9 * n), "{:?}", end.momentum);
        let drift = (end.kinetic + end.potential - start.kinetic - start.potential) / n;
        assert!(drift.abs() < 1e-4, "{precision:?}: {drift}");
        assert!(end.kinetic < 0.8 * start.kinetic, "the lattice has melted");
        assert!(fluid.rebuilds() > 20, "{}", fluid.rebuilds());
    }
}

/// Lists that are built at other times, and all pairs, give the same trajectory.
#[test]
fn trajectories_do_not_depend_on_the_search_for_pairs() {
    let mut particles = Lattice::Fcc.fill([4, 5, 6], 0.7);
    set_maxwell_velocities(&mut particles, &[1.0], 1.2, 2);
    let reference = plain_settings(Truncation::Shifted);
    let run = |settings: FluidSettings| {
        let mut fluid = HostFluid::new(particles.clone(), &settings);
        fluid.advance(0.005, 0, 60).unwrap();
        (fluid.particles(), fluid.measure())
    };
    let expected = run(reference.clone());
    for settings in [
        FluidSettings { skin: 0.1, ..reference.clone() },
        FluidSettings { skin: 0.9, ..reference.clone() },
        FluidSettings { search: PairSearch::AllPairs, ..reference },
    ] {
        assert!(run(settings) == expected);
    }
}

/// A droplet in an open box: particles fly away, the box is doubled, and energy is conserved.
#[test]
fn an_open_box_follows_its_particles() {
    let mut particles = Lattice::Fcc.fill([3, 3, 3], 0.9);
    set_maxwell_velocities(&mut particles, &[1.0], 3.0, 4);
    let coordinates = particles.coordinates();
    let high = particles.bounds.lengths;
    let velocity = particles.velocity.clone();
    let mut particles = FluidParticles::at_rest(SimulationBox::open([0.0; 3], high, 3), &coordinates);
    particles.velocity = velocity;
    let before = particles.bounds;
    let mut fluid = HostFluid::new(particles, &plain_settings(Truncation::Shifted));
    let start = fluid.measure();
    fluid.advance(0.004, 0, 2500).unwrap();
    assert!(fluid.bounds().lengths[0] > before.lengths[0]);
    let end = fluid.measure();
    let change = end.kinetic + end.potential - start.kinetic - start.potential;
    assert!(change.abs() < 1e-3 * start.kinetic, "{change}");
}

/// The virial is the derivative of the energy with the volume: p V = 2/3 K + W / 3, where the
/// configurational part is −dU/dV at fixed fractions.
#[test]
fn the_virial_is_the_derivative_of_the_energy_with_volume() {
    for lattice in [Lattice::Fcc, Lattice::Square] {
        let mut particles = lattice.fill([5, 6, 5], 0.8);
        set_maxwell_velocities(&mut particles, &[1.0], 1.0, 9);
        let settings = plain_settings(Truncation::Switched { start: 0.8 });
        let mut fluid = HostFluid::new(particles, &settings);
        fluid.advance(0.004, 0, 30).unwrap();
        let particles = fluid.particles();
        let dimensions = particles.bounds.dimensions;
        let h = 1e-5;
        let energy = |factor: f64| {
            let mut scaled = particles.clone();
            scaled.bounds.lengths[..dimensions].iter_mut().for_each(|length| *length *= factor);
            HostFluid::new(scaled, &settings).measure().potential
        };
        // dU/d(ln L) = -W.
        let slope = (energy(1.0 + h) - energy(1.0 - h)) / (2.0 * h);
        let virial = fluid.measure().virial;
        assert!((slope + virial).abs() < 1e-5 * (1.0 + virial.abs()), "{slope} {virial}");
    }
}

#[test]
fn an_exploding_system_names_the_particle() {
    let bounds = SimulationBox::periodic([10.0; 3], 3);
    let coordinates = orrery_model::Vec3s { x: vec![1.0, 1.3, 5.0], y: vec![1.0; 3], z: vec![1.0; 3] };
    let mut particles = FluidParticles::at_rest(bounds, &coordinates);
    particles.id = vec![7, 8, 9];
    let mut fluid = HostFluid::new(particles, &plain_settings(Truncation::Truncated));
    let error = fluid.advance(0.005, 40, 10).unwrap_err();
    assert!(error.id == 7 && error.axis == 0 && error.step == 40, "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("particle {} has the velocity ", error.id)), "{text}");
    assert!(
        text.contains(" along x after step 40, and would move beyond its neighbours in one step"),
        "{text}"
    );
}

#[test]
#[ignore = "prints times"]
fn speed_of_the_melt() {
    let mut particles = Lattice::Fcc.fill([20, 20, 20], 0.8442);
    set_maxwell_velocities(&mut particles, &[1.0], 1.44, 5);
    for skin in [0.2, 0.3, 0.4, 0.5] {
        let settings = FluidSettings { skin, ..plain_settings(Truncation::Truncated) };
        let mut fluid = HostFluid::new(particles.clone(), &settings);
        fluid.advance(0.005, 0, 200).unwrap();
        let (before, start) = (fluid.rebuilds(), std::time::Instant::now());
        fluid.advance(0.005, 0, 200).unwrap();
        let rate = 200.0 * 32000.0 / start.elapsed().as_secs_f64();
        let t = std::time::Instant::now();
        let _ = fluid.measure();
        println!(
            "skin {skin}: {rate:.3e} atom-steps/s, {} builds, measure {:?}",
            fluid.rebuilds() - before,
            t.elapsed()
        );
    }
}

/// Mean and variance of the kinetic energy are those of the canonical ensemble, and components of
/// velocities are normal: their fourth moment is three times the square of the second.
#[test]
fn thermostats_give_the_canonical_distribution_of_velocities() {
    let kt = 0.9;
    for ensemble in
        [Ensemble::Langevin { kt, friction: 2.0, seed: 3 }, Ensemble::Rescaling { kt, time: 0.1, seed: 3 }]
    {
        let mut particles = Lattice::Fcc.fill([3, 3, 3], 0.6);
        set_maxwell_velocities(&mut particles, &[1.0], 0.5, 5);
        let settings =
            FluidSettings { ensemble, search: PairSearch::AllPairs, ..plain_settings(Truncation::Shifted) };
        let mut fluid = HostFluid::new(particles, &settings);
        let freedom = fluid.degrees_of_freedom();
        fluid.advance(0.005, 0, 600).unwrap();
        let (mut count, mut mean, mut square, mut second, mut fourth) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for sample in 0..400 {
            fluid.advance(0.005, 600 + 25 * sample, 25).unwrap();
            let kinetic = fluid.motion().0;
            count += 1.0;
            mean += kinetic;
            square += kinetic * kinetic;
            let velocity = fluid.particles().velocity;
            for v in velocity.x.iter().chain(&velocity.y).chain(&velocity.z) {
                second += v * v;
                fourth += v.powi(4);
            }
        }
        let (mean, square) = (mean / count, square / count);
        let (expected, variance) = (0.5 * freedom * kt, 0.5 * freedom * kt * kt);
        // Samples are 0.125 apart, about the time in which both thermostats forget the energy: at
        // least a quarter of them are independent.
        let error = (variance * 4.0 / count).sqrt();
        assert!((mean - expected).abs() < 5.0 * error, "{ensemble:?}: {mean} {expected} {error}");
        let found = square - mean * mean;
        assert!((found / variance - 1.0).abs() < 5.0 * (2.0 * 4.0 / count).sqrt(), "{ensemble:?}: {found}");
        let samples = 324.0 * count;
        let ratio = (fourth / samples) / (second / samples).powi(2);
        assert!((ratio - 3.0).abs() < 0.1, "{ensemble:?}: {ratio}");
    }
}

/// Steps of a thermostat do not depend on how they are divided into calls.
#[test]
fn thermostats_continue_where_they_stopped() {
    for ensemble in [
        Ensemble::Langevin { kt: 1.0, friction: 1.0, seed: 9 },
        Ensemble::Rescaling { kt: 1.0, time: 0.2, seed: 9 },
    ] {
        let mut particles = Lattice::Fcc.fill([4, 4, 4], 0.7);
        set_maxwell_velocities(&mut particles, &[1.0], 1.0, 5);
        let settings = FluidSettings { ensemble, ..plain_settings(Truncation::Shifted) };
        let mut whole = HostFluid::new(particles.clone(), &settings);
        whole.advance(0.005, 0, 30).unwrap();
        let mut parts = HostFluid::new(particles, &settings);
        parts.advance(0.005, 0, 11).unwrap();
        let mut parts = HostFluid::new(parts.particles(), &settings);
        parts.advance(0.005, 11, 19).unwrap();
        assert!(whole.particles() == parts.particles(), "{ensemble:?}");
    }
}

fn minimised(particles: FluidParticles, settings: &FluidSettings, force: f64) -> (Minimiser, MinimiseEnd) {
    let limits = MinimiseLimits { largest_force: force, steps: 20_000 };
    let mut minimiser = Minimiser::new(particles, settings, limits);
    let end = minimiser.run(&mut |_| true).unwrap();
    (minimiser, end)
}

/// Random particles overlap. At the minimum no force is larger than the limit, and the energy is
/// that of a dense fluid.
#[test]
fn minimisation_separates_overlapping_particles() {
    for dimensions in [2, 3] {
        let mut bounds = SimulationBox::periodic([9.0; 3], dimensions);
        bounds.lengths[2] = if dimensions == 2 { 1.0 } else { 9.0 };
        let n = (0.7 * bounds.volume()) as usize;
        let particles = random_positions(bounds, n, 6);
        let settings = plain_settings(Truncation::Switched { start: 0.8 });
        let (minimiser, end) = minimised(particles, &settings, 0.01);
        let state = minimiser.state();
        assert!(end == MinimiseEnd::Converged && state.largest_force <= 0.01, "{state:?}");
        assert!(state.energy < -1.5, "{state:?}");
        let particles = minimiser.into_particles();
        assert!(particles.velocity.iter().all(|v| v == [0.0; 3]));
        HostFluid::new(particles, &settings).advance(0.004, 0, 100).unwrap();
    }
}

/// A dense random start. The liquid has about -5.6 epsilon per particle at the triple point, and
/// minima of the energy at this density, the glass, about -7. FIRE without a floor of the step
/// stayed at +5.7.
#[test]
fn a_dense_random_start_reaches_the_energy_of_the_glass() {
    let n = 864;
    let side = (n as f64 / 1.05f64).cbrt();
    let particles = random_positions(SimulationBox::periodic([side; 3], 3), n, 1);
    for (mass, precision) in
        [(1.0, PairPrecision::Mixed), (1e-26, PairPrecision::Mixed), (1.0, PairPrecision::Double)]
    {
        let settings = FluidSettings { mass: vec![mass], precision, ..plain_settings(Truncation::Truncated) };
        let (minimiser, end) = minimised(particles.clone(), &settings, 1.0);
        let state = minimiser.state();
        println!("{state:?}");
        assert!(end == MinimiseEnd::Converged && state.energy < -6.9, "{state:?}");
        assert!(state.steps < 1500, "{state:?}");
    }
}

/// Limits below the quantum of the forces of mixed precision, 2^-16 ε/σ, are reached with forces in
/// f64. Before, neither precision converged.
#[test]
fn minimisation_reaches_forces_below_the_quantum_of_mixed_precision() {
    let particles = random_positions(SimulationBox::periodic([5.0; 3], 3), 90, 5);
    for precision in [PairPrecision::Mixed, PairPrecision::Double] {
        for limit in [1e-5, 1e-10] {
            let settings = FluidSettings { precision, ..plain_settings(Truncation::Switched { start: 0.8 }) };
            let (minimiser, end) = minimised(particles.clone(), &settings, limit);
            let state = minimiser.state();
            println!("{precision:?}: {state:?}");
            assert!(end == MinimiseEnd::Converged && state.largest_force <= limit, "{state:?}");
        }
    }
}

/// The result depends on the particles only: not on threads, the skin, or the order of the lists.
#[test]
fn minimisation_gives_the_same_bits_for_any_threads_and_lists() {
    let side = 600f64.cbrt();
    let particles = random_positions(SimulationBox::periodic([side; 3], 3), 600, 4);
    let settings = plain_settings(Truncation::Truncated);
    let found = |threads: usize, skin: f64, search: PairSearch| {
        let settings = FluidSettings { skin, search, ..settings.clone() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let limits = MinimiseLimits { largest_force: 1e-3, steps: 120 };
            let mut minimiser = Minimiser::new(particles.clone(), &settings, limits);
            assert_eq!(minimiser.run(&mut |_| true).unwrap(), MinimiseEnd::StepLimit);
            minimiser.into_particles()
        })
    };
    let expected = found(1, 0.3, PairSearch::Lists);
    assert!(found(3, 0.3, PairSearch::Lists) == expected);
    assert!(found(2, 0.6, PairSearch::Lists) == expected);
    assert!(found(2, 0.3, PairSearch::AllPairs) == expected);
}

#[test]
fn a_minimisation_can_be_stopped() {
    let particles = random_positions(SimulationBox::periodic([6.0; 3], 3), 100, 4);
    let limits = MinimiseLimits { largest_force: 1e-6, steps: 100 };
    let mut minimiser = Minimiser::new(particles, &plain_settings(Truncation::Truncated), limits);
    let mut left = 7;
    let end = minimiser.run(&mut |_| {
        left -= 1;
        left >= 0
    });
    assert_eq!((end.unwrap(), minimiser.state().steps), (MinimiseEnd::Stopped, 7));
    assert_eq!(minimiser.run(&mut |_| true).unwrap(), MinimiseEnd::StepLimit);
}
