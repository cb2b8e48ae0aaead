//! Whole-system tests against known physics, and the functions that they share: settings, runs,
//! distances.
//!
//! The tests are in `tests/`, one file per subject. README.md lists what is checked, with
//! tolerances and measured values. All units have G = 1 unless a test says otherwise.

pub mod fluids;
pub mod golden;
pub mod plates;
pub mod waves;

use orrery_gravity::bodies::Bodies;
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_model::analysis::{kinetic_energy, max_or_nan, potential_energy_direct};
use orrery_model::{Particles, Precision};

/// Returns settings for the direct sum, G = 1.
pub fn direct_settings(eps: f64, precision: Precision) -> GravitySettings {
    GravitySettings {
        g: 1.0,
        eps,
        solver: SolverChoice::Direct,
        acceptance: Acceptance::default(),
        precision,
    }
}

/// Returns settings for the tree with the geometric acceptance, G = 1.
pub fn tree_settings(eps: f64, theta: f64, precision: Precision) -> GravitySettings {
    GravitySettings {
        solver: SolverChoice::Tree,
        acceptance: Acceptance::Geometric { theta },
        ..direct_settings(eps, precision)
    }
}

/// Takes `steps` steps of `dt`.
///
/// # Panics
/// If the state is no longer finite, because every figure measured after that would be meaningless.
pub fn take_steps(bodies: &mut Bodies, method: IntegratorChoice, dt: f64, steps: usize) {
    let outcome = (0..steps).try_for_each(|_| method.step(bodies, dt));
    if let Err(error) = outcome.and_then(|()| bodies.check_finite()) {
        panic!("{method:?}, {steps} steps of {dt}: {error}");
    }
}

/// Runs `task` with this many threads. One thread is fastest for a few bodies, because no other
/// thread must be woken.
///
/// # Panics
/// If the threads cannot be created.
pub fn run_on_threads<T: Send>(threads: usize, task: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads").install(task)
}

/// Returns T + W, as a direct sum in f64 for any solver.
///
/// # Panics
/// If the bodies cannot be read.
pub fn total_energy(bodies: &Bodies) -> f64 {
    let particles = bodies.particles().expect("bodies that can be read");
    kinetic_energy(particles)
        + potential_energy_direct(particles, bodies.gravitational_constant(), bodies.softening())
}

/// Returns 2 T / |W|, as a direct sum in f64.
pub fn virial_ratio(particles: &Particles, g: f64, eps: f64) -> f64 {
    2.0 * kinetic_energy(particles) / -potential_energy_direct(particles, g, eps)
}

/// Returns the order p of an error proportional to dt^p, from the errors at a step and at half of
/// it. For example, errors of 4e-6 and 1e-6 give order 2.
pub fn measured_order(at_step: f64, at_half_step: f64) -> f64 {
    (at_step / at_half_step).log2()
}

/// Returns a − b.
pub fn difference(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|c| a[c] - b[c])
}

/// Returns |v|.
pub fn norm(v: [f64; 3]) -> f64 {
    v.iter().map(|c| c * c).sum::<f64>().sqrt()
}

/// Returns the largest distance between bodies with the same index in `a` and `b`. It is NaN if any
/// distance is NaN.
pub fn largest_distance(a: &Particles, b: &Particles) -> f64 {
    a.position.iter().zip(b.position.iter()).map(|(a, b)| norm(difference(a, b))).fold(0.0, max_or_nan)
}

/// Returns Kolmogorov's D: the largest difference between the empirical distribution of `sample`
/// and the distribution function `cumulative`.
pub fn kolmogorov_gap(mut sample: Vec<f64>, cumulative: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let gap = |(i, &x): (usize, &f64)| {
        let expected = cumulative(x);
        max_or_nan(expected - i as f64 / n, (i + 1) as f64 / n - expected)
    };
    sample.iter().enumerate().map(gap).fold(0.0, max_or_nan)
}

/// Returns the value that D exceeds in one of 1,000 samples of size `n`: P(√n D > x) → 2 exp(−2x²)
/// (Kolmogorov 1933).
pub fn kolmogorov_bound(n: usize) -> f64 {
    (0.5 * 2000f64.ln() / n as f64).sqrt()
}
