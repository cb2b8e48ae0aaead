//! The inner loops: a few targets against a list of bodies, and against a list of cells.
//!
//! Sources lie along the lanes, `T` targets are held in registers, so that one load of sources serves `T`
//! targets and a list of any length fills the lanes. Each lane adds its share of a list in the register's
//! precision and then joins a f64 sum of its own ([`LaneSums`]): short f32 sums, a fixed order, and one
//! horizontal addition a target in all.
//!
//! A cell acts through its mass and second moments M about its centre of mass. With F = 1/ρ,
//!
//!   φ = −m/ρ − ½ M_ij ∂_i ∂_j F = −m/ρ − ½ (3 dMd/ρ⁵ − tr M/ρ³)
//!   a = d/ρ³ (m + 15/2 dMd/ρ⁴ − 3/2 tr M/ρ²) − 3 Md/ρ⁵
//!
//! evaluated with M/ρ² first: lengths to the power −7 would leave the range of f32 in deep cells.

use crate::law::gravity::{force_factor, force_weight, refined, softened_square};
use crate::simd::{MAX_LANES, Real, Vector};

/// Per target: lane sums of ax, ay, az and φ.
pub type LaneSums = [[f64; MAX_LANES]; 4];

/// Nothing summed yet.
pub const ZERO_SUMS: LaneSums = [[0.0; MAX_LANES]; 4];

/// Bodies as sources: columns of one length, a multiple of `MAX_LANES` once padded.
#[derive(Clone, Debug, Default)]
pub struct BodyList<R> {
    /// Coordinates, x, y, z.
    pub position: [Vec<R>; 3],
    /// Masses.
    pub mass: Vec<R>,
}

/// Cells as sources: centres of mass, masses and second moments xx, xy, xz, yy, yz, zz.
#[derive(Clone, Debug, Default)]
pub struct CellList<R> {
    /// Centres of mass, x, y, z.
    pub centre: [Vec<R>; 3],
    /// Masses.
    pub mass: Vec<R>,
    /// Second moments xx, xy, xz, yy, yz, zz.
    pub second: [Vec<R>; 6],
}

impl<R: Real> BodyList<R> {
    /// Forgets all bodies, keeps the memory.
    pub fn clear(&mut self) {
        self.position.iter_mut().for_each(Vec::clear);
        self.mass.clear();
    }

    /// Completes the last register with massless bodies at coordinate `outside`, where no target is.
    pub fn pad_to_lanes(&mut self, outside: f64) {
        let padded = self.mass.len().next_multiple_of(MAX_LANES);
        self.position.iter_mut().for_each(|column| column.resize(padded, R::from_f64(outside)));
        self.mass.resize(padded, R::default());
    }
}

impl<R: Real> CellList<R> {
    /// Makes room for `n` cells, to be written over, and completes the last register with empty cells at
    /// coordinate `outside`, where no target is.
    pub fn resize_and_pad(&mut self, n: usize, outside: f64) {
        let padded = n.next_multiple_of(MAX_LANES);
        for column in self.centre.iter_mut().chain(&mut self.second).chain([&mut self.mass]) {
            column.resize(padded, R::default());
        }
        self.centre.iter_mut().for_each(|column| column[n..].fill(R::from_f64(outside)));
        self.second.iter_mut().chain([&mut self.mass]).for_each(|column| column[n..].fill(R::default()));
    }
}

// The helpers below stand where `array::map` would read better: a closure is compiled without the instruction
// set of the function around it, and the intrinsics inside it would become calls.

/// a − b.
#[inline(always)]
fn difference<V: Vector>(a: [V; 3], b: [V; 3]) -> [V; 3] {
    [a[0].sub(b[0]), a[1].sub(b[1]), a[2].sub(b[2])]
}

/// A register of each of three columns, from `j` on.
#[inline(always)]
fn load3<V: Vector>(columns: [&[V::Scalar]; 3], j: usize) -> [V; 3] {
    [V::load(&columns[0][j..]), V::load(&columns[1][j..]), V::load(&columns[2][j..])]
}

/// The targets, each coordinate in all lanes of a register.
#[inline(always)]
fn broadcast<V: Vector, const T: usize>(targets: &[[V::Scalar; 3]; T]) -> [[V; 3]; T] {
    let mut wide = [[V::splat(V::Scalar::default()); 3]; T];
    for k in 0..T {
        for c in 0..3 {
            wide[k][c] = V::splat(targets[k][c]);
        }
    }
    wide
}

