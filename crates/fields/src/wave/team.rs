//! Waves that several ranks compute together.
//!
//! [`TeamWave`] is the slab of one rank with the operations of all. The leader's field sends a
//! [`WaveCommand`] before each of them, and [`follow`] executes the commands on the other ranks. A
//! field on one rank is a team of one, which sends nothing.
//!
//! All columns of a state are those of the slabs one after the other. Each receiver is recorded by
//! one rank, which has all nodes of the receiver in its slices or ghost slices.

mod command;
mod division;
mod part;
#[cfg(test)]
mod tests;

use std::ops::Range;

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::{PixelMeans, PixelWeights};
use orrery_model::wave::{Sides, WaveGrid};

use command::{WaveCommand, WaveStart};
pub(super) use division::SlabDivision;
use division::layer_len;
use part::WavePart;

use super::device::{WaveDeviceStrategy, WaveShape};
use super::energy::{NO_ENERGY, added_energies, energy_scale};
use super::field::{GridPlane, WaveColumn, WaveDeviceSetup};
use super::host::StoredWave;
use super::layer::{node_range, slice_count};
use super::worker::{WaveWorker, state_columns};
use super::{LayerMemory, Medium, WaveError, WaveMeasures, WaveProblem, WaveState};
use crate::Scalar;
use crate::heat::FieldColumn;
use crate::team::{LastCommand, PixelRows, RowSource, gather_parts, pass_along, scatter_parts};

/// The slab of this rank, with the operations of all ranks.
#[derive(Debug)]
pub(super) struct TeamWave<R: Scalar> {
    team: Team,
    grid: WaveGrid,
    sides: Sides,
    division: SlabDivision,
    part: WavePart<R>,
    /// Step at which the slabs were created.
    first_step: u64,
    /// Samples up to that step, on the leader only.
    earlier_samples: Vec<R>,
    /// Ends the work of the followers, on the leader only.
    _last: Option<LastCommand<WaveCommand>>,
}

impl<R: Scalar> TeamWave<R> {
    /// Returns a field at rest on the leader of a team.
    pub(super) fn at_rest(
        team: &Team,
        problem: &WaveProblem,
        dt: f64,
        setup: Option<&WaveDeviceSetup>,
    ) -> Result<Self, WaveError> {
        let division = SlabDivision::new(problem.grid(), problem.sides(), team.size())?;
        let owned = &division.slabs[0];
        let medium = Medium::<R>::of_slab(problem, dt, owned);
        let mut state = WaveState::slab_at_rest(&medium, owned);
        state.samples = vec![R::default(); medium.receivers.len()];
        team.lead(&WaveStart { dt, step: 0, has_state: false, is_on_device: setup.is_some() })?;
        let last = LastCommand::new(team, WaveCommand::End);
        Ok(Self { _last: Some(last), ..Self::with_slab(team, division, medium, state, setup)? })
    }

    /// Returns a field in host memory, with the given state of all nodes.
    pub(super) fn on_host(medium: Medium<R>, state: WaveState<R>) -> Result<Self, WaveError> {
        let division = SlabDivision::whole(slice_count(&medium.grid));
        Self::with_slab(&Team::alone(), division, medium, state, None)
    }

    /// Divides a field of one rank among the ranks of a team, whose leader this rank is. Without a
    /// strategy, a device uses the default one.
    fn divided(
        self,
        team: &Team,
        device: Option<(&Device, Option<WaveDeviceStrategy>)>,
    ) -> Result<Self, WaveError> {
        assert_eq!(self.team.size(), 1, "a field of one rank can be divided");
        let earlier_samples = self.earlier_samples;
        let (mut medium, mut state) = self.part.into_parts()?;
        let division = SlabDivision::new(&medium.grid, &medium.sides, team.size())?;
        let setup = device.map(|(device, strategy)| {
            let default = || WaveDeviceStrategy::default_for(device, WaveShape::of_medium(&medium));
            WaveDeviceSetup { device: device.clone(), strategy: strategy.unwrap_or_else(default) }
        });
        let (dt, step, is_on_device) = (medium.dt, state.step, setup.is_some());
        team.lead(&WaveStart { dt, step, has_state: true, is_on_device })?;
        let last = LastCommand::new(team, WaveCommand::End);
        medium.limit_to(&division.slabs[0]);
        let recorded = std::mem::take(&mut state.samples);
        let mut state = scatter_state(team, &division, &medium, state)?;
        state.samples = [earlier_samples, recorded].concat();
        Ok(Self { _last: Some(last), ..Self::with_slab(team, division, medium, state, setup.as_ref())? })
    }

