//! Projected surface density with an adaptive kernel.
//!
//! The mass of each body is spread over a patch that contains about `NEIGHBOURS` bodies. A dense
//! core is then sharp, and a thin halo is smooth.
//!
//! The patches come from a pyramid of grids, where level k has pixels of side 2^k. Each body is
//! assigned to the two levels next to its patch size, by cloud-in-cell (Hockney & Eastwood 1988).
//! The fractions change continuously with the local count, so nothing jumps between frames. Then
//! each level, coarsest first, is smoothed, refined with the linear weights (1 3 3 1)/8 and added
//! to the next finer level. The cost is proportional to the bodies plus 4/3 of the pixels, for any
//! patch sizes.
//!
//! Mass is conserved: weights sum to one, and mass that would leave the picture is put on its edge.

use orrery_model::Particles;

use super::View;

/// Number of bodies in a patch: few enough to resolve spiral arms, enough to hide single bodies.
const NEIGHBOURS: f64 = 28.0;
/// Largest level of the pyramid for a picture 640 pixels wide. Patches are at most 2^5 pixels wide.
const COARSEST_LEVEL: u32 = 5;

/// Mass per pixel, with rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceDensity {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Area of a pixel, in the unit of length squared.
    pub pixel_area: f64,
    /// Mass in each pixel.
    pub mass: Vec<f64>,
}

/// Projects the bodies that `shown` accepts and that are in the view. Bodies that are not finite
/// are skipped.
pub fn surface_density(particles: &Particles, view: &View, shown: impl Fn(usize) -> bool) -> SurfaceDensity {
    let (width, height) = (view.pixels.0.max(1) as usize, view.pixels.1.max(1) as usize);
    let mut visible = Vec::new();
    for i in (0..particles.len()).filter(|&i| shown(i)) {
        let [x, y] = view.project(particles.position.get(i));
        let inside = (0.0..width as f64).contains(&x) && (0.0..height as f64).contains(&y);
        if inside && particles.mass[i].is_finite() {
            visible.push((x, y, particles.mass[i]));
        }
    }

    let levels =
        1 + (f64::from(COARSEST_LEVEL) + (width.max(height) as f64 / 640.0).log2()).round().max(1.0) as usize;
    let mut counts = vec![Grid::new(width, height)];
    visible.iter().for_each(|&(x, y, _)| *counts[0].cell_mut(x as usize, y as usize) += 1.0);
    for k in 1..levels {
        let coarse = counts[k - 1].coarsened();
        counts.push(coarse);
    }
    let mut pyramid: Vec<Grid> = counts.iter().map(|grid| Grid::new(grid.width, grid.height)).collect();
    for &(x, y, mass) in &visible {
        let level = patch_level(&counts, x, y);
        let (below, fraction) = (level.floor() as usize, level.fract());
        pyramid[below].add_cloud(x, y, below, mass * (1.0 - fraction));
        if fraction > 0.0 {
            pyramid[below + 1].add_cloud(x, y, below + 1, mass * fraction);
        }
    }
    let mut sum = pyramid.pop().expect("the pyramid has at least two levels").smoothed();
    while let Some(finer) = pyramid.pop() {
        sum = finer.smoothed().plus_refined(&sum);
    }
    let size = view.pixel_size();
    SurfaceDensity { width: width as u32, height: height as u32, pixel_area: size * size, mass: sum.value }
}

/// Returns log2 of the side of the patch around (x, y) that contains `NEIGHBOURS` bodies, within
/// the levels of the pyramid.
fn patch_level(counts: &[Grid], x: f64, y: f64) -> f64 {
    let last = counts.len() - 1;
    for (k, grid) in counts.iter().enumerate() {
        let around = grid.block_sum(x as usize >> k, y as usize >> k);
        if around >= NEIGHBOURS || k == last {
            // 9 pixels of level k contain `around` bodies. The area is scaled to NEIGHBOURS, for a
            // kernel of about 9 pixels.
            return (k as f64 + 0.5 * (NEIGHBOURS / around.max(1.0)).log2()).clamp(0.0, last as f64);
        }
    }
    last as f64
}

struct Grid {
    width: usize,
    height: usize,
    value: Vec<f64>,
}

