//! Absorbing layers on the CPU.
//!
//! Lanes of a register are neighbouring lines through a layer. Lines along y and z are neighbours
//! in memory. Lines along x are copied into a transposed buffer, [`LANES`] lines at a time. Their ψ
//! and ζ are stored in that order: for each plane and each group of lines, the values of node n are
//! together.

use std::ops::Range;

use orrery_model::wave::{Side, WaveGrid};
use orrery_simd::{InstructionSet, MAX_LANES, SimdKernel, Vector, dispatch};
use rayon::prelude::*;

use super::cpu::{CourantPlanes, StencilPass};
use super::kernels::{Lines, derivative, derivative_of_rows, store_first, update_psi, update_zeta};
use super::layout::{GAP, Layout};
use super::{LayerCoefficients, LayerMemory, MAX_RADIUS};
use crate::Scalar;

/// Lines of a group along x.
pub const LANES: usize = MAX_LANES;

/// ψ and ζ of a layer in the planes of one slab.
///
/// The values of node n are rows of `row_len` values: one row per plane for a layer along y, one
/// row per row of the plane for a layer along z, and one row per group of lines for a layer along
/// x. All rows of an outer index follow each other, n by n. Layers along z have all rows of node n
/// together.
#[derive(Clone, Debug)]
pub struct SlabLayer<R> {
    /// Index in [`super::Medium::layers`].
    pub index: usize,
    side: Side,
    thickness: usize,
    row_len: usize,
    psi: Vec<R>,
    zeta: Vec<R>,
}

impl<R: Scalar> SlabLayer<R> {
    /// Copies the part of a layer that belongs to the planes `planes` of the grid, `None` if there
    /// is none.
    pub fn new(
        grid: &WaveGrid,
        index: usize,
        memory: &LayerMemory<R>,
        planes: &Range<usize>,
    ) -> Option<Self> {
        let side = memory.side;
        let [nx, ny, nz] = grid.nodes;
        let is_here = match side {
            Side::ZMin => planes.start == 0,
            Side::ZMax => planes.end == nz,
            _ => true,
        };
        if !is_here {
            return None;
        }
        let lines = grid.len() / grid.nodes[side.axis()];
        let thickness = memory.psi.len() / lines;
        let row_len = if side.axis() == 0 { LANES } else { nx.next_multiple_of(MAX_LANES) };
        let rows = match side.axis() {
            0 => planes.len() * ny.div_ceil(LANES) * thickness,
            1 => planes.len() * thickness,
            _ => thickness * ny,
        };
        let zeros = vec![R::default(); rows * row_len];
        let mut layer = Self { index, side, thickness, row_len, psi: zeros.clone(), zeta: zeros };
        layer.exchange(grid, planes, |stored, canonical, is_psi| {
            *stored = if is_psi { memory.psi[canonical] } else { memory.zeta[canonical] };
        });
        Some(layer)
    }

    /// Copies the values to the layer of the whole grid.
    pub fn copy_to(&mut self, grid: &WaveGrid, planes: &Range<usize>, memory: &mut LayerMemory<R>) {
        self.exchange(grid, planes, |stored, canonical, is_psi| {
            let to = if is_psi { &mut memory.psi } else { &mut memory.zeta };
            to[canonical] = *stored;
        });
    }

