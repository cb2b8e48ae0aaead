//! Absorbing layers on the CPU, and the update of those along y and z.
//!
//! They are updated row by row, in the order of the planes and rows of the stencil: ψ is `radius`
//! rows or planes ahead of the new values, so everything that a node needs is in the cache.

use std::ops::Range;

use orrery_model::wave::Side;
use orrery_simd::{SimdKernel, SingleVector, Vector};

use super::column_pass::window;
use super::cpu::StencilPass;
use super::layer_kernels::{LayerRows, add_layer_terms, add_slopes, update_psi};
use super::layout::{GAP, WaveLayout};
use super::{LayerCoefficients, LayerMemory, MAX_RADIUS};
use crate::Scalar;

/// Returns the number of values of ψ of a layer in a slab.
pub fn stored_values(layout: &WaveLayout, side: Side, thickness: usize) -> usize {
    let [nx, ny, planes] = layout.nodes;
    match side.axis() {
        0 => planes * ny * window(nx, side, thickness).len(),
        1 => planes * thickness * nx.next_multiple_of(GAP),
        _ => ny * thickness * nx.next_multiple_of(GAP),
    }
}

/// ψ and ζ of a layer in one slab.
///
/// Layers along x have a row of the width of the window for each row of the slab. Layers along y
/// have L rows for each plane, from the outside inwards. Layers along z have L rows for each row
/// of a plane, so the rows of a band are together.
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
    /// Copies the part of a layer that a slab has, `None` if it has none.
    pub fn new(layout: &WaveLayout, index: usize, memory: &LayerMemory<R>) -> Option<Self> {
        if memory.psi.is_empty() {
            return None;
        }
        let (side, nx) = (memory.side, layout.nodes[0]);
        let lines = layout.nodes.iter().product::<usize>() / layout.nodes[side.axis()];
        let thickness = memory.psi.len() / lines;
        let row_len = match side.axis() {
            0 => window(nx, side, thickness).len(),
            _ => nx.next_multiple_of(GAP),
        };
        let zeros = vec![R::default(); stored_values(layout, side, thickness)];
        let mut layer = Self { index, side, thickness, row_len, psi: zeros.clone(), zeta: zeros };
        layer.exchange(layout, |stored, canonical, is_psi| {
            *stored = if is_psi { memory.psi[canonical] } else { memory.zeta[canonical] };
        });
        Some(layer)
    }

    /// Copies the values to `memory`, which has the size of the slab's part.
    pub fn copy_to(&mut self, layout: &WaveLayout, memory: &mut LayerMemory<R>) {
        self.exchange(layout, |stored, canonical, is_psi| {
            let to = if is_psi { &mut memory.psi } else { &mut memory.zeta };
            to[canonical] = *stored;
        });
    }

    /// Calls `visit` for all values, with their index in a [`LayerMemory`].
    fn exchange(&mut self, layout: &WaveLayout, mut visit: impl FnMut(&mut R, usize, bool)) {
        let [nx, ny, planes] = layout.nodes;
        let (side, thickness, row_len) = (self.side, self.thickness, self.row_len);
        let mut both = |position: usize, canonical: usize| {
            visit(&mut self.psi[position], canonical, true);
            visit(&mut self.zeta[position], canonical, false);
        };
        match side.axis() {
            0 => {
                let start = window(nx, side, thickness).start;
                for row in 0..planes * ny {
                    for n in 0..thickness {
                        let column = if side.is_max() { nx - 1 - n } else { n };
                        both(row * row_len + column - start, row * thickness + n);
                    }
                }
            }
            1 => {
                for row in 0..planes * thickness {
                    (0..nx).for_each(|i| both(row * row_len + i, row * nx + i));
                }
            }
            _ => {
                for (row, n) in (0..ny).flat_map(|row| (0..thickness).map(move |n| (row, n))) {
                    let position = (row * thickness + n) * row_len;
                    (0..nx).for_each(|i| both(position + i, (n * ny + row) * nx + i));
                }
            }
        }
    }

    /// Returns the values of `planes` of a layer along x or y, plane by plane.
    pub fn by_plane(&mut self, planes: Range<usize>, ny: usize) -> impl Iterator<Item = LayerValues<'_, R>> {
        let rows = if self.side.axis() == 0 { ny } else { self.thickness };
        let (row_len, plane) = (self.row_len, rows * self.row_len);
        let psi = self.psi.chunks_mut(plane).skip(planes.start).take(planes.len());
        let zeta = self.zeta.chunks_mut(plane).skip(planes.start).take(planes.len());
        psi.zip(zeta).map(move |(psi, zeta)| LayerValues { psi, zeta, row_len })
    }

    /// Returns all values of a layer along z.
    pub fn all_rows(&mut self) -> LayerValues<'_, R> {
        LayerValues { psi: &mut self.psi, zeta: &mut self.zeta, row_len: self.row_len }
    }
}

