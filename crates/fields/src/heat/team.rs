//! Heat that several ranks compute together.
//!
//! [`TeamHeat`] is the slab of one rank with the operations of all. The leader's field sends a
//! [`HeatCommand`] before each of them, and [`follow`] executes the commands on the other ranks. A
//! field on one rank is a team of one, which sends nothing.
//!
//! All ranks have the same number of steps per pass T, at most half of the rows of the smallest
//! slab, so that the T rows for one neighbour are not those for the other.

mod part;
#[cfg(test)]
mod tests;

use std::ops::Range;

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::grid::{Grid, PixelDivision, PixelMeans, PixelWeights};
use serde::{Deserialize, Serialize};

use self::part::HeatPart;
use super::cpu::CpuStrategy;
use super::device::{FieldMeasures, HeatDeviceStrategy, StoredField};
use super::edge_flux::{EdgeStrips, edge_fluxes};
use super::field::{FieldColumn, HeatDeviceSetup, HeatState};
use super::host::check_finite;
use super::{HeatError, HeatProblem, Plate};
use crate::Scalar;
use crate::team::{
    EndSlices, LastCommand, PixelRows, RowSource, divided_slices, gather_parts, pass_along, scatter_parts,
};

/// Fewest rows of a rank, for one step per pass.
const MIN_ROWS: usize = 2;

/// First message of the leader. The rows of the slabs follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HeatStart {
    steps_per_pass: usize,
    is_on_device: bool,
}

/// An operation of all ranks. The methods of [`HeatState`] have the same names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum HeatCommand {
    Advance { dt: f64, steps: u64 },
    StepAhead { dt: f64 },
    Measures { field: StoredField },
    EdgeFluxes { field: StoredField },
    Values { field: StoredField },
    PixelMeans { field: StoredField, division: PixelDivision },
    End,
}

/// Divides `ny` rows among ranks.
pub(super) fn divided_rows(ny: usize, ranks: usize) -> Result<Vec<Range<usize>>, HeatError> {
    divided_slices(ny, ranks, MIN_ROWS, [EndSlices::default(); 2]).map_err(|needed| HeatError::TooManyRanks {
        ranks,
        found: ny,
        needed,
        fewest: MIN_ROWS,
    })
}

/// The slab of this rank, with the operations of all ranks.
#[derive(Debug)]
pub(super) struct TeamHeat<R: Scalar> {
    team: Team,
    grid: Grid,
    /// Rows of each rank, in the order of ranks. Together they are all rows.
    slabs: Vec<Range<usize>>,
    part: HeatPart<R>,
    /// Strategy for the whole plate on one rank. It is recorded in files, which do not depend on
    /// the number of ranks. Thin slabs have fewer steps per pass.
    strategy_name: String,
    /// Ends the work of the followers, on the leader only.
    _last: Option<LastCommand<HeatCommand>>,
}

impl<R: Scalar> TeamHeat<R> {
    /// Returns the field of the leader of a team. `values` are those of all nodes. Without a
    /// strategy, a device uses the default one.
    pub(super) fn start(
        team: &Team,
        plate: Plate<R>,
        values: Vec<R>,
        device: Option<(&Device, Option<HeatDeviceStrategy>)>,
    ) -> Result<Self, HeatError> {
        let slabs = divided_rows(plate.grid.ny, team.size())?;
        let setup = device.map(|(device, strategy)| {
            let (nodes, is_variable) = (plate.grid.len(), plate.resistivity.is_some());
            let default = || HeatDeviceStrategy::default_for(device, nodes, R::PRECISION, is_variable);
            HeatDeviceSetup { device: device.clone(), strategy: strategy.unwrap_or_else(default) }
        });
        let (preferred, strategy_name) = match &setup {
            Some(setup) => (setup.strategy.steps_per_pass as usize, setup.strategy.name()),
            None => {
                let strategy = CpuStrategy::resolve(&plate);
                (strategy.steps_per_pass, strategy.name())
            }
        };
        let fewest = slabs.iter().map(|slab| slab.len()).min().unwrap_or(0);
        let steps_per_pass = if team.size() > 1 { preferred.min(fewest / 2) } else { preferred };
        team.lead(&HeatStart { steps_per_pass, is_on_device: setup.is_some() })?;
        let last = LastCommand::new(team, HeatCommand::End);
        let field = Self::with_slab(team, slabs, plate, values, setup.as_ref(), steps_per_pass)?;
        Ok(Self { strategy_name, _last: Some(last), ..field })
    }

