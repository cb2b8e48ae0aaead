//! Absorbing layers on the CPU.
//!
//! Lanes of a register are neighbouring lines through a layer. Lines along y and z are neighbours in
//! memory. Lines along x are copied into a transposed buffer, [`LANES`] lines at a time. Their ψ and ζ
//! are stored in that order: for each plane and each group of lines, the values of node n are together.

use orrery_model::wave::{Side, WaveGrid};
use orrery_simd::{InstructionSet, MAX_LANES, SimdKernel, Vector, dispatch};
use rayon::prelude::*;

use super::cpu::{CourantPlanes, StencilPass};
use super::kernels::{Lines, inner_term, store_first, update_psi, update_zeta};
use super::layout::Layout;
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
        planes: &std::ops::Range<usize>,
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
    pub fn copy_to(&mut self, grid: &WaveGrid, planes: &std::ops::Range<usize>, memory: &mut LayerMemory<R>) {
        self.exchange(grid, planes, |stored, canonical, is_psi| {
            let to = if is_psi { &mut memory.psi } else { &mut memory.zeta };
            to[canonical] = *stored;
        });
    }

    /// Calls `visit` for all values, with their index in a [`LayerMemory`].
    fn exchange(
        &mut self,
        grid: &WaveGrid,
        planes: &std::ops::Range<usize>,
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

    /// Updates a layer along x or y in `planes`, and adds its terms to `next`.
    pub fn absorb_in_planes(
        &mut self,
        set: InstructionSet,
        pass: &StencilPass<R>,
        layer: &LayerCoefficients<R>,
        planes: std::ops::Range<usize>,
        next: &mut [R],
    ) {
        let layout = pass.layout;
        let plane_len = match self.side.axis() {
            0 => layout.nodes[1].div_ceil(LANES) * self.thickness * self.row_len,
            _ => self.thickness * self.row_len,
        };
        let memory = planes.start * plane_len..planes.end * plane_len;
        let storage = (planes.start + layout.ghost_planes) * layout.plane..;
        let next = next[storage][..planes.len() * layout.plane].par_chunks_mut(layout.plane);
        let psi = self.psi[memory.clone()].par_chunks_mut(plane_len);
        let zeta = self.zeta[memory].par_chunks_mut(plane_len);
        let row_len = self.row_len;
        next.zip(psi).zip(zeta).enumerate().for_each(|(k, ((next, psi), zeta))| {
            let plane = planes.start + k;
            let kernel = AbsorbPlane { pass, layer, plane, next, psi, zeta, row_len };
            dispatch(set, kernel);
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
        let (thickness, row_len, ny) = (self.thickness, self.row_len, layout.nodes[1]);
        let node_len = ny * row_len;
        self.psi.par_chunks_mut(node_len).enumerate().for_each(|(n, psi)| {
            dispatch(set, UpdatePsiPlane { pass, layer, n, psi, row_len });
        });
        let is_max = self.side.is_max();
        let count = thickness + pass.stencil.radius;
        let first = if is_max { layout.nodes[2] - count } else { 0 };
        let storage = (first + layout.ghost_planes) * layout.plane..;
        // ψ with zeros before the first and after the last node.
        let psi = &self.psi;
        let mut zeta: Vec<Option<&mut [R]>> = self.zeta.chunks_mut(node_len).map(Some).collect();
        zeta.resize_with(count, || None);
        if is_max {
            zeta.reverse();
        }
        let next = next[storage][..count * layout.plane].par_chunks_mut(layout.plane);
        next.zip(zeta).enumerate().for_each(|(k, (next, zeta))| {
            let n = if is_max { count - 1 - k } else { k };
            dispatch(set, AbsorbNode { pass, layer, n, plane: first + k, next, psi, zeta, row_len });
        });
    }
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

/// Update of a layer along x or y in one plane.
struct AbsorbPlane<'a, R> {
    pass: &'a StencilPass<'a, R>,
    layer: &'a LayerCoefficients<R>,
    plane: usize,
    /// New values of the plane with its ghost rows.
    next: &'a mut [R],
    psi: &'a mut [R],
    zeta: &'a mut [R],
    row_len: usize,
}

impl<R: Scalar> SimdKernel for AbsorbPlane<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        let radius = self.pass.stencil.radius;
        if self.layer.side.axis() == 0 {
            for_radius!(radius, self.absorb_along_x::<R::Register<S, D>>);
        } else {
            for_radius!(radius, self.absorb_along_y::<R::Register<S, D>>);
        }
    }
}

