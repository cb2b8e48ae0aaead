//! State of a wave field in host memory.
//!
//! The state is that of all nodes, or of the slices that one rank of a team owns. Ranks exchange
//! the slices at the borders of their slabs in each step, and the bits are those of a single slab.

use std::ops::Range;

use orrery_cluster::ClusterError;
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{Side, Sides, WaveGrid};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::cpu::WaveCpuStrategy;
use super::energy::{
    NO_ENERGY, WaveMeasures, added_energies, energy_scale, largest, row_energies, slab_largest,
};
use super::layer::slice_count;
use super::layer_pass::stored_values;
use super::layout::{PaddedField, WaveLayout};
use super::slab::{EndImages, HostWaveSlab};
use super::{GridPlane, LayerMemory, Medium, SquaredCourant, WaveState};
use crate::Scalar;
use crate::team::Neighbours;

/// Field of a state that is measured or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredWave {
    /// The state.
    State,
    /// The result of the last look ahead.
    Ahead,
}

/// State of a wave field in host memory: u at two times, v if it is not uniform, and the layers.
#[derive(Debug)]
pub struct HostWave<R> {
    /// The medium, where a field of v is empty: the slab has it.
    medium: Medium<R>,
    strategy: WaveCpuStrategy,
    step: u64,
    slab: HostWaveSlab<R>,
    /// Receivers that are recorded here.
    receivers: Vec<usize>,
    samples: Vec<R>,
    /// Values of all nodes of the slab at a time within the next step.
    ahead: Option<Vec<R>>,
}

impl<R: Scalar> HostWave<R> {
    /// Copies a state of all nodes.
    pub fn new(medium: Medium<R>, state: &WaveState<R>, strategy: WaveCpuStrategy) -> Self {
        let (owned, receivers) = (0..slice_count(&medium.grid), (0..medium.receivers.len()).collect());
        Self::of_slab(medium, state, strategy, owned, receivers)
    }

    /// Copies a state of the slices `owned`. `medium` and `state` have values of these slices only.
    /// `receivers` are those that are recorded here: all their nodes are in the slices or in ghost
    /// slices.
    pub(super) fn of_slab(
        mut medium: Medium<R>,
        state: &WaveState<R>,
        strategy: WaveCpuStrategy,
        owned: Range<usize>,
        receivers: Vec<usize>,
    ) -> Self {
        let slab = HostWaveSlab::new(&medium, state, owned);
        if let SquaredCourant::Field(values) = &mut medium.squared_courant {
            *values = Vec::new();
        }
        let samples = state.samples.clone();
        Self { medium, strategy, step: state.step, slab, receivers, samples, ahead: None }
    }

    /// Returns an upper bound of the bytes that a field needs. A look ahead needs two more fields
    /// while it is computed.
    pub fn needed_bytes(grid: &WaveGrid, sides: &Sides, is_variable: bool) -> u64 {
        let bytes = size_of::<R>() as u64;
        let layout = WaveLayout::on_host(grid, slice_count(grid));
        let layer_values = |&side: &Side| {
            let thickness = sides.on(side).layer()?.thickness;
            Some(2 * stored_values(&layout, side, thickness))
        };
        let layers: usize = Sides::used(grid).iter().filter_map(layer_values).sum();
        let fields = 2 + u64::from(is_variable);
        bytes * (fields * layout.field_len() as u64 + layers as u64)
    }

