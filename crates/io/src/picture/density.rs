//! Projected surface density with an adaptive kernel.
//!
//! Each body's mass is spread over a patch that holds about `NEIGHBOURS` bodies, so that a dense core stays
//! sharp while a thin halo is smooth. The patches come from a pyramid of grids, level k having pixels of side
//! 2^k: a body goes to the two levels next to its patch size, by cloud-in-cell (Hockney & Eastwood 1988), in
//! shares that change continuously with the local count, so nothing pops from frame to frame. Then each level,
//! coarsest first, is smoothed, refined by the linear weights (1 3 3 1)/8 and added to the next finer one.
//! The cost is that of the bodies plus 4/3 of the pixels, whatever the patch sizes.
//!
//! Mass is conserved: weights sum to one, and what would leave over the edge is put on the edge.

use orrery_model::Particles;

use super::View;

/// Bodies that a patch should hold: few enough to keep spiral arms, enough to hide single bodies.
const NEIGHBOURS: f64 = 28.0;
/// Patches grow to at most 2^this pixels for a picture 640 pixels wide.
const COARSEST: u32 = 5;

/// Mass by pixel, rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceDensity {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Area of a pixel, in squares of the unit of length.
    pub pixel_area: f64,
    /// Mass in each pixel.
    pub mass: Vec<f64>,
}

/// Projects the bodies that `shown` accepts and that lie in the view. Bodies that are not finite are left out.
pub fn surface_density(particles: &Particles, view: &View, shown: impl Fn(usize) -> bool) -> SurfaceDensity {
    let (width, height) = (view.pixels.0.max(1) as usize, view.pixels.1.max(1) as usize);
    let mut seen = Vec::new();
    for i in (0..particles.len()).filter(|&i| shown(i)) {
        let [x, y] = view.project(particles.position.get(i));
        let inside = (0.0..width as f64).contains(&x) && (0.0..height as f64).contains(&y);
        if inside && particles.mass[i].is_finite() {
            seen.push((x, y, particles.mass[i]));
        }
    }

    let levels =
        1 + (f64::from(COARSEST) + (width.max(height) as f64 / 640.0).log2()).round().max(1.0) as usize;
    let mut counts = vec![Grid::new(width, height)];
    seen.iter().for_each(|&(x, y, _)| *counts[0].at(x as usize, y as usize) += 1.0);
    for k in 1..levels {
        let coarse = counts[k - 1].coarsened();
        counts.push(coarse);
    }
    let mut pyramid: Vec<Grid> = counts.iter().map(|grid| Grid::new(grid.width, grid.height)).collect();
    for &(x, y, mass) in &seen {
        let level = patch_level(&counts, x, y);
        let (below, share) = (level.floor() as usize, level.fract());
        pyramid[below].add_cloud(x, y, below, mass * (1.0 - share));
        if share > 0.0 {
            pyramid[below + 1].add_cloud(x, y, below + 1, mass * share);
        }
    }
    let mut sum = pyramid.pop().expect("there are two levels at least").smoothed();
    while let Some(finer) = pyramid.pop() {
        sum = finer.smoothed().plus_refined(&sum);
    }
    let size = view.pixel_size();
    SurfaceDensity { width: width as u32, height: height as u32, pixel_area: size * size, mass: sum.value }
}

