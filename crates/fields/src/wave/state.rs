//! The state of a wave problem, without padding.

use std::ops::Range;

use super::layer::node_range;
use super::{LayerMemory, Medium};
use crate::Scalar;

/// The state after a number of steps, of all nodes or of some slices. All implementations convert
/// from and to this form.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveState<R> {
    /// Steps since time 0.
    pub step: u64,
    /// u at the time `step` dt, one value per node.
    pub now: Vec<R>,
    /// u one step earlier.
    pub previous: Vec<R>,
    /// Memory of the absorbing layers, in the order of
    /// [`Side::ALL`](orrery_model::wave::Side::ALL).
    pub layers: Vec<LayerMemory<R>>,
    /// Values at the receivers at the times 0, dt, …, `step` dt. The index of receiver r at sample
    /// s is s × receivers + r.
    pub samples: Vec<R>,
}

impl<R: Scalar> WaveState<R> {
    /// Returns the state in which u is zero.
    pub fn at_rest(medium: &Medium<R>) -> Self {
        let zeros = vec![R::default(); medium.grid.len()];
        Self::start(medium, zeros.clone(), zeros)
    }

    /// Returns the state at time 0 in which u is zero in the slices `owned`, without samples.
    pub(super) fn slab_at_rest(medium: &Medium<R>, owned: &Range<usize>) -> Self {
        let zeros = vec![R::default(); node_range(&medium.grid, owned).len()];
        let layers = LayerMemory::zeros_of_slab(&medium.grid, &medium.sides, owned);
        Self { step: 0, now: zeros.clone(), previous: zeros, layers, samples: Vec::new() }
    }

    /// Returns a state at time 0, from u at this time and one step earlier.
    pub fn start(medium: &Medium<R>, now: Vec<R>, previous: Vec<R>) -> Self {
        assert!(now.len() == medium.grid.len() && previous.len() == now.len());
        let receivers = &medium.receivers;
        let samples = (0..receivers.len()).map(|r| receivers.value(r, |node| now[node])).collect();
        let layers = LayerMemory::zeros(&medium.grid, &medium.sides);
        Self { step: 0, now, previous, layers, samples }
    }
}
