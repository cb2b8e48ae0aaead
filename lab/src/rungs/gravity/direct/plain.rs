//! All pairs as a beginner writes them in C: one thread, an array of structures, two loops.
//!
//! a_i = Σ_{j ≠ i} m_j (x_j − x_i) / (|x_j − x_i|² + eps²)^{3/2}, in f32
//!
//! A pair takes 20 flops, a square root and a division, and its time is that of the last two.
//! This is the first rung of the ladder and no solver of a run: coordinates are rounded to f32 in
//! the user's units, so lengths and masses must be within the range of f32.
//!
//! Nothing here prevents vectorisation, because the compiler does not vectorise the loop over
//! pairs: sums in another order would have other rounding errors. With opt-level 3 it computes x
//! and y of one pair in one register. The rate is the same without that
//! (`-C no-vectorize-slp`, 2.3e8 to 3.1e8 pairs/s at 2.8 GHz either way).

use orrery_gravity::solver::ForceProblem;
use orrery_model::Vec3s;

/// A body as the course declares it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Body {
    mass: f32,
    x: f32,
    y: f32,
    z: f32,
    // The program of the course integrates in the same array.
    _velocity: [f32; 3],
    ax: f32,
    ay: f32,
    az: f32,
}

/// Bytes of a body in the array.
pub const BYTES_PER_BODY: usize = size_of::<Body>();

/// Returns the accelerations of all bodies, in the order of `problem`.
pub fn accelerations(problem: &ForceProblem) -> Vec3s {
    let to_body = |([x, y, z], mass): ([f64; 3], &f64)| Body {
        mass: *mass as f32,
        x: x as f32,
        y: y as f32,
        z: z as f32,
        ..Body::default()
    };
    let mut bodies: Vec<Body> = problem.position.iter().zip(problem.mass).map(to_body).collect();
    sum_pairs(&mut bodies, (problem.eps * problem.eps) as f32);
    let mut acceleration = Vec3s::default();
    for body in &bodies {
        acceleration.push([body.ax, body.ay, body.az].map(|a| problem.g * f64::from(a)));
    }
    acceleration
}

/// Writes the sums over all pairs with G = 1.
fn sum_pairs(bodies: &mut [Body], eps2: f32) {
    for i in 0..bodies.len() {
        let Body { x, y, z, .. } = bodies[i];
        let (mut ax, mut ay, mut az) = (0.0, 0.0, 0.0);
        for j in 0..bodies.len() {
            if i != j {
                let (dx, dy, dz) = (bodies[j].x - x, bodies[j].y - y, bodies[j].z - z);
                let r2 = dx * dx + dy * dy + dz * dz;
                let inv_r = 1.0 / (r2 + eps2).sqrt();
                let weight = bodies[j].mass * inv_r * inv_r * inv_r;
                ax += dx * weight;
                ay += dy * weight;
                az += dz * weight;
            }
        }
        bodies[i].ax = ax;
        bodies[i].ay = ay;
        bodies[i].az = az;
    }
}

#[cfg(test)]
mod tests {
    use orrery_gravity::accuracy::ErrorBounds;
    use orrery_model::Precision;

    use super::*;
    use crate::rungs::gravity::test_system::{LectureSystem, with_one_nan};

    #[test]
    fn plain_loops_agree_with_the_reference() {
        for n in [1, 2, 33, 257, 1000] {
            let system = LectureSystem::cluster(n);
            let (problem, expected) = (system.problem(), system.reference_accelerations());
            let found = accelerations(&problem);
            let bounds = ErrorBounds::new(&problem, Precision::Single, 0.0);
            let largest = bounds.largest_error(&found, &expected);
            assert!(largest <= 1.0, "n = {n}: {largest} of its bound");
            for with_nan in with_one_nan(&found) {
                assert!(bounds.largest_error(&with_nan, &expected).is_nan());
            }
        }
    }
}
