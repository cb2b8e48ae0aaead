//! Inner loops of the CPU version, in SIMD registers.

use orrery_simd::{Vector, prefetch};

use super::{MAX_RADIUS, Stencil};
use crate::Scalar;

/// Most planes that are updated at a time.
pub const MAX_SWEEP: usize = 4;

/// v of the nodes of a row in consecutive planes.
#[derive(Clone, Copy, Debug)]
pub enum CourantRow<'a, R> {
    /// The same everywhere.
    Uniform(R),
    /// One value per node, up to the end of the last register that is updated.
    Field(&'a [R]),
}

impl<R: Scalar> CourantRow<'_, R> {
    /// Returns the register at `at`.
    #[inline(always)]
    pub fn load<V: Vector<Scalar = R>>(&self, at: usize) -> V {
        match self {
            Self::Uniform(v) => V::splat(*v),
            Self::Field(row) => V::load(&row[at..]),
        }
    }
}

/// Strides of a field along y and z.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
}

/// Weights of the stencil in registers.
#[derive(Clone, Copy)]
struct Weights<V> {
    centre: V,
    x: [V; MAX_RADIUS],
    y: [V; MAX_RADIUS],
    z: [V; MAX_RADIUS],
}

/// Returns the same weights in all lanes.
#[inline(always)]
pub fn splat_weights<V: Vector>(weights: &[V::Scalar; MAX_RADIUS]) -> [V; MAX_RADIUS] {
    [V::splat(weights[0]), V::splat(weights[1]), V::splat(weights[2]), V::splat(weights[3])]
}

