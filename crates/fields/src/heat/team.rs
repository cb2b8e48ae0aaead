//! Heat that several ranks compute together.
//!
//! All ranks have the same number of steps per pass T, at most half of the rows of the smallest
//! slab, so that the T rows for one neighbour are not those for the other.

use std::ops::Range;

use orrery_cluster::Team;
use orrery_model::Precision;
use orrery_model::grid::{Grid, PixelDivision, PixelMeans, PixelWeights};
use serde::{Deserialize, Serialize};

use super::cpu::HeatCpuStrategy;
use super::device::{DeviceHeat, HeatDeviceStrategy, StoredField};
use super::edge_flux::{EdgeStrips, edge_fluxes};
use super::{FieldMeasures, HeatDeviceSetup, HeatError, HeatProblem, HostHeat, Plate};
use crate::Scalar;
use crate::pixels::pixel_means_of;
use crate::team::{
    DeviceOf, EndSlices, FieldPhysics, LinkedSlab, Neighbours, PixelRows, SlabDescription, SlabPart,
    TeamError, TeamField, TeamReply, TeamSlab, divided_slices, follow_leader, gather_parts, pass_along,
    scatter_parts,
};

/// Fewest rows of a rank, for one step per pass.
const MIN_ROWS: usize = 2;

/// Types of fields of heat.
#[derive(Debug)]
pub(super) struct HeatPhysics;

impl FieldPhysics for HeatPhysics {
    type Start = HeatStart;
    type Command = HeatCommand;
    type Measures = FieldMeasures;
    type Strategy = HeatDeviceStrategy;
    type Error = HeatError;

    fn is_advance(command: &HeatCommand) -> bool {
        matches!(command, HeatCommand::Advance { .. })
    }
}

/// Data that followers need for their slabs. The rows of the slabs follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct HeatStart {
    steps_per_pass: usize,
}

/// An operation of all ranks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum HeatCommand {
    Advance { dt: f64, steps: u64 },
    StepAhead { dt: f64 },
    Measures { field: StoredField },
    EdgeFluxes { field: StoredField },
    Values { field: StoredField },
    PixelMeans { field: StoredField, division: PixelDivision },
}

/// Divides `ny` rows among ranks.
pub(super) fn divided_rows(ny: usize, ranks: usize) -> Result<Vec<Range<usize>>, HeatError> {
    let slabs = divided_slices(ny, ranks, MIN_ROWS, [EndSlices::default(); 2]);
    slabs.map_err(|needed| {
        let (found, fewest) = (ny, MIN_ROWS);
        TeamError::TooManyRanks { ranks, axis: "y", found, needed, fewest, beyond_layer: None }.into()
    })
}

/// The slab of this rank, with the operations of all ranks.
#[derive(Debug)]
pub(super) struct TeamHeat<R: Scalar> {
    team: Team,
    grid: Grid,
    /// Rows of each rank, in the order of ranks. Together they are all rows.
    slabs: Vec<Range<usize>>,
    part: SlabPart<HostHeat<R>, DeviceHeat<R>>,
    /// Strategy for the whole plate on one rank, on the leader only. It is recorded in files, which
    /// do not depend on the number of ranks. Thin slabs have fewer steps per pass.
    strategy_name: String,
}

impl<R: Scalar> TeamHeat<R> {
    /// Returns the field of the leader of a team. `values` are those of all nodes. Without a
    /// strategy, a device uses the default one.
    pub(super) fn start(
        team: &Team,
        plate: Plate<R>,
        values: Vec<R>,
        device: DeviceOf<'_, HeatPhysics>,
    ) -> Result<TeamField<Self>, HeatError> {
        let slabs = divided_rows(plate.grid.ny, team.size())?;
        let setup = HeatDeviceSetup::of(device, |device| {
            let is_variable = plate.resistivity.is_some();
            HeatDeviceStrategy::default_for(device, plate.grid.len(), R::PRECISION, is_variable)
        });
        let (preferred, strategy_name) = match &setup {
            Some(setup) => (setup.strategy.steps_per_pass as usize, setup.strategy.name()),
            None => {
                let strategy = HeatCpuStrategy::resolve(&plate);
                (strategy.steps_per_pass, strategy.name())
            }
        };
        let fewest = slabs.iter().map(|slab| slab.len()).min().unwrap_or(0);
        let steps_per_pass = if team.size() > 1 { preferred.min(fewest / 2) } else { preferred };
        TeamField::lead(team, HeatStart { steps_per_pass }, setup.is_some(), || {
            let slab = Self::with_slab(team, slabs, plate, values, setup.as_ref(), steps_per_pass)?;
            Ok(Self { strategy_name, ..slab })
        })
    }

