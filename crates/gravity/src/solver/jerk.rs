//! Accelerations and their time derivatives (jerks) as a direct sum in f64, for Hermite's method:
//!
//!   a = G Σ m d/ρ³,   j = G Σ m (v/ρ³ − 3 (d·v) d/ρ⁵),   d = x_j − x_i,  v = v_j − v_i.

use std::time::Instant;

use orrery_cluster::ClusterError;
use orrery_model::Vec3s;
use rayon::prelude::*;

use super::{ForceProblem, on_one_rank};
use crate::share::SharedEvaluation;

/// Returns the accelerations and jerks of all bodies.
pub fn accelerations_and_jerks(problem: &ForceProblem, velocity: &Vec3s) -> (Vec3s, Vec3s) {
    on_one_rank(|alone| shared_accelerations_and_jerks(problem, velocity, alone))
}

/// Does [`accelerations_and_jerks`] together with other ranks. Every rank computes those of some
/// bodies.
pub(crate) fn shared_accelerations_and_jerks(
    problem: &ForceProblem,
    velocity: &Vec3s,
    evaluation: SharedEvaluation<'_>,
) -> Result<(Vec3s, Vec3s), ClusterError> {
    let n = problem.mass.len();
    let mut results = vec![[[0.0; 3]; 2]; n];
    let parts = evaluation.divide(n, |target| target);
    let start = Instant::now();
    let own = parts.own();
    results[own.clone()].par_iter_mut().zip(own).with_min_len(16).for_each(|(result, target)| {
        *result = acceleration_and_jerk(problem, velocity, target);
    });
    evaluation.complete(start.elapsed().as_secs_f64(), &mut results, &parts)?;
    let (mut acceleration, mut jerk) = (Vec3s::zeros(n), Vec3s::zeros(n));
    for (i, [a, j]) in results.into_iter().enumerate() {
        acceleration.set(i, a);
        jerk.set(i, j);
    }
    Ok((acceleration, jerk))
}

fn acceleration_and_jerk(problem: &ForceProblem, velocity: &Vec3s, target: usize) -> [[f64; 3]; 2] {
    let (target_x, target_v) = (problem.position.get(target), velocity.get(target));
    let (mut acceleration, mut jerk) = ([0.0; 3], [0.0; 3]);
    for source in (0..problem.mass.len()).filter(|&source| source != target) {
        let (source_x, source_v) = (problem.position.get(source), velocity.get(source));
        let d: [f64; 3] = std::array::from_fn(|c| source_x[c] - target_x[c]);
        let v: [f64; 3] = std::array::from_fn(|c| source_v[c] - target_v[c]);
        let rho2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + problem.eps * problem.eps;
        let gm_inv_rho3 = problem.g * problem.mass[source] / (rho2 * rho2.sqrt());
        let dv3_inv_rho2 = 3.0 * (d[0] * v[0] + d[1] * v[1] + d[2] * v[2]) / rho2;
        for c in 0..3 {
            acceleration[c] += gm_inv_rho3 * d[c];
            jerk[c] += gm_inv_rho3 * (v[c] - dv3_inv_rho2 * d[c]);
        }
    }
    [acceleration, jerk]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::{reference, tests::cluster};

    /// Compares accelerations with the reference, and jerks with its central difference along the
    /// motion.
    #[test]
    fn jerk_is_the_derivative_of_the_acceleration() {
        let n = 50;
        let ((position, mass), (velocity, _)) = (cluster(n, 1), cluster(n, 2));
        let accelerations_after = |dt: f64| {
            let move_by = |x: &[f64], v: &[f64]| x.iter().zip(v).map(|(x, v)| x + dt * v).collect();
            let moved = Vec3s {
                x: move_by(&position.x, &velocity.x),
                y: move_by(&position.y, &velocity.y),
                z: move_by(&position.z, &velocity.z),
            };
            let problem =
                ForceProblem { position: &moved, mass: &mass, g: 1.5, eps: 0.1, with_potential: false };
            (0..n).map(|i| reference::force_on(&problem, i).0).collect::<Vec<_>>()
        };
        let problem =
            ForceProblem { position: &position, mass: &mass, g: 1.5, eps: 0.1, with_potential: false };
        let (acceleration, jerk) = accelerations_and_jerks(&problem, &velocity);
        let (now, before, after) =
            (accelerations_after(0.0), accelerations_after(-1e-5), accelerations_after(1e-5));
        for i in 0..n {
            for c in 0..3 {
                assert!((acceleration.get(i)[c] - now[i][c]).abs() < 1e-13 * now[i][c].abs() + 1e-13);
                let difference = (after[i][c] - before[i][c]) / 2e-5;
                assert!((jerk.get(i)[c] - difference).abs() < 1e-5 * (1.0 + difference.abs()), "{i} {c}");
            }
        }
    }
}
