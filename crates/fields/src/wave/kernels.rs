//! Inner loops of the CPU version, in SIMD registers.

use orrery_simd::Vector;

use super::{LayerCoefficients, MAX_RADIUS, Stencil};
use crate::Scalar;

/// v of the nodes of a row.
#[derive(Clone, Copy, Debug)]
pub enum CourantRow<'a, R> {
    /// The same everywhere.
    Uniform(R),
    /// One value per node, up to the end of the last register that is updated.
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
fn splat_weights<V: Vector>(weights: &[V::Scalar; MAX_RADIUS]) -> [V; MAX_RADIUS] {
    [V::splat(weights[0]), V::splat(weights[1]), V::splat(weights[2]), V::splat(weights[3])]
}

/// Parts of u around a row, all of the same length. Those beyond the radius are the row itself.
#[derive(Clone, Copy)]
struct Neighbours<'a, R> {
    /// Rows 1 … 4 nodes before.
    before: [&'a [R]; MAX_RADIUS],
    /// Rows 1 … 4 nodes after.
    after: [&'a [R]; MAX_RADIUS],
}

/// Returns the parts of `u` at multiples of `stride` from `first`, with `n` values each.
#[inline(always)]
fn neighbours<R, const RADIUS: usize>(u: &[R], first: usize, stride: usize, n: usize) -> Neighbours<'_, R> {
    let row = &u[first..][..n];
    let mut rows = Neighbours { before: [row; MAX_RADIUS], after: [row; MAX_RADIUS] };
    let mut r = 0;
    while r < RADIUS {
        rows.before[r] = &u[first - (r + 1) * stride..][..n];
        rows.after[r] = &u[first + (r + 1) * stride..][..n];
        r += 1;
    }
    rows
}

/// Returns `sum` + Σ w_r (u_−r + u_r), where `before` and `after` start at the register.
///
/// The terms are written out, because the compiler does not unroll a loop over them.
#[inline(always)]
fn add_pairs<V: Vector, const RADIUS: usize>(
    weights: &[V; MAX_RADIUS],
    rows: &Neighbours<V::Scalar>,
    x: usize,
    mut sum: V,
) -> V {
    sum = weights[0].fused_mul_add(V::load(&rows.before[0][x..]).add(V::load(&rows.after[0][x..])), sum);
    if RADIUS >= 2 {
        sum = weights[1].fused_mul_add(V::load(&rows.before[1][x..]).add(V::load(&rows.after[1][x..])), sum);
    }
    if RADIUS >= 3 {
        sum = weights[2].fused_mul_add(V::load(&rows.before[2][x..]).add(V::load(&rows.after[2][x..])), sum);
    }
    if RADIUS >= 4 {
        sum = weights[3].fused_mul_add(V::load(&rows.before[3][x..]).add(V::load(&rows.after[3][x..])), sum);
    }
    sum
}

/// Parts of u and v around a row, all of the same length.
struct RowInput<'a, R> {
    /// The row in u.
    own: &'a [R],
    along_x: Neighbours<'a, R>,
    along_y: Neighbours<'a, R>,
    /// v of the nodes if `IS_VARIABLE`, and anything of this length otherwise.
    courant: &'a [R],
    /// v if it is uniform.
    uniform_courant: R,
}

impl<'a, R: Scalar> RowInput<'a, R> {
    /// Collects `n` values of `u` around the row that starts at `first`.
    #[inline(always)]
    fn new<const RADIUS: usize>(
        u: &'a [R],
        first: usize,
        pitch: usize,
        n: usize,
        courant: CourantRow<'a, R>,
    ) -> Self {
        let own = &u[first..][..n];
        let (courant, uniform_courant) = match courant {
            CourantRow::Field(row) => (&row[..n], R::default()),
            CourantRow::Uniform(v) => (own, v),
        };
        let along_x = neighbours::<R, RADIUS>(u, first, 1, n);
        let along_y = neighbours::<R, RADIUS>(u, first, pitch, n);
        Self { own, along_x, along_y, courant, uniform_courant }
    }

