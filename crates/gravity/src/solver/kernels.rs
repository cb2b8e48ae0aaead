//! Inner loops on the CPU: a few targets against a list of bodies, or against a list of cells.
//!
//! Each lane of a SIMD register has another source, and `T` targets stay in registers. One load of
//! sources therefore serves `T` targets, and a list of any length fills the lanes. Each lane sums
//! its share of a list in the precision of the register and then adds it to a separate f64 sum
//! ([`LaneSums`]). This gives short f32 sums, a fixed order, and one horizontal addition per
//! target.
//!
//! A cell acts through its mass and its second moments M about its centre of mass. With F = 1/ρ,
//!
//!   φ = −m/ρ − ½ M_ij ∂_i ∂_j F = −m/ρ − ½ (3 dMd/ρ⁵ − tr M/ρ³)
//!   a = d/ρ³ (m + 15/2 dMd/ρ⁴ − 3/2 tr M/ρ²) − 3 Md/ρ⁵
//!
//! M/ρ² is computed first. A factor of length^−7 would leave the range of f32 for small cells.

use orrery_simd::{MAX_LANES, Real, SingleVector, Vector};

use crate::law::gravity::{force_factor, force_weight, refined_inv_rho, softened_square};

/// Sums of ax, ay, az and φ of one target, separately for each lane.
pub type LaneSums = [[f64; MAX_LANES]; 4];

/// Sums before the first term.
pub const ZERO_SUMS: LaneSums = [[0.0; MAX_LANES]; 4];

/// Bodies as sources. All columns have the same length, after padding a multiple of `MAX_LANES`.
#[derive(Clone, Debug, Default)]
pub struct BodyList<R> {
    /// Coordinates x, y, z.
    pub position: [Vec<R>; 3],
    /// Masses.
    pub mass: Vec<R>,
}

/// Bodies that may be near their targets, for [`add_near_bodies`].
#[derive(Clone, Debug, Default)]
pub struct NearBodyList {
    /// Positions rounded in the frame of the targets, and masses.
    pub rounded: BodyList<f32>,
    /// Coordinates x, y, z in the frame of f64.
    pub exact: [Vec<f64>; 3],
}

/// A target of [`add_near_bodies`].
#[derive(Clone, Copy, Debug)]
pub struct NearTarget {
    /// Position in the frame of [`NearBodyList::rounded`].
    pub rounded: [f32; 3],
    /// Position in the frame of [`NearBodyList::exact`].
    pub exact: [f64; 3],
}

/// Cells as sources. All columns have the same length, a multiple of `MAX_LANES`.
#[derive(Clone, Debug, Default)]
pub struct CellList<R> {
    /// Centres of mass x, y, z.
    pub centre: [Vec<R>; 3],
    /// Masses.
    pub mass: Vec<R>,
    /// Second moments xx, xy, xz, yy, yz, zz.
    pub second: [Vec<R>; 6],
}

impl<R: Real> BodyList<R> {
    /// Removes all bodies and keeps the memory.
    pub fn clear(&mut self) {
        self.position.iter_mut().for_each(Vec::clear);
        self.mass.clear();
    }

    /// Fills the last register with massless bodies at coordinate `outside`, where there is no
    /// target.
    pub fn pad_to_lanes(&mut self, outside: f64) {
        let padded = self.mass.len().next_multiple_of(MAX_LANES);
        self.position.iter_mut().for_each(|column| column.resize(padded, R::from_f64(outside)));
        self.mass.resize(padded, R::default());
    }
}

impl NearBodyList {
    /// Removes all bodies and keeps the memory.
    pub fn clear(&mut self) {
        self.rounded.clear();
        self.exact.iter_mut().for_each(Vec::clear);
    }

    /// As [`BodyList::pad_to_lanes`].
    pub fn pad_to_lanes(&mut self, outside: f64) {
        self.rounded.pad_to_lanes(outside);
        let padded = self.rounded.mass.len();
        self.exact.iter_mut().for_each(|column| column.resize(padded, outside));
    }
}

impl<R: Real> CellList<R> {
    /// Resizes the list to `n` cells, which the caller must write. Fills the last register with
    /// empty cells at coordinate `outside`, where there is no target.
    pub fn resize_and_pad(&mut self, n: usize, outside: f64) {
        let padded = n.next_multiple_of(MAX_LANES);
        for column in self.centre.iter_mut().chain(&mut self.second).chain([&mut self.mass]) {
            column.resize(padded, R::default());
        }
        self.centre.iter_mut().for_each(|column| column[n..].fill(R::from_f64(outside)));
        self.second.iter_mut().chain([&mut self.mass]).for_each(|column| column[n..].fill(R::default()));
    }
}

// The functions below replace `array::map`, which would be more readable. A closure is compiled
// without the instruction set of the enclosing function, and the intrinsics in it would become
// calls.

/// Returns a − b.
#[inline(always)]
fn difference<V: Vector>(a: [V; 3], b: [V; 3]) -> [V; 3] {
    [a[0].sub(b[0]), a[1].sub(b[1]), a[2].sub(b[2])]
}

