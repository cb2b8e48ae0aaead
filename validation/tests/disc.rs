//! A disc galaxy keeps its shape.
//!
//! Galactic units. A rotation is that at 8 kpc, where v_c = 260 km/s: 2π 8 / 260 = 0.19 (0.19 Gyr).

use orrery_model::analysis::{shrinking_sphere_centre, surface_density_profile};
use orrery_model::ic::Galaxy;
use orrery_model::{Particles, Species, Units};
use orrery_particles::bodies::Bodies;
use orrery_particles::settings::IntegratorChoice::Leapfrog;
use orrery_particles::settings::{GravitySettings, Precision};
use orrery_validation::{advance, tree};

const ROTATION: f64 = 0.193;
const STEPS_PER_ROTATION: usize = 193;
const SOFTENING: f64 = 0.2;

/// The disc's measures.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Of the exponential fitted to the surface density between 1 and 4 times the model's.
    scale_length: f64,
    /// Of the cylindrical radii.
    half_mass_radius: f64,
    /// Mean |z| inside 8 kpc.
    thickness: f64,
}

impl Shape {
    fn of(bodies: &Particles, scale_length: f64) -> Self {
        let disc = bodies.filtered(|body| body.species == Species::Disc);
        let [x0, y0, z0] = shrinking_sphere_centre(&disc);
        let radius = |[x, y, _]: [f64; 3]| (x - x0).hypot(y - y0);
        let mut radii: Vec<f64> = disc.position.iter().map(radius).collect();
        radii.sort_by(f64::total_cmp);
        let heights: Vec<f64> = disc
            .position
            .iter()
            .filter(|&place| radius(place) < 8.0)
            .map(|[_, _, z]| (z - z0).abs())
            .collect();
        Self {
            scale_length: exponential_fit(&disc, [x0, y0, z0], scale_length, 4.0 * scale_length),
            half_mass_radius: radii[radii.len() / 2],
            thickness: heights.iter().sum::<f64>() / heights.len() as f64,
        }
    }
}

/// Least squares of ln Σ on R, rings weighted by their counts, over inner < R < outer.
fn exponential_fit(disc: &Particles, centre: [f64; 3], inner: f64, outer: f64) -> f64 {
    let rings = surface_density_profile(disc, centre, outer, 24);
    let points: Vec<(f64, f64, f64)> = rings
        .iter()
        .filter(|ring| ring.r_inner >= inner && ring.count > 0)
        .map(|ring| (0.5 * (ring.r_inner + ring.r_outer), ring.density.ln(), ring.count as f64))
        .collect();
    let total: f64 = points.iter().map(|p| p.2).sum();
    let mean = |pick: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * pick(p)).sum::<f64>() / total;
    let (r, s) = (mean(|p| p.0), mean(|p| p.1));
    let slope = points.iter().map(|p| p.2 * (p.0 - r) * (p.1 - s)).sum::<f64>()
        / points.iter().map(|p| p.2 * (p.0 - r).powi(2)).sum::<f64>();
    -1.0 / slope
}

/// How much each measure may change, as a share of what it was.
struct Bounds {
    scale_length: f64,
    half_mass_radius: f64,
    /// Shot noise only ever thickens a disc.
    thickening: f64,
}

fn keeps_its_shape(galaxy: &Galaxy, rotations: usize, bounds: &Bounds) {
    let g = Units::Galactic.gravitational_constant();
    let settings = GravitySettings { g, ..tree(SOFTENING, 0.6, Precision::Mixed) };
    let mut bodies = Bodies::new(galaxy.generate(g).unwrap(), &settings, None).unwrap();
    let energy = |bodies: &Bodies| bodies.kinetic_energy().unwrap() + bodies.potential_energy().unwrap();
    let start = Shape::of(bodies.particles().unwrap(), galaxy.disc_scale_length);
    let start_energy = energy(&bodies);
    println!("at the start: {start:.3?}");
    // The sample is the model's, to four standard errors of a mean and of a median.
    let noise = 4.0 / (galaxy.n_disc as f64).sqrt();
    assert!((start.half_mass_radius / (1.678 * galaxy.disc_scale_length) - 1.0).abs() < noise);
    for rotation in 1..=rotations {
        advance(&mut bodies, Leapfrog, ROTATION / STEPS_PER_ROTATION as f64, STEPS_PER_ROTATION);
        let now = Shape::of(bodies.particles().unwrap(), galaxy.disc_scale_length);
        let error = energy(&bodies) / start_energy - 1.0;
        println!("after {rotation} rotations: {now:.3?}, energy error {error:.1e}");
        let change = |now: f64, start: f64| (now / start - 1.0).abs();
        assert!(change(now.scale_length, start.scale_length) < bounds.scale_length, "{start:?} {now:?}");
        assert!(
            change(now.half_mass_radius, start.half_mass_radius) < bounds.half_mass_radius,
            "{start:?} {now:?}"
        );
        let thickening = now.thickness / start.thickness - 1.0;
        assert!((-0.05..bounds.thickening).contains(&thickening), "{start:?} {now:?}");
        assert!(error.abs() < 2e-3, "energy error {error}");
    }
}

/// One rotation of a galaxy of 13,000 bodies. Its noise thickens it by a quarter.
#[test]
fn small_disc_keeps_its_shape_for_a_rotation() {
    let galaxy = Galaxy { n_disc: 4000, n_bulge: 1000, n_halo: 8000, eps: SOFTENING, ..Galaxy::default() };
    keeps_its_shape(&galaxy, 1, &Bounds { scale_length: 0.15, half_mass_radius: 0.05, thickening: 0.4 });
}

/// Five rotations of the default galaxy: 32,500 bodies. The fit of the scale length to 6000 of them is good to 3%.
#[test]
#[ignore = "a minute: cargo xtask validate"]
fn disc_keeps_its_shape_for_five_rotations() {
    let galaxy = Galaxy { eps: SOFTENING, ..Galaxy::default() };
    keeps_its_shape(&galaxy, 5, &Bounds { scale_length: 0.1, half_mass_radius: 0.05, thickening: 0.5 });
}