/// ψ and ζ in consecutive rows of a layer.
#[derive(Debug)]
pub struct LayerValues<'a, R> {
    /// ψ.
    pub psi: &'a mut [R],
    /// ζ.
    pub zeta: &'a mut [R],
    /// Values of a row.
    row_len: usize,
}

impl<'a, R> LayerValues<'a, R> {
    /// Removes the first `rows` rows and returns them.
    pub fn split_off_rows(&mut self, rows: usize) -> Self {
        let len = rows * self.row_len;
        let psi = self.psi.split_off_mut(..len).expect("the rows exist");
        let zeta = self.zeta.split_off_mut(..len).expect("the rows exist");
        Self { psi, zeta, row_len: self.row_len }
    }
}

/// Returns the indices along the axis of a layer that it reaches, where `extent` is the number of
/// nodes along the axis.
pub fn reached<R: Scalar>(layer: &LayerCoefficients<R>, radius: usize, extent: usize) -> Range<usize> {
    let reach = layer.thickness() + radius;
    if layer.side.is_max() { extent - reach..extent } else { 0..reach }
}

/// Update of a layer along y or z, in the order of increasing index along that axis.
#[derive(Debug)]
pub struct RowLayer<'a, R> {
    /// Coefficients.
    pub layer: &'a LayerCoefficients<R>,
    /// ψ and ζ: L rows from the outside inwards, for each row at one index of the axis.
    pub values: LayerValues<'a, R>,
    /// First index along the axis whose ψ has not been updated.
    pub first_old_psi: usize,
}

impl<'a, R: Scalar> RowLayer<'a, R> {
    /// Returns a layer whose ψ has not been updated yet.
    pub fn new(layer: &'a LayerCoefficients<R>, values: LayerValues<'a, R>, extent: usize) -> Self {
        Self { layer, values, first_old_psi: reached(layer, 0, extent).start }
    }
}

/// Update of the values at some indices of a layer along y or z.
///
/// It is dispatched for each plane, although the caller is compiled for the same instruction set.
/// Inside of all variants of the caller it would be compiled many times.
pub struct AbsorbRows<'a, 'b, R> {
    /// The step.
    pub pass: &'a StencilPass<'a, R>,
    /// The layer.
    pub layer: &'a mut RowLayer<'b, R>,
    /// Indices along the axis whose new values get their terms.
    pub indices: Range<usize>,
    /// Position in u of the first row at index 0.
    pub origin: usize,
    /// New values, from the first row at `indices.start` on. They have the strides of u, and rows
    /// of the same index are neighbours.
    pub next: &'a mut [R],
}

impl<R: Scalar> SimdKernel for AbsorbRows<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        match self.pass.stencil.radius {
            1 => self.absorb::<R::Register<S, D>, 1>(),
            2 => self.absorb::<R::Register<S, D>, 2>(),
            3 => self.absorb::<R::Register<S, D>, 3>(),
            _ => self.absorb::<R::Register<S, D>, 4>(),
        }
    }
}

