//! Absorbing layers on the CPU.
//!
//! Lanes of a register are neighbouring lines through a layer. Lines along y and z are neighbours in
//! memory. Lines along x are copied into a transposed buffer, [`LANES`] lines at a time. Their ψ and ζ
//! are stored in that order: for each plane and each group of lines, the values of node n are together.

use std::ops::Range;

use orrery_model::wave::{Side, WaveGrid};
use orrery_simd::{InstructionSet, MAX_LANES, SimdKernel, Vector, dispatch};
use rayon::prelude::*;

use super::cpu::{CourantPlanes, StencilPass};
use super::kernels::{Lines, inner_term, store_first, update_psi, update_zeta};
use super::{LayerCoefficients, LayerMemory, MAX_RADIUS};
use crate::Scalar;

/// Lines of a group along x.
const LANES: usize = MAX_LANES;

/// ψ and ζ of a layer in the planes of one slab.
///
/// The values of node n are rows of `row_len` values: one row per plane for a layer along y, one row
/// per row of the plane for a layer along z, and one row per group of lines for a layer along x. All
/// rows of an outer index follow each other, n by n. Layers along z have all rows of node n together.
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
    /// Copies the part of a layer that belongs to the planes `planes` of the grid, `None` if there is
    /// none.
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

    /// Updates a layer along x in `planes`, and adds its terms to `next`.
    pub fn absorb_along_x(
        &mut self,
        set: InstructionSet,
        pass: &StencilPass<R>,
        layer: &LayerCoefficients<R>,
        planes: Range<usize>,
        next: &mut [R],
    ) {
        let layout = pass.layout;
        let plane_len = layout.nodes[1].div_ceil(LANES) * self.thickness * self.row_len;
        let memory = planes.start * plane_len..planes.end * plane_len;
        let psi = self.psi[memory.clone()].par_chunks_mut(plane_len);
        let zeta = self.zeta[memory].par_chunks_mut(plane_len);
        let next = layout.planes_mut(planes.clone(), next).par_chunks_mut(layout.plane);
        next.zip(psi).zip(zeta).enumerate().for_each(|(k, ((next, psi), zeta))| {
            dispatch(set, AbsorbPlane { pass, layer, plane: planes.start + k, next, psi, zeta });
        });
    }

    /// Updates a layer along y in `planes`, and adds its terms to `next`.
    pub fn absorb_along_y(
        &mut self,
        set: InstructionSet,
        pass: &StencilPass<R>,
        layer: &LayerCoefficients<R>,
        planes: Range<usize>,
        next: &mut [R],
    ) {
        let layout = pass.layout;
        let (row_len, is_max) = (self.row_len, self.side.is_max());
        let plane_len = self.thickness * row_len;
        let count = self.thickness + pass.stencil.radius;
        let first_row = if is_max { layout.nodes[1] - count } else { 0 };
        let outer_row = if is_max { layout.nodes[1] - 1 } else { 0 };
        let memory = planes.start * plane_len..planes.end * plane_len;
        let psi = self.psi[memory.clone()].par_chunks_mut(plane_len);
        let zeta = self.zeta[memory].par_chunks_mut(plane_len);
        let next = layout.planes_mut(planes.clone(), next).par_chunks_mut(layout.plane);
        next.zip(psi).zip(zeta).enumerate().for_each(|(k, ((next, psi), zeta))| {
            let rows = next[layout.row_in_plane(first_row)..].chunks_mut(layout.pitch).take(count);
            let stride = layout.pitch as isize;
            dispatch(
                set,
                AbsorbRows {
                    pass,
                    layer,
                    first: layout.row(outer_row, planes.start + k),
                    stride: if is_max { -stride } else { stride },
                    next: from_outside(rows.collect(), is_max),
                    psi: psi.chunks_mut(row_len).collect(),
                    zeta: zeta.chunks_mut(row_len).collect(),
                },
            );
        });
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
        let (is_max, [_, ny, nz]) = (self.side.is_max(), layout.nodes);
        let count = self.thickness + pass.stencil.radius;
        let (first_plane, outer_plane) = if is_max { (nz - count, nz - 1) } else { (0, 0) };
        // One task per row of the planes: its values at all nodes of the layer.
        let mut tasks: Vec<[Vec<&mut [R]>; 3]> = Vec::new();
        tasks.resize_with(ny, Default::default);
        for plane in layout.planes_mut(first_plane..first_plane + count, next).chunks_mut(layout.plane) {
            let rows = plane[layout.row_in_plane(0)..].chunks_mut(layout.pitch);
            rows.zip(&mut tasks).for_each(|(row, task)| task[0].push(row));
        }
        for (memory, field) in [(1, &mut self.psi), (2, &mut self.zeta)] {
            for (k, row) in field.chunks_mut(self.row_len).enumerate() {
                tasks[k % ny][memory].push(row);
            }
        }
        tasks.into_par_iter().enumerate().for_each(|(j, [next, psi, zeta])| {
            let stride = layout.plane as isize;
            dispatch(
                set,
                AbsorbRows {
                    pass,
                    layer,
                    first: layout.row(j, outer_plane),
                    stride: if is_max { -stride } else { stride },
                    next: from_outside(next, is_max),
                    psi,
                    zeta,
                },
            );
        });
    }
}

/// Returns rows in the order from the outside inwards.
fn from_outside<R>(mut rows: Vec<&mut [R]>, is_max: bool) -> Vec<&mut [R]> {
    if is_max {
        rows.reverse();
    }
    rows
}

