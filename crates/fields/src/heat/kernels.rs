//! Inner loops of the CPU version: one row at a time, in SIMD registers.
//!
//! All rows are parts of tile rows of equal length. `first` is the first node that is updated and
//! `n` the number of nodes, a multiple of the lanes. Nodes `first − 1` and `first + n` exist.

use orrery_simd::{Real, Vector, prefetch};

use super::StepCoefficients;

/// Conductivities of the faces of a row.
#[derive(Clone, Copy)]
pub struct FaceRows<'a, R> {
    /// Faces between node i and node i + 1.
    pub east: &'a [R],
    /// Faces between row j − 1 and row j.
    pub south: &'a [R],
    /// Faces between row j and row j + 1.
    pub north: &'a [R],
}

/// Distance at which a streaming pass loads the next row ahead of its use, which the hardware does
/// not do across pages. Measured on two AVX-512 cores, 16384² nodes in f32, one step per pass: 20%
/// faster than without, and than 8 KiB and more (`cargo bench -p orrery-fields --bench heat_cpu`).
const PREFETCH_BYTES: usize = 2048;

/// Returns a register with `x` in all lanes.
#[inline(always)]
fn splat_f64<V: Vector>(x: f64) -> V {
    V::splat(V::Scalar::from_f64(x))
}

/// Returns u' with uniform conductivity.
#[inline(always)]
fn updated<V: Vector>(r: [V; 2], [w, e, s, n]: [V; 4], u: V) -> V {
    let minus_two = splat_f64::<V>(-2.0);
    let lap_x = minus_two.fused_mul_add(u, w.add(e));
    let lap_y = minus_two.fused_mul_add(u, s.add(n));
    r[0].fused_mul_add(lap_x, r[1].fused_mul_add(lap_y, u))
}

/// Updates row j from the rows j − 1, j and j + 1, with uniform conductivity. With `STREAMING`,
/// `out` bypasses the cache, and node `first` of it must be aligned to the size of a register.
#[inline(always)]
pub fn update_uniform<V: Vector, const STREAMING: bool>(
    coefficients: StepCoefficients<V::Scalar>,
    rows: [&[V::Scalar]; 3],
    out: &mut [V::Scalar],
    first: usize,
    n: usize,
) {
    let r = [V::splat(coefficients.x), V::splat(coefficients.y)];
    let [south, row, north] = rows;
    let west = row[first - 1..][..n].chunks_exact(V::LANES);
    let centre = row[first..][..n].chunks_exact(V::LANES);
    let east = row[first + 1..][..n].chunks_exact(V::LANES);
    let south = south[first..][..n].chunks_exact(V::LANES);
    let north = north[first..][..n].chunks_exact(V::LANES);
    let out = out[first..][..n].chunks_exact_mut(V::LANES);
    for (((((w, u), e), s), n), out) in west.zip(centre).zip(east).zip(south).zip(north).zip(out) {
        let new = updated(r, [V::load(w), V::load(e), V::load(s), V::load(n)], V::load(u));
        if STREAMING {
            prefetch(n.as_ptr().wrapping_byte_add(PREFETCH_BYTES));
            new.store_streaming(out);
        } else {
            new.store(out);
        }
    }
}

