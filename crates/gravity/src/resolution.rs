//! Resolution of `single` precision: whether f32 coordinates can resolve the bodies.
//!
//! `single` rounds coordinates relative to the centre c of the bounding box to f32. The coordinate
//! of body i then has an error of up to
//!
//! δ_i = 2^−24 max_k |x_ik − c_k|
//!
//! A pair force F ∝ d / (d² + eps²)^{3/2} changes on the scale s = max(d, eps), so a shift of δ
//! changes it by about 2 δ/s of itself. The force that is most sensitive is the one between body i
//! and its nearest neighbour, at distance d_i. The measure is
//!
//! q = median_i δ_i / max(d_i, eps)
//!
//! over a sample of bodies. It is an upper estimate of half the median relative error: the sum over
//! distant bodies is less sensitive than the nearest pair. In a line of bodies the nearest pair
//! dominates and the estimate is close. The median ignores close pairs and bodies that are far
//! away, if there are few of them.
//!
//! Close pairs are therefore searched as well: those with max(δ_i, δ_j) / max(d_ij, eps) above a
//! limit. They are nearer than max δ / limit, a tiny part of the system, so few bodies along the
//! longest axis have to be compared.

use orrery_model::Vec3s;
use orrery_model::analysis::max_or_nan;
use rayon::prelude::*;

/// Largest q without a warning: forces of nearest neighbours have errors of about 0.2%. Spheres and
/// galaxies of 20,000 bodies have less than 1e-4.
pub const MAX_SINGLE_ROUNDING: f64 = 1e-3;

/// Largest rounding error of a single pair without a warning: its force has an error of about 2%.
pub const MAX_PAIR_ROUNDING: f64 = 1e-2;

/// Pairs that are compared per body, at most, in the search for close pairs. Denser systems have a
/// large median.
const MAX_COMPARISONS: usize = 256;

/// Number of bodies whose nearest neighbour is searched. Each takes one pass over all bodies.
const SAMPLE: usize = 32;

/// Returns q, the rounding error of f32 coordinates in units of the separation or the softening
/// `eps`. It is 0 for fewer than two bodies.
///
/// ```
/// use orrery_model::Vec3s;
/// use orrery_gravity::resolution::{MAX_SINGLE_ROUNDING, single_rounding};
/// let line = |far: f64| Vec3s { x: vec![0.0, 1.0, 2.0, far], y: vec![0.0; 4], z: vec![0.0; 4] };
/// assert!(single_rounding(&line(3.0), 0.0) < 1e-6);
/// assert!(single_rounding(&line(1e9), 0.0) > MAX_SINGLE_ROUNDING);
/// ```
pub fn single_rounding(position: &Vec3s, eps: f64) -> f64 {
    let n = position.len();
    if n < 2 {
        return 0.0;
    }
    let centre = bounds(position).map(|[low, high]| 0.5 * low + 0.5 * high);
    let sample = SAMPLE.min(n);
    let mut rounding: Vec<f64> = (0..sample)
        .into_par_iter()
        .map(|k| {
            let i = (k as u128 * n as u128 / sample as u128) as usize;
            let error = coordinate_error(position.get(i), centre);
            let separation = nearest_distance(position, i).max(eps);
            // Softened bodies at one position in its centre have no error.
            if error == 0.0 { 0.0 } else { error / separation }
        })
        .collect();
    rounding.sort_by(f64::total_cmp);
    rounding[sample / 2]
}

/// Pairs of bodies whose distance f32 coordinates do not resolve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnresolvedPairs {
    /// Number of pairs that were found.
    pub count: usize,
    /// Rounding error of the worst pair in units of its distance or of the softening.
    pub rounding: f64,
    /// Indices of the bodies of the worst pair.
    pub worst: [usize; 2],
}

