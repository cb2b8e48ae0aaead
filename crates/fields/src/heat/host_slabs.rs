//! Slabs in host memory: a plate that several parts update with ghost rows.
//!
//! A slab owns some rows and stores T more on either side, for passes of up to T steps. A pass
//! first updates the rows that the neighbours need, then copies them to the neighbours' ghost rows,
//! then updates the interior. The bits are those of a single plate.

use std::ops::Range;

use super::cpu::CpuStrategy;
use super::{Plate, Rows, StepCoefficients};
use crate::Scalar;

/// A plate in slabs.
#[derive(Debug)]
pub struct HostSlabs<R> {
    plate: Plate<R>,
    strategy: CpuStrategy,
    slabs: Vec<HostSlab<R>>,
}

#[derive(Debug)]
struct HostSlab<R> {
    /// Rows that the slab updates.
    owned: Range<isize>,
    /// Rows that it stores. Those below 0 or above the last row belong to a periodic plate.
    stored: Range<isize>,
    state: Vec<R>,
    next: Vec<R>,
}

impl<R: Scalar> HostSlabs<R> {
    /// Divides a plate into `count` slabs of almost equal size, at most one per row. `initial` has
    /// one value per node.
    pub fn new(plate: Plate<R>, initial: &[R], strategy: CpuStrategy, count: usize) -> Self {
        let (nx, ny) = (plate.grid.nx, plate.grid.ny);
        assert!((1..=ny).contains(&count) && initial.len() == plate.grid.len());
        let ghost_rows = strategy.steps_per_pass as isize;
        let first_row = |slab: usize| (slab * ny / count) as isize;
        let slab = |k: usize| {
            let owned = first_row(k)..first_row(k + 1);
            let stored = match plate.boundaries.is_periodic_in_y() {
                true => owned.start - ghost_rows..owned.end + ghost_rows,
                false => (owned.start - ghost_rows).max(0)..(owned.end + ghost_rows).min(ny as isize),
            };
            let row = |j: isize| &initial[j.rem_euclid(ny as isize) as usize * nx..][..nx];
            let state: Vec<R> = stored.clone().flat_map(row).copied().collect();
            HostSlab { owned, stored, next: vec![R::default(); state.len()], state }
        };
        let slabs = (0..count).map(slab).collect();
        Self { plate, strategy, slabs }
    }

    /// Computes `steps` steps of length `dt`.
    pub fn advance(&mut self, dt: f64, steps: u64) {
        let coefficients = self.plate.step_coefficients(dt);
        let mut remaining = steps;
        while remaining > 0 {
            let steps = remaining.min(self.strategy.steps_per_pass as u64);
            self.pass(coefficients, steps as usize);
            remaining -= steps;
        }
    }

    fn pass(&mut self, coefficients: StepCoefficients<R>, steps: usize) {
        let (plate, strategy) = (&self.plate, &self.strategy);
        let ghost_rows = strategy.steps_per_pass as isize;
        for slab in &mut self.slabs {
            let [south, _, north] = split_rows(&slab.owned, ghost_rows);
            slab.update(plate, strategy, coefficients, steps, south);
            slab.update(plate, strategy, coefficients, steps, north);
        }
        self.copy_ghost_rows();
        let (plate, strategy) = (&self.plate, &self.strategy);
        for slab in &mut self.slabs {
            let [_, interior, _] = split_rows(&slab.owned, ghost_rows);
            slab.update(plate, strategy, coefficients, steps, interior);
            std::mem::swap(&mut slab.state, &mut slab.next);
        }
    }

    /// Copies the updated boundary rows to the ghost rows of the slabs that store them.
    fn copy_ghost_rows(&mut self) {
        let (nx, ny) = (self.plate.grid.nx, self.plate.grid.ny as isize);
        for k in 0..self.slabs.len() {
            let HostSlab { owned, stored, .. } = &self.slabs[k];
            let ghosts: Vec<isize> = (stored.start..owned.start).chain(owned.end..stored.end).collect();
            for ghost in ghosts {
                let row = ghost.rem_euclid(ny);
                let owner = self.slabs.iter().find(|owner| owner.owned.contains(&row));
                let owner = owner.expect("the slabs own all rows");
                let values = owner.next[owner.offset(row, nx)..][..nx].to_vec();
                let slab = &mut self.slabs[k];
                let offset = slab.offset(ghost, nx);
                slab.next[offset..][..nx].copy_from_slice(&values);
            }
        }
    }

    /// Returns the values of all nodes.
    pub fn values(&self) -> Vec<R> {
        let nx = self.plate.grid.nx;
        let owned = |slab: &HostSlab<R>| {
            slab.state[slab.offset(slab.owned.start, nx)..slab.offset(slab.owned.end, nx)].to_vec()
        };
        self.slabs.iter().flat_map(owned).collect()
    }
}

impl<R: Scalar> HostSlab<R> {
    /// Returns the index of the first value of row `j`.
    fn offset(&self, j: isize, nx: usize) -> usize {
        (j - self.stored.start) as usize * nx
    }

    /// Updates some of the owned rows.
    fn update(
        &mut self,
        plate: &Plate<R>,
        strategy: &CpuStrategy,
        coefficients: StepCoefficients<R>,
        steps: usize,
        rows: Range<isize>,
    ) {
        if rows.is_empty() {
            return;
        }
        let to = self.offset(rows.start, plate.grid.nx)..self.offset(rows.end, plate.grid.nx);
        let from = Rows { values: &self.state, first: self.stored.start };
        let rows = rows.start as usize..rows.end as usize;
        strategy.update_rows(plate, coefficients, steps, from, rows, &mut self.next[to]);
    }
}

/// Splits rows into the first `boundary_rows`, the interior and the last `boundary_rows`.
fn split_rows(rows: &Range<isize>, boundary_rows: isize) -> [Range<isize>; 3] {
    let south_end = (rows.start + boundary_rows).min(rows.end);
    let north_start = (rows.end - boundary_rows).max(south_end);
    [rows.start..south_end, south_end..north_start, north_start..rows.end]
}
