//! State of a wave field in host memory.
//!
//! The planes may be divided into slabs, as several ranks would do it. A step first updates the
//! planes that the neighbours need, then copies them to the neighbours' ghost planes, then updates
//! the interior. The bits are those of a single slab.

use std::ops::Range;

use orrery_model::wave::{Side, Sides, WaveGrid};
use rayon::prelude::*;

use super::cpu::WaveCpuStrategy;
use super::energy::{WaveMeasures, largest, max_or_nan, slab_energy, slab_largest};
use super::field::PartOfPlane;
use super::layer_pass::stored_values;
use super::layout::{Layout, PaddedField};
use super::slab::{EndImages, Slab, min_end_planes};
use super::{GridPlane, LayerMemory, MAX_RADIUS, Medium, SquaredCourant, WaveError, WaveState};
use crate::Scalar;

/// Field of a state that is measured or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredWave {
    /// The state.
    State,
    /// The result of the last look ahead.
    Ahead,
}

/// State of a wave field in host memory: u at two times, v if it is not uniform, and the layers.
#[derive(Debug)]
pub struct HostWave<R> {
    /// The medium, where a field of v is empty: the slabs have it.
    medium: Medium<R>,
    strategy: WaveCpuStrategy,
    step: u64,
    /// Slabs in the order of their planes. Together they own all planes.
    slabs: Vec<Slab<R>>,
    samples: Vec<R>,
    /// Values of all nodes at a time within the next step.
    ahead: Option<Vec<R>>,
}

impl<R: Scalar> HostWave<R> {
    /// Copies a state.
    pub fn new(medium: Medium<R>, state: &WaveState<R>, strategy: WaveCpuStrategy) -> Self {
        Self::with_slabs(medium, state, strategy, 1)
    }

    /// Copies a state into `count` slabs of almost equal size.
    ///
    /// # Panics
    /// If a slab would have fewer than 4 planes, or the first or last one would have less than its
    /// absorbing layer and 8 planes. In two dimensions there is one slab.
    pub fn with_slabs(
        mut medium: Medium<R>,
        state: &WaveState<R>,
        strategy: WaveCpuStrategy,
        count: usize,
    ) -> Self {
        let nz = medium.grid.nodes[2];
        let first_plane = |slab: usize| slab * nz / count;
        if count > 1 {
            assert!(nz / count >= MAX_RADIUS && first_plane(1) >= min_end_planes(&medium.sides));
        }
        let slabs = (0..count)
            .map(|slab| Slab::new(&medium, state, first_plane(slab)..first_plane(slab + 1)))
            .collect();
        if let SquaredCourant::Field(values) = &mut medium.squared_courant {
            *values = Vec::new();
        }
        let samples = state.samples.clone();
        Self { medium, strategy, step: state.step, slabs, samples, ahead: None }
    }

    /// Returns an upper bound of the bytes that a field needs. A look ahead needs two more fields
    /// while it is computed.
    pub fn needed_bytes(grid: &WaveGrid, sides: &Sides, is_variable: bool) -> u64 {
        let bytes = size_of::<R>() as u64;
        let layout = Layout::new(grid, grid.nodes[2]);
        let layer_values = |&side: &Side| {
            let thickness = sides.on(side).layer()?.thickness;
            Some(2 * stored_values(grid, side, thickness, grid.nodes[2]))
        };
        let layers: usize = Sides::used(grid).iter().filter_map(layer_values).sum();
        let fields = 2 + u64::from(is_variable);
        bytes * (fields * layout.len() as u64 + layers as u64)
    }

    /// Returns the medium and the state.
    pub fn into_parts(mut self) -> (Medium<R>, WaveState<R>) {
        let state = self.state();
        if let SquaredCourant::Field(_) = self.medium.squared_courant {
            self.medium.squared_courant = SquaredCourant::Field(self.collected(|slab| &slab.courant));
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
            for slab in &mut self.slabs {
                std::mem::swap(&mut slab.now, &mut slab.previous);
            }
            self.step += 1;
            self.record();
        }
    }