/// Returns the pairs whose rounding error is above [`MAX_PAIR_ROUNDING`], or `None` without any.
///
/// ```
/// use orrery_model::Vec3s;
/// use orrery_gravity::resolution::unresolved_pairs;
/// let line = |x: f64| Vec3s { x: vec![0.0, 1.0, 2.0, x], y: vec![0.0; 4], z: vec![0.0; 4] };
/// assert_eq!(unresolved_pairs(&line(3.0), 0.0), None);
/// assert_eq!(unresolved_pairs(&line(2.0 + 1e-7), 0.0).unwrap().worst, [2, 3]);
/// ```
pub fn unresolved_pairs(position: &Vec3s, eps: f64) -> Option<UnresolvedPairs> {
    let n = position.len();
    if n < 2 {
        return None;
    }
    let bounds = bounds(position);
    let centre = bounds.map(|[low, high]| 0.5 * low + 0.5 * high);
    let largest_error = coordinate_error(bounds.map(|[_, high]| high), centre);
    if largest_error <= MAX_PAIR_ROUNDING * eps {
        return None;
    }
    let extent = bounds.map(|[low, high]| high - low);
    let columns = [&position.x, &position.y, &position.z];
    let longest = (0..3).max_by(|&a, &b| extent[a].total_cmp(&extent[b])).unwrap_or(0);
    let mut sorted: Vec<usize> = (0..n).collect();
    sorted.par_sort_by(|&a, &b| columns[longest][a].total_cmp(&columns[longest][b]).then(a.cmp(&b)));
    let reach = largest_error / MAX_PAIR_ROUNDING;
    let mut found = UnresolvedPairs { count: 0, rounding: 0.0, worst: [0; 2] };
    for (k, &i) in sorted.iter().enumerate() {
        for &j in sorted[k + 1..].iter().take(MAX_COMPARISONS) {
            let (x, y) = (position.get(i), position.get(j));
            if y[longest] - x[longest] > reach {
                break;
            }
            let distance = (0..3).map(|axis| (y[axis] - x[axis]).powi(2)).sum::<f64>().sqrt();
            let error = coordinate_error(x, centre).max(coordinate_error(y, centre));
            let rounding = error / distance.max(eps);
            // Bodies at one position without softening have no finite force, which is an error.
            if rounding > MAX_PAIR_ROUNDING && rounding.is_finite() {
                found.count += 1;
                if rounding > found.rounding {
                    (found.rounding, found.worst) = (rounding, [i.min(j), i.max(j)]);
                }
            }
        }
    }
    (found.count > 0).then_some(found)
}

/// Returns the smallest and the largest coordinate of each axis.
fn bounds(position: &Vec3s) -> [[f64; 2]; 3] {
    [&position.x, &position.y, &position.z].map(|column| {
        column.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &x| [low.min(x), high.max(x)])
    })
}

/// Returns the error of the coordinates of a body at `x`, rounded to f32 relative to `centre`.
fn coordinate_error(x: [f64; 3], centre: [f64; 3]) -> f64 {
    let largest = (0..3).map(|k| (x[k] - centre[k]).abs()).fold(0.0, max_or_nan);
    0.5 * f64::from(f32::EPSILON) * largest
}