    /// Returns the slab of this rank. `medium` and `state` are those of its slices, with all
    /// samples on the leader.
    fn with_slab(
        team: &Team,
        mut division: SlabDivision,
        medium: Medium<R>,
        mut state: WaveState<R>,
        setup: Option<&WaveDeviceSetup>,
    ) -> Result<Self, WaveError> {
        let (grid, sides) = (medium.grid, medium.sides);
        let (first_step, earlier_samples) = (state.step, std::mem::take(&mut state.samples));
        division.assign_receivers(&grid, &medium.receivers);
        let part = WavePart::new(team, &division, medium, &state, setup)?;
        let team = team.clone();
        Ok(Self { team, grid, sides, division, part, first_step, earlier_samples, _last: None })
    }

    /// Returns energy and largest amplitude on the leader.
    fn collect_measures(&self, field: StoredWave) -> Result<Option<WaveMeasures>, WaveError> {
        let energies = self.part.energies()?;
        let energy = pass_along(&self.team, [NO_ENERGY], |[sum]| [added_energies(sum, &energies)])?;
        let largest = self.collect_largest(field)?;
        let scale = energy_scale(&self.grid);
        Ok(energy.zip(largest).map(|([energy], largest)| WaveMeasures { energy: scale * energy, largest }))
    }

    /// Returns the largest amplitude on the leader.
    fn collect_largest(&self, field: StoredWave) -> Result<Option<f64>, WaveError> {
        let largest = self.part.largest(field)?;
        let largest = self.team.transport().reduce(0, &[largest], max_or_nan)?;
        Ok(largest.map(|largest| largest[0]))
    }

    /// Returns the values of all nodes on the leader.
    fn collect_values(&self, field: StoredWave) -> Result<Vec<R>, WaveError> {
        self.gather(self.part.values(field)?, |slab| node_range(&self.grid, slab).len())
    }

    /// Returns the values of a plane on the leader.
    fn collect_plane(&self, field: StoredWave, plane: GridPlane) -> Result<Vec<R>, WaveError> {
        self.gather(self.part.plane(field, plane)?, |slab| plane.nodes_in_slices(&self.grid, slab))
    }

    /// Returns the means of a plane over pixels on the leader.
    fn collect_pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<Option<PixelMeans>, WaveError> {
        let slow_axis = self.grid.depth_axis();
        if self.team.size() == 1 {
            return self.part.pixel_means(field, plane, weights).map(Some);
        }
        if plane.axes()[1] == slow_axis {
            let rows = PixelRows { team: &self.team, owned: &self.division.slabs, weights };
            return rows.means(&PlaneRows { part: &self.part, field, plane });
        }
        // All nodes of the plane have the same rank, which computes the means.
        let means = match self.division.slabs[self.rank()].contains(&plane.node) {
            true => {
                let PixelMeans { mut means, min, max } = self.part.pixel_means(field, plane, weights)?;
                means.extend([min, max]);
                means
            }
            false => Vec::new(),
        };
        let count = weights.width() * weights.height() + 2;
        let length = |slab: &Range<usize>| if slab.contains(&plane.node) { count } else { 0 };
        let lengths: Vec<usize> = self.division.slabs.iter().map(length).collect();
        let mut means = gather_parts(&self.team, means, &lengths)?;
        let range = means.split_off(means.len().saturating_sub(2));
        Ok(self.team.is_leader().then(|| PixelMeans { means, min: range[0], max: range[1] }))
    }

    /// Returns all samples on the leader.
    fn collect_samples(&self) -> Result<Vec<R>, WaveError> {
        let steps = (self.part.step() - self.first_step) as usize;
        let counts: Vec<usize> =
            (0..self.team.size()).map(|rank| self.division.recorded(rank).len()).collect();
        let lengths: Vec<usize> = counts.iter().map(|count| steps * count).collect();
        let gathered = gather_parts(&self.team, self.part.samples()?, &lengths)?;
        if !self.team.is_leader() {
            return Ok(Vec::new());
        }
        let receivers: usize = counts.iter().sum();
        let mut samples = self.earlier_samples.clone();
        let earlier = samples.len();
        samples.resize(earlier + steps * receivers, R::default());
        let mut rest = &gathered[..];
        for (rank, &length) in lengths.iter().enumerate() {
            let (part, later) = rest.split_at(length);
            let recorded = self.division.recorded(rank);
            for (values, all) in part
                .chunks_exact(recorded.len().max(1))
                .zip(samples[earlier..].chunks_exact_mut(receivers.max(1)))
            {
                values.iter().zip(&recorded).for_each(|(&value, &receiver)| all[receiver] = value);
            }
            rest = later;
        }
        Ok(samples)
    }