    /// Computes the new values into the fields of the step before.
    fn update(&mut self) {
        let amplitudes = self.medium.amplitudes(self.step);
        let (medium, strategy) = (&self.medium, &self.strategy);
        let is_divided = self.slabs.len() > 1;
        let nz = medium.grid.nodes[2];
        if is_divided {
            for slab in &mut self.slabs {
                let [low, _, high] = split_planes(&slab.owned, nz);
                slab.update(medium, strategy, &amplitudes, low);
                slab.update(medium, strategy, &amplitudes, high);
            }
            self.copy_ghost_planes();
        }
        for slab in &mut self.slabs {
            let interior = match is_divided {
                true => split_planes(&slab.owned, nz)[1].clone(),
                false => 0..slab.owned.len(),
            };
            slab.update(&self.medium, &self.strategy, &amplitudes, interior);
            slab.write_end_images(&self.medium, EndImages::Next);
        }
    }

    /// Copies the new values of boundary planes to the ghost planes of the neighbours.
    fn copy_ghost_planes(&mut self) {
        let ghosts = MAX_RADIUS as isize;
        for k in 1..self.slabs.len() {
            let (lower, upper) = self.slabs.split_at_mut(k);
            let (lower, upper) = (&mut lower[k - 1], &mut upper[0]);
            let planes = lower.owned.len() as isize;
            let (from, to) = (lower.stored_planes(planes - ghosts..planes), upper.stored_planes(-ghosts..0));
            upper.previous[to].copy_from_slice(&lower.previous[from]);
            let (from, to) = (upper.stored_planes(0..ghosts), lower.stored_planes(planes..planes + ghosts));
            lower.previous[to].copy_from_slice(&upper.previous[from]);
        }
    }

    /// Appends the values at the receivers.
    fn record(&mut self) {
        let receivers = &self.medium.receivers;
        let at = |node: usize| self.value(node);
        let values: Vec<R> = (0..receivers.len()).map(|receiver| receivers.value(receiver, at)).collect();
        self.samples.extend(values);
    }

    /// Returns u at a node.
    fn value(&self, node: usize) -> R {
        let [i, j, k] = self.medium.grid.node(node);
        let slab = &self.slabs[self.slabs.partition_point(|slab| slab.owned.end <= k)];
        slab.now[slab.layout.position([i, j, k - slab.owned.start])]
    }

    /// Computes the values at the time `fraction` of a step after the state, with a parabola
    /// through u at three times. The state does not change. Panics if there are several slabs.
    pub fn step_ahead(&mut self, fraction: f64) {
        assert_eq!(self.slabs.len(), 1);
        let slab = &mut self.slabs[0];
        let mut saved = PaddedField::zeros(&slab.layout, 3);
        saved.copy_from_slice(&slab.previous);
        let layers = slab.layers.clone();
        self.update();
        let slab = &mut self.slabs[0];
        std::mem::swap(&mut slab.previous, &mut saved);
        slab.layers = layers;
        let mut next = Vec::with_capacity(self.medium.grid.len());
        slab.append_to(&saved, &mut next);
        let nx = slab.layout.nodes[0];
        let weights = [0.5 * fraction, 0.5 * fraction * fraction].map(R::from_f64);
        let slab = &self.slabs[0];
        let positions: Vec<usize> = slab.rows().map(|(position, _)| position).collect();
        next.par_chunks_mut(nx).zip(positions).for_each(|(row, position)| {
            for (i, next) in row.iter_mut().enumerate() {
                *next = interpolated(weights, *next, slab.now[position + i], slab.previous[position + i]);
            }
        });
        self.ahead = Some(next);
    }

    /// Replaces the state by the result of the last look ahead. There must be one.
    pub fn end_ahead(&mut self) {
        let ahead = self.ahead.take().expect("a look ahead came before");
        let slab = &mut self.slabs[0];
        let [nx, ny, planes] = slab.layout.nodes;
        for row in 0..ny * planes {
            let position = slab.layout.row(row % ny, row / ny);
            slab.previous[position..][..nx].copy_from_slice(&ahead[row * nx..][..nx]);
        }
        std::mem::swap(&mut slab.now, &mut slab.previous);
        slab.write_images(&self.medium);
    }

