//! Reference implementation of the forces: the direct sum in f64, written as the equation.
//!
//!   a_i = G Σ_{j≠i} m_j (x_j − x_i) / ρ³,   φ_i = −G Σ_{j≠i} m_j / ρ,   ρ² = |x_j − x_i|² + eps²

use rayon::prelude::*;

use orrery_model::Vec3s;

use super::ForceProblem;

/// Returns acceleration and potential of the body `target`.
pub fn force_on(problem: &ForceProblem, target: usize) -> ([f64; 3], f64) {
    let (mut acceleration, mut potential) = ([0.0; 3], 0.0);
    let target_x = problem.position.get(target);
    for (source, source_x) in problem.position.iter().enumerate() {
        if source == target {
            continue;
        }
        let d: [f64; 3] = std::array::from_fn(|c| source_x[c] - target_x[c]);
        let rho2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + problem.eps * problem.eps;
        let rho = rho2.sqrt();
        let gm = problem.g * problem.mass[source];
        for c in 0..3 {
            acceleration[c] += gm * d[c] / (rho2 * rho);
        }
        potential -= gm / rho;
    }
    (acceleration, potential)
}

/// Returns accelerations and potentials of the bodies with indices `sample`, one entry per index.
pub fn forces_on(problem: &ForceProblem, sample: &[usize]) -> (Vec3s, Vec<f64>) {
    let results: Vec<_> = sample.par_iter().map(|&i| force_on(problem, i)).collect();
    let mut acceleration = Vec3s::default();
    results.iter().for_each(|&(a, _)| acceleration.push(a));
    (acceleration, results.into_iter().map(|(_, potential)| potential).collect())
}