    /// Calls `visit` for all values, with their index in a [`LayerMemory`].
    fn exchange(
        &mut self,
        grid: &WaveGrid,
        planes: &Range<usize>,
        mut visit: impl FnMut(&mut R, usize, bool),
    ) {
        let [nx, ny, _] = grid.nodes;
        let (thickness, row_len) = (self.thickness, self.row_len);
        let groups = ny.div_ceil(LANES);
        let mut both = |position: usize, canonical: usize| {
            visit(&mut self.psi[position], canonical, true);
            visit(&mut self.zeta[position], canonical, false);
        };
        match self.side.axis() {
            0 => {
                for (k, plane) in planes.clone().enumerate() {
                    for j in 0..ny {
                        for n in 0..thickness {
                            let row = (k * groups + j / LANES) * thickness + n;
                            both(row * row_len + j % LANES, (plane * ny + j) * thickness + n);
                        }
                    }
                }
            }
            1 => {
                for row in 0..planes.len() * thickness {
                    let canonical = (planes.start * thickness + row) * nx;
                    (0..nx).for_each(|i| both(row * row_len + i, canonical + i));
                }
            }
            _ => {
                for row in 0..thickness * ny {
                    (0..nx).for_each(|i| both(row * row_len + i, row * nx + i));
                }
            }
        }
    }

    /// Returns the parts of a layer along x or y in each of `planes`, with the bands they belong
    /// to. A layer along z has none.
    pub fn parts<'a>(
        &'a mut self,
        layout: &Layout,
        planes: Range<usize>,
        bands: &'a [Range<usize>],
        coefficients: &'a LayerCoefficients<R>,
    ) -> impl Iterator<Item = Vec<(usize, LayerPart<'a, R>)>> {
        let (side, group_len) = (self.side, self.thickness * self.row_len);
        let groups = if side.axis() == 0 { layout.nodes[1].div_ceil(LANES) } else { 1 };
        let count = if side.axis() == 2 { 0 } else { planes.len() };
        let plane_len = groups * group_len;
        let psi = self.psi.chunks_mut(plane_len).skip(planes.start).take(count);
        let zeta = self.zeta.chunks_mut(plane_len).skip(planes.start).take(count);
        psi.zip(zeta).map(move |(mut psi, mut zeta)| {
            if side.axis() == 1 {
                let band = if side.is_max() { bands.len() - 1 } else { 0 };
                return vec![(band, LayerPart { coefficients, psi, zeta })];
            }
            let mut parts = Vec::with_capacity(bands.len());
            for (band, rows) in bands.iter().enumerate() {
                let len = rows.len().div_ceil(LANES) * group_len;
                let (band_psi, rest_psi) = psi.split_at_mut(len);
                let (band_zeta, rest_zeta) = zeta.split_at_mut(len);
                parts.push((band, LayerPart { coefficients, psi: band_psi, zeta: band_zeta }));
                (psi, zeta) = (rest_psi, rest_zeta);
            }
            parts
        })
    }

    /// Updates a layer along z, and adds its terms to `next`.
    pub fn absorb_along_z(
        &mut self,
        set: InstructionSet,
        pass: &StencilPass<R>,
        layer: &LayerCoefficients<R>,
        next: &mut [R],
    ) {
        let layout = pass.layout;
        let (is_max, row_len, [_, ny, nz]) = (self.side.is_max(), self.row_len, layout.nodes);
        let count = self.thickness + pass.stencil.radius;
        let first_plane = if is_max { nz - count } else { 0 };
        // A task has a block of rows at all nodes of the layer.
        let mut tasks: Vec<[Vec<&mut [R]>; 3]> = Vec::new();
        tasks.resize_with(ny.div_ceil(BLOCK_ROWS), Default::default);
        for plane in layout.planes_mut(first_plane..first_plane + count, next).chunks_mut(layout.plane) {
            let rows = &mut plane[MAX_RADIUS * layout.pitch..][..ny * layout.pitch];
            let blocks = rows.chunks_mut(BLOCK_ROWS * layout.pitch);
            blocks.zip(&mut tasks).for_each(|(rows, task)| task[0].push(rows));
        }
        for (memory, field) in [(1, &mut self.psi), (2, &mut self.zeta)] {
            for node in field.chunks_mut(ny * row_len) {
                let blocks = node.chunks_mut(BLOCK_ROWS * row_len);
                blocks.zip(&mut tasks).for_each(|(rows, task)| task[memory].push(rows));
            }
        }
        tasks.into_par_iter().enumerate().for_each(|(block, [next, psi, zeta])| {
            let first_row = block * BLOCK_ROWS;
            let next = from_outside(next, is_max);
            dispatch(set, AbsorbBlock { pass, layer, first_row, next, psi, zeta, row_len });
        });
    }
}

