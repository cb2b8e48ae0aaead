//! State of a plate in host memory.
//!
//! The state is that of all rows, or of the rows that one rank of a team owns. A rank stores T more
//! rows on either side, for passes of up to T steps. A pass first updates the T rows that each
//! neighbour needs, then sends them while it updates the interior. The bits are those of a single
//! plate.

use std::ops::Range;

use orrery_cluster::ClusterError;
use orrery_simd::AlignedVec;
use rayon::prelude::*;

use super::cpu::HeatCpuStrategy;
use super::device::StoredField;
use super::measures::{FieldMeasures, measures_of_row};
use super::{Plate, PlateFields, Rows, StepCoefficients};
use crate::Scalar;
use crate::team::{Neighbours, SlabParts};

/// State of a plate in host memory: two fields, and those that the problem has.
#[derive(Debug)]
pub struct HostHeat<R> {
    plate: Plate<R>,
    strategy: HeatCpuStrategy,
    /// Rows that are updated here.
    owned: Range<usize>,
    /// Rows that are stored. Those below 0 or above the last row belong to a periodic plate.
    stored: Range<isize>,
    state: AlignedVec<R>,
    next: AlignedVec<R>,
}

/// Most parts of the interior, after each of which messages are polled. A long message moves after
/// its receiver has called the transport once.
const MAX_PARTS: usize = 2;

/// Fewest rows of a part, for each step of a pass. A part computes up to two more rows per
/// step than it stores.
const MIN_POLLED_ROWS_PER_STEP: usize = 32;

impl<R: Scalar> HostHeat<R> {
    /// Copies a state, which has one value per node, including the values of fixed nodes.
    pub fn new(plate: Plate<R>, initial: &[R], strategy: HeatCpuStrategy) -> Self {
        let owned = 0..plate.grid.ny;
        let stored = 0..owned.len() as isize;
        Self::with_rows(plate, initial, strategy, owned, stored)
    }

    /// Copies the state of the rows `owned`. There are ghost rows for the passes of the strategy
    /// beyond ends with a neighbour. They are zero.
    pub(super) fn of_rows(
        plate: Plate<R>,
        initial: &[R],
        strategy: HeatCpuStrategy,
        owned: Range<usize>,
        neighbours: &Neighbours,
    ) -> Self {
        let [low, _, high] = neighbours.split(owned.len(), strategy.steps_per_pass);
        let stored = owned.start as isize - low.len() as isize..(owned.end + high.len()) as isize;
        Self::with_rows(plate, initial, strategy, owned, stored)
    }

    fn with_rows(
        plate: Plate<R>,
        initial: &[R],
        strategy: HeatCpuStrategy,
        owned: Range<usize>,
        stored: Range<isize>,
    ) -> Self {
        let nx = plate.grid.nx;
        assert_eq!(initial.len(), owned.len() * nx);
        let len = stored.len() * nx;
        let (state, next) = (AlignedVec::zeros(len), AlignedVec::zeros(len));
        let mut heat = Self { plate, strategy, owned, stored, state, next };
        let range = heat.owned_range();
        heat.state[range].copy_from_slice(initial);
        heat
    }

    /// Returns an upper bound of the bytes that a plate needs, with the rows that each thread
    /// keeps.
    pub fn needed_bytes(nx: usize, ny: usize, fields: PlateFields) -> u64 {
        let fields = 2 + fields.count();
        let field_bytes = (nx as u64).saturating_mul(ny as u64).saturating_mul(size_of::<R>() as u64);
        let workspaces = rayon::current_num_threads() as u64 * WORKSPACE_BYTES;
        fields.saturating_mul(field_bytes).saturating_add(workspaces)
    }

    /// Returns the plate and the state of the rows.
    pub fn into_parts(self) -> (Plate<R>, Vec<R>) {
        let values = self.values(StoredField::State).to_vec();
        (self.plate, values)
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> &HeatCpuStrategy {
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
            self.pass(coefficients, steps as usize);
            std::mem::swap(&mut self.state, &mut self.next);
            remaining -= steps;
        }
    }

    /// Computes `steps` steps of length `dt` together with the neighbours.
    pub(super) fn advance_with(
        &mut self,
        neighbours: &Neighbours,
        dt: f64,
        steps: u64,
    ) -> Result<(), ClusterError> {
        let coefficients = self.plate.step_coefficients(dt);
        let mut remaining = steps;
        while remaining > 0 {
            let steps = remaining.min(self.strategy.steps_per_pass as u64);
            self.pass_with(neighbours, coefficients, steps as usize)?;
            std::mem::swap(&mut self.state, &mut self.next);
            remaining -= steps;
        }
        Ok(())
    }

    /// Computes one step of length `dt` into the second field. The state does not change. The
    /// result is [`StoredField::Ahead`] until the next call of [`Self::advance`].
    pub fn step_ahead(&mut self, dt: f64) {
        self.pass(self.plate.step_coefficients(dt), 1);
    }

    /// Computes a pass of all rows into the second field. Its ghost rows keep their values.
    fn pass(&mut self, coefficients: StepCoefficients<R>, steps: usize) {
        let (rows, to) = (self.owned.clone(), self.owned_range());
        let from = Rows { values: &self.state, first: self.stored.start };
        self.strategy.update_rows(&self.plate, coefficients, steps, from, rows, &mut self.next[to]);
    }