/// Distance of body `i` to its nearest neighbour.
fn nearest_distance(position: &Vec3s, i: usize) -> f64 {
    let [x, y, z] = position.get(i);
    let square = |j: usize| {
        let (dx, dy, dz) = (position.x[j] - x, position.y[j] - y, position.z[j] - z);
        dx * dx + dy * dy + dz * dz
    };
    let nearest = |range: std::ops::Range<usize>| range.map(square).fold(f64::INFINITY, f64::min);
    nearest(0..i).min(nearest(i + 1..position.len())).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::ForceErrors;
    use crate::settings::{Acceptance, GravitySettings, SolverChoice};
    use crate::solver::{ForceProblem, GravityCpuStrategy, reference};
    use orrery_model::Precision;
    use orrery_model::ic::{Galaxy, Hernquist, Plummer, UniformSphere};
    use orrery_model::rng::Draws;

    /// Median relative error of forces in single precision on the CPU.
    fn median_error(position: &Vec3s, eps: f64, solver: SolverChoice) -> f64 {
        let n = position.len();
        let mass = vec![1.0 / n as f64; n];
        let problem = ForceProblem { position, mass: &mass, g: 1.0, eps, with_potential: false };
        let settings = GravitySettings {
            g: 1.0,
            eps,
            solver,
            acceptance: Acceptance::Geometric { theta: 0.3 },
            precision: Precision::Single,
        };
        let forces = GravityCpuStrategy::resolve(&settings, n).forces(&problem, None);
        let sample: Vec<usize> = (0..n).step_by(n.div_ceil(500)).collect();
        ForceErrors::measure(&forces.acceleration, &sample, &reference::forces_on(&problem, &sample).0).median
    }

    /// Bodies at random positions in a box with these sides.
    fn random_box(n: u64, sides: [f64; 3]) -> Vec3s {
        let mut position = Vec3s::default();
        for i in 0..n {
            let mut draws = Draws::new(1, 0, i);
            position.push(sides.map(|side| side * draws.uniform()));
        }
        position
    }

    /// A filament of length 1000 with softening 1e-3. Its forces have median errors of about 1%.
    #[test]
    fn dense_filament_is_not_resolved_and_the_forces_are_wrong() {
        let filament = random_box(200_000, [1000.0, 1e-3, 1e-3]);
        assert!(single_rounding(&filament, 1e-3) > MAX_SINGLE_ROUNDING);
        // The direct sum has the same error, but takes too long to compute here.
        let error = median_error(&filament, 1e-3, SolverChoice::Tree);
        assert!(error > 3e-3, "{error}");
    }

    /// One body is 1e9 times as far away as the others. All other forces are wrong.
    #[test]
    fn distant_body_is_not_resolved_and_the_forces_are_wrong() {
        let mut position = random_box(1000, [1.0; 3]);
        assert!(single_rounding(&position, 0.0) < MAX_SINGLE_ROUNDING);
        position.push([1e9, 0.0, 0.0]);
        for eps in [1e-3, 0.1] {
            assert!(single_rounding(&position, eps) > 1.0);
            for solver in [SolverChoice::Direct, SolverChoice::Tree] {
                let error = median_error(&position, eps, solver);
                assert!(error > 0.1, "{solver:?}: {error}");
            }
        }
    }

    #[test]
    fn usual_systems_are_resolved_and_the_forces_are_accurate() {
        let n = 20_000;
        let systems = [
            ("plummer", Plummer { n, ..Plummer::default() }.generate(1.0), 0.0),
            ("hernquist", Hernquist { n, ..Hernquist::default() }.generate(1.0), 0.0),
            ("sphere", UniformSphere { n, ..UniformSphere::default() }.generate(1.0), 0.01),
            ("galaxy", Galaxy::default().generate(43_007.1), 0.05),
        ];
        for (name, bodies, eps) in systems {
            let position = bodies.unwrap().position;
            let rounding = single_rounding(&position, eps);
            assert!(rounding < 0.1 * MAX_SINGLE_ROUNDING, "{name}: {rounding}");
            let error = median_error(&position, eps, SolverChoice::Direct);
            assert!(error < MAX_SINGLE_ROUNDING, "{name}: {error}");
        }
        // A sparse filament: the bodies are far apart compared with the rounding error.
        assert!(single_rounding(&random_box(1000, [1000.0, 1.0, 1.0]), 1e-3) < MAX_SINGLE_ROUNDING);
    }

    /// A filament of 1,000 x 1 x 1. The typical body is resolved, the closest pair is not.
    #[test]
    fn closest_pair_of_a_filament_is_not_resolved_and_its_force_is_wrong() {
        let filament = random_box(400_000, [1000.0, 1.0, 1.0]);
        assert!(single_rounding(&filament, 0.0) < MAX_SINGLE_ROUNDING);
        let pairs = unresolved_pairs(&filament, 0.0).unwrap();
        assert!(pairs.rounding > MAX_PAIR_ROUNDING && pairs.rounding < 1.0, "{pairs:?}");
        // The largest force of the pair's component along x, from rounded coordinates.
        let force = |x: [f64; 3], y: [f64; 3]| {
            let d = [0, 1, 2].map(|k| y[k] - x[k]);
            let r2: f64 = d.iter().map(|c| c * c).sum();
            d.map(|c| c / (r2 * r2.sqrt()))
        };
        let centre = bounds(&filament).map(|[low, high]| 0.5 * low + 0.5 * high);
        let [x, y] = pairs.worst.map(|body| filament.get(body));
        let rounded = |x: [f64; 3]| [0, 1, 2].map(|k| f64::from((x[k] - centre[k]) as f32));
        let (expected, found) = (force(x, y), force(rounded(x), rounded(y)));
        let norm = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
        let error = norm([0, 1, 2].map(|k| found[k] - expected[k])) / norm(expected);
        assert!(error > 0.1 * pairs.rounding, "error {error}, {pairs:?}");
        // Softening hides the rounding.
        assert_eq!(unresolved_pairs(&filament, 0.01), None);
    }

    #[test]
    fn pairs_are_counted() {
        let mut position = random_box(1000, [1.0; 3]);
        assert_eq!(unresolved_pairs(&position, 0.0), None);
        for (body, other) in [(3, 900), (17, 5)] {
            let x = position.get(body);
            position.set(other, x.map(|c| c + 1e-7));
        }
        let pairs = unresolved_pairs(&position, 0.0).unwrap();
        assert_eq!(pairs.count, 2);
        assert!([[3, 900], [5, 17]].contains(&pairs.worst), "{pairs:?}");
        assert_eq!(unresolved_pairs(&Vec3s::zeros(1), 0.0), None);
        assert_eq!(unresolved_pairs(&Vec3s::zeros(0), 0.0), None);
    }

    #[test]
    fn few_and_coincident_bodies_are_resolved() {
        let at = |x: &[f64]| Vec3s { x: x.to_vec(), y: vec![0.0; x.len()], z: vec![0.0; x.len()] };
        assert_eq!(single_rounding(&at(&[]), 0.0), 0.0);
        assert_eq!(single_rounding(&at(&[1e30]), 0.0), 0.0);
        assert_eq!(single_rounding(&at(&[5.0, 5.0]), 0.1), 0.0);
        // Far from the origin, but not from each other.
        assert!(single_rounding(&at(&[1e12, 1e12 + 1.0]), 0.0) < 1e-6);
    }
}