    /// Returns the values of all nodes.
    pub fn values(&self, field: StoredWave) -> Vec<R> {
        match (field, &self.ahead) {
            (StoredWave::Ahead, Some(ahead)) => ahead.clone(),
            (StoredWave::Ahead, None) => panic!("no look ahead came before"),
            (StoredWave::State, _) => self.collected(|slab| &slab.now),
        }
    }

    /// Returns the values of a plane of the grid.
    pub fn plane(&self, field: StoredWave, plane: GridPlane) -> Vec<R> {
        let nodes = self.medium.grid.nodes;
        match (field, &self.ahead) {
            (StoredWave::Ahead, Some(ahead)) => return plane.values_of(nodes, ahead),
            (StoredWave::Ahead, None) => panic!("no look ahead came before"),
            (StoredWave::State, _) => {}
        }
        let axes = plane.axes();
        let mut values = vec![R::default(); axes.map(|axis| nodes[axis]).into_iter().product()];
        for slab in &self.slabs {
            let Some(PartOfPlane { first, size, target }) = plane.part_in(nodes, &slab.owned) else {
                continue;
            };
            let strides = [1, slab.layout.pitch, slab.layout.plane];
            let [right, up] = axes.map(|axis| strides[axis]);
            let first = slab.layout.position(first);
            for (j, row) in values[target..].chunks_exact_mut(size[0]).take(size[1]).enumerate() {
                for (i, value) in row.iter_mut().enumerate() {
                    *value = slab.now[first + j * up + i * right];
                }
            }
        }
        values
    }

    fn collected(&self, field: impl Fn(&Slab<R>) -> &[R]) -> Vec<R> {
        let mut values = Vec::with_capacity(self.medium.grid.len());
        self.slabs.iter().for_each(|slab| slab.append_to(field(slab), &mut values));
        values
    }

    /// Returns energy and largest amplitude. The energy is always that of the state.
    pub fn measures(&self, field: StoredWave) -> WaveMeasures {
        let energy: f64 = self.slabs.iter().map(|slab| slab_energy(&self.medium, slab)).sum();
        let grid = &self.medium.grid;
        let scale = grid.cell_volume() / (2.0 * grid.min_spacing() * grid.min_spacing());
        WaveMeasures { energy: scale * energy, largest: self.largest(field) }
    }

    /// Returns the largest |u|, or NaN if a value is NaN.
    pub fn largest(&self, field: StoredWave) -> f64 {
        match (field, &self.ahead) {
            (StoredWave::Ahead, Some(ahead)) => {
                ahead.par_chunks(self.medium.grid.nodes[0]).map(largest).reduce(|| 0.0, max_or_nan)
            }
            _ => self.slabs.iter().map(slab_largest).fold(0.0, max_or_nan),
        }
    }

    /// Returns the state in the form that all implementations exchange.
    pub fn state(&self) -> WaveState<R> {
        let grid = &self.medium.grid;
        let mut layers = LayerMemory::zeros(grid, &self.medium.sides);
        for slab in &self.slabs {
            for layer in &slab.layers {
                layer.clone().copy_to(grid, &slab.owned, &mut layers[layer.index]);
            }
        }
        WaveState {
            step: self.step,
            now: self.collected(|slab| &slab.now),
            previous: self.collected(|slab| &slab.previous),
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

/// Returns the error for the first value that is not finite.
pub(super) fn check_finite<R: Scalar>(grid: &WaveGrid, values: &[R]) -> Result<(), WaveError> {
    match values.par_iter().position_first(|u| !u.to_f64().is_finite()) {
        Some(index) => Err(WaveError::not_finite(grid, index, values[index].to_f64())),
        None => Ok(()),
    }
}

/// Splits the planes of a slab, counted from its first one, into those that the neighbour below
/// needs, the interior, and those that the neighbour above needs.
fn split_planes(owned: &Range<usize>, nz: usize) -> [Range<usize>; 3] {
    let n = owned.len();
    let low = if owned.start == 0 { 0 } else { MAX_RADIUS.min(n) };
    let high = if owned.end == nz { n } else { n.saturating_sub(MAX_RADIUS).max(low) };
    [0..low, low..high, high..n]
}