    /// Returns the new values of the register at `at`. `sum` contains the terms of the node and of
    /// z, and `previous` is u one step earlier.
    #[inline(always)]
    fn updated<V: Vector<Scalar = R>, const RADIUS: usize, const IS_VARIABLE: bool>(
        &self,
        weights: &Weights<V>,
        at: usize,
        sum: V,
        previous: V,
    ) -> V {
        let sum = add_pairs::<V, RADIUS>(&weights.y, &self.along_y, at, sum);
        let sum = add_pairs::<V, RADIUS>(&weights.x, &self.along_x, at, sum);
        let v = if IS_VARIABLE { V::load(&self.courant[at..]) } else { V::splat(self.uniform_courant) };
        let two = V::splat(R::from_f64(2.0));
        let negative = V::splat(R::from_f64(-1.0)).mul(previous);
        v.fused_mul_add(sum, two.fused_mul_add(V::load(&self.own[at..]), negative))
    }
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

/// Updates a row of one plane.
///
/// `first` is the position of the first node of the row in `u`. `next` starts at the first node and
/// extends to the end of the last register. Values after node `n` − 1 do not change.
#[inline(always)]
pub fn update_row<
    V: Vector<Scalar = R>,
    R: Scalar,
    const RADIUS: usize,
    const DIMENSIONS: usize,
    const IS_VARIABLE: bool,
>(
    stencil: &Stencil<R>,
    u: &[R],
    first: usize,
    strides: Strides,
    courant: CourantRow<R>,
    next: &mut [R],
    n: usize,
) {
    let padded = n.next_multiple_of(V::LANES);
    let weights = weights_of::<V>(stencil);
    let plane = if DIMENSIONS == 3 { strides.plane } else { 0 };
    let along_z = neighbours::<R, RADIUS>(u, first, plane, padded);
    let row = RowInput::new::<RADIUS>(u, first, strides.pitch, padded, courant);
    let next = &mut next[..padded];
    let whole = n / V::LANES * V::LANES;
    let mut x = 0;
    while x < whole {
        let sum = sum_along_z::<V, R, RADIUS, DIMENSIONS>(&weights, &row, &along_z, x);
        let previous = V::load(&next[x..]);
        row.updated::<V, RADIUS, IS_VARIABLE>(&weights, x, sum, previous).store(&mut next[x..]);
        x += V::LANES;
    }
    if x < n {
        let sum = sum_along_z::<V, R, RADIUS, DIMENSIONS>(&weights, &row, &along_z, x);
        let value = row.updated::<V, RADIUS, IS_VARIABLE>(&weights, x, sum, V::load(&next[x..]));
        store_first(value, &mut next[x..], n - x);
    }
}

/// Returns W u + Σ w_r (u_−r + u_r) along z.
#[inline(always)]
fn sum_along_z<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize, const DIMENSIONS: usize>(
    weights: &Weights<V>,
    row: &RowInput<R>,
    along_z: &Neighbours<R>,
    x: usize,
) -> V {
    let sum = weights.centre.mul(V::load(&row.own[x..]));
    if DIMENSIONS == 3 { add_pairs::<V, RADIUS>(&weights.z, along_z, x, sum) } else { sum }
}

/// Updates row j of two neighbouring planes, which share the loads along z. `first` is the position
/// of the row in the first plane. Otherwise like [`update_row`] in three dimensions.
#[inline(always)]
pub fn update_row_pair<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize, const IS_VARIABLE: bool>(
    stencil: &Stencil<R>,
    u: &[R],
    first: usize,
    strides: Strides,
    courant: CourantRow<R>,
    [next_0, next_1]: [&mut [R]; 2],
    n: usize,
) {
    let padded = n.next_multiple_of(V::LANES);
    let weights = weights_of::<V>(stencil);
    let Strides { pitch, plane } = strides;
    let below = neighbours::<R, RADIUS>(u, first, plane, padded).before;
    let above = neighbours::<R, RADIUS>(u, first + plane, plane, padded).after;
    // The parts extend to the row of the second plane, so both rows need the same few addresses.
    let rows = RowInput::new::<RADIUS>(u, first, pitch, plane + padded, courant);
    let (next_0, next_1) = (&mut next_0[..padded], &mut next_1[..padded]);
    let whole = n / V::LANES * V::LANES;
    let mut x = 0;
    while x < whole {
        let [sum_0, sum_1] = pair_sums::<V, R, RADIUS>(&weights, rows.own, plane, &below, &above, x);
        let previous = V::load(&next_0[x..]);
        rows.updated::<V, RADIUS, IS_VARIABLE>(&weights, x, sum_0, previous).store(&mut next_0[x..]);
        let previous = V::load(&next_1[x..]);
        rows.updated::<V, RADIUS, IS_VARIABLE>(&weights, plane + x, sum_1, previous).store(&mut next_1[x..]);
        x += V::LANES;
    }
    if x < n {
        let [sum_0, sum_1] = pair_sums::<V, R, RADIUS>(&weights, rows.own, plane, &below, &above, x);
        let value = rows.updated::<V, RADIUS, IS_VARIABLE>(&weights, x, sum_0, V::load(&next_0[x..]));
        store_first(value, &mut next_0[x..], n - x);
        let value = rows.updated::<V, RADIUS, IS_VARIABLE>(&weights, plane + x, sum_1, V::load(&next_1[x..]));
        store_first(value, &mut next_1[x..], n - x);
    }
}

/// Returns W u + Σ w_r (u_−r + u_r) along z for two planes. `own` starts with the row of the first
/// plane, `below` are the rows before it, and `above` those after the row of the second plane.
#[inline(always)]
fn pair_sums<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize>(
    weights: &Weights<V>,
    own: &[R],
    plane: usize,
    below: &[&[R]; MAX_RADIUS],
    above: &[&[R]; MAX_RADIUS],
    x: usize,
) -> [V; 2] {
    let (own_0, own_1) = (V::load(&own[x..]), V::load(&own[plane + x..]));
    let (below_1, above_1) = (V::load(&below[0][x..]), V::load(&above[0][x..]));
    let [z_1, z_2, z_3, z_4] = weights.z;
    let mut sum_0 = z_1.fused_mul_add(below_1.add(own_1), weights.centre.mul(own_0));
    let mut sum_1 = z_1.fused_mul_add(own_0.add(above_1), weights.centre.mul(own_1));
    if RADIUS == 1 {
        return [sum_0, sum_1];
    }
    let (below_2, above_2) = (V::load(&below[1][x..]), V::load(&above[1][x..]));
    sum_0 = z_2.fused_mul_add(below_2.add(above_1), sum_0);
    sum_1 = z_2.fused_mul_add(below_1.add(above_2), sum_1);
    if RADIUS == 2 {
        return [sum_0, sum_1];
    }
    let (below_3, above_3) = (V::load(&below[2][x..]), V::load(&above[2][x..]));
    sum_0 = z_3.fused_mul_add(below_3.add(above_2), sum_0);
    sum_1 = z_3.fused_mul_add(below_2.add(above_3), sum_1);
    if RADIUS == 3 {
        return [sum_0, sum_1];
    }
    let (below_4, above_4) = (V::load(&below[3][x..]), V::load(&above[3][x..]));
    sum_0 = z_4.fused_mul_add(below_4.add(above_3), sum_0);
    sum_1 = z_4.fused_mul_add(below_3.add(above_4), sum_1);
    [sum_0, sum_1]
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
pub fn derivative<V: Vector, const RADIUS: usize>(
    weights: &[V::Scalar; MAX_RADIUS],
    u: &[V::Scalar],
    lines: Lines,
    n: isize,
) -> V {
    let inside = V::load(&u[lines.at(n + 1)..]);
    let mut sum = V::splat(weights[0]).mul(inside.sub(V::load(&u[lines.at(n - 1)..])));
    if RADIUS >= 2 {
        let difference = V::load(&u[lines.at(n + 2)..]).sub(V::load(&u[lines.at(n - 2)..]));
        sum = V::splat(weights[1]).fused_mul_add(difference, sum);
    }
    if RADIUS >= 3 {
        let difference = V::load(&u[lines.at(n + 3)..]).sub(V::load(&u[lines.at(n - 3)..]));
        sum = V::splat(weights[2]).fused_mul_add(difference, sum);
    }
    if RADIUS >= 4 {
        let difference = V::load(&u[lines.at(n + 4)..]).sub(V::load(&u[lines.at(n - 4)..]));
        sum = V::splat(weights[3]).fused_mul_add(difference, sum);
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
    let pair = V::load(&u[lines.at(n - 1)..]).add(V::load(&u[lines.at(n + 1)..]));
    sum = V::splat(layer.second[0]).fused_mul_add(pair, sum);
    if RADIUS >= 2 {
        let pair = V::load(&u[lines.at(n - 2)..]).add(V::load(&u[lines.at(n + 2)..]));
        sum = V::splat(layer.second[1]).fused_mul_add(pair, sum);
    }
    if RADIUS >= 3 {
        let pair = V::load(&u[lines.at(n - 3)..]).add(V::load(&u[lines.at(n + 3)..]));
        sum = V::splat(layer.second[2]).fused_mul_add(pair, sum);
    }
    if RADIUS >= 4 {
        let pair = V::load(&u[lines.at(n - 4)..]).add(V::load(&u[lines.at(n + 4)..]));
        sum = V::splat(layer.second[3]).fused_mul_add(pair, sum);
    }
    sum
}

/// Returns the first derivative at `at`, from rows outside and inside of a node.
#[inline(always)]
pub fn derivative_of_rows<V: Vector, const RADIUS: usize>(
    weights: &[V::Scalar; MAX_RADIUS],
    outside: &[&[V::Scalar]; MAX_RADIUS],
    inside: &[&[V::Scalar]; MAX_RADIUS],
    at: usize,
) -> V {
    let mut sum = V::splat(weights[0]).mul(V::load(&inside[0][at..]).sub(V::load(&outside[0][at..])));
    if RADIUS >= 2 {
        let difference = V::load(&inside[1][at..]).sub(V::load(&outside[1][at..]));
        sum = V::splat(weights[1]).fused_mul_add(difference, sum);
    }
    if RADIUS >= 3 {
        let difference = V::load(&inside[2][at..]).sub(V::load(&outside[2][at..]));
        sum = V::splat(weights[2]).fused_mul_add(difference, sum);
    }
    if RADIUS >= 4 {
        let difference = V::load(&inside[3][at..]).sub(V::load(&outside[3][at..]));
        sum = V::splat(weights[3]).fused_mul_add(difference, sum);
    }
    sum
}

/// Returns ζ of node `n` and the term Dψ + ζ of the new value, for one register of lines. `slope`
/// is Dψ, and `zeta` starts at that register.
#[inline(always)]
pub fn update_zeta<V: Vector, const RADIUS: usize>(
    layer: &LayerCoefficients<V::Scalar>,
    u: &[V::Scalar],
    lines: Lines,
    n: usize,
    slope: V,
    zeta: &[V::Scalar],
) -> (V, V) {
    let curvature = curvature::<V, RADIUS>(layer, u, lines, n as isize);
    let zeta =
        V::splat(layer.b[n]).fused_mul_add(V::load(zeta), V::splat(layer.a[n]).mul(curvature.add(slope)));
    (zeta, slope.add(zeta))
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
