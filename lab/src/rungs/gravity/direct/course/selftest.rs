//! Check of the steps of the course's program against steps in f64.

use orrery_device::Device;
use orrery_gravity::solver::{ForceProblem, reference};
use orrery_model::Vec3s;
use orrery_model::rng::Draws;

use super::{CourseProgram, CourseSteps};

const STEPS: usize = 10;
const DT: f64 = 1e-3;
/// Softening length. The total mass is 1, so accelerations are below 0.385 / eps² = 38.5.
const EPS: f64 = 0.1;

/// Largest error of a coordinate, of which all are below 1.
///
/// Each step rounds a coordinate and its change to 2^-24. An acceleration of 38.5 with a relative
/// error of 1e-5, a hundred roundings of a term, moves a body by (1 + 2 + ... + 10) dt² of its
/// error. Accelerations of 1 move bodies by 5.5e-5, which is much more than the tolerance.
const TOLERANCE: f64 = STEPS as f64 * 2.0 / (1 << 24) as f64 + 55.0 * DT * DT * 38.5 * 1e-5;

/// Compares the positions after a few steps.
pub(in crate::rungs::gravity::direct) fn check_steps(
    device: &Device,
    program: CourseProgram,
) -> Result<(), String> {
    for n in [1, 33, 256, 500] {
        let position = random_positions(n);
        let mass = vec![1.0 / n as f64; n];
        let found = CourseSteps::new(device, program, &position, &mass, EPS, DT).and_then(|steps| {
            (0..STEPS).try_for_each(|_| steps.queue_step())?;
            steps.positions()
        });
        let found = found.map_err(|error| error.to_string())?;
        let expected = reference_steps(position, &mass);
        for (i, (found, expected)) in found.iter().zip(expected.iter()).enumerate() {
            let is_close = (0..3).all(|c| (found[c] - expected[c]).abs() <= TOLERANCE);
            if !is_close {
                return Err(format!("n = {n}: body {i} is at {found:?}, expected {expected:?}"));
            }
        }
    }
    Ok(())
}

/// Returns positions in a cube, rounded to f32.
fn random_positions(n: usize) -> Vec3s {
    let mut position = Vec3s::default();
    for i in 0..n as u64 {
        let mut draws = Draws::new(n as u64, 3, i);
        position.push([(); 3].map(|()| f64::from((draws.uniform() - 0.5) as f32)));
    }
    position
}

/// Returns the positions after all steps in f64.
fn reference_steps(mut position: Vec3s, mass: &[f64]) -> Vec3s {
    let bodies: Vec<usize> = (0..mass.len()).collect();
    let mut velocity = vec![[0.0; 3]; mass.len()];
    for _ in 0..STEPS {
        let problem = ForceProblem { position: &position, mass, g: 1.0, eps: EPS, with_potential: false };
        let acceleration = reference::forces_on(&problem, &bodies).0;
        for (i, a) in acceleration.iter().enumerate() {
            velocity[i] = std::array::from_fn(|c| velocity[i][c] + a[c] * DT);
            let x = position.get(i);
            position.set(i, std::array::from_fn(|c| x[c] + velocity[i][c] * DT));
        }
    }
    position
}