/// Rows of a task in a layer along z. Its values of u, ψ and ζ fit in the second-level cache.
const BLOCK_ROWS: usize = 8;

/// Part of a layer along x or y that belongs to one band in one plane.
#[derive(Debug)]
pub struct LayerPart<'a, R> {
    /// Coefficients.
    pub coefficients: &'a LayerCoefficients<R>,
    psi: &'a mut [R],
    zeta: &'a mut [R],
}

/// New values of a band in one plane.
pub struct BandOfPlane<'a, R> {
    /// The plane.
    pub k: usize,
    /// Rows of the band.
    pub rows: Range<usize>,
    /// Position of the first value of `next` in the plane.
    pub base: usize,
    /// New values: a part of the plane.
    pub next: &'a mut [R],
}

/// Returns rows in the order from the outside inwards.
fn from_outside<R>(mut rows: Vec<&mut [R]>, is_max: bool) -> Vec<&mut [R]> {
    if is_max {
        rows.reverse();
    }
    rows
}

/// Returns a register of v at `position`.
#[inline(always)]
fn load_courant<V: Vector>(courant: CourantPlanes<V::Scalar>, position: usize) -> V {
    match courant {
        CourantPlanes::Uniform(v) => V::splat(v),
        CourantPlanes::Field(v) => V::load(&v[position..]),
    }
}

/// Update of a part of a layer along x or y.
///
/// It is dispatched for each band, although the caller is compiled for the same instruction set.
/// Inside of all variants of the caller it would be compiled many times.
pub struct AbsorbBand<'a, 'b, R> {
    /// The step.
    pub pass: &'a StencilPass<'a, R>,
    /// ψ and ζ.
    pub part: &'a mut LayerPart<'b, R>,
    /// New values.
    pub band: BandOfPlane<'a, R>,
}

impl<R: Scalar> SimdKernel for AbsorbBand<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        match self.pass.stencil.radius {
            1 => self.absorb::<R::Register<S, D>, 1>(),
            2 => self.absorb::<R::Register<S, D>, 2>(),
            3 => self.absorb::<R::Register<S, D>, 3>(),
            _ => self.absorb::<R::Register<S, D>, 4>(),
        }
    }
}

impl<R: Scalar> AbsorbBand<'_, '_, R> {
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        if self.part.coefficients.side.axis() == 0 {
            absorb_along_x::<V, R, RADIUS>(self.pass, self.part, self.band);
        } else {
            absorb_along_y::<V, R, RADIUS>(self.pass, self.part, self.band);
        }
    }
}

