//! Inner loops of absorbing layers, in SIMD registers.

use orrery_simd::{Vector, prefetch};

use super::kernels::{CourantRow, splat_weights, store_first};
use super::layout::GAP;
use super::{LayerCoefficients, MAX_RADIUS};
use crate::Scalar;

/// Rows of equal length at the distances 1 … 4 from a node along the normal of a layer. Those
/// beyond the radius are not read.
#[derive(Clone, Copy)]
pub struct LayerRows<'a, R> {
    /// Rows on the side of the domain's edge.
    pub outside: [&'a [R]; MAX_RADIUS],
    /// Rows on the other side.
    pub inside: [&'a [R]; MAX_RADIUS],
}

impl<'a, R> LayerRows<'a, R> {
    /// Returns the parts of `values` at multiples of `inwards` from `position`, with `n` values
    /// each.
    #[inline(always)]
    pub fn around<const RADIUS: usize>(values: &'a [R], position: usize, inwards: isize, n: usize) -> Self {
        let own = &values[position..][..n];
        let mut rows = Self { outside: [own; MAX_RADIUS], inside: [own; MAX_RADIUS] };
        let mut r = 1;
        while r <= RADIUS {
            let distance = r as isize * inwards;
            rows.outside[r - 1] = &values[position.wrapping_add_signed(-distance)..][..n];
            rows.inside[r - 1] = &values[position.wrapping_add_signed(distance)..][..n];
            r += 1;
        }
        rows
    }

    /// Returns the first derivative at `at`, from the outside inwards.
    #[inline(always)]
    fn slope<V: Vector<Scalar = R>, const RADIUS: usize>(&self, weights: &[V; MAX_RADIUS], at: usize) -> V {
        let mut sum = weights[0].mul(self.difference::<V>(0, at));
        let mut r = 1;
        while r < RADIUS {
            sum = weights[r].fused_mul_add(self.difference::<V>(r, at), sum);
            r += 1;
        }
        sum
    }

    #[inline(always)]
    fn difference<V: Vector<Scalar = R>>(&self, r: usize, at: usize) -> V {
        V::load(&self.inside[r][at..]).sub(V::load(&self.outside[r][at..]))
    }

    /// Returns the second derivative at `at`. `centre` is its term of the node.
    #[inline(always)]
    fn curvature<V: Vector<Scalar = R>, const RADIUS: usize>(
        &self,
        weights: &[V; MAX_RADIUS],
        centre: V,
        at: usize,
    ) -> V {
        let mut sum = centre;
        let mut r = 0;
        while r < RADIUS {
            let pair = V::load(&self.outside[r][at..]).add(V::load(&self.inside[r][at..]));
            sum = weights[r].fused_mul_add(pair, sum);
            r += 1;
        }
        sum
    }
}

/// Updates ψ of the nodes n of a row of lines. The row `ahead` values after it is loaded ahead.
#[inline(always)]
pub fn update_psi<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    n: usize,
    u: &LayerRows<V::Scalar>,
    psi: &mut [V::Scalar],
    ahead: usize,
) {
    let (a, b, first) = (V::splat(layer.a[n]), V::splat(layer.b[n]), splat_weights::<V>(&layer.first));
    let mut at = 0;
    while at < psi.len() {
        let slope = u.slope::<V, RADIUS>(&first, at);
        prefetch(psi[at..].as_ptr().wrapping_add(ahead));
        b.fused_mul_add(V::load(&psi[at..]), a.mul(slope)).zero_if_tiny().store(&mut psi[at..]);
        at += V::LANES;
    }
}

/// Updates ζ of the nodes n of a row of lines, and adds their terms to the new values.
///
/// `own` is the row in u. All rows are padded. `next` has at least `nx` values, and those after
/// them do not change. The row of ζ `ahead` values after this one is loaded ahead.
#[inline(always)]
pub fn add_layer_terms<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize>(
    layer: &LayerCoefficients<R>,
    n: usize,
    psi: &LayerRows<R>,
    u: &LayerRows<R>,
    own: &[R],
    zeta: &mut [R],
    ahead: usize,
    courant: CourantRow<R>,
    next: &mut [R],
    nx: usize,
) {
    let (a, b) = (V::splat(layer.a[n]), V::splat(layer.b[n]));
    let (first, second) = (splat_weights::<V>(&layer.first), splat_weights::<V>(&layer.second));
    let second_centre = V::splat(layer.second_centre);
    let mut at = 0;
    while at < nx {
        let slope = psi.slope::<V, RADIUS>(&first, at);
        let centre = second_centre.mul(V::load(&own[at..]));
        let curvature = u.curvature::<V, RADIUS>(&second, centre, at);
        let new_zeta = b.fused_mul_add(V::load(&zeta[at..]), a.mul(curvature.add(slope))).zero_if_tiny();
        prefetch(zeta[at..].as_ptr().wrapping_add(ahead));
        new_zeta.store(&mut zeta[at..]);
        let value = courant.load::<V>(at).fused_mul_add(slope.add(new_zeta), V::load(&next[at..]));
        store_first(value, &mut next[at..], nx - at);
        at += V::LANES;
    }
}

/// Adds Dψ to the new values of a row of lines behind a layer, where ζ is zero. Otherwise like
/// [`add_layer_terms`].
#[inline(always)]
pub fn add_slopes<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize>(
    layer: &LayerCoefficients<R>,
    psi: &LayerRows<R>,
    courant: CourantRow<R>,
    next: &mut [R],
    nx: usize,
) {
    let first = splat_weights::<V>(&layer.first);
    let mut at = 0;
    while at < nx {
        let slope = psi.slope::<V, RADIUS>(&first, at);
        let value = courant.load::<V>(at).fused_mul_add(slope, V::load(&next[at..]));
        store_first(value, &mut next[at..], nx - at);
        at += V::LANES;
    }
}