    /// Returns the state of all nodes on the leader.
    fn collect_state(&self) -> Result<WaveState<R>, WaveError> {
        let WaveState { step, now, previous, layers, .. } = self.part.state()?;
        let nodes = |slab: &Range<usize>| node_range(&self.grid, slab).len();
        let now = self.gather(now, nodes)?;
        let previous = self.gather(previous, nodes)?;
        let gather_layer = |LayerMemory { side, psi, zeta }| {
            let length = |slab: &Range<usize>| layer_len(&self.grid, &self.sides, side, slab);
            Ok(LayerMemory { side, psi: self.gather(psi, length)?, zeta: self.gather(zeta, length)? })
        };
        let layers = layers.into_iter().map(gather_layer).collect::<Result<_, WaveError>>()?;
        Ok(WaveState { step, now, previous, layers, samples: self.collect_samples()? })
    }

    /// Returns the parts of all ranks on the leader. `length` returns that of a slab.
    fn gather(&self, part: Vec<R>, length: impl Fn(&Range<usize>) -> usize) -> Result<Vec<R>, WaveError> {
        let lengths: Vec<usize> = self.division.slabs.iter().map(length).collect();
        Ok(gather_parts(&self.team, part, &lengths)?)
    }

    fn rank(&self) -> usize {
        self.team.transport().rank()
    }

    /// Executes commands of the leader until the last one.
    fn obey(&mut self) -> Result<(), WaveError> {
        loop {
            match self.team.next_command()? {
                WaveCommand::Advance { steps } => {
                    // Waits, so that the time is that of the device.
                    let (team, part) = (&self.team, &mut self.part);
                    team.time_steps(|| part.advance(steps).and_then(|()| part.wait()))?;
                }
                WaveCommand::StepAhead { fraction } => self.part.step_ahead(fraction)?,
                WaveCommand::EndAhead => self.part.end_ahead()?,
                WaveCommand::Measures { field } => drop(self.collect_measures(field)?),
                WaveCommand::Largest { field } => drop(self.collect_largest(field)?),
                WaveCommand::Values { field } => drop(self.collect_values(field)?),
                WaveCommand::Plane { field, plane } => drop(self.collect_plane(field, plane)?),
                WaveCommand::PixelMeans { field, plane, division } => {
                    let weights = PixelWeights::from_division(division);
                    drop(self.collect_pixel_means(field, plane, &weights)?);
                }
                WaveCommand::Samples => drop(self.collect_samples()?),
                WaveCommand::State => drop(self.collect_state()?),
                WaveCommand::End => return Ok(()),
            }
        }
    }
}

/// Rows of a plane in the slab of this rank.
struct PlaneRows<'a, R: Scalar> {
    part: &'a WavePart<R>,
    field: StoredWave,
    plane: GridPlane,
}

impl<R: Scalar> RowSource<R> for PlaneRows<'_, R> {
    type Error = WaveError;

    fn rows(&self, rows: Range<usize>) -> Result<Vec<R>, WaveError> {
        self.part.plane_rows(self.field, self.plane, rows)
    }

    fn means(&self, weights: &PixelWeights) -> Result<PixelMeans, WaveError> {
        self.part.pixel_means(self.field, self.plane, weights)
    }
}

/// Returns this rank's part of a state. The leader passes the state of all nodes, and followers
/// pass one that is replaced.
fn scatter_state<R: Scalar>(
    team: &Team,
    division: &SlabDivision,
    medium: &Medium<R>,
    state: WaveState<R>,
) -> Result<WaveState<R>, WaveError> {
    let (grid, sides) = (&medium.grid, &medium.sides);
    let lengths_of = |length: &dyn Fn(&Range<usize>) -> usize| -> Vec<usize> {
        division.slabs.iter().map(length).collect()
    };
    let nodes = lengths_of(&|slab| node_range(grid, slab).len());
    let now = scatter_parts(team, state.now, &nodes)?;
    let previous = scatter_parts(team, state.previous, &nodes)?;
    let scatter_layer = |LayerMemory { side, psi, zeta }| {
        let lengths = lengths_of(&|slab| layer_len(grid, sides, side, slab));
        let psi = scatter_parts(team, psi, &lengths)?;
        Ok(LayerMemory { side, psi, zeta: scatter_parts(team, zeta, &lengths)? })
    };
    let layers = state.layers.into_iter().map(scatter_layer).collect::<Result<_, WaveError>>()?;
    Ok(WaveState { step: state.step, now, previous, layers, samples: Vec::new() })
}

