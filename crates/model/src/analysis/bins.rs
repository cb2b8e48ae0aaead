//! Projected bodies, binned for pictures of their surface density.
//!
//! The mass of each body is spread over a patch that contains about `NEIGHBOURS` bodies. A dense
//! core is then sharp, and a thin halo is smooth. The patches come from a pyramid of grids, where
//! level k has pixels of side 2^k. Each body is assigned to the two levels next to its patch size,
//! by cloud-in-cell (Hockney & Eastwood 1988). The fractions change with the local count in small
//! steps, so nothing jumps between frames.
//!
//! All sums are integers: positions have 1/256 pixel, patch sizes 1/64 octave, and masses 2^-36 of
//! the total mass. The bins therefore have the same bits in any order of the bodies, on any device
//! and with any number of threads. A level sums up to 2^58, which fits into 64 bits.

use crate::Vec3s;

/// Number of bodies in a patch: few enough to resolve spiral arms, enough to hide single bodies.
pub const NEIGHBOURS: u32 = 28;
/// Largest level of the pyramid for a picture 640 pixels wide. Patches are at most 2^5 pixels wide.
const COARSEST_LEVEL: u32 = 5;
/// Bits of a position below one pixel.
pub const POSITION_BITS: u32 = 8;
/// Steps of the patch size per level.
pub const STEPS_PER_LEVEL: u32 = 64;
/// Mass units of the whole system, as a power of two.
const MASS_BITS: i32 = 36;
/// Layer of bodies that are not shown.
pub const HIDDEN: u8 = u8::MAX;

/// Projection of bodies onto the pixels of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    /// Point at the centre of the picture.
    pub centre: [f64; 3],
    /// Unit vector that points to the right.
    pub right: [f64; 3],
    /// Unit vector that points up. Rows of pixels start at the top.
    pub up: [f64; 3],
    /// Side of a pixel, in the unit of length of the bodies.
    pub pixel_size: f64,
    /// Width in pixels, at least 1.
    pub width: u32,
    /// Height in pixels, at least 1.
    pub height: u32,
}

impl Projection {
    /// Returns the position of a point in pixels from the top left corner. It may be outside the
    /// picture.
    pub fn pixel_position(&self, point: [f64; 3]) -> [f64; 2] {
        let [x, y, z] = [0, 1, 2].map(|k| point[k] - self.centre[k]);
        // Fused explicitly, because the compilers of kernels fuse products and sums too.
        let along = |axis: [f64; 3]| z.mul_add(axis[2], y.mul_add(axis[1], x * axis[0]));
        let (half_width, half_height) = (0.5 * f64::from(self.width), 0.5 * f64::from(self.height));
        [half_width + along(self.right) / self.pixel_size, half_height - along(self.up) / self.pixel_size]
    }

    /// Returns the position in 1/256 pixel, or `None` outside the picture and for NaN.
    fn fixed_position(&self, point: [f64; 3]) -> Option<[u32; 2]> {
        let [x, y] = self.pixel_position(point);
        let is_inside = x >= 0.0 && x < f64::from(self.width) && y >= 0.0 && y < f64::from(self.height);
        let fixed = |c: f64| (c * f64::from(1u32 << POSITION_BITS)) as u32;
        is_inside.then(|| [fixed(x), fixed(y)])
    }

    /// Returns the number of levels of the pyramid, at least two.
    pub fn level_count(&self) -> usize {
        let side = f64::from(self.width.max(self.height));
        1 + (f64::from(COARSEST_LEVEL) + (side / 640.0).log2()).round().max(1.0) as usize
    }

    /// Returns width and height of a level.
    pub fn level_size(&self, level: usize) -> [usize; 2] {
        [self.width, self.height].map(|side| (side as usize).div_ceil(1 << level))
    }

    /// Returns the number of pixels of all levels.
    pub fn pyramid_pixels(&self) -> usize {
        (0..self.level_count()).map(|level| self.level_size(level).into_iter().product::<usize>()).sum()
    }
}

