//! Density profiles: the mass in a shell divided by the volume or area of the shell.
//!
//! ρ = m / (4π/3 (r_o³ − r_i³)) in spherical shells
//! Σ = m / (π (R_o² − R_i²)) in rings about the z axis

use std::f64::consts::PI;

use super::lagrangian::distance;
use super::sum::CompensatedSum;
use crate::Particles;

/// Bodies between two radii.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shell {
    /// Inner radius. A body at this radius belongs to the shell.
    pub r_inner: f64,
    /// Outer radius.
    pub r_outer: f64,
    /// Mean radius of the bodies. Without bodies, the middle of the shell.
    pub r_mean: f64,
    /// Number of bodies.
    pub count: usize,
    /// Mass of the bodies.
    pub mass: f64,
    /// Mass per volume, or per area for a surface density.
    pub density: f64,
}

/// Returns the density about `centre` in `bins` shells that together contain every body.
///
/// The first shell is a ball around the innermost 10 bodies, or around 0.1% of the bodies if that
/// is more. The others have equal width in log r, out to the most distant body. If all bodies are
/// at the same radius there are fewer than `bins` shells. Without bodies, or with all bodies at
/// `centre`, there are none, because a shell without a volume has no density.
pub fn density_profile(bodies: &Particles, centre: [f64; 3], bins: usize) -> Vec<Shell> {
    let radius: Vec<f64> = bodies.position.iter().map(|position| distance(position, centre)).collect();
    let mut sorted = radius.clone();
    sorted.sort_by(f64::total_cmp);
    let (Some(&outermost), true) = (sorted.last().filter(|&&radius| radius > 0.0), bins > 0) else {
        return Vec::new();
    };
    let innermost = sorted[(sorted.len() / 1000).max(10).min(sorted.len() - 1)];
    let mut edges = vec![0.0];
    if bins > 1 && innermost > 0.0 && innermost < outermost {
        let log_step = libm::log(outermost / innermost) / (bins - 1) as f64;
        edges.extend((0..bins - 1).map(|k| innermost * libm::exp(log_step * k as f64)));
    }
    edges.push(outermost);
    fill_shells(&radius, &bodies.mass, &edges, |inner, outer| {
        4.0 / 3.0 * PI * (outer.powi(3) - inner.powi(3))
    })
}

/// Returns the surface density of a disc in the x-y plane about `centre`, in `bins` rings of equal
/// width out to `r_max`.
pub fn surface_density_profile(bodies: &Particles, centre: [f64; 3], r_max: f64, bins: usize) -> Vec<Shell> {
    let radius: Vec<f64> =
        bodies.position.iter().map(|[x, y, _]| distance([x, y, centre[2]], centre)).collect();
    let edges: Vec<f64> = (0..=bins).map(|k| r_max * k as f64 / bins as f64).collect();
    fill_shells(&radius, &bodies.mass, &edges, |inner, outer| PI * (outer * outer - inner * inner))
}

/// Sorts bodies into the shells between consecutive `edges`. Only the last shell includes its outer
/// edge. `size` gives the volume or area between two radii.
fn fill_shells(radius: &[f64], mass: &[f64], edges: &[f64], size: impl Fn(f64, f64) -> f64) -> Vec<Shell> {
    let mut sums = vec![(0, CompensatedSum::default(), CompensatedSum::default()); edges.len() - 1];
    let last = edges[edges.len() - 1];
    for (&r, &m) in radius.iter().zip(mass) {
        if r <= last && !sums.is_empty() {
            let shell = edges.partition_point(|&edge| edge <= r).min(sums.len()) - 1;
            sums[shell].0 += 1;
            sums[shell].1.add(m);
            sums[shell].2.add(r);
        }
    }
    edges
        .windows(2)
        .zip(sums)
        .map(|(edge, (count, mass, radii))| {
            let (r_inner, r_outer, mass) = (edge[0], edge[1], mass.value());
            let r_mean = if count > 0 { radii.value() / count as f64 } else { 0.5 * (r_inner + r_outer) };
            Shell { r_inner, r_outer, r_mean, count, mass, density: mass / size(r_inner, r_outer) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ic::{Plummer, UniformSphere};

    #[test]
    fn shells_contain_every_body_and_follow_the_plummer_profile() {
        let bodies = Plummer { n: 20_000, mass: 1.0, scale_radius: 1.0, seed: 3 }.generate(1.0).unwrap();
        let shells = density_profile(&bodies, [0.0; 3], 30);
        assert_eq!(shells.len(), 30);
        assert_eq!(shells.iter().map(|s| s.count).sum::<usize>(), bodies.len());
        assert!((shells.iter().map(|s| s.mass).sum::<f64>() - 1.0).abs() < 1e-12);
        let enclosed = |r: f64| (r * r / (1.0 + r * r)).powf(1.5);
        for shell in shells.iter().filter(|shell| shell.count > 400) {
            let expected = (enclosed(shell.r_outer) - enclosed(shell.r_inner)) / 0.999;
            // Four standard errors of a Poisson count.
            assert!((shell.mass / expected - 1.0).abs() < 4.0 / (shell.count as f64).sqrt(), "{shell:?}");
        }
    }

    /// In a ball of constant density, r has the mean 3/4 and the variance 3/80, relative to the
    /// radius of the ball and its square.
    #[test]
    fn mean_radius_of_the_innermost_shell_is_that_of_a_ball() {
        let bodies = UniformSphere { n: 50_000, mass: 1.0, radius: 1.0, seed: 2 }.generate(1.0).unwrap();
        let shells = density_profile(&bodies, [0.0; 3], 20);
        let ball = shells[0];
        let four_errors = 4.0 * (3.0f64 / 80.0 / ball.count as f64).sqrt();
        assert!((ball.r_mean / ball.r_outer - 0.75).abs() < four_errors, "{ball:?}");
        assert!(shells.iter().all(|shell| shell.r_inner < shell.r_mean && shell.r_mean < shell.r_outer));
    }

    #[test]
    fn uniform_sphere_has_constant_density() {
        let bodies = UniformSphere { n: 50_000, mass: 2.0, radius: 1.5, seed: 1 }.generate(1.0).unwrap();
        let expected = 2.0 / (4.0 / 3.0 * PI * 1.5f64.powi(3));
        for shell in density_profile(&bodies, [0.0; 3], 12).iter().filter(|shell| shell.r_outer < 1.45) {
            let error = 4.0 / (shell.count as f64).sqrt();
            assert!((shell.density / expected - 1.0).abs() < error, "{shell:?}");
        }
    }

    #[test]
    fn empty_and_single_body_systems_have_valid_profiles() {
        assert!(density_profile(&Particles::default(), [0.0; 3], 10).is_empty());
        let one = UniformSphere { n: 1, ..UniformSphere::default() }.generate(1.0).unwrap();
        assert_eq!(density_profile(&one, [1.0, 0.0, 0.0], 10).len(), 1);
        assert!(density_profile(&one, [1.0, 0.0, 0.0], 0).is_empty());
        // A body at the centre had an infinite density.
        assert!(density_profile(&one, one.position.get(0), 10).is_empty());
        assert!(surface_density_profile(&one, [0.0; 3], 1.0, 0).is_empty());
        let empty = surface_density_profile(&Particles::default(), [0.0; 3], 4.0, 2);
        assert_eq!((empty[0].count, empty[0].r_mean, empty[1].r_mean), (0, 1.0, 3.0));
        assert_eq!(surface_density_profile(&one, [0.0; 3], 1.0, 3)[0].count, 1);
    }
}
