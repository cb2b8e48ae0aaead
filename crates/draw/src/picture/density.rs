//! Projected surface density with an adaptive kernel.
//!
//! The bodies are binned on a pyramid of grids ([`Bins`]), where level k has pixels of side 2^k.
//! Each level, coarsest first, is smoothed, refined with the linear weights (1 3 3 1)/8 and added
//! to the next finer level. The cost is proportional to the bodies plus 4/3 of the pixels, for any
//! patch sizes.
//!
//! Mass is conserved: weights sum to one, and mass that would leave the picture is put on its edge.

use orrery_model::Particles;
use orrery_model::analysis::{BinnedBodies, Bins, Projection};

use super::View;

/// Mass per pixel, with rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceDensity {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Area of a pixel, in the unit of length squared.
    pub pixel_area: f64,
    /// Mass of one unit of `mass`. In f32, masses in kg could overflow.
    pub mass_unit: f64,
    /// Mass in each pixel, in units of `mass_unit`.
    pub mass: Vec<f32>,
}

/// Projects the bodies that `shown` accepts and that are in the view. Bodies that are not finite
/// are skipped.
pub fn surface_density(particles: &Particles, view: &View, shown: impl Fn(usize) -> bool) -> SurfaceDensity {
    let bodies = BinnedBodies::new(&particles.mass, |i| shown(i).then_some(0));
    let projection = view.projection();
    let bins = Bins::of_layer(&particles.position, &bodies, 0, &projection);
    SurfaceDensity::from_bins(&bins, bodies.mass_unit, &projection)
}

impl SurfaceDensity {
    /// Smooths binned bodies. `mass_unit` is the mass of one unit of the bins.
    pub fn from_bins(bins: &Bins, mass_unit: f64, projection: &Projection) -> Self {
        let scale = 1.0 / Bins::TOTAL_WEIGHT as f32;
        let grid = |level: usize| {
            let [width, height] = projection.level_size(level);
            let value = bins.levels[level].iter().map(|&sum| sum as f32 * scale).collect();
            Grid { width, height, value }
        };
        let mut sum: Option<Grid> = None;
        for level in (0..bins.levels.len()).rev() {
            let smoothed = grid(level).smoothed();
            sum = Some(match sum {
                Some(coarser) => smoothed.plus_refined(&coarser),
                None => smoothed,
            });
        }
        let Projection { width, height, pixel_size, .. } = *projection;
        let mass = sum.map(|grid| grid.value).unwrap_or_default();
        Self { width, height, pixel_area: pixel_size * pixel_size, mass_unit, mass }
    }

    /// Returns the surface density of a pixel with a mass of one unit.
    pub(super) fn density_unit(&self) -> f64 {
        self.mass_unit / self.pixel_area
    }
}

/// Mass per pixel of one level.
struct Grid {
    width: usize,
    height: usize,
    value: Vec<f32>,
}

impl Grid {
    fn zeros(width: usize, height: usize) -> Self {
        Self { width, height, value: vec![0.0; width * height] }
    }

    /// Applies the binomial kernel (1 2 1)/4 along both axes. At the edges, mass that would leave
    /// stays.
    fn smoothed(self) -> Self {
        let Self { width, height, value } = self;
        let mut rows = vec![0.0; value.len()];
        for (source, target) in value.chunks_exact(width).zip(rows.chunks_exact_mut(width)) {
            for x in [0, width - 1] {
                let (left, right) = (source[x.saturating_sub(1)], source[(x + 1).min(width - 1)]);
                target[x] = 0.5 * source[x] + 0.25 * (left + right);
            }
            for (near, inner) in source.windows(3).zip(&mut target[1..]) {
                *inner = 0.5 * near[1] + 0.25 * (near[0] + near[2]);
            }
        }
        let mut result = value;
        for y in 0..height {
            let above = &rows[y.saturating_sub(1) * width..][..width];
            let here = &rows[y * width..][..width];
            let below = &rows[(y + 1).min(height - 1) * width..][..width];
            let target = &mut result[y * width..][..width];
            for (((t, a), h), b) in target.iter_mut().zip(above).zip(here).zip(below) {
                *t = 0.5 * h + 0.25 * (a + b);
            }
        }
        Self { width, height, value: result }
    }

    /// Adds a grid of half the resolution. Along each axis a coarse pixel gives (1 3 3 1)/8 of its
    /// mass.
    fn plus_refined(mut self, coarse: &Self) -> Self {
        let mut wide = Self::zeros(self.width, coarse.height);
        for y in 0..coarse.height {
            let source = &coarse.value[y * coarse.width..][..coarse.width];
            let target = &mut wide.value[y * self.width..][..self.width];
            for_each_refinement(coarse.width, self.width, |from, to, weight| {
                target[to] += weight * source[from]
            });
        }
        let width = self.width;
        for_each_refinement(coarse.height, self.height, |from, to, weight| {
            let source = &wide.value[from * width..][..width];
            let target = &mut self.value[to * width..][..width];
            target.iter_mut().zip(source).for_each(|(t, s)| *t += weight * s);
        });
        self
    }
}

/// Calls `add(coarse, fine, weight)` for the four fine pixels to which each coarse pixel
/// contributes.
fn for_each_refinement(coarse: usize, fine: usize, mut add: impl FnMut(usize, usize, f32)) {
    for from in 0..coarse {
        for (offset, weight) in [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)] {
            add(from, (2 * from + offset).saturating_sub(1).min(fine - 1), weight);
        }
    }
}

/// Surface densities (mass per area) that are drawn darkest and brightest. Between them, brightness
/// follows the logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// This and smaller densities have the darkest colour.
    pub low: f64,
    /// This and larger densities have the brightest colour.
    pub high: f64,
}

