//! Inner loops of the CPU version, in SIMD registers.

use orrery_simd::{Real, Vector};

use super::{LayerCoefficients, MAX_RADIUS, Stencil};
use crate::Scalar;

/// Most planes that [`update_rows`] updates at a time.
pub const MAX_SWEEP: usize = 4;

/// v of the nodes of a row.
#[derive(Clone, Copy, Debug)]
pub enum CourantRow<'a, R> {
    /// The same everywhere.
    Uniform(R),
    /// One value per node, up to the end of the last register.
    Field(&'a [R]),
}

/// Strides of a field along y and z.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    /// Values from a row to the next one.
    pub pitch: usize,
    /// Values from a plane to the next one.
    pub plane: usize,
}

/// Updates row j of `PLANES` consecutive planes. The planes share loads along z.
///
/// `first` is the position of the first node of the row in `u`, in the first plane. `rows` start at
/// the first node and extend to the end of the last register. Values after node `n` − 1 keep their
/// values. In two dimensions (`DIMENSIONS` = 2) `PLANES` is 1.
#[inline(always)]
pub fn update_rows<V: Vector, const RADIUS: usize, const DIMENSIONS: usize, const PLANES: usize>(
    stencil: &Stencil<V::Scalar>,
    u: &[V::Scalar],
    first: usize,
    strides: Strides,
    courant: [CourantRow<V::Scalar>; PLANES],
    mut rows: [&mut [V::Scalar]; PLANES],
    n: usize,
) {
    let whole = n / V::LANES * V::LANES;
    let mut x = 0;
    while x < whole {
        let next = updated::<V, RADIUS, DIMENSIONS, PLANES>(stencil, u, first + x, strides, &courant, &rows, x);
        let mut p = 0;
        while p < PLANES {
            next[p].store(&mut rows[p][x..]);
            p += 1;
        }
        x += V::LANES;
    }
    if whole < n {
        let next =
            updated::<V, RADIUS, DIMENSIONS, PLANES>(stencil, u, first + whole, strides, &courant, &rows, whole);
        let mut p = 0;
        while p < PLANES {
            let mut lanes = [V::Scalar::default(); orrery_simd::MAX_LANES];
            next[p].store(&mut lanes);
            rows[p][whole..n].copy_from_slice(&lanes[..n - whole]);
            p += 1;
        }
    }
}

/// Returns the new values of one register of each plane. `at` is its position in `u` in the first
/// plane, and `x` its position in the rows.
#[inline(always)]
fn updated<V: Vector, const RADIUS: usize, const DIMENSIONS: usize, const PLANES: usize>(
    stencil: &Stencil<V::Scalar>,
    u: &[V::Scalar],
    at: usize,
    strides: Strides,
    courant: &[CourantRow<V::Scalar>; PLANES],
    rows: &[&mut [V::Scalar]; PLANES],
    x: usize,
) -> [V; PLANES] {
    let zero = V::splat(V::Scalar::default());
    // The register in planes −RADIUS … PLANES − 1 + RADIUS, or only in the plane itself.
    let mut column = [zero; MAX_SWEEP + 2 * MAX_RADIUS];
    let reach = if DIMENSIONS == 3 { RADIUS } else { 0 };
    let mut k = 0;
    while k < PLANES + 2 * reach {
        column[k] = V::load(&u[at + k * strides.plane - reach * strides.plane..]);
        k += 1;
    }
    let centre = V::splat(stencil.centre);
    let (two, minus_one) = (V::splat(V::Scalar::from_f64(2.0)), V::splat(V::Scalar::from_f64(-1.0)));
    let mut next = [zero; PLANES];
    let mut p = 0;
    while p < PLANES {
        let own = column[p + reach];
        let at = at + p * strides.plane;
        let mut sum = centre.mul(own);
        let mut r = 1;
        while r <= reach {
            let pair = column[p + reach - r].add(column[p + reach + r]);
            sum = V::splat(stencil.neighbours[2][r - 1]).fused_mul_add(pair, sum);
            r += 1;
        }
        let mut r = 1;
        while r <= RADIUS {
            let pair = V::load(&u[at - r * strides.pitch..]).add(V::load(&u[at + r * strides.pitch..]));
            sum = V::splat(stencil.neighbours[1][r - 1]).fused_mul_add(pair, sum);
            r += 1;
        }
        let mut r = 1;
        while r <= RADIUS {
            let pair = V::load(&u[at - r..]).add(V::load(&u[at + r..]));
            sum = V::splat(stencil.neighbours[0][r - 1]).fused_mul_add(pair, sum);
            r += 1;
        }
        let v = match courant[p] {
            CourantRow::Uniform(v) => V::splat(v),
            CourantRow::Field(row) => V::load(&row[x..]),
        };
        let previous = minus_one.mul(V::load(&rows[p][x..]));
        next[p] = v.fused_mul_add(sum, two.fused_mul_add(own, previous));
        p += 1;
    }
    next
}