    /// Returns the slab of this rank, with ghost rows from its neighbours. `values` are those of
    /// all nodes on the leader, and are ignored on followers.
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
        let neighbours = Neighbours::new(team, plate.boundaries.is_periodic_in_y());
        let part = match setup {
            None => {
                let strategy = HeatCpuStrategy { steps_per_pass, ..HeatCpuStrategy::resolve(&plate) };
                let mut heat = HostHeat::of_rows(plate, &values, strategy, owned, &neighbours);
                heat.exchange_ghosts(&neighbours)?;
                SlabPart::Host(Box::new(heat), neighbours)
            }
            Some(setup) => {
                let strategy = HeatDeviceStrategy { steps_per_pass: steps_per_pass as u32, ..setup.strategy };
                let [low, _, high] = neighbours.split(owned.len(), steps_per_pass);
                let (device, ghosts) = (setup.rank_device(team, &neighbours)?, [low.len(), high.len()]);
                let heat = DeviceHeat::of_rows(&device, plate, &values, strategy, owned, ghosts)?;
                SlabPart::Device(Box::new(LinkedSlab::new(heat, neighbours)?))
            }
        };
        Ok(Self { team: team.clone(), grid, slabs, part, strategy_name: String::new() })
    }

    fn advance(&mut self, dt: f64, steps: u64) -> Result<(), HeatError> {
        match &mut self.part {
            SlabPart::Host(heat, neighbours) if neighbours.is_alone() => heat.advance(dt, steps),
            SlabPart::Host(heat, neighbours) => heat.advance_with(neighbours, dt, steps)?,
            SlabPart::Device(linked) => {
                let passes = linked.slab().passes(dt, steps);
                linked.advance(passes)?;
            }
        }
        Ok(())
    }

    fn step_ahead(&mut self, dt: f64) -> Result<(), HeatError> {
        match &mut self.part {
            SlabPart::Host(heat, _) => heat.step_ahead(dt),
            SlabPart::Device(linked) => linked.completed()?.step_ahead(dt)?,
        }
        Ok(())
    }

    fn plate(&self) -> &Plate<R> {
        match &self.part {
            SlabPart::Host(heat, _) => heat.plate(),
            SlabPart::Device(linked) => linked.slab().plate(),
        }
    }

    /// Returns minimum, maximum and heat content on the leader.
    fn measures(&self, field: StoredField) -> Result<Option<FieldMeasures>, HeatError> {
        let rows = self.part.read(|heat| heat.row_measures(field), |heat| heat.row_measures(field))?;
        let (plate, first) = (self.plate(), self.slabs[self.team.transport().rank()].start);
        let start = FieldMeasures::NONE.to_array();
        let all = pass_along(&self.team, start, |earlier| {
            FieldMeasures::from_array(earlier).with_rows(plate, first, &rows).to_array()
        })?;
        Ok(all.map(|all| FieldMeasures::from_array(all).scaled(plate)))
    }

    /// Returns the fluxes through the edges on the leader.
    fn edge_fluxes(&self, field: StoredField) -> Result<Option<[f64; 4]>, HeatError> {
        let Grid { nx, ny, .. } = self.grid;
        let lengths: Vec<usize> = self.slabs.iter().map(|slab| 4 * slab.len()).collect();
        let of_slab = self.part.read(|heat| heat.outer_columns(field), |heat| heat.outer_columns(field))?;
        let of_slabs = gather_parts(&self.team, of_slab, &lengths)?;
        let owned = &self.slabs[self.team.transport().rank()];
        let mut rows = Vec::new();
        for row in EdgeStrips::<R>::rows(ny) {
            let part = match owned.contains(&row) {
                true => self.rows(field, row - owned.start..row - owned.start + 1)?,
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
        let strips = EdgeStrips::new([nx, ny], columns, rows);
        Ok(Some(edge_fluxes(self.plate(), |i, j| strips.at(i, j))))
    }

    /// Returns the values of all nodes on the leader.
    fn values(&self, field: StoredField) -> Result<Vec<R>, HeatError> {
        let lengths: Vec<usize> = self.slabs.iter().map(|slab| slab.len() * self.grid.nx).collect();
        let values = self.part.read(|heat| heat.values(field).to_vec(), |heat| heat.values(field))?;
        Ok(gather_parts(&self.team, values, &lengths)?)
    }

    /// Returns some rows of this rank, counted from its first one.
    fn rows(&self, field: StoredField, rows: Range<usize>) -> Result<Vec<R>, HeatError> {
        let nx = self.grid.nx;
        let on_host = |heat: &HostHeat<R>| heat.values(field)[rows.start * nx..rows.end * nx].to_vec();
        Ok(self.part.read(on_host, |heat| heat.rows(field, rows.clone()))?)
    }

    /// Returns the means over pixels on the leader.
    fn pixel_means(
        &self,
        field: StoredField,
        weights: &PixelWeights,
    ) -> Result<Option<PixelMeans>, HeatError> {
        let rows = PixelRows { team: &self.team, owned: &self.slabs, weights };
        rows.means(
            |rows| self.rows(field, rows),
            |weights| {
                let on_host = |heat: &HostHeat<R>| pixel_means_of(heat.values(field), weights);
                Ok(self.part.read(on_host, |heat| heat.pixel_means(field, weights))?)
            },
        )
    }
}

impl<R: Scalar> TeamSlab for TeamHeat<R> {
    type Physics = HeatPhysics;

    fn execute(&mut self, command: HeatCommand) -> Result<TeamReply<FieldMeasures>, HeatError> {
        Ok(match command {
            HeatCommand::Advance { dt, steps } => self.advance(dt, steps)?.into(),
            HeatCommand::StepAhead { dt } => self.step_ahead(dt)?.into(),
            HeatCommand::Measures { field } => TeamReply::of(self.measures(field)?, TeamReply::Measures),
            HeatCommand::EdgeFluxes { field } => {
                TeamReply::of(self.edge_fluxes(field)?, |fluxes| TeamReply::Numbers(fluxes.into()))
            }
            HeatCommand::Values { field } => TeamReply::Column(R::into_column(self.values(field)?)),
            HeatCommand::PixelMeans { field, division } => {
                let weights = PixelWeights::from_division(division);
                TeamReply::of(self.pixel_means(field, &weights)?, TeamReply::Means)
            }
        })
    }

    fn wait(&self) -> Result<(), HeatError> {
        Ok(self.part.wait()?)
    }

    fn description(&self) -> SlabDescription {
        let steps_per_pass = match &self.part {
            SlabPart::Host(heat, _) => heat.strategy().steps_per_pass as u64,
            SlabPart::Device(linked) => linked.slab().strategy().steps_per_pass.into(),
        };
        let device = self.part.device().cloned();
        SlabDescription { device, strategy_name: self.strategy_name.clone(), steps_per_pass }
    }

    fn divided(self, team: &Team, device: DeviceOf<'_, HeatPhysics>) -> Result<TeamField<Self>, HeatError> {
        let values = self.values(StoredField::State)?;
        let plate = match self.part {
            SlabPart::Host(heat, _) => heat.into_parts().0,
            SlabPart::Device(linked) => linked.into_slab().into_plate(),
        };
        Self::start(team, plate, values, device)
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
    follow_leader(team, setup.is_some(), |HeatStart { steps_per_pass }| {
        TeamHeat::<R>::with_slab(team, slabs, Plate::new(problem), Vec::new(), setup, steps_per_pass)
    })
}