/// Updates two neighbouring rows with uniform conductivity. Together they need fewer loads.
///
/// `rows` are j − 1 … j + 2, and `out` receives the new rows j and j + 1.
#[inline(always)]
pub fn update_uniform_pair<V: Vector>(
    coefficients: StepCoefficients<V::Scalar>,
    rows: [&[V::Scalar]; 4],
    out: [&mut [V::Scalar]; 2],
    first: usize,
    n: usize,
) {
    let r = [V::splat(coefficients.x), V::splat(coefficients.y)];
    let [south, row_0, row_1, north] = rows;
    let [out_0, out_1] = out;
    let south = south[first..][..n].chunks_exact(V::LANES);
    let west_0 = row_0[first - 1..][..n].chunks_exact(V::LANES);
    let centre_0 = row_0[first..][..n].chunks_exact(V::LANES);
    let east_0 = row_0[first + 1..][..n].chunks_exact(V::LANES);
    let west_1 = row_1[first - 1..][..n].chunks_exact(V::LANES);
    let centre_1 = row_1[first..][..n].chunks_exact(V::LANES);
    let east_1 = row_1[first + 1..][..n].chunks_exact(V::LANES);
    let north = north[first..][..n].chunks_exact(V::LANES);
    let out_0 = out_0[first..][..n].chunks_exact_mut(V::LANES);
    let out_1 = out_1[first..][..n].chunks_exact_mut(V::LANES);
    let inner = west_0.zip(centre_0).zip(east_0).zip(west_1).zip(centre_1).zip(east_1);
    for (((((((((w_0, u_0), e_0), w_1), u_1), e_1), s), n), out_0), out_1) in
        inner.zip(south).zip(north).zip(out_0).zip(out_1)
    {
        let (u_0, u_1) = (V::load(u_0), V::load(u_1));
        updated(r, [V::load(w_0), V::load(e_0), V::load(s), u_1], u_0).store(out_0);
        updated(r, [V::load(w_1), V::load(e_1), u_0, V::load(n)], u_1).store(out_1);
    }
}

/// Updates row j from the rows j − 1, j and j + 1, with a conductivity per face.
#[inline(always)]
pub fn update_variable<V: Vector>(
    coefficients: StepCoefficients<V::Scalar>,
    rows: [&[V::Scalar]; 3],
    faces: FaceRows<V::Scalar>,
    out: &mut [V::Scalar],
    first: usize,
    n: usize,
) {
    let (c_x, c_y) = (V::splat(coefficients.x), V::splat(coefficients.y));
    let [south, row, north] = rows;
    let west = row[first - 1..][..n].chunks_exact(V::LANES);
    let centre = row[first..][..n].chunks_exact(V::LANES);
    let east = row[first + 1..][..n].chunks_exact(V::LANES);
    let south = south[first..][..n].chunks_exact(V::LANES);
    let north = north[first..][..n].chunks_exact(V::LANES);
    let k_west = faces.east[first - 1..][..n].chunks_exact(V::LANES);
    let k_east = faces.east[first..][..n].chunks_exact(V::LANES);
    let k_south = faces.south[first..][..n].chunks_exact(V::LANES);
    let k_north = faces.north[first..][..n].chunks_exact(V::LANES);
    let out = out[first..][..n].chunks_exact_mut(V::LANES);
    let state = west.zip(centre).zip(east).zip(south).zip(north);
    let faces = k_west.zip(k_east).zip(k_south).zip(k_north);
    for ((((((w, u), e), s), n), (((k_w, k_e), k_s), k_n)), out) in state.zip(faces).zip(out) {
        let u = V::load(u);
        let from_west = V::load(k_w).mul(V::load(w).sub(u));
        let f_x = V::load(k_e).fused_mul_add(V::load(e).sub(u), from_west);
        let from_south = V::load(k_s).mul(V::load(s).sub(u));
        let f_y = V::load(k_n).fused_mul_add(V::load(n).sub(u), from_south);
        c_x.fused_mul_add(f_x, c_y.fused_mul_add(f_y, u)).store(out);
    }
}