/// Constants of the bodies that bins need. They do not change during a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BinnedBodies {
    /// Layer of each body, or [`HIDDEN`].
    pub layer: Vec<u8>,
    /// Mass of each body in mass units.
    pub mass: Vec<u64>,
    /// Mass of one unit.
    pub mass_unit: f64,
}

impl BinnedBodies {
    /// Assigns each body to a layer. Bodies of `None` and bodies without a finite positive mass are
    /// hidden.
    pub fn new(mass: &[f64], layer_of: impl Fn(usize) -> Option<u8>) -> Self {
        let is_positive = |mass: f64| mass > 0.0 && mass.is_finite();
        let total: f64 = mass.iter().copied().filter(|&mass| is_positive(mass)).sum();
        let mass_unit = if total.is_normal() { total * 0.5f64.powi(MASS_BITS) } else { 1.0 };
        let layer = mass
            .iter()
            .enumerate()
            .map(|(i, &mass)| layer_of(i).filter(|_| is_positive(mass)).unwrap_or(HIDDEN))
            .collect();
        let units =
            mass.iter().map(|&mass| if is_positive(mass) { (mass / mass_unit).round() as u64 } else { 0 });
        Self { layer, mass: units.collect(), mass_unit }
    }
}

/// Binned bodies of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins {
    /// Sum of mass × weight in each pixel of each level, rows from the top. A body has the total
    /// weight [`Bins::TOTAL_WEIGHT`].
    pub levels: Vec<Vec<u64>>,
}

impl Bins {
    /// Sum of the weights of one body over all levels and pixels.
    pub const TOTAL_WEIGHT: u64 = (STEPS_PER_LEVEL as u64) << (2 * POSITION_BITS);

    /// Bins the bodies at `position` that are in `layer`.
    pub fn of_layer(position: &Vec3s, bodies: &BinnedBodies, layer: u8, projection: &Projection) -> Self {
        let shown = (0..position.len()).filter(|&i| bodies.layer[i] == layer);
        let visible: Vec<([u32; 2], u64)> = shown
            .filter_map(|i| Some((projection.fixed_position(position.get(i))?, bodies.mass[i])))
            .collect();
        let counts = count_pyramid(&visible, projection);
        let steps = step_thresholds(counts.len());
        let mut levels: Vec<Vec<u64>> = counts.iter().map(|grid| vec![0; grid.width * grid.height]).collect();
        for &(at, mass) in &visible {
            let size = patch_size(&counts, &steps, at);
            let (below, fraction) = ((size / STEPS_PER_LEVEL) as usize, u64::from(size % STEPS_PER_LEVEL));
            let mut add = |level: usize, weight: u64| {
                add_cloud(&mut levels[level], &counts[level], level as u32, at, mass * weight);
            };
            add(below, u64::from(STEPS_PER_LEVEL) - fraction);
            if fraction > 0 {
                add(below + 1, fraction);
            }
        }
        Self { levels }
    }

    /// Returns the bins with these sums: those of all pixels of level 0, then of level 1, and so
    /// on. There must be one per pixel of the pyramid.
    pub fn from_sums(mut sums: &[u64], projection: &Projection) -> Self {
        let next_level = |level: usize| {
            let [width, height] = projection.level_size(level);
            let (first, rest) = sums.split_at(width * height);
            sums = rest;
            first.to_vec()
        };
        Self { levels: (0..projection.level_count()).map(next_level).collect() }
    }
}

/// Number of bodies per pixel of one level.
struct Counts {
    width: usize,
    height: usize,
    value: Vec<u32>,
}