/// Updates a part of a layer along y, and adds its terms to the new values.
#[inline(always)]
fn absorb_along_y<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize>(
    pass: &StencilPass<R>,
    part: &mut LayerPart<R>,
    band: BandOfPlane<R>,
) {
    let LayerPart { coefficients: layer, psi, zeta } = part;
    let (layout, thickness) = (pass.layout, layer.thickness());
    let [nx, ny, _] = layout.nodes;
    let row_len = psi.len() / thickness;
    let pitch = layout.pitch as isize;
    let (outer, stride) = if layer.side.is_max() { (ny - 1, -pitch) } else { (0, pitch) };
    // ψ of one register of lines, with zeros around the layer.
    let mut buffer = vec![R::default(); (thickness + 3 * MAX_RADIUS) * LANES];
    let buffer_lines = Lines { first: (MAX_RADIUS * LANES) as isize, stride: LANES as isize };
    let (first, first_in_band) = (layout.row(outer, band.k), layout.row_in_plane(outer) - band.base);
    let mut i = 0;
    while i < nx {
        let lines = Lines { first: (first + i) as isize, stride };
        let next_lines = Lines { first: (first_in_band + i) as isize, stride };
        for n in 0..thickness {
            let at = n * row_len + i;
            let value = update_psi::<V, RADIUS>(layer, pass.u, lines, n, &psi[at..]);
            value.store(&mut psi[at..]);
            value.store(&mut buffer[buffer_lines.at(n as isize)..]);
        }
        for n in 0..thickness + RADIUS {
            let mut term = derivative::<V, RADIUS>(&layer.first, &buffer, buffer_lines, n as isize);
            if n < thickness {
                let at = n * row_len + i;
                let (value, sum) = update_zeta::<V, RADIUS>(layer, pass.u, lines, n, term, &zeta[at..]);
                value.store(&mut zeta[at..]);
                term = sum;
            }
            let v = load_courant::<V>(pass.courant, lines.at(n as isize));
            let to = &mut band.next[next_lines.at(n as isize)..];
            let value = v.fused_mul_add(term, V::load(to));
            store_first(value, to, nx - i);
        }
        i += V::LANES;
    }
}

/// Update of a layer along z, for a block of rows.
struct AbsorbBlock<'a, 'b, R> {
    pass: &'a StencilPass<'a, R>,
    layer: &'a LayerCoefficients<R>,
    first_row: usize,
    /// Padded rows at the nodes of the layer, and at those that it reaches inside. All are from
    /// the outside inwards.
    next: Vec<&'b mut [R]>,
    psi: Vec<&'b mut [R]>,
    zeta: Vec<&'b mut [R]>,
    row_len: usize,
}

impl<R: Scalar> SimdKernel for AbsorbBlock<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        match self.pass.stencil.radius {
            1 => self.absorb::<R::Register<S, D>, 1>(),
            2 => self.absorb::<R::Register<S, D>, 2>(),
            3 => self.absorb::<R::Register<S, D>, 3>(),
            _ => self.absorb::<R::Register<S, D>, 4>(),
        }
    }
}

impl<R: Scalar> AbsorbBlock<'_, '_, R> {
    // Nodes are the outer loop, because their values are in different planes: few streams at a
    // time.
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, first_row, mut next, mut psi, mut zeta, row_len } = self;
        let (layout, thickness) = (pass.layout, layer.thickness());
        let (nx, rows) = (layout.nodes[0], psi[0].len() / row_len);
        let plane = layout.plane as isize;
        let (outer, stride) = if layer.side.is_max() { (layout.nodes[2] - 1, -plane) } else { (0, plane) };
        let zeros = vec![R::default(); rows * row_len];
        for n in 0..thickness {
            for row in 0..rows {
                let first = layout.row(first_row + row, outer);
                let mut i = 0;
                while i < nx {
                    let lines = Lines { first: (first + i) as isize, stride };
                    let at = row * row_len + i;
                    let value = update_psi::<V, RADIUS>(layer, pass.u, lines, n, &psi[n][at..]);
                    value.store(&mut psi[n][at..]);
                    i += V::LANES;
                }
            }
        }
        for n in 0..thickness + RADIUS {
            let (mut outside, mut inside) = ([&zeros[..]; MAX_RADIUS], [&zeros[..]; MAX_RADIUS]);
            for r in 1..=RADIUS {
                if n >= r && n - r < thickness {
                    outside[r - 1] = psi[n - r];
                }
                if n + r < thickness {
                    inside[r - 1] = psi[n + r];
                }
            }
            for row in 0..rows {
                let first = layout.row(first_row + row, outer);
                let mut i = 0;
                while i < nx {
                    let lines = Lines { first: (first + i) as isize, stride };
                    let at = row * row_len + i;
                    let mut term = derivative_of_rows::<V, RADIUS>(&layer.first, &outside, &inside, at);
                    if n < thickness {
                        let (value, sum) =
                            update_zeta::<V, RADIUS>(layer, pass.u, lines, n, term, &zeta[n][at..]);
                        value.store(&mut zeta[n][at..]);
                        term = sum;
                    }
                    let v = load_courant::<V>(pass.courant, lines.at(n as isize));
                    let to = &mut next[n][row * layout.pitch + GAP + i..];
                    let value = v.fused_mul_add(term, V::load(to));
                    store_first(value, to, nx - i);
                    i += V::LANES;
                }
            }
        }
    }
}