/// Loads one register from each of three columns, from index `first` on.
#[inline(always)]
fn load3<V: Vector>(columns: [&[V::Scalar]; 3], first: usize) -> [V; 3] {
    [V::load(&columns[0][first..]), V::load(&columns[1][first..]), V::load(&columns[2][first..])]
}

/// Returns the targets with each coordinate in all lanes of a register.
#[inline(always)]
fn broadcast_targets<V: Vector, const T: usize>(targets: &[[V::Scalar; 3]; T]) -> [[V; 3]; T] {
    let mut registers = [[V::splat(V::Scalar::default()); 3]; T];
    for k in 0..T {
        for c in 0..3 {
            registers[k][c] = V::splat(targets[k][c]);
        }
    }
    registers
}

/// Returns a register with `x` in all lanes.
#[inline(always)]
fn splat_f64<V: Vector>(x: f64) -> V {
    V::splat(V::Scalar::from_f64(x))
}

/// Returns a register with k in lane k.
#[inline(always)]
fn lane_indices<V: Vector>() -> V {
    let mut indices = [V::Scalar::default(); MAX_LANES];
    for k in 0..MAX_LANES {
        indices[k] = V::Scalar::from_f64(k as f64);
    }
    V::load(&indices)
}

/// Adds the attraction of one register of sources with masses `m` at distances `d` to `acc`. `rho2`
/// is their softened square. With `SELF`, leaves out the lane whose index is `self_lane`.
#[inline(always)]
fn add_pair<V: Vector, const POTENTIAL: bool, const SELF: bool>(
    d: [V; 3],
    rho2: V,
    m: V,
    lane_indices: V,
    self_lane: f64,
    acc: &mut [V; 4],
) {
    let mut inv_rho_estimate = rho2.rsqrt_estimate();
    if SELF {
        inv_rho_estimate = inv_rho_estimate.zero_where_equal(lane_indices, splat_f64(self_lane));
    }
    let weight = force_weight(m, rho2, inv_rho_estimate);
    for c in 0..3 {
        acc[c] = d[c].mul_add(weight, acc[c]);
    }
    if POTENTIAL {
        let inv_rho = refined_inv_rho(rho2, inv_rho_estimate);
        acc[3] = m.neg_mul_add(inv_rho, acc[3]);
    }
}

/// Adds the registers of `T` targets to their sums.
#[inline(always)]
fn add_to_sums<V: Vector, const T: usize, const POTENTIAL: bool>(acc: &[[V; 4]; T], sums: &mut [LaneSums]) {
    for k in 0..T {
        for c in 0..3 {
            acc[k][c].add_to_lane_sums(&mut sums[k][c], force_factor::<V>());
        }
        if POTENTIAL {
            acc[k][3].add_to_lane_sums(&mut sums[k][3], 1.0);
        }
    }
}

/// Adds the attraction of the bodies in `list` on `targets` to `sums`.
///
/// With `SELF`, target k is the body `first_target + k` of the list, if the list has such an entry,
/// and its attraction on itself is left out.
#[inline(always)]
pub fn add_bodies<V: Vector, const T: usize, const POTENTIAL: bool, const SELF: bool>(
    targets: &[[V::Scalar; 3]; T],
    list: &BodyList<V::Scalar>,
    eps2: V::Scalar,
    first_target: isize,
    sums: &mut [LaneSums],
) {
    let n = list.mass.len();
    let position = [&list.position[0][..n], &list.position[1][..n], &list.position[2][..n]];
    let mass = &list.mass[..n];
    let target = broadcast_targets::<V, T>(targets);
    let eps2 = V::splat(eps2);
    let zero = splat_f64::<V>(0.0);
    let mut acc = [[zero; 4]; T];
    let lane_indices = lane_indices::<V>();

    for first_source in (0..n).step_by(V::LANES) {
        let source = load3::<V>(position, first_source);
        let m = V::load(&mass[first_source..]);
        for k in 0..T {
            let d = difference(source, target[k]);
            let self_lane = (first_target - first_source as isize) as f64 + k as f64;
            let rho2 = softened_square(d, eps2);
            add_pair::<V, POTENTIAL, SELF>(d, rho2, m, lane_indices, self_lane, &mut acc[k]);
        }
    }
    add_to_sums::<V, T, POTENTIAL>(&acc, sums);
}