/// The same number in all lanes.
#[inline(always)]
fn constant<V: Vector>(x: f64) -> V {
    V::splat(V::Scalar::from_f64(x))
}

/// Adds the pull of `list` on `targets` to `sums`. Where `SELF` is set, target k is itself entry `first + k` of
/// the list, if it has such an entry, and is left out.
#[inline(always)]
pub fn add_bodies<V: Vector, const T: usize, const POTENTIAL: bool, const SELF: bool>(
    targets: &[[V::Scalar; 3]; T],
    list: &BodyList<V::Scalar>,
    eps2: V::Scalar,
    first: isize,
    sums: &mut [LaneSums],
) {
    let n = list.mass.len();
    let position = [&list.position[0][..n], &list.position[1][..n], &list.position[2][..n]];
    let mass = &list.mass[..n];
    let target = broadcast::<V, T>(targets);
    let eps2 = V::splat(eps2);
    let zero = constant::<V>(0.0);
    let mut acc = [[zero; 4]; T];
    let mut lane_numbers = [V::Scalar::default(); MAX_LANES];
    for k in 0..MAX_LANES {
        lane_numbers[k] = V::Scalar::from_f64(k as f64);
    }
    let lane_numbers = V::load(&lane_numbers);

    for j in (0..n).step_by(V::LANES) {
        let source = load3::<V>(position, j);
        let m = V::load(&mass[j..]);
        for k in 0..T {
            let d = difference(source, target[k]);
            let rho2 = softened_square(d, eps2);
            let mut estimate = rho2.rsqrt_estimate();
            if SELF {
                let own = (first - j as isize) as f64 + k as f64;
                estimate = estimate.zero_where_equal(lane_numbers, constant(own));
            }
            let w = force_weight(m, rho2, estimate);
            for c in 0..3 {
                acc[k][c] = d[c].mul_add(w, acc[k][c]);
            }
            if POTENTIAL {
                acc[k][3] = m.neg_mul_add(refined(rho2, estimate), acc[k][3]);
            }
        }
    }
    for k in 0..T {
        for c in 0..3 {
            acc[k][c].add_to_lane_sums(&mut sums[k][c], force_factor::<V>());
        }
        if POTENTIAL {
            acc[k][3].add_to_lane_sums(&mut sums[k][3], 1.0);
        }
    }
}

/// Adds the pull of the cells in `list` on `targets` to `sums`.
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
    let mixed = [&list.second[1][..n], &list.second[2][..n], &list.second[4][..n]];
    let mass = &list.mass[..n];
    let target = broadcast::<V, T>(targets);
    let (eps2, zero) = (V::splat(eps2), constant::<V>(0.0));
    let mut acc = [[zero; 4]; T];

    for j in (0..n).step_by(V::LANES) {
        let source = load3::<V>(centre, j);
        let [xx, yy, zz] = load3::<V>(diagonal, j);
        let [xy, xz, yz] = load3::<V>(mixed, j);
        let m = V::load(&mass[j..]);
        let trace = xx.add(yy).add(zz);
        for k in 0..T {
            let d = difference(source, target[k]);
            let rho2 = softened_square(d, eps2);
            let y = refined(rho2, rho2.rsqrt_estimate());
            let y2 = y.mul(y);
            let y3 = y2.mul(y);
            let md = [
                xx.mul_add(d[0], xy.mul_add(d[1], xz.mul(d[2]))),
                xy.mul_add(d[0], yy.mul_add(d[1], yz.mul(d[2]))),
                xz.mul_add(d[0], yz.mul_add(d[1], zz.mul(d[2]))),
            ];
            // dMd/ρ⁴ and tr M/ρ², each of the order of the mass.
            let dmd = d[0].mul_add(md[0], d[1].mul_add(md[1], d[2].mul(md[2]))).mul(y2).mul(y2);
            let tr = trace.mul(y2);
            let along = y3.mul(dmd.mul_add(constant(7.5), tr.neg_mul_add(constant(1.5), m)));
            let across = y2.mul(y3).mul(constant(3.0));
            for c in 0..3 {
                acc[k][c] = d[c].mul_add(along, md[c].neg_mul_add(across, acc[k][c]));
            }
            if POTENTIAL {
                let quadrupole = dmd.mul_add(constant(1.5), tr.neg_mul_add(constant(0.5), m));
                acc[k][3] = y.neg_mul_add(quadrupole, acc[k][3]);
            }
        }
    }
    for k in 0..T {
        for c in 0..if POTENTIAL { 4 } else { 3 } {
            acc[k][c].add_to_lane_sums(&mut sums[k][c], 1.0);
        }
    }
}