/// Counts the bodies of each pixel on all levels.
fn count_pyramid(visible: &[([u32; 2], u64)], projection: &Projection) -> Vec<Counts> {
    let [width, height] = projection.level_size(0);
    let mut finest = Counts { width, height, value: vec![0; width * height] };
    for &([x, y], _) in visible {
        finest.value[(y >> POSITION_BITS) as usize * width + (x >> POSITION_BITS) as usize] += 1;
    }
    let mut counts = vec![finest];
    for level in 1..projection.level_count() {
        let [width, height] = projection.level_size(level);
        let finer = &counts[level - 1];
        let mut value = vec![0u32; width * height];
        for (y, row) in finer.value.chunks_exact(finer.width).enumerate() {
            let target = &mut value[y / 2 * width..][..width];
            target.iter_mut().zip(row.chunks(2)).for_each(|(sum, pair)| *sum += pair.iter().sum::<u32>());
        }
        counts.push(Counts { width, height, value });
    }
    counts
}

impl Counts {
    /// Returns the number of bodies in a pixel and its eight neighbours.
    fn block_sum(&self, x: usize, y: usize) -> u32 {
        let columns = x.saturating_sub(1)..(x + 2).min(self.width);
        (y.saturating_sub(1)..(y + 2).min(self.height))
            .map(|row| self.value[row * self.width..][columns.clone()].iter().sum::<u32>())
            .sum()
    }
}

/// Returns the counts at which a patch becomes one step smaller: `NEIGHBOURS` × 4^(k / 64) for
/// k = 1, 2, ... up to the number of steps of the pyramid, rounded up.
pub fn step_thresholds(level_count: usize) -> Vec<u32> {
    let threshold = |k: u32| {
        let count = f64::from(NEIGHBOURS) * 4f64.powf(f64::from(k) / f64::from(STEPS_PER_LEVEL));
        count.ceil().min(f64::from(u32::MAX)) as u32
    };
    (1..=(level_count as u32 - 1) * STEPS_PER_LEVEL).map(threshold).collect()
}

/// Returns log2 of the side of the patch around a position that contains `NEIGHBOURS` bodies, in
/// steps of 1/64 and within the levels of the pyramid.
///
/// 9 pixels of the first level with enough bodies contain `around` of them. The area is scaled to
/// `NEIGHBOURS`, for a kernel of about 9 pixels: size = level - log4(around / NEIGHBOURS). On the
/// last level `around` may be too small, and then the patch has the largest size.
fn patch_size(counts: &[Counts], steps: &[u32], [x, y]: [u32; 2]) -> u32 {
    let last = counts.len() - 1;
    for (level, grid) in counts.iter().enumerate() {
        let shift = POSITION_BITS as usize + level;
        let around = grid.block_sum(x as usize >> shift, y as usize >> shift);
        if around >= NEIGHBOURS || level == last {
            let largest = level as u32 * STEPS_PER_LEVEL;
            return largest - (steps[..largest as usize].partition_point(|&step| step <= around) as u32);
        }
    }
    last as u32 * STEPS_PER_LEVEL
}