impl<R: Scalar> AbsorbRows<'_, '_, R> {
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(mut self) {
        let axis = self.layer.layer.side.axis();
        let (layout, thickness) = (self.pass.layout, self.layer.layer.thickness());
        let (extent, stride) = (layout.nodes[axis], layout.strides()[axis]);
        let zeros = vec![R::default(); self.layer.values.row_len];
        let rows = self.layer.values.psi.len() / (thickness * zeros.len());
        let with_psi = reached(self.layer.layer, 0, extent);
        let first = self.indices.start;
        for index in self.indices.clone() {
            let end = (index + RADIUS + 1).min(with_psi.end);
            for ahead in self.layer.first_old_psi..end {
                for row in 0..rows {
                    self.update_psi::<V, RADIUS>(
                        self.origin + ahead * stride + row * layout.pitch,
                        ahead,
                        row,
                    );
                }
            }
            self.layer.first_old_psi = self.layer.first_old_psi.max(end);
            for row in 0..rows {
                let next = (index - first) * stride + row * layout.pitch;
                let position = self.origin + index * stride + row * layout.pitch;
                self.add_terms::<V, RADIUS>(position, index, row, next, &zeros);
            }
        }
    }

    /// Returns the number of the node at an index, from the outside inwards.
    #[inline(always)]
    fn node(&self, index: usize) -> usize {
        let side = self.layer.layer.side;
        if side.is_max() { self.pass.layout.nodes[side.axis()] - 1 - index } else { index }
    }

    /// Returns the distance of the rows of ψ that are updated one after the other.
    #[inline(always)]
    fn row_distance(&self) -> usize {
        let RowLayer { layer, values, .. } = &*self.layer;
        if layer.side.axis() == 2 { layer.thickness() * values.row_len } else { values.row_len }
    }

    /// Returns the distance in u from a node to the next one inwards.
    #[inline(always)]
    fn inwards(&self) -> isize {
        let side = self.layer.layer.side;
        let stride = self.pass.layout.strides()[side.axis()] as isize;
        if side.is_max() { -stride } else { stride }
    }

    #[inline(always)]
    fn update_psi<V: Vector<Scalar = R>, const RADIUS: usize>(
        &mut self,
        position: usize,
        index: usize,
        row: usize,
    ) {
        let (n, inwards, ahead) = (self.node(index), self.inwards(), self.row_distance());
        let RowLayer { layer, values, .. } = &mut *self.layer;
        let row_len = values.row_len;
        let u = LayerRows::around::<RADIUS>(self.pass.u, position, inwards, row_len);
        let psi = &mut values.psi[(row * layer.thickness() + n) * row_len..][..row_len];
        update_psi::<V, RADIUS>(layer, n, &u, psi, ahead);
    }

    #[inline(always)]
    fn add_terms<V: Vector<Scalar = R>, const RADIUS: usize>(
        &mut self,
        position: usize,
        index: usize,
        row: usize,
        next: usize,
        zeros: &[R],
    ) {
        let (n, inwards, nx) = (self.node(index), self.inwards(), self.pass.layout.nodes[0]);
        let ahead = self.row_distance();
        let RowLayer { layer, values, .. } = &mut *self.layer;
        let (thickness, row_len) = (layer.thickness(), values.row_len);
        let lines = &values.psi[row * thickness * row_len..][..thickness * row_len];
        let mut psi = LayerRows { outside: [zeros; MAX_RADIUS], inside: [zeros; MAX_RADIUS] };
        let mut r = 1;
        while r <= RADIUS {
            if n >= r && n - r < thickness {
                psi.outside[r - 1] = &lines[(n - r) * row_len..][..row_len];
            }
            if n + r < thickness {
                psi.inside[r - 1] = &lines[(n + r) * row_len..][..row_len];
            }
            r += 1;
        }
        let next = &mut self.next[next..];
        let courant = self.pass.courant_at(position);
        if n < thickness {
            let u = LayerRows::around::<RADIUS>(self.pass.u, position, inwards, row_len);
            let own = &self.pass.u[position..][..row_len];
            let zeta = &mut values.zeta[(row * thickness + n) * row_len..][..row_len];
            add_layer_terms::<V, R, RADIUS>(layer, n, &psi, &u, own, zeta, ahead, courant, next, nx);
        } else {
            add_slopes::<V, R, RADIUS>(layer, &psi, courant, next, nx);
        }
    }
}
