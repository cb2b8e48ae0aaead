//! Division of a wave field among ranks.

use std::ops::Range;

use orrery_model::wave::{AXIS_NAMES, Side, Sides, WaveGrid};

use super::layer::{layer_values, slice_count};
use super::{MAX_RADIUS, ReceiverTable, WaveError};
use crate::Scalar;
use crate::team::{EndSlices, TeamError, divided_slices};

/// Fewest slices of a rank: a border on both sides and one slice between them.
const MIN_SLICES: usize = 2 * MAX_RADIUS + 1;

/// Cost of a node of an absorbing layer, if that of another node is 1. With layers of 10 nodes on
/// all sides, the rate of 256³ nodes on two AVX-512 cores falls from 1.4 to 0.84 Gpoint/s, which is
/// that of a cost of 4, and that of 1024³ nodes on an H200 from 208 to 192, which is that of 2.5
/// (measured by the benchmarks `wave_cpu` and `wave_device`).
const LAYER_COST: usize = 3;

/// Slices and receivers of each rank.
#[derive(Clone, Debug)]
pub(super) struct SlabDivision {
    /// Slices of each rank, in the order of ranks. Together they are all slices.
    pub(super) slabs: Vec<Range<usize>>,
    /// Rank that records each receiver.
    recorders: Vec<usize>,
}

impl SlabDivision {
    /// Divides a grid into slabs of almost equal work.
    pub(super) fn new(grid: &WaveGrid, sides: &Sides, ranks: usize) -> Result<Self, WaveError> {
        let (slices, axis) = (slice_count(grid), grid.depth_axis());
        let ends = [2 * axis, 2 * axis + 1].map(|side| match sides.on(Side::ALL[side]).layer() {
            Some(layer) => EndSlices {
                extra_cost: (LAYER_COST - 1) * layer.thickness,
                min_slices: layer.thickness + 2 * MAX_RADIUS,
            },
            None => EndSlices::default(),
        });
        let slabs = divided_slices(slices, ranks, MIN_SLICES, ends).map_err(|needed| {
            let (axis, fewest, beyond_layer) = (AXIS_NAMES[axis], MIN_SLICES, Some(2 * MAX_RADIUS));
            TeamError::TooManyRanks { ranks, axis, found: slices, needed, fewest, beyond_layer }
        })?;
        Ok(Self { slabs, recorders: Vec::new() })
    }

    /// Returns the division of `slices` slices among one rank.
    pub(super) fn whole(slices: usize) -> Self {
        Self { slabs: std::iter::once(0..slices).collect(), recorders: Vec::new() }
    }

    /// Returns the grid of the largest slab, without ghost slices.
    pub(super) fn largest_slab(&self, grid: &WaveGrid) -> WaveGrid {
        let mut largest = *grid;
        largest.nodes[grid.depth_axis()] = self.slabs.iter().map(|slab| slab.len()).max().unwrap_or(0);
        largest
    }

    /// Chooses the rank that records each receiver.
    pub(super) fn assign_receivers<R: Scalar>(&mut self, grid: &WaveGrid, table: &ReceiverTable<R>) {
        self.recorders = table.recorders(grid.len() / slice_count(grid), &self.slabs);
    }

    /// Returns the receivers that a rank records.
    pub(super) fn recorded(&self, rank: usize) -> Vec<usize> {
        let receivers = self.recorders.iter().enumerate().filter(|(_, recorder)| **recorder == rank);
        receivers.map(|(receiver, _)| receiver).collect()
    }
}

/// Returns the number of values of ψ of a layer in a slab, 0 if the side does not absorb.
pub(super) fn layer_len(grid: &WaveGrid, sides: &Sides, side: Side, slab: &Range<usize>) -> usize {
    layer_values(grid, sides, side, slab).unwrap_or(0)
}