impl Grid {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, value: vec![0.0; width * height] }
    }

    fn cell_mut(&mut self, x: usize, y: usize) -> &mut f64 {
        &mut self.value[y * self.width + x]
    }

    /// Returns the grid of half the resolution, with sums over 2 x 2 pixels.
    fn coarsened(&self) -> Self {
        let mut coarse = Self::new(self.width.div_ceil(2), self.height.div_ceil(2));
        for (y, row) in self.value.chunks_exact(self.width).enumerate() {
            let target = &mut coarse.value[y / 2 * coarse.width..][..coarse.width];
            target.iter_mut().zip(row.chunks(2)).for_each(|(sum, pair)| *sum += pair.iter().sum::<f64>());
        }
        coarse
    }

    /// Returns the sum over a pixel and its eight neighbours.
    fn block_sum(&self, x: usize, y: usize) -> f64 {
        let columns = x.saturating_sub(1)..(x + 2).min(self.width);
        (y.saturating_sub(1)..(y + 2).min(self.height))
            .map(|row| self.value[row * self.width..][columns.clone()].iter().sum::<f64>())
            .sum()
    }

    /// Distributes `mass` over the four pixels around (x, y), which is given in pixels of level 0.
    fn add_cloud(&mut self, x: f64, y: f64, level: usize, mass: f64) {
        let scale = 0.5f64.powi(level as i32);
        let (x, y) = (x * scale - 0.5, y * scale - 0.5);
        let (fx, fy) = (x - x.floor(), y - y.floor());
        let clamped = |c: f64, size: usize| (c.max(0.0) as usize).min(size - 1);
        let columns = [clamped(x.floor(), self.width), clamped(x.floor() + 1.0, self.width)];
        let rows = [clamped(y.floor(), self.height), clamped(y.floor() + 1.0, self.height)];
        for (row, wy) in rows.into_iter().zip([1.0 - fy, fy]) {
            for (column, wx) in columns.into_iter().zip([1.0 - fx, fx]) {
                *self.cell_mut(column, row) += mass * wx * wy;
            }
        }
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
        let mut wide = Self::new(self.width, coarse.height);
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
fn for_each_refinement(coarse: usize, fine: usize, mut add: impl FnMut(usize, usize, f64)) {
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
            .flat_map(|map| map.mass.iter().map(|m| m / map.pixel_area))
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

    fn bodies(places: impl Iterator<Item = [f64; 3]>) -> Particles {
        let mut particles = Particles::default();
        for (id, position) in places.enumerate() {
            let (id, mass) = (id as u64, 0.5 + id as f64 % 3.0);
            particles.push(Particle { position, velocity: [0.0; 3], mass, id, species: Species::Disc });
        }
        particles
    }

    fn view(pixels: (u32, u32)) -> View {
        View { centre: [0.0; 3], half_width: 1.0, axes: (0, 1), pixels }
    }

    /// The sum has 2000 terms, each rounded a few times. The tolerance 1e-12 covers roundings in
    /// the same direction.
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
            let got: f64 = map.mass.iter().sum();
            assert!((got / expected - 1.0).abs() < 1e-12, "{pixels:?}: {got} against {expected}");
        }
    }

    #[test]
    fn body_is_brightest_in_its_pixel() {
        // A clump has a small patch. It is at x = 0.5 (right), y = 0.25 (up) of a 100 x 100 view.
        let particles = bodies((0..50).map(|_| [0.505, 0.255, 9.0]));
        let map = surface_density(&particles, &view((100, 100)), |_| true);
        let brightest = (0..map.mass.len()).max_by(|&a, &b| map.mass[a].total_cmp(&map.mass[b])).unwrap();
        assert_eq!((brightest % 100, brightest / 100), (75, 37));
        let near: f64 = (35..40).flat_map(|y| (73..78).map(move |x| y * 100 + x)).map(|i| map.mass[i]).sum();
        assert!(near > 0.999 * particles.total_mass(), "{near}");
    }

    #[test]
    fn sparse_bodies_are_smoother_than_dense_ones() {
        let peak = |n| {
            let particles = bodies((0..n).map(|_| [0.0; 3]));
            let map = surface_density(&particles, &view((640, 640)), |_| true);
            map.mass.iter().copied().fold(0.0, f64::max) / particles.total_mass()
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