/// A bundle of parallel lines through a layer: where line l has its node n.
///
/// Node n of line l is at `first + n stride + l`. `stride` is negative for a max side.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Position of node 0 of line 0. Negative if only later nodes are stored.
    pub first: isize,
    /// Distance from a node to the next one inwards.
    pub stride: isize,
}

impl Lines {
    /// Returns the position of node `n` of line 0.
    #[inline(always)]
    pub fn at(self, n: isize) -> usize {
        (self.first + n * self.stride) as usize
    }
}

/// Returns the first derivative at node `n`, from the outside inwards.
#[inline(always)]
fn derivative<V: Vector, const RADIUS: usize>(
    weights: &[V::Scalar; MAX_RADIUS],
    u: &[V::Scalar],
    lines: Lines,
    n: isize,
) -> V {
    let inside = V::load(&u[lines.at(n + 1)..]);
    let mut sum = V::splat(weights[0]).mul(inside.sub(V::load(&u[lines.at(n - 1)..])));
    let mut r = 2;
    while r <= RADIUS as isize {
        let difference = V::load(&u[lines.at(n + r)..]).sub(V::load(&u[lines.at(n - r)..]));
        sum = V::splat(weights[r as usize - 1]).fused_mul_add(difference, sum);
        r += 1;
    }
    sum
}

/// Updates ψ of node `n` for one register of lines. `psi` starts at that register.
#[inline(always)]
pub fn update_psi<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    u: &[V::Scalar],
    lines: Lines,
    n: usize,
    psi: &[V::Scalar],
) -> V {
    let slope = derivative::<V, RADIUS>(&layer.first, u, lines, n as isize);
    V::splat(layer.b[n]).fused_mul_add(V::load(psi), V::splat(layer.a[n]).mul(slope))
}

/// Returns the second derivative of node `n` for one register of lines.
#[inline(always)]
fn curvature<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    u: &[V::Scalar],
    lines: Lines,
    n: isize,
) -> V {
    let mut sum = V::splat(layer.second_centre).mul(V::load(&u[lines.at(n)..]));
    let mut r = 1;
    while r <= RADIUS as isize {
        let pair = V::load(&u[lines.at(n - r)..]).add(V::load(&u[lines.at(n + r)..]));
        sum = V::splat(layer.second[r as usize - 1]).fused_mul_add(pair, sum);
        r += 1;
    }
    sum
}

/// Returns ζ of node `n` and the term Dψ + ζ of the new value, for one register of lines.
///
/// `psi` has zeros for nodes before the first and after the last node of the layer.
#[inline(always)]
pub fn update_zeta<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    (u, lines): (&[V::Scalar], Lines),
    (psi, psi_lines): (&[V::Scalar], Lines),
    n: usize,
    zeta: &[V::Scalar],
) -> (V, V) {
    let slope = derivative::<V, RADIUS>(&layer.first, psi, psi_lines, n as isize);
    let curvature = curvature::<V, RADIUS>(layer, u, lines, n as isize);
    let zeta = V::splat(layer.b[n])
        .fused_mul_add(V::load(zeta), V::splat(layer.a[n]).mul(curvature.add(slope)));
    (zeta, slope.add(zeta))
}

/// Returns the term Dψ of the new value at node `n` inside of the layer.
#[inline(always)]
pub fn inner_term<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    (psi, psi_lines): (&[V::Scalar], Lines),
    n: usize,
) -> V {
    derivative::<V, RADIUS>(&layer.first, psi, psi_lines, n as isize)
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