/// Parts of u around rows in each of some planes, all of the same length. Those beyond the radius
/// are the rows themselves.
#[derive(Clone, Copy)]
struct NeighbourRows<'a, R, const PLANES: usize> {
    /// Rows 1 … 4 nodes before.
    before: [[&'a [R]; PLANES]; MAX_RADIUS],
    /// Rows 1 … 4 nodes after.
    after: [[&'a [R]; PLANES]; MAX_RADIUS],
}

/// Returns the parts of `u` at multiples of `stride` from the position `first` and the same
/// position in the following planes, with `n` values each.
#[inline(always)]
fn neighbours<R, const RADIUS: usize, const PLANES: usize>(
    u: &[R],
    first: usize,
    plane: usize,
    stride: usize,
    n: usize,
) -> NeighbourRows<'_, R, PLANES> {
    let row = &u[first..][..n];
    let mut rows = NeighbourRows { before: [[row; PLANES]; MAX_RADIUS], after: [[row; PLANES]; MAX_RADIUS] };
    let mut r = 0;
    while r < RADIUS {
        let mut p = 0;
        while p < PLANES {
            rows.before[r][p] = &u[first + p * plane - (r + 1) * stride..][..n];
            rows.after[r][p] = &u[first + p * plane + (r + 1) * stride..][..n];
            p += 1;
        }
        r += 1;
    }
    rows
}

/// Input of rows in consecutive planes. All parts have the same length, so the compiler sees that
/// one check of the length is enough for all loads at a position.
struct RowInput<'a, R, const PLANES: usize> {
    /// The rows in u in all planes from `RADIUS` before the first one up to `RADIUS` after the last
    /// one. In two dimensions the first one has the rows, and others are not used.
    column: [&'a [R]; MAX_COLUMN],
    along_x: NeighbourRows<'a, R, PLANES>,
    along_y: NeighbourRows<'a, R, PLANES>,
    /// v of the nodes if `IS_VARIABLE`, and rows of u otherwise.
    courant: [&'a [R]; PLANES],
    /// v if it is uniform.
    uniform_courant: R,
}

#[inline(always)]
fn weights_of<V: Vector>(stencil: &Stencil<V::Scalar>) -> Weights<V> {
    let [x, y, z] = &stencil.neighbours;
    Weights {
        centre: V::splat(stencil.centre),
        x: splat_weights(x),
        y: splat_weights(y),
        z: splat_weights(z),
    }
}

/// Distance of the values that are loaded ahead, in bytes: about one row of 256 nodes in f32.
///
/// Measured with the same loops in C on two AVX-512 cores with 256³ nodes in f32, median of 40
/// steps in Gpoint/s, two planes at a time: 1.76 without, 1.99 with 256 bytes, 2.21 with 1 KiB,
/// 2.14 with 2 KiB. `cargo bench -p orrery-fields --bench wave_cpu` measures the value in use.
const PREFETCH_BYTES: usize = 1024;

/// Planes of the longest column: those of the largest sweep and the stencil on both sides.
const MAX_COLUMN: usize = MAX_SWEEP + 2 * MAX_RADIUS;

impl<R: Scalar, const PLANES: usize> RowInput<'_, R, PLANES> {
    /// Starts to load values that the following rows need and that are not in the cache yet.
    #[inline(always)]
    fn prefetch<const RADIUS: usize, const IS_VARIABLE: bool>(&self, next: &[&mut [R]; PLANES], x: usize) {
        let mut p = 0;
        while p < PLANES {
            prefetch(self.column[p + 2 * RADIUS][x..].as_ptr().wrapping_byte_add(PREFETCH_BYTES));
            prefetch(next[p][x..].as_ptr().wrapping_byte_add(PREFETCH_BYTES));
            if IS_VARIABLE {
                prefetch(self.courant[p][x..].as_ptr().wrapping_byte_add(PREFETCH_BYTES));
            }
            p += 1;
        }
    }

    /// Returns the new values of the registers at `x`. `next` has those of the step before.
    ///
    /// All loops have a constant number of turns, so that they are unrolled.
    #[inline(always)]
    fn updated<
        V: Vector<Scalar = R>,
        const RADIUS: usize,
        const DIMENSIONS: usize,
        const IS_VARIABLE: bool,
    >(
        &self,
        weights: &Weights<V>,
        next: &[&mut [R]; PLANES],
        x: usize,
    ) -> [V; PLANES] {
        let ghosts = if DIMENSIONS == 3 { RADIUS } else { 0 };
        let mut column = [weights.centre; MAX_COLUMN];
        let mut k = 0;
        while k < PLANES + 2 * ghosts {
            column[k] = V::load(&self.column[k][x..]);
            k += 1;
        }
        let mut sums = [weights.centre; PLANES];
        let mut p = 0;
        while p < PLANES {
            sums[p] = weights.centre.mul(column[p + ghosts]);
            p += 1;
        }
        let mut r = 1;
        while r <= ghosts {
            let mut p = 0;
            while p < PLANES {
                let pair = column[p + ghosts - r].add(column[p + ghosts + r]);
                sums[p] = weights.z[r - 1].fused_mul_add(pair, sums[p]);
                p += 1;
            }
            r += 1;
        }
        sums = self.along_y.added::<V, RADIUS>(&weights.y, x, sums);
        sums = self.along_x.added::<V, RADIUS>(&weights.x, x, sums);
        p = 0;
        while p < PLANES {
            let v = match IS_VARIABLE {
                true => V::load(&self.courant[p][x..]),
                false => V::splat(self.uniform_courant),
            };
            // 2u is exact, so this is fma(2, u, −u^(n−1)) with one constant less.
            let own = column[p + ghosts];
            let inertia = own.add(own).sub(V::load(&next[p][x..]));
            sums[p] = v.fused_mul_add(sums[p], inertia).zero_if_tiny();
            p += 1;
        }
        sums
    }
}

impl<R: Scalar, const PLANES: usize> NeighbourRows<'_, R, PLANES> {
    /// Returns `sums` + Σ w_r (u_−r + u_r) for the row in each plane.
    #[inline(always)]
    fn added<V: Vector<Scalar = R>, const RADIUS: usize>(
        &self,
        weights: &[V; MAX_RADIUS],
        x: usize,
        mut sums: [V; PLANES],
    ) -> [V; PLANES] {
        let mut r = 0;
        while r < RADIUS {
            let mut p = 0;
            while p < PLANES {
                let pair = V::load(&self.before[r][p][x..]).add(V::load(&self.after[r][p][x..]));
                sums[p] = weights[r].fused_mul_add(pair, sums[p]);
                p += 1;
            }
            r += 1;
        }
        sums
    }
}

/// Rows of the same length in consecutive planes.
#[derive(Clone, Copy, Debug)]
pub struct RowBlock {
    /// Position of the first node in the first plane.
    pub first: usize,
    /// Nodes per row.
    pub nodes: usize,
    /// Rows per plane.
    pub rows: usize,
}

/// Updates rows in `PLANES` consecutive planes, which share loads along z.
///
/// `next` and `courant` start at the first node, and extend to the end of the last register of the
/// last row. Values between rows do not change. In two dimensions there is one plane.
#[inline(always)]
pub fn update_rows<
    V: Vector<Scalar = R>,
    R: Scalar,
    const RADIUS: usize,
    const DIMENSIONS: usize,
    const PLANES: usize,
    const IS_VARIABLE: bool,
>(
    stencil: &Stencil<R>,
    u: &[R],
    block: RowBlock,
    Strides { pitch, plane }: Strides,
    courant: CourantRow<R>,
    next: [&mut [R]; PLANES],
) {
    let RowBlock { first, nodes, rows } = block;
    let span = (rows - 1) * pitch + nodes.next_multiple_of(V::LANES);
    let next = next.map(|row| &mut row[..span]);
    let weights = weights_of::<V>(stencil);
    let ghosts = if DIMENSIONS == 3 { RADIUS } else { 0 };
    let own = &u[first..][..span];
    let mut column = [own; MAX_COLUMN];
    let mut k = 0;
    while k < PLANES + 2 * ghosts {
        column[k] = &u[first + k * plane - ghosts * plane..][..span];
        k += 1;
    }
    let (mut courant_rows, mut uniform_courant) = ([own; PLANES], R::default());
    match courant {
        CourantRow::Field(values) => {
            let mut p = 0;
            while p < PLANES {
                courant_rows[p] = &values[p * plane..][..span];
                p += 1;
            }
        }
        CourantRow::Uniform(v) => uniform_courant = v,
    }
    let input = RowInput {
        column,
        along_x: neighbours::<R, RADIUS, PLANES>(u, first, plane, 1, span),
        along_y: neighbours::<R, RADIUS, PLANES>(u, first, plane, pitch, span),
        courant: courant_rows,
        uniform_courant,
    };
    let whole = nodes / V::LANES * V::LANES;
    let mut row = 0;
    while row < rows {
        let (mut x, end) = (row * pitch, row * pitch + whole);
        while x < end {
            let values = input.updated::<V, RADIUS, DIMENSIONS, IS_VARIABLE>(&weights, &next, x);
            if DIMENSIONS == 3 {
                input.prefetch::<RADIUS, IS_VARIABLE>(&next, x);
            }
            let mut p = 0;
            while p < PLANES {
                values[p].store(&mut next[p][x..]);
                p += 1;
            }
            x += V::LANES;
        }
        if whole < nodes {
            let values = input.updated::<V, RADIUS, DIMENSIONS, IS_VARIABLE>(&weights, &next, x);
            let mut p = 0;
            while p < PLANES {
                store_first(values[p], &mut next[p][x..], nodes - whole);
                p += 1;
            }
        }
        row += 1;
    }
}

/// Stores the first `n` lanes of a register, at most [`Vector::LANES`].
#[inline(always)]
pub fn store_first<V: Vector>(value: V, to: &mut [V::Scalar], n: usize)
where
    V::Scalar: Scalar,
{
    if n >= V::LANES {
        value.store(to);
    } else {
        let mut lanes = [V::Scalar::default(); orrery_simd::MAX_LANES];
        value.store(&mut lanes);
        to[..n].copy_from_slice(&lanes[..n]);
    }
}
