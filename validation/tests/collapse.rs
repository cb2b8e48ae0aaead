//! Collapse of a cold sphere, where rounding errors of the forces are visible in the energy.
//!
//! 1024 bodies in a sphere of radius 1 with softening 1/8 are followed to t = 1.5, through the
//! collapse at t_ff = 1.11 and the expansion after it. |W| doubles in that time. Forces that are
//! too weak by a fraction b therefore cause a relative energy error of b. The energy is a direct
//! sum in f64 for any arithmetic of the forces.

use orrery_gravity::bodies::Bodies;
use orrery_gravity::settings::IntegratorChoice::{self, Leapfrog, Yoshida6};
use orrery_model::ic::UniformSphere;
use orrery_model::{Particle, Particles, Precision, Species};
use orrery_validation::{direct_settings, measured_order, take_steps, total_energy};

const END: f64 = 1.5;
const SOFTENING: f64 = 0.125;

fn sphere() -> Particles {
    UniformSphere { n: 1024, ..UniformSphere::default() }.generate(1.0).unwrap()
}

/// Returns (E − E₀) / E₀ at the end.
fn energy_error(start: &Particles, precision: Precision, method: IntegratorChoice, steps: usize) -> f64 {
    let mut bodies = Bodies::new(start.clone(), &direct_settings(SOFTENING, precision), None).unwrap();
    let before = total_energy(&bodies);
    take_steps(&mut bodies, method, END / steps as f64, steps);
    (total_energy(&bodies) - before) / before
}

/// In f64 the error is that of leapfrog alone, so halving the step quarters it. A sixth-order
/// method reaches errors below 2e-11, which f32 forces cannot.
#[test]
fn energy_error_in_f64_is_that_of_the_integrator() {
    let error = |method, steps| energy_error(&sphere(), Precision::Double, method, steps);
    let (coarse, fine, sixth) = (error(Leapfrog, 500), error(Leapfrog, 1000), error(Yoshida6, 300));
    let order = measured_order(coarse, fine);
    println!(
        "double: leapfrog {coarse:.2e}, {fine:.2e} at half the step (order {order:.2}); Yoshida-6 {sixth:.1e}"
    );
    assert!((order - 2.0).abs() < 0.1, "order {order}: {coarse}, {fine}");
    assert!(sixth.abs() < 2e-11, "Yoshida-6: {sixth}");
}

/// f32 forces with an f64 state have a floor of the energy error that does not depend on the step:
/// the difference from the error in f64 at the same step.
///
/// Random rounding errors average out over 10⁶ pairs per step, so the floor is due to bias. Where
/// one term of the series refines an estimate of the inverse square root from 14 bits, the next
/// term, 15/8 e², is dropped. It is up to 3e-8, and on average below 1e-8. For example, a constant
/// that is rounded to f32 in the same way for every pair would cause a floor of 2⁻²⁴ = 6e-8.
#[test]
fn energy_error_of_f32_forces_has_a_floor_below_1e_8() {
    let start = sphere();
    let error = |precision| energy_error(&start, precision, Leapfrog, 750);
    let double = error(Precision::Double);
    for precision in [Precision::Single, Precision::Mixed] {
        let floor = (error(precision) - double).abs();
        println!("{precision:?}: floor {floor:.1e}");
        assert!(floor < 1e-8, "{precision:?}: floor {floor}");
        assert!(floor > 2e-11, "{precision:?}: floor {floor}, below the rounding error of f32");
    }
}

/// One distant body coarsens the spacing of f32 coordinates in `single` to 4096 × 2⁻²⁴ = 2e-4 for
/// all others. The frames of `mixed` are local and are not affected.
#[test]
fn a_distant_body_degrades_single_but_not_mixed_precision() {
    let mut start = sphere();
    start.push(Particle {
        position: [3000.0, 0.0, 0.0],
        velocity: [0.0; 3],
        mass: 1e-12,
        id: 1024,
        species: Species::Halo,
    });
    let error = |precision| energy_error(&start, precision, Leapfrog, 250);
    let double = error(Precision::Double);
    let [single, mixed] = [Precision::Single, Precision::Mixed].map(|p| (error(p) - double).abs());
    println!("with a distant body: single {single:.1e}, mixed {mixed:.1e}");
    assert!(mixed < 1e-8, "mixed: floor {mixed}");
    assert!(single > 10.0 * mixed, "single {single}, mixed {mixed}");
}
