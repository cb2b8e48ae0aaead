//! The problem in the precision of its arithmetic, as solvers read it.

use std::ops::Range;

use orrery_model::wave::{Sides, WaveGrid};
use rayon::prelude::*;

use super::layer::{node_range, slice_count};
use super::{
    LayerCoefficients, ReceiverTable, SourceSignal, SourceTable, Stencil, Velocity, WaveProblem, WaveSource,
};
use crate::Scalar;

/// Wavelets with which that of a source is compared.
const MOST_COMPARED: usize = 16;

/// Squared Courant numbers v = (c dt/h0)².
#[derive(Clone, Debug, PartialEq)]
pub enum SquaredCourant<R> {
    /// The same everywhere.
    Uniform(R),
    /// One value per node, or per node of some slices.
    Field(Vec<R>),
}

impl<R: Scalar> SquaredCourant<R> {
    /// Returns the value of the node `index`.
    pub fn at(&self, index: usize) -> R {
        match self {
            Self::Uniform(value) => *value,
            Self::Field(values) => values[index],
        }
    }
}

/// A wave problem without its state, for steps of one length, rounded to the precision `R`.
#[derive(Clone, Debug)]
pub struct Medium<R> {
    /// The grid.
    pub grid: WaveGrid,
    /// Conditions on the sides.
    pub sides: Sides,
    /// Length of a step.
    pub dt: f64,
    /// v at the nodes.
    pub squared_courant: SquaredCourant<R>,
    /// Weights of the Laplace operator.
    pub stencil: Stencil<R>,
    /// Absorbing layers in the order of [`Side::ALL`](orrery_model::wave::Side::ALL).
    pub layers: Vec<LayerCoefficients<R>>,
    /// Nodes that sources act on.
    pub sources: SourceTable<R>,
    /// Nodes that receivers read.
    pub receivers: ReceiverTable<R>,
    /// Amplitudes of the sources.
    pub signals: Vec<SourceSignal>,
}

impl<R: Scalar> Medium<R> {
    /// Rounds `problem`, whose precision must be that of `R`, for steps of length `dt`.
    pub fn new(problem: &WaveProblem, dt: f64) -> Self {
        Self::of_slab(problem, dt, &(0..slice_count(problem.grid())))
    }

    /// As [`Self::new`], but a field of v has only the nodes of the slices `owned`.
    pub(super) fn of_slab(problem: &WaveProblem, dt: f64, owned: &Range<usize>) -> Self {
        assert_eq!(problem.precision(), R::PRECISION);
        let (grid, sides) = (*problem.grid(), *problem.sides());
        let scale = dt / grid.min_spacing();
        let squared = |velocity: f64| R::from_f64((velocity * scale) * (velocity * scale));
        let squared_courant = match problem.velocity() {
            Velocity::Uniform(velocity) => SquaredCourant::Uniform(squared(*velocity)),
            Velocity::Field(velocities) => {
                let velocities = &velocities[node_range(problem.grid(), owned)];
                SquaredCourant::Field(velocities.par_iter().map(|&velocity| squared(velocity)).collect())
            }
        };
        let positions: Vec<_> = problem.sources().iter().map(|source| source.position).collect();
        let layer = |&side| LayerCoefficients::new(problem, side, dt);
        Self {
            dt,
            squared_courant,
            stencil: Stencil::new(&grid, problem.order()),
            layers: Sides::used(&grid).iter().filter_map(layer).collect(),
            sources: SourceTable::new(&grid, &sides, &positions),
            receivers: ReceiverTable::new(&grid, &sides, problem.receivers()),
            signals: signals(problem, dt),
            grid,
            sides,
        }
    }

    /// Removes the values of v that are not in the slices `owned`. They must be those of all nodes.
    pub(super) fn limit_to(&mut self, owned: &Range<usize>) {
        if let SquaredCourant::Field(values) = &mut self.squared_courant {
            let nodes = node_range(&self.grid, owned);
            values.truncate(nodes.end);
            values.drain(..nodes.start);
            values.shrink_to_fit();
        }
    }

    /// Returns the amplitudes of all sources at the time `step` dt.
    pub fn amplitudes(&self, step: u64) -> Vec<R> {
        self.signals.iter().map(|signal| R::from_f64(signal.at(step))).collect()
    }
}

/// Returns the amplitudes of the sources. Sources with the same wavelet share their corrections.
fn signals(problem: &WaveProblem, dt: f64) -> Vec<SourceSignal> {
    let mut distinct: Vec<SourceSignal> = Vec::new();
    let signal = |source: &WaveSource| {
        let known = distinct.iter().rev().take(MOST_COMPARED).find(|known| known.is_of(&source.wavelet));
        known.cloned().unwrap_or_else(|| {
            let signal = SourceSignal::new(&source.wavelet, dt, problem.time_dispersion());
            distinct.push(signal.clone());
            signal
        })
    };
    problem.sources().iter().map(signal).collect()
}