/// Takes part in the computation of the leader's field until that is dropped. All ranks must have
/// the same problem. `setup` is the device of this rank, `None` for the CPU: all ranks compute on
/// devices or none does.
///
/// The leader creates its field with [`WaveField::new_in_team`](super::WaveField::new_in_team) or
/// [`WaveField::moved_to_team`](super::WaveField::moved_to_team).
pub fn follow(team: &Team, problem: &WaveProblem, setup: Option<&WaveDeviceSetup>) -> Result<(), WaveError> {
    match problem.precision() {
        Precision::Single => follow_in::<f32>(team, problem, setup),
        _ => follow_in::<f64>(team, problem, setup),
    }
}

fn follow_in<R: Scalar>(
    team: &Team,
    problem: &WaveProblem,
    setup: Option<&WaveDeviceSetup>,
) -> Result<(), WaveError> {
    // The leader fails for the same reason, and sends nothing then.
    let division = SlabDivision::new(problem.grid(), problem.sides(), team.size())?;
    let WaveStart { dt, step, has_state, is_on_device } = team.next_command()?;
    let rank = team.transport().rank();
    if setup.is_some() != is_on_device {
        return Err(WaveError::MixedRanks { rank, is_on_device: setup.is_some() });
    }
    let owned = division.slabs[rank].clone();
    let medium = Medium::<R>::of_slab(problem, dt, &owned);
    let state = WaveState { step, ..WaveState::slab_at_rest(&medium, &owned) };
    let state = if has_state { scatter_state(team, &division, &medium, state)? } else { state };
    TeamWave::with_slab(team, division, medium, state, setup)?.obey()
}

/// Returns the result of an operation, which the leader has.
fn leader_result<T>(result: Option<T>) -> T {
    result.expect("the leader has the result")
}

impl<R: Scalar> WaveWorker for TeamWave<R> {
    fn advance(&mut self, steps: u64) -> Result<(), WaveError> {
        self.team.lead(&WaveCommand::Advance { steps })?;
        self.part.advance(steps)
    }

    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError> {
        self.team.lead(&WaveCommand::StepAhead { fraction })?;
        self.part.step_ahead(fraction)
    }

    fn end_ahead(&mut self) -> Result<(), WaveError> {
        self.team.lead(&WaveCommand::EndAhead)?;
        self.part.end_ahead()
    }

    fn step(&self) -> u64 {
        self.part.step()
    }

    fn wait(&self) -> Result<(), WaveError> {
        self.part.wait()
    }

    fn measures(&self, field: StoredWave) -> Result<WaveMeasures, WaveError> {
        self.team.lead(&WaveCommand::Measures { field })?;
        self.collect_measures(field).map(leader_result)
    }

    fn largest(&self, field: StoredWave) -> Result<f64, WaveError> {
        self.team.lead(&WaveCommand::Largest { field })?;
        self.collect_largest(field).map(leader_result)
    }

    fn column(&self, field: StoredWave) -> Result<FieldColumn, WaveError> {
        self.team.lead(&WaveCommand::Values { field })?;
        Ok(R::into_column(self.collect_values(field)?))
    }

    fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<FieldColumn, WaveError> {
        self.team.lead(&WaveCommand::Plane { field, plane })?;
        Ok(R::into_column(self.collect_plane(field, plane)?))
    }

    fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, WaveError> {
        self.team.lead(&WaveCommand::PixelMeans { field, plane, division: weights.division() })?;
        self.collect_pixel_means(field, plane, weights).map(leader_result)
    }

    fn samples(&self) -> Result<FieldColumn, WaveError> {
        self.team.lead(&WaveCommand::Samples)?;
        Ok(R::into_column(self.collect_samples()?))
    }

    fn columns(&self) -> Result<Vec<WaveColumn>, WaveError> {
        self.team.lead(&WaveCommand::State)?;
        Ok(state_columns(self.collect_state()?))
    }

    fn device(&self) -> Option<&Device> {
        self.part.device()
    }

    fn strategy_name(&self) -> String {
        self.part.strategy_name()
    }

    fn moved_to(
        self: Box<Self>,
        team: &Team,
        device: Option<(&Device, Option<WaveDeviceStrategy>)>,
    ) -> Result<Box<dyn WaveWorker>, WaveError> {
        Ok(Box::new(self.divided(team, device)?))
    }
}