/// Updates a part of a layer along x, and adds its terms to the new values.
#[inline(always)]
fn absorb_along_x<V: Vector<Scalar = R>, R: Scalar, const RADIUS: usize>(
    pass: &StencilPass<R>,
    part: &mut LayerPart<R>,
    band: BandOfPlane<R>,
) {
    let LayerPart { coefficients: layer, psi, zeta } = part;
    let (layout, thickness) = (pass.layout, layer.thickness());
    let nx = layout.nodes[0];
    let is_max = layer.side.is_max();
    let zeros = vec![R::default(); (thickness + 3 * MAX_RADIUS) * LANES];
    let (mut u, mut psi_buffer, mut terms) = (zeros.clone(), zeros.clone(), zeros);
    let lines = Lines { first: (MAX_RADIUS * LANES) as isize, stride: LANES as isize };
    // Nodes that get a new value.
    let reach = thickness + RADIUS;
    let group_len = thickness * LANES;
    for (group, (psi, zeta)) in
        psi.chunks_exact_mut(group_len).zip(zeta.chunks_exact_mut(group_len)).enumerate()
    {
        let first = band.rows.start + group * LANES;
        let count = LANES.min(band.rows.end - first);
        // Nodes −RADIUS … L − 1 + RADIUS are read.
        for lane in 0..count {
            let row = layout.row(first + lane, band.k);
            let to = &mut u[(MAX_RADIUS - RADIUS) * LANES + lane..];
            if is_max {
                let from = &pass.u[row + nx - reach..][..reach + RADIUS];
                for (n, value) in from.iter().rev().enumerate() {
                    to[n * LANES] = *value;
                }
            } else {
                let from = &pass.u[row - RADIUS..][..reach + RADIUS];
                for (n, value) in from.iter().enumerate() {
                    to[n * LANES] = *value;
                }
            }
        }
        let mut lane = 0;
        while lane < LANES {
            let lines = Lines { first: lines.first + lane as isize, ..lines };
            for n in 0..thickness {
                let at = n * LANES + lane;
                let value = update_psi::<V, RADIUS>(layer, &u, lines, n, &psi[at..]);
                value.store(&mut psi[at..]);
                value.store(&mut psi_buffer[lines.at(n as isize)..]);
            }
            for n in 0..reach {
                let mut term = derivative::<V, RADIUS>(&layer.first, &psi_buffer, lines, n as isize);
                if n < thickness {
                    let at = n * LANES + lane;
                    let (value, sum) = update_zeta::<V, RADIUS>(layer, &u, lines, n, term, &zeta[at..]);
                    value.store(&mut zeta[at..]);
                    term = sum;
                }
                term.store(&mut terms[lines.at(n as isize)..]);
            }
            lane += V::LANES;
        }
        for lane in 0..count {
            let j = first + lane;
            let first_column = if is_max { nx - reach } else { 0 };
            let row = layout.row_in_plane(j) - band.base + first_column;
            let to = &mut band.next[row..][..reach];
            let position = layout.row(j, band.k) + first_column;
            let terms = &terms[MAX_RADIUS * LANES + lane..];
            for (i, to) in to.iter_mut().enumerate() {
                let n = if is_max { reach - 1 - i } else { i };
                *to = pass.courant.at(position + i).fused_mul_add(terms[n * LANES], *to);
            }
        }
    }
}