/// Columns of a block of a window.
pub const BLOCK: usize = GAP;

/// A block with the nodes that a stencil reads on both sides.
const WIDE_BLOCK: usize = BLOCK + 2 * MAX_RADIUS;

/// Coefficients of a layer along x in a block of columns.
#[derive(Clone, Debug)]
pub struct ColumnCoefficients<R> {
    /// a_n, zero outside of the layer.
    pub a: [R; BLOCK],
    /// b_n, zero outside of the layer.
    pub b: [R; BLOCK],
    /// 1 in the layer, 0 elsewhere.
    pub is_layer: [R; BLOCK],
    /// 1 at nodes that the layer reaches, 0 elsewhere.
    pub is_reached: [R; BLOCK],
}

/// Returns the block that starts at `start`, with the nodes on both sides. Loads from it need no
/// further checks.
#[inline(always)]
fn wide_block<R>(values: &[R], start: usize) -> &[R; WIDE_BLOCK] {
    values[start - MAX_RADIUS..][..WIDE_BLOCK].try_into().expect("the length is that of a block")
}

/// Returns the first derivative at column `at` of a block, from the outside inwards.
#[inline(always)]
fn column_slope<V: Vector, const RADIUS: usize>(
    weights: &[V; MAX_RADIUS],
    block: &[V::Scalar; WIDE_BLOCK],
    is_max: bool,
    at: usize,
) -> V {
    let mut sum = V::splat(V::Scalar::default());
    let mut r = 1;
    while r <= RADIUS {
        let before = V::load(&block[MAX_RADIUS + at - r..]);
        let after = V::load(&block[MAX_RADIUS + at + r..]);
        let difference = if is_max { before.sub(after) } else { after.sub(before) };
        sum = match r {
            1 => weights[0].mul(difference),
            _ => weights[r - 1].fused_mul_add(difference, sum),
        };
        r += 1;
    }
    sum
}

/// Updates ψ of a block of a row of a layer along x. The block starts at the position `start` in u.
///
/// Writes ψ to `new_psi` as well, and the second derivative of u to `curvature`.
#[inline(always)]
pub fn update_column_psi<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    columns: &ColumnCoefficients<V::Scalar>,
    u: &[V::Scalar],
    start: usize,
    psi: &mut [V::Scalar; BLOCK],
    new_psi: &mut [V::Scalar; BLOCK],
    curvature: &mut [V::Scalar; BLOCK],
) {
    let (first, second) = (splat_weights::<V>(&layer.first), splat_weights::<V>(&layer.second));
    let (second_centre, zero) = (V::splat(layer.second_centre), V::splat(V::Scalar::default()));
    let (u, is_max) = (wide_block(u, start), layer.side.is_max());
    let mut at = 0;
    while at < BLOCK {
        let (a, b) = (V::load(&columns.a[at..]), V::load(&columns.b[at..]));
        let slope = column_slope::<V, RADIUS>(&first, u, is_max, at);
        let value = b.fused_mul_add(V::load(&psi[at..]), a.mul(slope)).zero_if_tiny();
        let value = value.zero_where_equal(V::load(&columns.is_layer[at..]), zero);
        value.store(&mut psi[at..]);
        value.store(&mut new_psi[at..]);
        let mut sum = second_centre.mul(V::load(&u[MAX_RADIUS + at..]));
        let mut r = 1;
        while r <= RADIUS {
            let pair = V::load(&u[MAX_RADIUS + at - r..]).add(V::load(&u[MAX_RADIUS + at + r..]));
            sum = second[r - 1].fused_mul_add(pair, sum);
            r += 1;
        }
        sum.store(&mut curvature[at..]);
        at += V::LANES;
    }
}

/// Updates ζ of a block of a row of a layer along x, and adds the terms to the new values.
///
/// The block starts at the position `start` of `psi`, the new ψ with zeros around the window. Lanes
/// that the layer does not reach keep their values: v (−0) is added, which is exact even for −0. In
/// the same way, ζ is subtracted with the opposite sign, so that it does not change Dψ outside of
/// the layer.
#[inline(always)]
pub fn add_column_terms<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize>(
    layer: &LayerCoefficients<R>,
    columns: &ColumnCoefficients<R>,
    psi: &[R],
    start: usize,
    curvature: &[R; BLOCK],
    zeta: &mut [R; BLOCK],
    courant: CourantRow<R>,
    next: &mut [R; BLOCK],
) {
    let first = splat_weights::<V>(&layer.first);
    let (zero, minus_one) = (V::splat(R::default()), V::splat(R::from_f64(-1.0)));
    let (psi, is_max) = (wide_block(psi, start), layer.side.is_max());
    let mut at = 0;
    while at < BLOCK {
        let (a, b) = (V::load(&columns.a[at..]), V::load(&columns.b[at..]));
        let slope = column_slope::<V, RADIUS>(&first, psi, is_max, at);
        let sum = V::load(&curvature[at..]).add(slope);
        let new_zeta = b.fused_mul_add(V::load(&zeta[at..]), a.mul(sum)).zero_if_tiny();
        new_zeta.store(&mut zeta[at..]);
        let is_layer = V::load(&columns.is_layer[at..]);
        let term = slope.sub(minus_one.mul(new_zeta).zero_where_equal(is_layer, zero));
        let negative = minus_one.mul(term).zero_where_equal(V::load(&columns.is_reached[at..]), zero);
        let v = minus_one.mul(courant.load::<V>(at));
        v.fused_mul_add(negative, V::load(&next[at..])).store(&mut next[at..]);
        at += V::LANES;
    }
}