    /// Returns the medium and the state.
    pub fn into_parts(mut self) -> (Medium<R>, WaveState<R>) {
        let state = self.state();
        if let SquaredCourant::Field(values) = &mut self.medium.squared_courant {
            *values = self.slab.values_of(&self.slab.courant);
        }
        (self.medium, state)
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> &WaveCpuStrategy {
        &self.strategy
    }

    /// Returns the number of steps since time 0.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Returns the values at the receivers, see [`WaveState::samples`].
    pub fn samples(&self) -> &[R] {
        &self.samples
    }

    /// Computes `steps` steps.
    pub fn advance(&mut self, steps: u64) {
        for _ in 0..steps {
            self.update();
            self.finish_step();
        }
    }

    /// Computes `steps` steps together with the neighbours.
    pub(super) fn advance_with(&mut self, neighbours: &Neighbours, steps: u64) -> Result<(), ClusterError> {
        for _ in 0..steps {
            let amplitudes = self.medium.amplitudes(self.step);
            self.slab.update_with_neighbours(&self.medium, &self.strategy, &amplitudes, neighbours)?;
            self.slab.write_end_images(&self.medium, EndImages::Next);
            self.finish_step();
        }
        Ok(())
    }

    /// Replaces the ghost slices by the values of the neighbours.
    pub(super) fn exchange_ghosts(&mut self, neighbours: &Neighbours) -> Result<(), ClusterError> {
        self.slab.exchange_ghosts(neighbours)
    }

    /// Computes the new values into the field of the step before. Ghost slices of neighbours keep
    /// their values.
    fn update(&mut self) {
        let amplitudes = self.medium.amplitudes(self.step);
        self.slab.update(&self.medium, &self.strategy, &amplitudes);
        self.slab.write_end_images(&self.medium, EndImages::Next);
    }

    /// Makes the new values the state, and appends the values at the receivers.
    fn finish_step(&mut self) {
        std::mem::swap(&mut self.slab.now, &mut self.slab.previous);
        self.step += 1;
        let Medium { grid, receivers, .. } = &self.medium;
        let at = |node: usize| self.slab.value(grid.node(node));
        self.samples.extend(self.receivers.iter().map(|&receiver| receivers.value(receiver, at)));
    }

    /// Computes the values at the time `fraction` of a step after the state, with a parabola
    /// through u at three times. The state does not change.
    pub fn step_ahead(&mut self, fraction: f64) {
        let mut saved = PaddedField::zeros(&self.slab.layout, 3);
        saved.copy_from_slice(&self.slab.previous);
        let layers = self.slab.layers.clone();
        self.update();
        std::mem::swap(&mut self.slab.previous, &mut saved);
        self.slab.layers = layers;
        let slab = &self.slab;
        let mut next = slab.values_of(&saved);
        let weights = [0.5 * fraction, 0.5 * fraction * fraction].map(R::from_f64);
        let positions: Vec<usize> = slab.rows().map(|(position, _)| position).collect();
        next.par_chunks_mut(slab.layout.nodes[0]).zip(positions).for_each(|(row, position)| {
            for (i, next) in row.iter_mut().enumerate() {
                *next = interpolated(weights, *next, slab.now[position + i], slab.previous[position + i]);
            }
        });
        self.ahead = Some(next);
    }

    /// Replaces the state by the result of the last look ahead. There must be one. Ghost slices of
    /// neighbours are not replaced.
    pub fn end_ahead(&mut self) {
        let ahead = self.ahead.take().expect("a look ahead came before");
        let slab = &mut self.slab;
        let [nx, ny, planes] = slab.layout.nodes;
        for row in 0..ny * planes {
            let position = slab.layout.row(row % ny, row / ny);
            slab.previous[position..][..nx].copy_from_slice(&ahead[row * nx..][..nx]);
        }
        std::mem::swap(&mut slab.now, &mut slab.previous);
        slab.write_images(&self.medium);
    }

    /// Returns the values of all nodes of the slab.
    pub fn values(&self, field: StoredWave) -> Vec<R> {
        match field {
            StoredWave::Ahead => self.last_ahead().to_vec(),
            StoredWave::State => self.slab.values_of(&self.slab.now),
        }
    }

    fn last_ahead(&self) -> &[R] {
        self.ahead.as_deref().expect("a look ahead came before")
    }

    /// Returns the values of a plane of the grid in the slab.
    pub fn plane(&self, field: StoredWave, plane: GridPlane) -> Vec<R> {
        let rows = self.slab.layout.nodes[plane.axes()[1]];
        self.plane_rows(field, plane, 0..rows)
    }

    /// Returns some rows of the part of a plane in the slab.
    pub(super) fn plane_rows(&self, field: StoredWave, plane: GridPlane, rows: Range<usize>) -> Vec<R> {
        let layout = &self.slab.layout;
        let Some(plane) = plane.in_slices(&self.medium.grid, &self.slab.owned) else { return Vec::new() };
        let mut node = [0; 3];
        node[plane.normal] = plane.node;
        let [nx, ny, _] = layout.nodes;
        let (values, first, strides) = match field {
            StoredWave::State => (&self.slab.now[..], layout.position(node), layout.strides()),
            StoredWave::Ahead => {
                let strides = [1, nx, nx * ny];
                (self.last_ahead(), plane.node * strides[plane.normal], strides)
            }
        };
        let [right, up] = plane.axes();
        let row = |j: usize| {
            let start = first + j * strides[up];
            (0..layout.nodes[right]).map(move |i| values[start + i * strides[right]])
        };
        rows.flat_map(row).collect()
    }

    /// Returns energy and largest amplitude of the slab. The energy is always that of the state.
    pub fn measures(&self, field: StoredWave) -> WaveMeasures {
        let energy = added_energies(NO_ENERGY, &self.row_energies());
        WaveMeasures { energy: energy_scale(&self.medium.grid) * energy, largest: self.largest(field) }
    }

    /// Returns the energies of the rows without their factor.
    pub(super) fn row_energies(&self) -> Vec<f64> {
        row_energies(&self.medium, &self.slab)
    }

    /// Returns the largest |u| of the slab, or NaN if a value is NaN.
    pub fn largest(&self, field: StoredWave) -> f64 {
        match field {
            StoredWave::Ahead => {
                let rows = self.last_ahead().par_chunks(self.medium.grid.nodes[0]);
                rows.map(largest).reduce(|| 0.0, max_or_nan)
            }
            StoredWave::State => slab_largest(&self.slab),
        }
    }

    /// Returns the state in the form that all implementations exchange.
    pub fn state(&self) -> WaveState<R> {
        let Medium { grid, sides, .. } = &self.medium;
        let mut layers = LayerMemory::zeros_of_slab(grid, sides, &self.slab.owned);
        for layer in &self.slab.layers {
            layer.clone().copy_to(&self.slab.layout, &mut layers[layer.index]);
        }
        WaveState {
            step: self.step,
            now: self.slab.values_of(&self.slab.now),
            previous: self.slab.values_of(&self.slab.previous),
            layers,
            samples: self.samples.clone(),
        }
    }
}

/// Returns u at a time within a step, from u after, at and before the start of the step.
fn interpolated<R: Scalar>([linear, square]: [R; 2], next: R, now: R, previous: R) -> R {
    let curvature = R::from_f64(-2.0).fused_mul_add(now, next + previous);
    square.fused_mul_add(curvature, linear.fused_mul_add(next - previous, now))
}