/// Dispatches on the radius of the stencil, inside of a kernel.
macro_rules! for_radius {
    ($radius:expr, $self:ident . $method:ident :: <$($register:ty),+>) => {
        match $radius {
            1 => $self.$method::<$($register),+, 1>(),
            2 => $self.$method::<$($register),+, 2>(),
            3 => $self.$method::<$($register),+, 3>(),
            _ => $self.$method::<$($register),+, 4>(),
        }
    };
}

/// Returns a register of v at `position`.
#[inline(always)]
fn load_courant<V: Vector>(courant: CourantPlanes<V::Scalar>, position: usize) -> V {
    match courant {
        CourantPlanes::Uniform(v) => V::splat(v),
        CourantPlanes::Field(v) => V::load(&v[position..]),
    }
}

/// Update of a layer along y or z, for one row of lines.
struct AbsorbRows<'a, 'b, R> {
    pass: &'a StencilPass<'a, R>,
    layer: &'a LayerCoefficients<R>,
    /// Position of the outermost row in u.
    first: usize,
    /// Distance from a row to the next one inwards.
    stride: isize,
    /// New values at the nodes of the layer, and those that it reaches inside. All rows are from the
    /// outside inwards.
    next: Vec<&'b mut [R]>,
    psi: Vec<&'b mut [R]>,
    zeta: Vec<&'b mut [R]>,
}

impl<R: Scalar> SimdKernel for AbsorbRows<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        for_radius!(self.pass.stencil.radius, self.absorb::<R::Register<S, D>>);
    }
}

impl<R: Scalar> AbsorbRows<'_, '_, R> {
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, first, stride, mut next, mut psi, mut zeta } = self;
        let (nx, thickness) = (pass.layout.nodes[0], layer.thickness());
        // ψ of one register of lines, with zeros around the layer.
        let mut buffer = vec![R::default(); (thickness + 3 * MAX_RADIUS) * LANES];
        let buffer_lines = Lines { first: (MAX_RADIUS * LANES) as isize, stride: LANES as isize };
        let mut i = 0;
        while i < nx {
            let lines = Lines { first: (first + i) as isize, stride };
            for n in 0..thickness {
                let value = update_psi::<V, RADIUS>(layer, pass.u, lines, n, &psi[n][i..]);
                value.store(&mut psi[n][i..]);
                value.store(&mut buffer[buffer_lines.at(n as isize)..]);
            }
            for n in 0..thickness + RADIUS {
                let psi_lines = (&buffer[..], buffer_lines);
                let term = if n < thickness {
                    let (value, term) =
                        update_zeta::<V, RADIUS>(layer, (pass.u, lines), psi_lines, n, &zeta[n][i..]);
                    value.store(&mut zeta[n][i..]);
                    term
                } else {
                    inner_term::<V, RADIUS>(layer, psi_lines, n)
                };
                let v = load_courant::<V>(pass.courant, lines.at(n as isize));
                let to = &mut next[n][i..];
                let value = v.fused_mul_add(term, V::load(to));
                store_first(value, to, nx - i);
            }
            i += V::LANES;
        }
    }
}

/// Update of a layer along x in one plane.
struct AbsorbPlane<'a, R> {
    pass: &'a StencilPass<'a, R>,
    layer: &'a LayerCoefficients<R>,
    plane: usize,
    /// New values of the plane with its ghost rows.
    next: &'a mut [R],
    psi: &'a mut [R],
    zeta: &'a mut [R],
}

impl<R: Scalar> SimdKernel for AbsorbPlane<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        for_radius!(self.pass.stencil.radius, self.absorb::<R::Register<S, D>>);
    }
}

impl<R: Scalar> AbsorbPlane<'_, R> {
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, plane, next, psi, zeta } = self;
        let (layout, thickness) = (pass.layout, layer.thickness());
        let [nx, ny, _] = layout.nodes;
        let is_max = layer.side.is_max();
        let base = layout.row(0, plane) - layout.row_in_plane(0);
        let zeros = vec![R::default(); (thickness + 3 * MAX_RADIUS) * LANES];
        let (mut u, mut psi_buffer, mut terms) = (zeros.clone(), zeros.clone(), zeros);
        let lines = Lines { first: (MAX_RADIUS * LANES) as isize, stride: LANES as isize };
        let column = |n: isize| if is_max { nx as isize - 1 - n } else { n };
        let group_len = thickness * LANES;
        for (group, (psi, zeta)) in
            psi.chunks_exact_mut(group_len).zip(zeta.chunks_exact_mut(group_len)).enumerate()
        {
            let first = group * LANES;
            let count = LANES.min(ny - first);
            // Nodes −RADIUS … L − 1 + RADIUS are read.
            for lane in 0..count {
                let row = layout.row(first + lane, plane) as isize;
                let mut n = -(RADIUS as isize);
                while n < (thickness + RADIUS) as isize {
                    u[lines.at(n) + lane] = pass.u[(row + column(n)) as usize];
                    n += 1;
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
                for n in 0..thickness + RADIUS {
                    let psi_lines = (&psi_buffer[..], lines);
                    let term = if n < thickness {
                        let at = n * LANES + lane;
                        let (value, term) =
                            update_zeta::<V, RADIUS>(layer, (&u, lines), psi_lines, n, &zeta[at..]);
                        value.store(&mut zeta[at..]);
                        term
                    } else {
                        inner_term::<V, RADIUS>(layer, psi_lines, n)
                    };
                    term.store(&mut terms[lines.at(n as isize)..]);
                }
                lane += V::LANES;
            }
            for lane in 0..count {
                let row = layout.row(first + lane, plane);
                for n in 0..thickness + RADIUS {
                    let position = row + column(n as isize) as usize;
                    let v = pass.courant.at(position);
                    let to = &mut next[position - base];
                    *to = v.fused_mul_add(terms[lines.at(n as isize) + lane], *to);
                }
            }
        }
    }
}