impl Scale {
    /// Returns a scale for these maps together, 1.5 to 4 decades long.
    ///
    /// 97% of the mass is in pixels above the lower end, and 3% in pixels above the upper end.
    /// Fractions of mass are used because fractions of pixels would depend on the amount of empty
    /// sky in the view.
    pub fn from_maps(maps: &[&SurfaceDensity]) -> Self {
        let mut density: Vec<f64> = maps
            .iter()
            .flat_map(|map| map.mass.iter().map(|&m| f64::from(m) * map.density_unit()))
            .filter(|d| d.is_finite() && *d > 0.0)
            .collect();
        density.sort_by(|a, b| b.total_cmp(a));
        let total: f64 = density.iter().sum();
        let density_above = |fraction: f64| {
            let mut sum = 0.0;
            density
                .iter()
                .find(|&&d| {
                    sum += d;
                    sum >= fraction * total
                })
                .copied()
        };
        let (Some(high), Some(low)) = (density_above(0.03), density_above(0.97)) else {
            return Self { low: 1e-3, high: 1.0 };
        };
        let high = 1.3 * high;
        Self { low: (0.5 * low).clamp(high * 1e-4, high * 10f64.powf(-1.5)), high }
    }

    /// Brightness of a density, from 0 to 1. NaN has brightness 0.
    pub fn brightness(&self, density: f64) -> f32 {
        self.brightness_function()(density)
    }

    /// Returns [`Scale::brightness`] as a function, which computes the factors of the scale only
    /// once.
    pub(crate) fn brightness_function(&self) -> impl Fn(f64) -> f32 {
        let (low, per_span) = (self.low, 1.0 / ((self.high / self.low) as f32).log2());
        // Most pixels are empty sky, where the logarithm is skipped.
        move |density| {
            if density > low { (((density / low) as f32).log2() * per_span).clamp(0.0, 1.0) } else { 0.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::{Particle, Species, rng::Draws};

    use super::*;
    use crate::picture::Orientation;

    fn bodies(places: impl Iterator<Item = [f64; 3]>) -> Particles {
        let mut particles = Particles::default();
        for (id, position) in places.enumerate() {
            let (id, mass) = (id as u64, 0.5 + id as f64 % 3.0);
            particles.push(Particle { position, velocity: [0.0; 3], mass, id, species: Species::Disc });
        }
        particles
    }

    fn view(pixels: (u32, u32)) -> View {
        View { centre: [0.0; 3], half_width: 1.0, orientation: Orientation::XY, pixels }
    }

    /// All terms are positive, so each rounding to f32 changes the sum by at most 6e-8 of it. The
    /// mass of a body is rounded about 60 times: seven times per smoothing and at most four times
    /// per refinement along each axis, on up to seven levels.
    #[test]
    fn mass_in_view_is_conserved() {
        let particles = bodies((0..2000).map(|i| {
            let mut draws = Draws::new(3, 0, i);
            [draws.normal(), 0.3 * draws.normal(), draws.normal()]
        }));
        for pixels in [(64, 64), (101, 37), (640, 480), (1, 1), (3, 2)] {
            let view = view(pixels);
            let half_height = f64::from(pixels.1) / f64::from(pixels.0);
            let expected: f64 = particles
                .iter()
                .filter(|b| (-1.0..1.0).contains(&b.position[0]) && b.position[1].abs() < half_height)
                .map(|b| b.mass)
                .sum();
            let map = surface_density(&particles, &view, |_| true);
            let got: f64 = map.mass.iter().map(|&m| f64::from(m) * map.mass_unit).sum();
            assert!((got / expected - 1.0).abs() < 4e-6, "{pixels:?}: {got} against {expected}");
        }
    }

    #[test]
    fn body_is_brightest_in_its_pixel() {
        // A clump has a small patch. It is at x = 0.5 (right), y = 0.25 (up) of a 100 x 100 view.
        let particles = bodies((0..50).map(|_| [0.505, 0.255, 9.0]));
        let map = surface_density(&particles, &view((100, 100)), |_| true);
        let brightest = (0..map.mass.len()).max_by(|&a, &b| map.mass[a].total_cmp(&map.mass[b])).unwrap();
        assert_eq!((brightest % 100, brightest / 100), (75, 37));
        let near: f64 = (35..40)
            .flat_map(|y| (73..78).map(move |x| y * 100 + x))
            .map(|i| f64::from(map.mass[i]) * map.mass_unit)
            .sum();
        assert!(near > 0.999 * particles.total_mass(), "{near}");
    }

    #[test]
    fn sparse_bodies_are_smoother_than_dense_ones() {
        let peak = |n| {
            let particles = bodies((0..n).map(|_| [0.0; 3]));
            let map = surface_density(&particles, &view((640, 640)), |_| true);
            f64::from(map.mass.iter().copied().fold(0.0, f32::max)) * map.mass_unit / particles.total_mass()
        };
        assert!(peak(1) < 0.1 * peak(100), "{} {}", peak(1), peak(100));
    }

    #[test]
    fn non_finite_bodies_and_empty_maps_are_drawn_as_sky() {
        let particles = bodies([[f64::NAN, 0.0, 0.0], [f64::INFINITY, 0.0, 0.0]].into_iter());
        let map = surface_density(&particles, &view((20, 20)), |_| true);
        assert!(map.mass.iter().all(|&m| m == 0.0));
        let scale = Scale::from_maps(&[&map]);
        assert!(scale.low > 0.0 && scale.low < scale.high);
        assert_eq!(scale.brightness(0.0), 0.0);
        assert_eq!(scale.brightness(scale.low), 0.0);
        assert_eq!(scale.brightness(scale.high), 1.0);
        assert_eq!(scale.brightness(f64::INFINITY), 1.0);
    }
}