    /// Returns the slab of this rank. `values` are those of all nodes on the leader, and are
    /// ignored on followers.
    fn with_slab(
        team: &Team,
        slabs: Vec<Range<usize>>,
        plate: Plate<R>,
        values: Vec<R>,
        setup: Option<&HeatDeviceSetup>,
        steps_per_pass: usize,
    ) -> Result<Self, HeatError> {
        let grid = plate.grid;
        let lengths: Vec<usize> = slabs.iter().map(|slab| slab.len() * grid.nx).collect();
        let values = scatter_parts(team, values, &lengths)?;
        let owned = slabs[team.transport().rank()].clone();
        let part = HeatPart::new(team, plate, &values, owned, setup, steps_per_pass)?;
        let strategy_name = part.strategy_name();
        Ok(Self { team: team.clone(), grid, slabs, part, strategy_name, _last: None })
    }

    /// Returns minimum, maximum and heat content on the leader.
    fn collect_measures(&self, field: StoredField) -> Result<Option<FieldMeasures>, HeatError> {
        let add = self.part.measures(field)?;
        let pack = |measures: FieldMeasures| [measures.min, measures.max, measures.heat_content];
        let unpack = |[min, max, heat_content]: [f64; 3]| FieldMeasures { min, max, heat_content };
        let all = pass_along(&self.team, pack(FieldMeasures::NONE), |earlier| pack(add(unpack(earlier))))?;
        Ok(all.map(|all| unpack(all).scaled(self.part.plate())))
    }

    /// Returns the two outer columns and rows on each side on the leader.
    fn collect_edges(&self, field: StoredField) -> Result<Option<EdgeStrips<R>>, HeatError> {
        let Grid { nx, ny, .. } = self.grid;
        let lengths: Vec<usize> = self.slabs.iter().map(|slab| 4 * slab.len()).collect();
        let of_slabs = gather_parts(&self.team, self.part.outer_columns(field)?, &lengths)?;
        let owned = &self.slabs[self.team.transport().rank()];
        let mut rows = Vec::new();
        for row in EdgeStrips::<R>::rows(ny) {
            let part = match owned.contains(&row) {
                true => self.part.rows(field, row - owned.start..row - owned.start + 1)?,
                false => Vec::new(),
            };
            let length = |slab: &Range<usize>| if slab.contains(&row) { nx } else { 0 };
            rows.extend(gather_parts(&self.team, part, &self.slabs.iter().map(length).collect::<Vec<_>>())?);
        }
        if !self.team.is_leader() {
            return Ok(None);
        }
        let mut columns = vec![R::default(); 4 * ny];
        for slab in &self.slabs {
            let of_slab = &of_slabs[4 * slab.start..4 * slab.end];
            for (column, values) in of_slab.chunks_exact(slab.len()).enumerate() {
                columns[column * ny + slab.start..][..slab.len()].copy_from_slice(values);
            }
        }
        Ok(Some(EdgeStrips::new([nx, ny], columns, rows)))
    }

    /// Returns the values of all nodes on the leader.
    fn collect_values(&self, field: StoredField) -> Result<Vec<R>, HeatError> {
        let lengths: Vec<usize> = self.slabs.iter().map(|slab| slab.len() * self.grid.nx).collect();
        Ok(gather_parts(&self.team, self.part.values(field)?, &lengths)?)
    }

    /// Returns the means over pixels on the leader.
    fn collect_pixel_means(
        &self,
        field: StoredField,
        weights: &PixelWeights,
    ) -> Result<Option<PixelMeans>, HeatError> {
        if self.team.size() == 1 {
            return self.part.pixel_means(field, weights).map(Some);
        }
        let rows = PixelRows { team: &self.team, owned: &self.slabs, weights };
        rows.means(&PlateRows { part: &self.part, field })
    }

    /// Executes commands of the leader until the last one.
    fn obey(&mut self) -> Result<(), HeatError> {
        loop {
            match self.team.next_command()? {
                HeatCommand::Advance { dt, steps } => {
                    // Waits, so that the time is that of the device.
                    let (team, part) = (&self.team, &mut self.part);
                    team.time_steps(|| part.advance(dt, steps).and_then(|()| part.wait()))?;
                }
                HeatCommand::StepAhead { dt } => self.part.step_ahead(dt)?,
                HeatCommand::Measures { field } => drop(self.collect_measures(field)?),
                HeatCommand::EdgeFluxes { field } => drop(self.collect_edges(field)?),
                HeatCommand::Values { field } => drop(self.collect_values(field)?),
                HeatCommand::PixelMeans { field, division } => {
                    drop(self.collect_pixel_means(field, &PixelWeights::from_division(division))?);
                }
                HeatCommand::End => return Ok(()),
            }
        }
    }
}

/// Rows of the plate in the slab of this rank.
struct PlateRows<'a, R: Scalar> {
    part: &'a HeatPart<R>,
    field: StoredField,
}