impl<R: Scalar> AbsorbPlane<'_, R> {
    #[inline(always)]
    fn absorb_along_y<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, plane, next, psi, zeta, row_len } = self;
        let (layout, thickness) = (pass.layout, layer.thickness());
        let [nx, ny, _] = layout.nodes;
        let (outer, stride) = match layer.side.is_max() {
            true => (ny - 1, -(layout.pitch as isize)),
            false => (0, layout.pitch as isize),
        };
        // ψ of one register of lines, with zeros around the layer.
        let mut buffer = vec![R::default(); (thickness + 3 * MAX_RADIUS) * LANES];
        let buffer_lines = Lines { first: (MAX_RADIUS * LANES) as isize, stride: LANES as isize };
        let base = layout.row(0, plane) - layout.row_in_plane(0);
        let mut i = 0;
        while i < nx {
            let lines = Lines { first: (base + layout.row_in_plane(outer) + i) as isize, stride };
            let valid = (nx - i).min(V::LANES);
            for n in 0..thickness {
                let at = n * row_len + i;
                let value = update_psi::<V, RADIUS>(layer, pass.u, lines, n, &psi[at..]);
                value.store(&mut psi[at..]);
                value.store(&mut buffer[buffer_lines.at(n as isize)..]);
            }
            for n in 0..thickness + RADIUS {
                let psi_lines = (&buffer[..], buffer_lines);
                let term = if n < thickness {
                    let at = n * row_len + i;
                    let u_lines = (pass.u, lines);
                    let (value, term) = update_zeta::<V, RADIUS>(layer, u_lines, psi_lines, n, &zeta[at..]);
                    value.store(&mut zeta[at..]);
                    term
                } else {
                    inner_term::<V, RADIUS>(layer, psi_lines, n)
                };
                let position = lines.at(n as isize);
                let v = load_courant::<V>(pass.courant, position);
                let to = &mut next[position - base..];
                let value = v.fused_mul_add(term, V::load(to));
                store_first(value, to, valid);
            }
            i += V::LANES;
        }
    }

    #[inline(always)]
    fn absorb_along_x<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, plane, next, psi, zeta, .. } = self;
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

/// Update of ψ at node n of a layer along z.
struct UpdatePsiPlane<'a, R> {
    pass: &'a StencilPass<'a, R>,
    layer: &'a LayerCoefficients<R>,
    n: usize,
    psi: &'a mut [R],
    row_len: usize,
}

/// Returns the lines along z that start in the row j, at column `i`.
#[inline(always)]
fn z_lines(layout: &Layout, side: Side, i: usize, j: usize) -> Lines {
    let plane = layout.plane as isize;
    match side.is_max() {
        true => Lines { first: (layout.row(j, layout.nodes[2] - 1) + i) as isize, stride: -plane },
        false => Lines { first: (layout.row(j, 0) + i) as isize, stride: plane },
    }
}

impl<R: Scalar> SimdKernel for UpdatePsiPlane<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        for_radius!(self.pass.stencil.radius, self.update::<R::Register<S, D>>);
    }
}

impl<R: Scalar> UpdatePsiPlane<'_, R> {
    #[inline(always)]
    fn update<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, n, psi, row_len } = self;
        for (j, psi) in psi.chunks_exact_mut(row_len).enumerate() {
            let mut i = 0;
            while i < pass.layout.nodes[0] {
                let lines = z_lines(pass.layout, layer.side, i, j);
                let value = update_psi::<V, RADIUS>(layer, pass.u, lines, n, &psi[i..]);
                value.store(&mut psi[i..]);
                i += V::LANES;
            }
        }
    }
}

/// Update of ζ and of the new values at node n of a layer along z.
struct AbsorbNode<'a, R> {
    pass: &'a StencilPass<'a, R>,
    layer: &'a LayerCoefficients<R>,
    n: usize,
    plane: usize,
    next: &'a mut [R],
    psi: &'a [R],
    zeta: Option<&'a mut [R]>,
    row_len: usize,
}

impl<R: Scalar> SimdKernel for AbsorbNode<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        for_radius!(self.pass.stencil.radius, self.absorb::<R::Register<S, D>>);
    }
}

impl<R: Scalar> AbsorbNode<'_, R> {
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, n, plane, next, psi, mut zeta, row_len } = self;
        let (layout, thickness) = (pass.layout, layer.thickness());
        let [nx, ny, _] = layout.nodes;
        // ψ at nodes n − RADIUS … n + RADIUS of one register of lines.
        let mut window = [R::default(); (2 * MAX_RADIUS + 1) * LANES];
        let stride = LANES as isize;
        let window_lines = Lines { first: (MAX_RADIUS as isize - n as isize) * stride, stride };
        let base = layout.row(0, plane) - layout.row_in_plane(0);
        for j in 0..ny {
            let mut i = 0;
            while i < nx {
                for r in 0..2 * RADIUS + 1 {
                    let to = &mut window[(MAX_RADIUS - RADIUS + r) * LANES..];
                    match (n + r).checked_sub(RADIUS) {
                        Some(m) if m < thickness => V::load(&psi[(m * ny + j) * row_len + i..]).store(to),
                        _ => V::splat(R::default()).store(to),
                    }
                }
                let lines = z_lines(layout, layer.side, i, j);
                let term = match &mut zeta {
                    Some(zeta) => {
                        let at = j * row_len + i;
                        let u_lines = (pass.u, lines);
                        let (value, term) =
                            update_zeta::<V, RADIUS>(layer, u_lines, (&window, window_lines), n, &zeta[at..]);
                        value.store(&mut zeta[at..]);
                        term
                    }
                    None => inner_term::<V, RADIUS>(layer, (&window, window_lines), n),
                };
                let position = layout.row(j, plane) + i;
                let v = load_courant::<V>(pass.courant, position);
                let to = &mut next[position - base..];
                let value = v.fused_mul_add(term, V::load(to));
                store_first(value, to, (nx - i).min(V::LANES));
                i += V::LANES;
            }
        }
    }
}