    /// Computes a pass into the second field, with the ghost rows of the neighbours.
    fn pass_with(
        &mut self,
        neighbours: &Neighbours,
        coefficients: StepCoefficients<R>,
        steps: usize,
    ) -> Result<(), ClusterError> {
        let Self { plate, strategy, owned, stored, state, next } = self;
        let [low, interior, high] = neighbours.split(owned.len(), strategy.steps_per_pass);
        let ghosts = (owned.start as isize - stored.start) as usize;
        let from = Rows { values: state, first: stored.start };
        let update = |rows: Range<usize>, to: &mut [R]| {
            if !rows.is_empty() {
                let rows = owned.start + rows.start..owned.start + rows.end;
                strategy.update_rows(plate, coefficients, steps, from, rows, to);
            }
        };
        let nx = plate.grid.nx;
        let starts = row_starts(nx, ghosts, &interior, owned.len(), next.len());
        let SlabParts { ghosts, borders: [low_next, high_next], interior: mut rest } =
            SlabParts::split(next, starts);
        update(low, low_next);
        update(high, high_next);
        let parts = match neighbours.needs_polls() {
            true => {
                MAX_PARTS.min(interior.len() / (MIN_POLLED_ROWS_PER_STEP * strategy.steps_per_pass)).max(1)
            }
            false => 1,
        };
        neighbours.exchange([low_next, high_next], ghosts, |exchange| {
            let start = |part: usize| interior.start + part * interior.len() / parts;
            for rows in (0..parts).map(|part| start(part)..start(part + 1)) {
                let (to, later) = std::mem::take(&mut rest).split_at_mut(rows.len() * nx);
                update(rows, to);
                exchange.poll()?;
                rest = later;
            }
            Ok(())
        })
    }

    /// Replaces the ghost rows of the state by the rows of the neighbours.
    pub(super) fn exchange_ghosts(&mut self, neighbours: &Neighbours) -> Result<(), ClusterError> {
        let [_, interior, _] = neighbours.split(self.owned.len(), self.strategy.steps_per_pass);
        let ghosts = (self.owned.start as isize - self.stored.start) as usize;
        let starts = row_starts(self.plate.grid.nx, ghosts, &interior, self.owned.len(), self.state.len());
        SlabParts::split(&mut self.state, starts).exchange_ghosts(neighbours)
    }

    /// Returns the positions of the values of the rows that are updated here.
    fn owned_range(&self) -> Range<usize> {
        let (nx, ghosts) = (self.plate.grid.nx, (self.owned.start as isize - self.stored.start) as usize);
        ghosts * nx..(ghosts + self.owned.len()) * nx
    }

    /// Returns the values of all nodes of the rows.
    pub fn values(&self, field: StoredField) -> &[R] {
        match field {
            StoredField::State => &self.state[self.owned_range()],
            StoredField::Ahead => &self.next[self.owned_range()],
        }
    }

    /// Returns minimum, maximum and heat content. The sum has a fixed order.
    pub fn measures(&self, field: StoredField) -> FieldMeasures {
        let rows = self.row_measures(field);
        FieldMeasures::NONE.with_rows(&self.plate, self.owned.start, &rows).scaled(&self.plate)
    }

    /// Returns the measures of each row. Their heat content is without its factor.
    pub(super) fn row_measures(&self, field: StoredField) -> Vec<FieldMeasures> {
        let is_periodic = self.plate.boundaries.is_periodic_in_x();
        let nx = self.plate.grid.nx;
        let rows = self.values(field).par_chunks(nx);
        match &self.plate.capacity_ratio {
            None => rows.map(|row| measures_of_row(row, is_periodic, |_, u| u.to_f64())).collect(),
            Some(ratio) => {
                let ratios = ratio[self.owned.start * nx..self.owned.end * nx].par_chunks(nx);
                let of_row = |(row, ratio): (&[R], &[R])| {
                    measures_of_row(row, is_periodic, |i, u| u.to_f64() / ratio[i].to_f64())
                };
                rows.zip(ratios).map(of_row).collect()
            }
        }
    }

    /// Returns columns 0, 1, nx - 2 and nx - 1, each with one value per row.
    pub(super) fn outer_columns(&self, field: StoredField) -> Vec<R> {
        let (nx, values) = (self.plate.grid.nx, self.values(field));
        let column = |i: usize| values.iter().skip(i).step_by(nx).copied();
        [0, 1, nx - 2, nx - 1].into_iter().flat_map(column).collect()
    }
}

/// Upper bound of the memory of a thread: rows of 17 levels, and of conductivities, heat capacities
/// and sources.
const WORKSPACE_BYTES: u64 = 1 << 20;

/// Returns the positions at which the parts of a field start, for [`SlabParts::split`]. There are
/// `ghosts` ghost rows before `rows` rows.
fn row_starts(nx: usize, ghosts: usize, interior: &Range<usize>, rows: usize, len: usize) -> [usize; 6] {
    let row = |row: usize| (ghosts + row) * nx;
    [0, row(0), row(interior.start), row(interior.end), row(rows), len]
}