/// Distributes `mass` over the four pixels around a position. Mass that would leave the picture is
/// put on its edge.
fn add_cloud(bins: &mut [u64], grid: &Counts, level: u32, at: [u32; 2], mass: u64) {
    let one = 1i64 << POSITION_BITS;
    // Position from the centre of the first pixel of the level, in 1/256 of its pixels.
    let [x, y] = at.map(|c| i64::from(c >> level) - one / 2);
    let clamped = |pixel: i64, size: usize| (pixel.max(0) as usize).min(size - 1);
    let (left, top) = (x >> POSITION_BITS, y >> POSITION_BITS);
    let (fx, fy) = ((x & (one - 1)) as u64, (y & (one - 1)) as u64);
    let columns = [clamped(left, grid.width), clamped(left + 1, grid.width)];
    let rows = [clamped(top, grid.height), clamped(top + 1, grid.height)];
    for (row, wy) in rows.into_iter().zip([one as u64 - fy, fy]) {
        for (column, wx) in columns.into_iter().zip([one as u64 - fx, fx]) {
            bins[row * grid.width + column] += mass * (wx * wy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Draws;

    fn projection(width: u32, height: u32) -> Projection {
        Projection {
            centre: [0.0; 3],
            right: [1.0, 0.0, 0.0],
            up: [0.0, 1.0, 0.0],
            pixel_size: 2.0 / f64::from(width),
            width,
            height,
        }
    }

    fn cloud(count: u64) -> (Vec3s, Vec<f64>) {
        let mut position = Vec3s::default();
        for i in 0..count {
            let mut draws = Draws::new(3, 0, i);
            position.push([draws.normal(), 0.3 * draws.normal(), draws.normal()]);
        }
        (position, (0..count).map(|i| 0.5 + (i % 3) as f64).collect())
    }

    /// Each body gives its mass times the total weight, exactly.
    #[test]
    fn bins_sum_to_the_visible_mass() {
        let (position, mass) = cloud(2000);
        for (width, height) in [(64, 64), (101, 37), (640, 480), (1, 1), (3, 2)] {
            let projection = projection(width, height);
            let bodies = BinnedBodies::new(&mass, |_| Some(0));
            let bins = Bins::of_layer(&position, &bodies, 0, &projection);
            let visible = (0..2000).filter(|&i| projection.fixed_position(position.get(i)).is_some());
            let expected: u64 = visible.map(|i| bodies.mass[i]).sum();
            let sum: u64 = bins.levels.iter().flatten().sum();
            assert_eq!(sum, expected * Bins::TOTAL_WEIGHT, "{width} x {height}");
        }
    }

    #[test]
    fn masses_are_rounded_to_the_unit() {
        let bodies = BinnedBodies::new(&[1.0, 3.0, f64::NAN, 0.0], |i| (i != 1).then_some(7));
        assert_eq!(bodies.layer, [7, HIDDEN, HIDDEN, HIDDEN]);
        assert_eq!(bodies.mass, [1 << 34, 3 << 34, 0, 0]);
        assert_eq!(bodies.mass_unit, 4.0 / (1u64 << 36) as f64);
    }

    #[test]
    fn layers_are_binned_separately() {
        let (position, mass) = cloud(500);
        let projection = projection(80, 60);
        let both = BinnedBodies::new(&mass, |i| Some((i % 2) as u8));
        let odd = BinnedBodies::new(&mass, |i| (i % 2 == 1).then_some(0));
        assert_eq!(
            Bins::of_layer(&position, &both, 1, &projection),
            Bins::of_layer(&position, &odd, 0, &projection)
        );
    }

    /// Sparse bodies have the largest patch, and a clump has the smallest.
    #[test]
    fn patches_contain_about_the_same_number_of_bodies() {
        let projection = projection(640, 640);
        let size_of = |count: usize| {
            let counts = count_pyramid(&vec![([300 << 8, 200 << 8], 1); count], &projection);
            patch_size(&counts, &step_thresholds(counts.len()), [300 << 8, 200 << 8])
        };
        assert_eq!(size_of(1), 5 * STEPS_PER_LEVEL);
        assert_eq!(size_of(27), 5 * STEPS_PER_LEVEL);
        assert_eq!(size_of(28), 0, "9 pixels of level 0 have enough bodies");
        // Four bodies per pixel of level 0 are 36 in 9 pixels. One per pixel is reached on level 1.
        let spread: Vec<([u32; 2], u64)> =
            (0..100 * 100).map(|i| ([(i % 100) << 8, (i / 100) << 8], 1)).collect();
        let counts = count_pyramid(&spread, &projection);
        let size = patch_size(&counts, &step_thresholds(counts.len()), [50 << 8, 50 << 8]);
        // 36 bodies in 9 pixels of side 2: log2(2) - log4(36 / 28) = 0.82 octaves, rounded up.
        assert_eq!(size, 53);
    }

    #[test]
    fn bodies_outside_and_non_finite_positions_are_skipped() {
        let mut position = Vec3s::default();
        for x in [f64::NAN, f64::INFINITY, 1.5, -1.000001] {
            position.push([x, 0.0, 0.0]);
        }
        let bodies = BinnedBodies::new(&[1.0; 4], |_| Some(0));
        let bins = Bins::of_layer(&position, &bodies, 0, &projection(20, 20));
        assert!(bins.levels.iter().flatten().all(|&sum| sum == 0));
    }
}
