//! Update of absorbing layers along x on the CPU.
//!
//! A window of columns at the end of each row contains the layer and the nodes that it reaches. It
//! starts and ends at multiples of [`BLOCK`] columns. Its other columns keep their values.

use std::ops::Range;

use orrery_model::wave::Side;
use orrery_simd::{SimdKernel, SingleVector, Vector};

use super::cpu::StencilPass;
use super::layer_kernels::{BLOCK, ColumnCoefficients, add_column_terms, update_column_psi};
use super::layer_pass::LayerValues;
use super::layout::GAP;
use super::{LayerCoefficients, MAX_RADIUS};
use crate::Scalar;

/// Returns the columns that contain a layer along x and the nodes that it reaches.
pub fn window(nx: usize, side: Side, thickness: usize) -> Range<usize> {
    let reach = thickness + MAX_RADIUS;
    match side.is_max() {
        true => nx.saturating_sub(reach) / BLOCK * BLOCK..nx.next_multiple_of(BLOCK),
        false => 0..reach.next_multiple_of(BLOCK),
    }
}

/// Window of a layer along x.
#[derive(Debug)]
pub struct ColumnWindow<R> {
    /// First column.
    start: usize,
    blocks: Vec<ColumnCoefficients<R>>,
}

impl<R: Scalar> ColumnWindow<R> {
    /// Returns the window of a layer along x.
    pub fn new(layer: &LayerCoefficients<R>, radius: usize, nx: usize) -> Self {
        let columns = window(nx, layer.side, layer.thickness());
        let block = |start: usize| {
            let zeros = [R::default(); BLOCK];
            let mut block = ColumnCoefficients { a: zeros, b: zeros, is_layer: zeros, is_reached: zeros };
            for at in 0..BLOCK {
                let column = start + at;
                // Columns after the end of the row have no node.
                let n = if layer.side.is_max() { (nx - 1).checked_sub(column) } else { Some(column) };
                let Some(n) = n.filter(|&n| n < layer.thickness() + radius) else { continue };
                block.is_reached[at] = R::from_f64(1.0);
                if n < layer.thickness() {
                    (block.a[at], block.b[at]) = (layer.a[n], layer.b[n]);
                    block.is_layer[at] = R::from_f64(1.0);
                }
            }
            block
        };
        Self { start: columns.start, blocks: columns.step_by(BLOCK).map(block).collect() }
    }
}

/// Part of a layer along x: some rows of one plane.
#[derive(Debug)]
pub struct ColumnLayer<'a, R> {
    /// Coefficients.
    pub layer: &'a LayerCoefficients<R>,
    /// Window of the layer.
    pub window: &'a ColumnWindow<R>,
    /// ψ and ζ of the rows.
    pub values: LayerValues<'a, R>,
}

/// Update of a layer along x in some rows of one plane. It is dispatched like [`AbsorbRows`].
pub struct AbsorbColumns<'a, 'b, R> {
    /// The step.
    pub pass: &'a StencilPass<'a, R>,
    /// The rows.
    pub layer: &'a mut ColumnLayer<'b, R>,
    /// Position in u of the first node of the first row.
    pub position: usize,
    /// New values, from the first node of the first row on.
    pub next: &'a mut [R],
}

impl<R: Scalar> SimdKernel for AbsorbColumns<'_, '_, R> {
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

/// Rows of a layer along x whose ψ is computed before the terms of the first one, because a load
/// that crosses recent stores has to wait for them.
const GROUP_ROWS: usize = 16;

impl<R: Scalar> AbsorbColumns<'_, '_, R> {
    #[inline(always)]
    fn absorb<V: Vector<Scalar = R>, const RADIUS: usize>(self) {
        let Self { pass, layer, position, next } = self;
        let ColumnLayer { layer, window, values } = layer;
        let (pitch, blocks) = (pass.layout.pitch, &window.blocks);
        let width = blocks.len() * BLOCK;
        // ψ with zeros around the window.
        let padded = width + 2 * GAP;
        let mut new_psi = vec![R::default(); GROUP_ROWS * padded];
        let mut curvature = vec![[R::default(); BLOCK]; GROUP_ROWS * blocks.len()];
        let psi = values.psi.as_chunks_mut::<BLOCK>().0.chunks_mut(GROUP_ROWS * blocks.len());
        let zeta = values.zeta.as_chunks_mut::<BLOCK>().0.chunks_mut(GROUP_ROWS * blocks.len());
        for (group, (psi, zeta)) in psi.zip(zeta).enumerate() {
            let first = group * GROUP_ROWS * pitch + window.start;
            let rows = psi.chunks_exact_mut(blocks.len()).zip(curvature.chunks_exact_mut(blocks.len()));
            for (row, (psi, curvature)) in rows.enumerate() {
                let start = position + first + row * pitch;
                let new_psi = new_psi[row * padded + GAP..][..width].as_chunks_mut::<BLOCK>().0;
                for (block, columns) in blocks.iter().enumerate() {
                    let to = (&mut psi[block], &mut new_psi[block], &mut curvature[block]);
                    let start = start + block * BLOCK;
                    update_column_psi::<V, RADIUS>(layer, columns, pass.u, start, to.0, to.1, to.2);
                }
            }
            let rows = zeta.chunks_exact_mut(blocks.len()).zip(curvature.chunks_exact(blocks.len()));
            for (row, (zeta, curvature)) in rows.enumerate() {
                let next = next[first + row * pitch..][..width].as_chunks_mut::<BLOCK>().0;
                for (block, columns) in blocks.iter().enumerate() {
                    let start = row * padded + GAP + block * BLOCK;
                    let courant = pass.courant_at(position + first + row * pitch + block * BLOCK);
                    let (curvature, zeta) = (&curvature[block], &mut zeta[block]);
                    let next = &mut next[block];
                    add_column_terms::<V, R, RADIUS>(
                        layer, columns, &new_psi, start, curvature, zeta, courant, next,
                    );
                }
            }
        }
    }
}
