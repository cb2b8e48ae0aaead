//! Accelerations and their time derivatives, all pairs in f64, for Hermite's scheme:
//!
//!   a = G Σ m d/ρ³,   j = G Σ m (v/ρ³ − 3 (d·v) d/ρ⁵),   d = x_j − x_i,  v = v_j − v_i.

use rayon::prelude::*;

use orrery_model::Vec3s;

use super::Problem;

/// Of all bodies.
pub fn accelerations_and_jerks(problem: &Problem, velocity: &Vec3s) -> (Vec3s, Vec3s) {
    let n = problem.mass.len();
    let results: Vec<_> =
        (0..n).into_par_iter().with_min_len(16).map(|i| one(problem, velocity, i)).collect();
    let (mut acceleration, mut jerk) = (Vec3s::zeros(n), Vec3s::zeros(n));
    for (i, (a, j)) in results.into_iter().enumerate() {
        acceleration.set(i, a);
        jerk.set(i, j);
    }
    (acceleration, jerk)
}

fn one(problem: &Problem, velocity: &Vec3s, i: usize) -> ([f64; 3], [f64; 3]) {
    let (x, v) = (problem.position.get(i), velocity.get(i));
    let (mut acceleration, mut jerk) = ([0.0; 3], [0.0; 3]);
    for j in (0..problem.mass.len()).filter(|&j| j != i) {
        let (source, moving) = (problem.position.get(j), velocity.get(j));
        let d: [f64; 3] = std::array::from_fn(|c| source[c] - x[c]);
        let w: [f64; 3] = std::array::from_fn(|c| moving[c] - v[c]);
        let rho2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + problem.eps * problem.eps;
        let m = problem.g * problem.mass[j] / (rho2 * rho2.sqrt());
        let approach = 3.0 * (d[0] * w[0] + d[1] * w[1] + d[2] * w[2]) / rho2;
        for c in 0..3 {
            acceleration[c] += m * d[c];
            jerk[c] += m * (w[c] - approach * d[c]);
        }
    }
    (acceleration, jerk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::{reference, tests::cluster};

    /// The accelerations are those of the reference, the jerks their derivative along the motion (central differences).
    #[test]
    fn jerk_is_the_derivative_of_the_acceleration() {
        let n = 50;
        let ((position, mass), (velocity, _)) = (cluster(n, 1), cluster(n, 2));
        let at = |dt: f64| {
            let move_by = |x: &[f64], v: &[f64]| x.iter().zip(v).map(|(x, v)| x + dt * v).collect();
            let moved = Vec3s {
                x: move_by(&position.x, &velocity.x),
                y: move_by(&position.y, &velocity.y),
                z: move_by(&position.z, &velocity.z),
            };
            let problem = Problem { position: &moved, mass: &mass, g: 1.5, eps: 0.1, with_potential: false };
            (0..n).map(|i| reference::force_on(&problem, i).0).collect::<Vec<_>>()
        };
        let problem = Problem { position: &position, mass: &mass, g: 1.5, eps: 0.1, with_potential: false };
        let (acceleration, jerk) = accelerations_and_jerks(&problem, &velocity);
        let (now, before, after) = (at(0.0), at(-1e-5), at(1e-5));
        for i in 0..n {
            for c in 0..3 {
                assert!((acceleration.get(i)[c] - now[i][c]).abs() < 1e-13 * now[i][c].abs() + 1e-13);
                let difference = (after[i][c] - before[i][c]) / 2e-5;
                assert!((jerk.get(i)[c] - difference).abs() < 1e-5 * (1.0 + difference.abs()), "{i} {c}");
            }
        }
    }
}
