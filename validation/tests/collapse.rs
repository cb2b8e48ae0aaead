//! A cold sphere falls into its centre: where rounding shows in the energy.
//!
//! 1024 bodies in a sphere of radius 1, softening 1/8, to t = 1.5: through the collapse at t_ff = 1.11 and out
//! again. By then |W| is twice what it was, so forces that are too weak by a share b leave a share b in the
//! energy. The energy is measured by the f64 sum over all pairs, whatever computed the forces.

use orrery_model::ic::UniformSphere;
use orrery_model::{Particle, Particles, Species};
use orrery_particles::bodies::Bodies;
use orrery_particles::settings::IntegratorChoice::{self, Leapfrog, Yoshida6};
use orrery_particles::settings::Precision;
use orrery_validation::{advance, direct, energy, measured_order};

const END: f64 = 1.5;
const SOFTENING: f64 = 0.125;

fn sphere() -> Particles {
    UniformSphere { n: 1024, ..UniformSphere::default() }.generate(1.0).unwrap()
}

/// (E − E₀) / E₀ at the end.
fn energy_error(start: &Particles, precision: Precision, method: IntegratorChoice, steps: usize) -> f64 {
    let mut bodies = Bodies::new(start.clone(), &direct(SOFTENING, precision), None).unwrap();
    let before = energy(&bodies);
    advance(&mut bodies, method, END / steps as f64, steps);
    (energy(&bodies) - before) / before
}

/// In f64 the error is leapfrog's alone, so halving the step quarters it; a sixth-order method takes it below
/// 2e-11, where f32 forces cannot follow.
#[test]
fn in_double_the_error_falls_with_the_step() {
    let error = |method, steps| energy_error(&sphere(), Precision::Double, method, steps);
    let (coarse, fine, sixth) = (error(Leapfrog, 500), error(Leapfrog, 1000), error(Yoshida6, 300));
    let order = measured_order(coarse, fine);
    println!(
        "double: leapfrog {coarse:.2e}, {fine:.2e} at half the step (order {order:.2}); Yoshida-6 {sixth:.1e}"
    );
    assert!((order - 2.0).abs() < 0.1, "order {order}: {coarse}, {fine}");
    assert!(sixth.abs() < 2e-11, "Yoshida-6: {sixth}");
}

/// With f32 forces and f64 state there is a floor that no step gets below: what the error differs by from that of
/// f64 at the same step. Rounding is random and averages out over 10⁶ pairs a step; what stays is bias. Where
/// the inverse square root is refined from 14 bits by one term of its series, the next term, 15/8 e², is lost: up
/// to 3e-8, on average below 1e-8. A constant rounded to f32 the same way for every pair would show as 2⁻²⁴ = 6e-8.
#[test]
fn f32_forces_have_a_floor() {
    let start = sphere();
    let error = |precision| energy_error(&start, precision, Leapfrog, 750);
    let double = error(Precision::Double);
    for precision in [Precision::Single, Precision::Mixed] {
        let floor = (error(precision) - double).abs();
        println!("{precision:?}: floor {floor:.1e}");
        assert!(floor < 1e-8, "{precision:?}: floor {floor}");
        assert!(floor > 2e-11, "{precision:?}: floor {floor}, below what f32 can do");
    }
}

/// One body far away coarsens the f32 grid of `single` to 4096 × 2⁻²⁴ = 2e-4 for all others. The frames of `mixed`
/// are local and do not notice.
#[test]
fn a_far_body_costs_single_its_digits_and_mixed_nothing() {
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
    println!("with a far body: single {single:.1e}, mixed {mixed:.1e}");
    assert!(mixed < 1e-8, "mixed: floor {mixed}");
    assert!(single > 10.0 * mixed, "single {single}, mixed {mixed}");
}