/// log2 of the side of the patch around (x, y) that holds `NEIGHBOURS` bodies, between the pyramid's levels.
fn patch_level(counts: &[Grid], x: f64, y: f64) -> f64 {
    let last = counts.len() - 1;
    for (k, grid) in counts.iter().enumerate() {
        let around = grid.block_sum(x as usize >> k, y as usize >> k);
        if around >= NEIGHBOURS || k == last {
            // 9 pixels of level k hold `around`: scale the area to NEIGHBOURS, kernel of about 9 pixels.
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

    fn at(&mut self, x: usize, y: usize) -> &mut f64 {
        &mut self.value[y * self.width + x]
    }

    /// Sums of two by two.
    fn coarsened(&self) -> Self {
        let mut coarse = Self::new(self.width.div_ceil(2), self.height.div_ceil(2));
        for (y, row) in self.value.chunks_exact(self.width).enumerate() {
            let target = &mut coarse.value[y / 2 * coarse.width..][..coarse.width];
            target.iter_mut().zip(row.chunks(2)).for_each(|(sum, pair)| *sum += pair.iter().sum::<f64>());
        }
        coarse
    }

    /// The sum over a pixel and its eight neighbours.
    fn block_sum(&self, x: usize, y: usize) -> f64 {
        let columns = x.saturating_sub(1)..(x + 2).min(self.width);
        (y.saturating_sub(1)..(y + 2).min(self.height))
            .map(|row| self.value[row * self.width..][columns.clone()].iter().sum::<f64>())
            .sum()
    }

    /// Shares `mass` among the four pixels around (x, y), given in pixels of level 0.
    fn add_cloud(&mut self, x: f64, y: f64, level: usize, mass: f64) {
        let scale = 0.5f64.powi(level as i32);
        let (x, y) = (x * scale - 0.5, y * scale - 0.5);
        let (fx, fy) = (x - x.floor(), y - y.floor());
        let put = |c: f64, size: usize| (c.max(0.0) as usize).min(size - 1);
        let columns = [put(x.floor(), self.width), put(x.floor() + 1.0, self.width)];
        let rows = [put(y.floor(), self.height), put(y.floor() + 1.0, self.height)];
        for (row, wy) in rows.into_iter().zip([1.0 - fy, fy]) {
            for (column, wx) in columns.into_iter().zip([1.0 - fx, fx]) {
                *self.at(column, row) += mass * wx * wy;
            }
        }
    }

    /// The binomial kernel (1 2 1)/4 along both axes; at the edges what would leave stays.
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

    /// Adds a grid of half the resolution: along each axis a coarse pixel gives (1 3 3 1)/8 of its mass.
    fn plus_refined(mut self, coarse: &Self) -> Self {
        let mut wide = Self::new(self.width, coarse.height);
        for y in 0..coarse.height {
            let source = &coarse.value[y * coarse.width..][..coarse.width];
            let target = &mut wide.value[y * self.width..][..self.width];
            spread(coarse.width, self.width, |from, to, weight| target[to] += weight * source[from]);
        }
        let width = self.width;
        spread(coarse.height, self.height, |from, to, weight| {
            let source = &wide.value[from * width..][..width];
            let target = &mut self.value[to * width..][..width];
            target.iter_mut().zip(source).for_each(|(t, s)| *t += weight * s);
        });
        self
    }
}

/// Calls `give(coarse, fine, weight)` for the four fine pixels that each coarse one feeds.
fn spread(coarse: usize, fine: usize, mut give: impl FnMut(usize, usize, f64)) {
    for from in 0..coarse {
        for (offset, weight) in [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)] {
            give(from, (2 * from + offset).saturating_sub(1).min(fine - 1), weight);
        }
    }
}

/// The surface densities (mass by area) that are drawn darkest and brightest; between them colours follow
/// the logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Drawn as the darkest colour, as is everything below.
    pub low: f64,
    /// Drawn as the brightest colour, as is everything above.
    pub high: f64,
}

impl Scale {
    /// A scale for these maps together: from where the densest pixels with 97% of the mass end, up to where the
    /// densest 3% of the mass begin, and 1.5 to 4 decades long. Shares of mass, because shares of pixels
    /// would depend on how much empty sky is in view.
    pub fn from_maps(maps: &[&SurfaceDensity]) -> Self {
        let mut density: Vec<f64> = maps
            .iter()
            .flat_map(|map| map.mass.iter().map(|m| m / map.pixel_area))
            .filter(|d| d.is_finite() && *d > 0.0)
            .collect();
        density.sort_by(|a, b| b.total_cmp(a));
        let total: f64 = density.iter().sum();
        let above = |share: f64| {
            let mut sum = 0.0;
            density
                .iter()
                .find(|&&d| {
                    sum += d;
                    sum >= share * total
                })
                .copied()
        };
        let (Some(high), Some(low)) = (above(0.03), above(0.97)) else {
            return Self { low: 1e-3, high: 1.0 };
        };
        let high = 1.3 * high;
        Self { low: (0.5 * low).clamp(high * 1e-4, high * 10f64.powf(-1.5)), high }
    }

    /// Where a density lies on the scale, 0 to 1; NaN at 0.
    pub fn place(&self, density: f64) -> f32 {
        self.placer()(density)
    }

    /// [`Scale::place`] for many densities: what depends on the scale alone is computed once.
    pub(crate) fn placer(&self) -> impl Fn(f64) -> f32 {
        let (low, per_span) = (self.low, 1.0 / ((self.high / self.low) as f32).log2());
        // Most of a picture is empty sky, which is spared the logarithm.
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

    /// Sums of 2000 terms, each rounded a few times: 1e-12 leaves room for every rounding to go one way.
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
    fn a_body_lights_its_own_pixel() {
        // A clump, so that the patch is small: at x = 0.5 (right), y = 0.25 (up) of a 100 x 100 view.
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
    fn broken_bodies_and_empty_maps_do_no_harm() {
        let particles = bodies([[f64::NAN, 0.0, 0.0], [f64::INFINITY, 0.0, 0.0]].into_iter());
        let map = surface_density(&particles, &view((20, 20)), |_| true);
        assert!(map.mass.iter().all(|&m| m == 0.0));
        let scale = Scale::from_maps(&[&map]);
        assert!(scale.low > 0.0 && scale.low < scale.high);
        assert_eq!(scale.place(0.0), 0.0);
        assert_eq!(scale.place(scale.low), 0.0);
        assert_eq!(scale.place(scale.high), 1.0);
        assert_eq!(scale.place(f64::INFINITY), 1.0);
    }
}