impl<R: Scalar> RowSource<R> for PlateRows<'_, R> {
    type Error = HeatError;

    fn rows(&self, rows: Range<usize>) -> Result<Vec<R>, HeatError> {
        self.part.rows(self.field, rows)
    }

    fn means(&self, weights: &PixelWeights) -> Result<PixelMeans, HeatError> {
        self.part.pixel_means(self.field, weights)
    }
}

/// Takes part in the computation of the leader's field until that is dropped. All ranks must have
/// the same problem. `setup` is the device of this rank, `None` for the CPU: all ranks compute on
/// devices or none does. The leader chooses the number of steps per pass.
///
/// The leader creates its field with [`HeatField::new_in_team`](super::HeatField::new_in_team),
/// [`HeatField::restore_in_team`](super::HeatField::restore_in_team) or
/// [`HeatField::moved_to_team`](super::HeatField::moved_to_team).
pub fn follow(team: &Team, problem: &HeatProblem, setup: Option<&HeatDeviceSetup>) -> Result<(), HeatError> {
    match problem.precision() {
        Precision::Single => follow_in::<f32>(team, problem, setup),
        _ => follow_in::<f64>(team, problem, setup),
    }
}

fn follow_in<R: Scalar>(
    team: &Team,
    problem: &HeatProblem,
    setup: Option<&HeatDeviceSetup>,
) -> Result<(), HeatError> {
    // The leader fails for the same reason, and sends nothing then.
    let slabs = divided_rows(problem.grid().ny, team.size())?;
    let HeatStart { steps_per_pass, is_on_device } = team.next_command()?;
    if setup.is_some() != is_on_device {
        let rank = team.transport().rank();
        return Err(HeatError::MixedRanks { rank, is_on_device: setup.is_some() });
    }
    let plate = Plate::<R>::new(problem);
    TeamHeat::with_slab(team, slabs, plate, Vec::new(), setup, steps_per_pass)?.obey()
}

/// Returns the result of an operation, which the leader has.
fn leader_result<T>(result: Option<T>) -> T {
    result.expect("the leader has the result")
}

impl<R: Scalar> HeatState for TeamHeat<R> {
    fn advance(&mut self, dt: f64, steps: u64) -> Result<(), HeatError> {
        self.team.lead(&HeatCommand::Advance { dt, steps })?;
        self.part.advance(dt, steps)
    }

    fn step_ahead(&mut self, dt: f64) -> Result<(), HeatError> {
        self.team.lead(&HeatCommand::StepAhead { dt })?;
        self.part.step_ahead(dt)
    }

    fn wait(&self) -> Result<(), HeatError> {
        self.part.wait()
    }

    fn measures(&self, field: StoredField) -> Result<FieldMeasures, HeatError> {
        self.team.lead(&HeatCommand::Measures { field })?;
        self.collect_measures(field).map(leader_result)
    }

    fn edge_fluxes(&self, field: StoredField) -> Result<[f64; 4], HeatError> {
        self.team.lead(&HeatCommand::EdgeFluxes { field })?;
        let strips = self.collect_edges(field).map(leader_result)?;
        Ok(edge_fluxes(self.part.plate(), |i, j| strips.at(i, j)))
    }

    fn column(&self, field: StoredField) -> Result<FieldColumn, HeatError> {
        self.team.lead(&HeatCommand::Values { field })?;
        Ok(R::into_column(self.collect_values(field)?))
    }

    fn pixel_means(&self, field: StoredField, weights: &PixelWeights) -> Result<PixelMeans, HeatError> {
        self.team.lead(&HeatCommand::PixelMeans { field, division: weights.division() })?;
        self.collect_pixel_means(field, weights).map(leader_result)
    }

    fn check_finite(&self, field: StoredField) -> Result<(), HeatError> {
        self.team.lead(&HeatCommand::Values { field })?;
        check_finite(&self.grid, &self.collect_values(field)?)
    }

    fn device(&self) -> Option<&Device> {
        self.part.device()
    }

    fn strategy_name(&self) -> String {
        self.strategy_name.clone()
    }

    fn steps_per_pass(&self) -> u64 {
        self.part.steps_per_pass()
    }

    fn is_variable(&self) -> bool {
        self.part.plate().resistivity.is_some()
    }

    fn moved_to(
        self: Box<Self>,
        team: &Team,
        device: Option<(&Device, Option<HeatDeviceStrategy>)>,
    ) -> Result<Box<dyn HeatState>, HeatError> {
        assert_eq!(self.team.size(), 1, "a field of one rank can be divided");
        let (plate, values) = self.part.into_parts()?;
        Ok(Box::new(Self::start(team, plate, values, device)?))
    }
}