/// Does [`add_bodies`] with `SELF` for bodies that may be near the targets. Differences of
/// registers with a pair within the square root of `near2` are taken in f64 and then rounded to
/// f32, so they are correct however near the bodies are.
#[inline(always)]
pub fn add_near_bodies<V: SingleVector, const T: usize, const POTENTIAL: bool>(
    targets: &[NearTarget; T],
    list: &NearBodyList,
    near2: f32,
    eps2: f32,
    first_target: isize,
    sums: &mut [LaneSums],
) {
    let NearBodyList { rounded: BodyList { position: [x, y, z], mass }, exact } = list;
    let n = mass.len();
    let (position, mass) = ([&x[..n], &y[..n], &z[..n]], &mass[..n]);
    let exact = [&exact[0][..n], &exact[1][..n], &exact[2][..n]];
    let mut rounded_targets = [[0.0; 3]; T];
    for k in 0..T {
        rounded_targets[k] = targets[k].rounded;
    }
    let target = broadcast_targets::<V, T>(&rounded_targets);
    // More than the rounding error of a sum.
    let limit2 = V::splat((near2 + eps2) * (1.0 + 1e-6));
    let all_lanes = u32::MAX >> (32 - V::LANES);
    let eps2 = V::splat(eps2);
    let zero = splat_f64::<V>(0.0);
    let mut acc = [[zero; 4]; T];
    let lane_indices = lane_indices::<V>();

    for first_source in (0..n).step_by(V::LANES) {
        let source = load3::<V>(position, first_source);
        let m = V::load(&mass[first_source..]);
        for k in 0..T {
            let mut d = difference(source, target[k]);
            let mut rho2 = softened_square(d, eps2);
            let own_lane = first_target + k as isize - first_source as isize;
            // The target itself is not a near pair. It is in few registers, and most others have
            // none.
            let is_own = (0..V::LANES as isize).contains(&own_lane);
            let left_out = if is_own { 1 << own_lane } else { 0 };
            if rho2.greater_mask(limit2) | left_out != all_lanes {
                for c in 0..3 {
                    d[c] = V::from_differences(&exact[c][first_source..], targets[k].exact[c]);
                }
                rho2 = softened_square(d, eps2);
            }
            let self_lane = own_lane as f64;
            add_pair::<V, POTENTIAL, true>(d, rho2, m, lane_indices, self_lane, &mut acc[k]);
        }
    }
    add_to_sums::<V, T, POTENTIAL>(&acc, sums);
}

/// Adds the attraction of the cells in `list` on `targets` to `sums`.
#[inline(always)]
pub fn add_cells<V: Vector, const T: usize, const POTENTIAL: bool>(
    targets: &[[V::Scalar; 3]; T],
    list: &CellList<V::Scalar>,
    eps2: V::Scalar,
    sums: &mut [LaneSums],
) {
    let n = list.mass.len();
    let centre = [&list.centre[0][..n], &list.centre[1][..n], &list.centre[2][..n]];
    let diagonal = [&list.second[0][..n], &list.second[3][..n], &list.second[5][..n]];
    let off_diagonal = [&list.second[1][..n], &list.second[2][..n], &list.second[4][..n]];
    let mass = &list.mass[..n];
    let target = broadcast_targets::<V, T>(targets);
    let (eps2, zero) = (V::splat(eps2), splat_f64::<V>(0.0));
    let mut acc = [[zero; 4]; T];

    for first_source in (0..n).step_by(V::LANES) {
        let source = load3::<V>(centre, first_source);
        let [xx, yy, zz] = load3::<V>(diagonal, first_source);
        let [xy, xz, yz] = load3::<V>(off_diagonal, first_source);
        let m = V::load(&mass[first_source..]);
        let trace = xx.add(yy).add(zz);
        for k in 0..T {
            let d = difference(source, target[k]);
            let rho2 = softened_square(d, eps2);
            let inv_rho = refined_inv_rho(rho2, rho2.rsqrt_estimate());
            let inv_rho2 = inv_rho.mul(inv_rho);
            let inv_rho3 = inv_rho2.mul(inv_rho);
            // M d
            let md = [
                xx.mul_add(d[0], xy.mul_add(d[1], xz.mul(d[2]))),
                xy.mul_add(d[0], yy.mul_add(d[1], yz.mul(d[2]))),
                xz.mul_add(d[0], yz.mul_add(d[1], zz.mul(d[2]))),
            ];
            // dMd/ρ⁴ and tr M/ρ², each of the order of the mass.
            let dmd = d[0].mul_add(md[0], d[1].mul_add(md[1], d[2].mul(md[2]))).mul(inv_rho2).mul(inv_rho2);
            let tr = trace.mul(inv_rho2);
            // a = d (m + 15/2 dMd/ρ⁴ − 3/2 tr M/ρ²)/ρ³ − Md 3/ρ⁵
            let d_weight = inv_rho3.mul(dmd.mul_add(splat_f64(7.5), tr.neg_mul_add(splat_f64(1.5), m)));
            let md_weight = inv_rho2.mul(inv_rho3).mul(splat_f64(3.0));
            for c in 0..3 {
                acc[k][c] = d[c].mul_add(d_weight, md[c].neg_mul_add(md_weight, acc[k][c]));
            }
            if POTENTIAL {
                // φ = −(m + 3/2 dMd/ρ⁴ − 1/2 tr M/ρ²)/ρ
                let mass_and_quadrupole = dmd.mul_add(splat_f64(1.5), tr.neg_mul_add(splat_f64(0.5), m));
                acc[k][3] = inv_rho.neg_mul_add(mass_and_quadrupole, acc[k][3]);
            }
        }
    }
    for k in 0..T {
        for c in 0..if POTENTIAL { 4 } else { 3 } {
            acc[k][c].add_to_lane_sums(&mut sums[k][c], 1.0);
        }
    }
}
