//! Absorbing layers: coefficients and memory of a convolutional PML.

use std::ops::Range;

use orrery_model::wave::{Side, Sides, WaveGrid};

use super::stencil::{MAX_RADIUS, axis_scales};
use super::{SpaceOrder, WaveProblem};
use crate::Scalar;

/// Coefficients of the layer at one side. n counts nodes from the outside inwards.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerCoefficients<R> {
    /// The side.
    pub side: Side,
    /// a_n = d/(d + α) (b − 1), one value per node of the layer.
    pub a: Vec<R>,
    /// b_n = exp(−(d + α) dt), one value per node of the layer.
    pub b: Vec<R>,
    /// d_r h0/h_a for r = 1 … 4, the weights of the first derivative.
    pub first: [R; MAX_RADIUS],
    /// w_0 (h0/h_a)², the central weight of the second derivative.
    pub second_centre: R,
    /// w_r (h0/h_a)² for r = 1 … 4.
    pub second: [R; MAX_RADIUS],
}

impl<R: Scalar> LayerCoefficients<R> {
    /// Returns the coefficients for steps of length `dt`, `None` if the side does not absorb.
    pub fn new(problem: &WaveProblem, side: Side, dt: f64) -> Option<Self> {
        let layer = problem.sides().on(side).layer()?;
        let (grid, order, axis): (&WaveGrid, SpaceOrder, _) = (problem.grid(), problem.order(), side.axis());
        let thickness = layer.thickness as f64;
        let velocity = problem.velocity_range()[1];
        let strongest =
            -3.0 * velocity * libm::log(layer.reflection) / (2.0 * thickness * grid.spacing[axis]);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for n in 0..layer.thickness {
            let depth = (layer.thickness - n) as f64 / thickness;
            let damping = strongest * depth * depth;
            let shift = layer.shift * (1.0 - depth);
            let decay = libm::exp(-(damping + shift) * dt);
            a.push(R::from_f64(damping / (damping + shift) * (decay - 1.0)));
            b.push(R::from_f64(decay));
        }
        let scale = axis_scales(grid)[axis];
        let [centre, neighbours @ ..] = order.second_derivative().map(|w| R::from_f64(w * scale * scale));
        let first = order.first_derivative().map(|d| R::from_f64(d * scale));
        Some(Self { side, a, b, first, second_centre: centre, second: neighbours })
    }

    /// Returns the number of nodes.
    pub fn thickness(&self) -> usize {
        self.a.len()
    }
}

/// Memory of the layer at one side: ψ and ζ at its nodes.
///
/// The order is that of the grid, with n in place of the index along the normal axis. For example,
/// a layer at y_max has the index (k L + n) nx + i.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerMemory<R> {
    /// The side.
    pub side: Side,
    /// ψ.
    pub psi: Vec<R>,
    /// ζ.
    pub zeta: Vec<R>,
}

impl<R: Scalar> LayerMemory<R> {
    /// Returns zeros for all layers of a problem, in the order of [`Side::ALL`].
    pub fn zeros(grid: &WaveGrid, sides: &Sides) -> Vec<Self> {
        Self::zeros_of_slab(grid, sides, &(0..slice_count(grid)))
    }

    /// Returns zeros for the parts of all layers in the slices `owned`. A layer that is elsewhere
    /// has no values.
    pub(super) fn zeros_of_slab(grid: &WaveGrid, sides: &Sides, owned: &Range<usize>) -> Vec<Self> {
        let layer = |&side: &Side| {
            let zeros = vec![R::default(); layer_values(grid, sides, side, owned)?];
            Some(Self { side, psi: zeros.clone(), zeta: zeros })
        };
        Sides::used(grid).iter().filter_map(layer).collect()
    }
}

/// Returns the number of slices of a grid: planes, or rows in two dimensions.
pub(super) fn slice_count(grid: &WaveGrid) -> usize {
    grid.nodes[grid.depth_axis()]
}

/// Returns the nodes of some slices.
pub(super) fn node_range(grid: &WaveGrid, slices: &Range<usize>) -> Range<usize> {
    let slice_nodes = grid.len() / slice_count(grid);
    slices.start * slice_nodes..slices.end * slice_nodes
}

/// Returns true if the slices `owned` have nodes on a side.
pub(super) fn has_side(grid: &WaveGrid, side: Side, owned: &Range<usize>) -> bool {
    match (side.axis() == grid.depth_axis(), side.is_max()) {
        (false, _) => true,
        (true, false) => owned.start == 0,
        (true, true) => owned.end == slice_count(grid),
    }
}

/// Returns the number of values of ψ of a layer in the slices `owned`, `None` if the side does not
/// absorb.
pub(super) fn layer_values(
    grid: &WaveGrid,
    sides: &Sides,
    side: Side,
    owned: &Range<usize>,
) -> Option<usize> {
    let all: usize = layer_nodes(grid, sides, side)?.iter().product();
    Some(match side.axis() == grid.depth_axis() {
        true if has_side(grid, side, owned) => all,
        true => 0,
        false => all / slice_count(grid) * owned.len(),
    })
}

/// Returns the extents of a layer along x, y and z, `None` if the side does not absorb.
pub(super) fn layer_nodes(grid: &WaveGrid, sides: &Sides, side: Side) -> Option<[usize; 3]> {
    let thickness = sides.on(side).layer()?.thickness;
    let mut nodes = grid.nodes;
    nodes[side.axis()] = thickness;
    Some(nodes)
}