/// Updates row j from the rows j − 1, j and j + 1, with a conductivity per face and w = c_min/c per
/// node. `source` is the row of the source, and is not read without `HAS_SOURCE`.
#[inline(always)]
pub fn update_with_capacity<V: Vector, const HAS_SOURCE: bool>(
    coefficients: StepCoefficients<V::Scalar>,
    rows: [&[V::Scalar]; 3],
    faces: FaceRows<V::Scalar>,
    [capacity_ratio, source]: [&[V::Scalar]; 2],
    out: &mut [V::Scalar],
    first: usize,
    n: usize,
) {
    let (c_x, c_y) = (V::splat(coefficients.x), V::splat(coefficients.y));
    let dt = V::splat(coefficients.dt);
    let [south, row, north] = rows;
    let west = row[first - 1..][..n].chunks_exact(V::LANES);
    let centre = row[first..][..n].chunks_exact(V::LANES);
    let east = row[first + 1..][..n].chunks_exact(V::LANES);
    let south = south[first..][..n].chunks_exact(V::LANES);
    let north = north[first..][..n].chunks_exact(V::LANES);
    let k_west = faces.east[first - 1..][..n].chunks_exact(V::LANES);
    let k_east = faces.east[first..][..n].chunks_exact(V::LANES);
    let k_south = faces.south[first..][..n].chunks_exact(V::LANES);
    let k_north = faces.north[first..][..n].chunks_exact(V::LANES);
    let ratio = capacity_ratio[first..][..n].chunks_exact(V::LANES);
    let source = source[first..][..n].chunks_exact(V::LANES);
    let out = out[first..][..n].chunks_exact_mut(V::LANES);
    let state = west.zip(centre).zip(east).zip(south).zip(north);
    let faces = k_west.zip(k_east).zip(k_south).zip(k_north);
    let nodes = ratio.zip(source).zip(out);
    for ((((((w, u), e), s), n), (((k_w, k_e), k_s), k_n)), ((ratio, source), out)) in
        state.zip(faces).zip(nodes)
    {
        let u = V::load(u);
        let from_west = V::load(k_w).mul(V::load(w).sub(u));
        let f_x = V::load(k_e).fused_mul_add(V::load(e).sub(u), from_west);
        let from_south = V::load(k_s).mul(V::load(s).sub(u));
        let f_y = V::load(k_n).fused_mul_add(V::load(n).sub(u), from_south);
        let mut gain = c_x.fused_mul_add(f_x, c_y.mul(f_y));
        if HAS_SOURCE {
            gain = dt.fused_mul_add(V::load(source), gain);
        }
        V::load(ratio).fused_mul_add(gain, u).store(out);
    }
}

/// Adds dt × source to a row.
#[inline(always)]
pub fn add_source<V: Vector>(
    dt: V::Scalar,
    source: &[V::Scalar],
    row: &mut [V::Scalar],
    first: usize,
    n: usize,
) {
    let dt = V::splat(dt);
    let source = source[first..][..n].chunks_exact(V::LANES);
    for (s, u) in source.zip(row[first..][..n].chunks_exact_mut(V::LANES)) {
        dt.fused_mul_add(V::load(s), V::load(u)).store(u);
    }
}

/// Computes the conductivities 2/(ρ_a + ρ_b) of the faces between the nodes of `a` and `b`. All
/// slices have the same length, a multiple of the lanes.
#[inline(always)]
pub fn face_conductivities<V: Vector>(a: &[V::Scalar], b: &[V::Scalar], faces: &mut [V::Scalar]) {
    let two = splat_f64::<V>(2.0);
    let (a, b) = (a.chunks_exact(V::LANES), b.chunks_exact(V::LANES));
    for ((a, b), face) in a.zip(b).zip(faces.chunks_exact_mut(V::LANES)) {
        two.div(V::load(a).add(V::load(b))).store(face);
    }
}

/// Copies `from` to `to` without loading `to` into the cache. Both have the same length.
#[inline(always)]
pub fn copy_streaming<V: Vector>(from: &[V::Scalar], to: &mut [V::Scalar]) {
    let unaligned = to.as_ptr().align_offset(size_of::<V>()).min(to.len());
    to[..unaligned].copy_from_slice(&from[..unaligned]);
    let from = from[unaligned..].chunks_exact(V::LANES);
    let mut to = to[unaligned..].chunks_exact_mut(V::LANES);
    let rest = from.remainder();
    for (from, to) in from.zip(&mut to) {
        V::load(from).store_streaming(to);
    }
    to.into_remainder().copy_from_slice(rest);
}
