//! State of a plate in host memory.

use orrery_simd::AlignedVec;
use rayon::prelude::*;

use super::cpu::CpuStrategy;
use super::device::{FieldMeasures, StoredField};
use super::{HeatError, Plate};
use crate::Scalar;
use crate::search::first_rejected;

/// State of a plate in host memory: two fields, and those that the problem has.
#[derive(Debug)]
pub struct HostHeat<R> {
    plate: Plate<R>,
    strategy: CpuStrategy,
    state: AlignedVec<R>,
    next: AlignedVec<R>,
}

impl<R: Scalar> HostHeat<R> {
    /// Copies a state, which has one value per node, including the values of fixed nodes.
    pub fn new(plate: Plate<R>, initial: &[R], strategy: CpuStrategy) -> Self {
        assert_eq!(initial.len(), plate.grid.len());
        let [mut state, next] = [AlignedVec::zeros(initial.len()), AlignedVec::zeros(initial.len())];
        state.copy_from_slice(initial);
        Self { plate, strategy, state, next }
    }

    /// Returns an upper bound of the bytes that a plate needs, with the rows that each thread
    /// keeps.
    pub fn needed_bytes(nx: usize, ny: usize, is_variable: bool, has_source: bool) -> u64 {
        let fields = 2 + u64::from(is_variable) + u64::from(has_source);
        let field_bytes = (nx as u64).saturating_mul(ny as u64).saturating_mul(size_of::<R>() as u64);
        let workspaces = rayon::current_num_threads() as u64 * WORKSPACE_BYTES;
        fields.saturating_mul(field_bytes).saturating_add(workspaces)
    }

    /// Returns the plate and the state.
    pub fn into_parts(self) -> (Plate<R>, AlignedVec<R>) {
        (self.plate, self.state)
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> &CpuStrategy {
        &self.strategy
    }

    /// Returns the plate.
    pub fn plate(&self) -> &Plate<R> {
        &self.plate
    }

    /// Computes `steps` steps of length `dt`.
    pub fn advance(&mut self, dt: f64, steps: u64) {
        let coefficients = self.plate.step_coefficients(dt);
        let mut remaining = steps;
        while remaining > 0 {
            let steps = remaining.min(self.strategy.steps_per_pass as u64);
            self.strategy.pass(&self.plate, coefficients, steps as usize, &self.state, &mut self.next);
            std::mem::swap(&mut self.state, &mut self.next);
            remaining -= steps;
        }
    }

    /// Computes one step of length `dt` into the second field. The state does not change. The
    /// result is [`StoredField::Ahead`] until the next call of [`Self::advance`].
    pub fn step_ahead(&mut self, dt: f64) {
        let coefficients = self.plate.step_coefficients(dt);
        self.strategy.pass(&self.plate, coefficients, 1, &self.state, &mut self.next);
    }

    /// Returns the values of all nodes.
    pub fn values(&self, field: StoredField) -> &[R] {
        match field {
            StoredField::State => &self.state,
            StoredField::Ahead => &self.next,
        }
    }

    /// Returns minimum, maximum and heat content. The sum has a fixed order.
    pub fn measures(&self, field: StoredField) -> FieldMeasures {
        let (grid, boundaries) = (&self.plate.grid, &self.plate.boundaries);
        let rows: Vec<FieldMeasures> = self
            .values(field)
            .par_chunks(grid.nx)
            .map(|row| measures_of_row(row, boundaries.is_periodic_in_x()))
            .collect();
        let mut all = FieldMeasures { min: f64::INFINITY, max: f64::NEG_INFINITY, heat_content: 0.0 };
        for (j, row) in rows.iter().enumerate() {
            let is_edge = !boundaries.is_periodic_in_y() && (j == 0 || j == grid.ny - 1);
            all.min = propagate_nan(all.min, row.min, f64::min);
            all.max = propagate_nan(all.max, row.max, f64::max);
            all.heat_content += if is_edge { 0.5 } else { 1.0 } * row.heat_content;
        }
        all.heat_content *= grid.hx * grid.hy;
        all
    }
}

/// Upper bound of the memory of a thread: rows of 17 levels, and of conductivities and sources.
const WORKSPACE_BYTES: u64 = 1 << 20;

/// Partial results per row: two registers of eight f64.
const PARTIAL_RESULTS: usize = 16;

/// Returns minimum, maximum and the sum of u w_x of a row.
fn measures_of_row<R: Scalar>(row: &[R], is_periodic: bool) -> FieldMeasures {
    let (mut sums, mut min, mut max) =
        ([0.0; PARTIAL_RESULTS], [row[0]; PARTIAL_RESULTS], [row[0]; PARTIAL_RESULTS]);
    let chunks = row.chunks_exact(PARTIAL_RESULTS);
    let rest = chunks.remainder();
    for chunk in chunks {
        for k in 0..PARTIAL_RESULTS {
            sums[k] += chunk[k].to_f64();
            min[k] = if chunk[k] < min[k] { chunk[k] } else { min[k] };
            max[k] = if chunk[k] > max[k] { chunk[k] } else { max[k] };
        }
    }
    let mut sum = sums.iter().sum::<f64>() + rest.iter().map(|u| u.to_f64()).sum::<f64>();
    if sum.is_nan() {
        // Comparisons with NaN are false, so the loop above may have missed it.
        return FieldMeasures { min: f64::NAN, max: f64::NAN, heat_content: f64::NAN };
    }
    if !is_periodic {
        sum -= 0.5 * (row[0].to_f64() + row[row.len() - 1].to_f64());
    }
    let smaller = |a: f64, b: &R| a.min(b.to_f64());
    let larger = |a: f64, b: &R| a.max(b.to_f64());
    FieldMeasures {
        min: min.iter().chain(rest).fold(f64::INFINITY, smaller),
        max: max.iter().chain(rest).fold(f64::NEG_INFINITY, larger),
        heat_content: sum,
    }
}

/// Combines two numbers, and returns NaN if one is NaN.
fn propagate_nan(a: f64, b: f64, combine: fn(f64, f64) -> f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { combine(a, b) }
}

/// Returns the error for the first value that is not finite.
pub(super) fn check_finite<R: Scalar>(plate: &Plate<R>, values: &[R]) -> Result<(), HeatError> {
    match first_rejected(values, |u| u.to_f64().is_finite()) {
        Some(index) => {
            let value = values[index].to_f64();
            Err(HeatError::not_finite("temperature", &plate.grid, index, value, R::PRECISION))
        }
        None => Ok(()),
    }
}
