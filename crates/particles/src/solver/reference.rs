//! The sum written plainly in f64: what "right" means.
//!
//!   a_i = G Σ_{j≠i} m_j (x_j − x_i) / ρ³,   φ_i = −G Σ_{j≠i} m_j / ρ,   ρ² = |x_j − x_i|² + eps²

use rayon::prelude::*;

use orrery_model::Vec3s;

use super::Problem;

/// Acceleration and potential of body `i`.
pub fn force_on(problem: &Problem, i: usize) -> ([f64; 3], f64) {
    let (mut acceleration, mut potential) = ([0.0; 3], 0.0);
    let target = problem.position.get(i);
    for (j, source) in problem.position.iter().enumerate() {
        if j == i {
            continue;
        }
        let d: [f64; 3] = std::array::from_fn(|c| source[c] - target[c]);
        let rho2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + problem.eps * problem.eps;
        let rho = rho2.sqrt();
        let m = problem.g * problem.mass[j];
        for c in 0..3 {
            acceleration[c] += m * d[c] / (rho2 * rho);
        }
        potential -= m / rho;
    }
    (acceleration, potential)
}

/// Accelerations and potentials of the bodies `sample`.
pub fn forces_on(problem: &Problem, sample: &[usize]) -> (Vec3s, Vec<f64>) {
    let results: Vec<_> = sample.par_iter().map(|&i| force_on(problem, i)).collect();
    let mut acceleration = Vec3s::default();
    results.iter().for_each(|&(a, _)| acceleration.push(a));
    (acceleration, results.into_iter().map(|(_, potential)| potential).collect())
}
