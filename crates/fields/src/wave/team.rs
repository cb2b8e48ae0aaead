//! Waves that several ranks compute together.
//!
//! All columns of a state are those of the slabs one after the other. Each receiver is recorded by
//! one rank, which has all nodes of the receiver in its slices or ghost slices.

use std::ops::Range;

use orrery_cluster::Team;
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::grid::{PixelDivision, PixelMeans, PixelWeights};
use orrery_model::wave::{Sides, WaveGrid};
use serde::{Deserialize, Serialize};

use super::columns::state_columns;
use super::cpu::WaveCpuStrategy;
use super::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use super::division::{SlabDivision, layer_len};
use super::energy::{NO_ENERGY, added_energies, energy_scale};
use super::host::{HostWave, StoredWave};
use super::layer::{node_range, slice_count};
use super::{
    GridPlane, LayerMemory, Medium, WaveDeviceSetup, WaveError, WaveMeasures, WaveProblem, WaveState,
};
use crate::Scalar;
use crate::pixels::pixel_means_of;
use crate::team::{
    DeviceOf, FieldPhysics, LinkedSlab, Neighbours, PixelRows, SlabDescription, SlabPart, TeamField,
    TeamReply, TeamSlab, follow_leader, gather_parts, pass_along, scatter_parts,
};

/// Types of wave fields.
#[derive(Debug)]
pub(super) struct WavePhysics;

impl FieldPhysics for WavePhysics {
    type Start = WaveStart;
    type Command = WaveCommand;
    type Measures = WaveMeasures;
    type Strategy = WaveDeviceStrategy;
    type Error = WaveError;

    fn is_advance(command: &WaveCommand) -> bool {
        matches!(command, WaveCommand::Advance { .. })
    }
}

/// Data that followers need for their slabs. The state of the slabs follows if the field has one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct WaveStart {
    dt: f64,
    step: u64,
    /// False for a field at rest at time 0.
    has_state: bool,
}

/// An operation of all ranks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum WaveCommand {
    Advance { steps: u64 },
    StepAhead { fraction: f64 },
    EndAhead,
    Measures { field: StoredWave },
    Largest { field: StoredWave },
    Values { field: StoredWave },
    Plane { field: StoredWave, plane: GridPlane },
    PixelMeans { field: StoredWave, plane: GridPlane, division: PixelDivision },
    Samples,
    State,
}

/// The slab of this rank, with the operations of all ranks.
#[derive(Debug)]
pub(super) struct TeamWave<R: Scalar> {
    team: Team,
    grid: WaveGrid,
    sides: Sides,
    division: SlabDivision,
    part: SlabPart<HostWave<R>, DeviceWave<R>>,
    /// Step at which the slabs were created.
    first_step: u64,
    /// Samples up to that step, on the leader only.
    earlier_samples: Vec<R>,
}

impl<R: Scalar> TeamWave<R> {
    /// Returns a field at rest on the leader of a team.
    pub(super) fn at_rest(
        team: &Team,
        problem: &WaveProblem,
        dt: f64,
        setup: Option<&WaveDeviceSetup>,
    ) -> Result<TeamField<Self>, WaveError> {
        let division = SlabDivision::new(problem.grid(), problem.sides(), team.size())?;
        let owned = division.slabs[0].clone();
        let medium = Medium::<R>::of_slab(problem, dt, &owned);
        let mut state = WaveState::slab_at_rest(&medium, &owned);
        state.samples = vec![R::default(); medium.receivers.len()];
        let start = WaveStart { dt, step: 0, has_state: false };
        TeamField::lead(team, start, setup.is_some(), || {
            Self::with_slab(team, division, medium, state, setup)
        })
    }

    /// Returns a field in host memory, with the given state of all nodes.
    pub(super) fn on_host(medium: Medium<R>, state: WaveState<R>) -> Result<TeamField<Self>, WaveError> {
        let (team, division) = (Team::alone(), SlabDivision::whole(slice_count(&medium.grid)));
        let start = WaveStart { dt: medium.dt, step: state.step, has_state: true };
        TeamField::lead(&team, start, false, || Self::with_slab(&team, division, medium, state, None))
    }

    /// Returns the slab of this rank, with ghost slices from its neighbours. `medium` and `state`
    /// are those of its slices, with all samples on the leader.
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
        let (rank, neighbours) = (team.transport().rank(), Neighbours::new(team, false));
        let (owned, receivers) = (division.slabs[rank].clone(), division.recorded(rank));
        let part = match setup {
            None => {
                let strategy = WaveCpuStrategy::resolve();
                let mut wave = HostWave::of_slab(medium, &state, strategy, owned, receivers);
                wave.exchange_ghosts(&neighbours)?;
                SlabPart::Host(Box::new(wave), neighbours)
            }
            Some(setup) => {
                let device = setup.rank_device(team, &neighbours)?;
                let wave = DeviceWave::of_slab(&device, medium, &state, setup.strategy, owned, &receivers)?;
                SlabPart::Device(Box::new(LinkedSlab::new(wave, neighbours)?))
            }
        };
        Ok(Self { team: team.clone(), grid, sides, division, part, first_step, earlier_samples })
    }

    fn advance(&mut self, steps: u64) -> Result<(), WaveError> {
        match &mut self.part {
            SlabPart::Host(wave, neighbours) if neighbours.is_alone() => wave.advance(steps),
            SlabPart::Host(wave, neighbours) => wave.advance_with(neighbours, steps)?,
            SlabPart::Device(linked) => linked.advance((0..steps).map(|_| ()))?,
        }
        Ok(())
    }

    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError> {
        match &mut self.part {
            SlabPart::Host(wave, _) => wave.step_ahead(fraction),
            SlabPart::Device(linked) => linked.completed()?.step_ahead(fraction)?,
        }
        Ok(())
    }

    /// Replaces the state by the result of the last look ahead, with its ghost slices.
    fn end_ahead(&mut self) -> Result<(), WaveError> {
        match &mut self.part {
            SlabPart::Host(wave, neighbours) => {
                wave.end_ahead();
                wave.exchange_ghosts(neighbours)?;
            }
            SlabPart::Device(linked) => {
                linked.completed()?.end_ahead()?;
                linked.exchange_ghosts()?;
            }
        }
        Ok(())
    }

    /// Returns energy and largest amplitude on the leader.
    fn measures(&mut self, field: StoredWave) -> Result<Option<WaveMeasures>, WaveError> {
        let energies = self.part.read_completed(HostWave::row_energies, DeviceWave::part_energies)?;
        let energy = pass_along(&self.team, [NO_ENERGY], |[sum]| [added_energies(sum, &energies)])?;
        let largest = self.largest(field)?;
        let scale = energy_scale(&self.grid);
        Ok(energy.zip(largest).map(|([energy], largest)| WaveMeasures { energy: scale * energy, largest }))
    }

    /// Returns the largest amplitude on the leader.
    fn largest(&self, field: StoredWave) -> Result<Option<f64>, WaveError> {
        let largest = self.part.read(|wave| wave.largest(field), |wave| wave.largest(field))?;
        let largest = self.team.transport().reduce(0, &[largest], max_or_nan)?;
        Ok(largest.map(|largest| largest[0]))
    }

    /// Returns the values of all nodes on the leader.
    fn values(&self, field: StoredWave) -> Result<Vec<R>, WaveError> {
        let values = self.part.read(|wave| wave.values(field), |wave| wave.values(field))?;
        self.gather(values, |slab| node_range(&self.grid, slab).len())
    }

    /// Returns the values of a plane on the leader.
    fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<Vec<R>, WaveError> {
        let values = self.part.read(|wave| wave.plane(field, plane), |wave| wave.plane(field, plane))?;
        self.gather(values, |slab| plane.nodes_in_slices(&self.grid, slab))
    }

    /// Returns the means of a plane over pixels on the leader.
    fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<Option<PixelMeans>, WaveError> {
        let means_of = |weights: &PixelWeights| {
            let on_host = |wave: &HostWave<R>| pixel_means_of(&wave.plane(field, plane), weights);
            Ok::<_, WaveError>(self.part.read(on_host, |wave| wave.pixel_means(field, plane, weights))?)
        };
        if plane.axes()[1] == self.grid.depth_axis() || self.team.size() == 1 {
            let rows_of = |rows: Range<usize>| {
                let on_host = |wave: &HostWave<R>| wave.plane_rows(field, plane, rows.clone());
                Ok(self.part.read(on_host, |wave| wave.plane_rows(field, plane, rows.clone()))?)
            };
            let rows = PixelRows { team: &self.team, owned: &self.division.slabs, weights };
            return rows.means(rows_of, means_of);
        }
        // All nodes of the plane have the same rank, which computes the means.
        let means = match self.division.slabs[self.team.transport().rank()].contains(&plane.node) {
            true => {
                let PixelMeans { mut means, min, max } = means_of(weights)?;
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
    fn samples(&mut self) -> Result<Vec<R>, WaveError> {
        let step = self.part.read(HostWave::step, |wave| Ok(wave.step()))?;
        let steps = (step - self.first_step) as usize;
        let counts: Vec<usize> =
            (0..self.team.size()).map(|rank| self.division.recorded(rank).len()).collect();
        let lengths: Vec<usize> = counts.iter().map(|count| steps * count).collect();
        let recorded = self.part.read_completed(|wave| wave.samples().to_vec(), DeviceWave::samples)?;
        let gathered = gather_parts(&self.team, recorded, &lengths)?;
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
    fn state(&mut self) -> Result<WaveState<R>, WaveError> {
        let WaveState { step, now, previous, layers, .. } =
            self.part.read_completed(HostWave::state, DeviceWave::state)?;
        let nodes = |slab: &Range<usize>| node_range(&self.grid, slab).len();
        let now = self.gather(now, nodes)?;
        let previous = self.gather(previous, nodes)?;
        let gather_layer = |LayerMemory { side, psi, zeta }| {
            let length = |slab: &Range<usize>| layer_len(&self.grid, &self.sides, side, slab);
            Ok(LayerMemory { side, psi: self.gather(psi, length)?, zeta: self.gather(zeta, length)? })
        };
        let layers = layers.into_iter().map(gather_layer).collect::<Result<_, WaveError>>()?;
        Ok(WaveState { step, now, previous, layers, samples: self.samples()? })
    }

    /// Returns the parts of all ranks on the leader. `length` returns that of a slab.
    fn gather(&self, part: Vec<R>, length: impl Fn(&Range<usize>) -> usize) -> Result<Vec<R>, WaveError> {
        let lengths: Vec<usize> = self.division.slabs.iter().map(length).collect();
        Ok(gather_parts(&self.team, part, &lengths)?)
    }
}

impl<R: Scalar> TeamSlab for TeamWave<R> {
    type Physics = WavePhysics;

    fn execute(&mut self, command: WaveCommand) -> Result<TeamReply<WaveMeasures>, WaveError> {
        Ok(match command {
            WaveCommand::Advance { steps } => self.advance(steps)?.into(),
            WaveCommand::StepAhead { fraction } => self.step_ahead(fraction)?.into(),
            WaveCommand::EndAhead => self.end_ahead()?.into(),
            WaveCommand::Measures { field } => TeamReply::of(self.measures(field)?, TeamReply::Measures),
            WaveCommand::Largest { field } => {
                TeamReply::of(self.largest(field)?, |largest| TeamReply::Numbers(vec![largest]))
            }
            WaveCommand::Values { field } => TeamReply::Column(R::into_column(self.values(field)?)),
            WaveCommand::Plane { field, plane } => {
                TeamReply::Column(R::into_column(self.plane(field, plane)?))
            }
            WaveCommand::PixelMeans { field, plane, division } => {
                let weights = PixelWeights::from_division(division);
                TeamReply::of(self.pixel_means(field, plane, &weights)?, TeamReply::Means)
            }
            WaveCommand::Samples => TeamReply::Column(R::into_column(self.samples()?)),
            WaveCommand::State => TeamReply::Columns(state_columns(self.state()?)),
        })
    }

    fn wait(&self) -> Result<(), WaveError> {
        Ok(self.part.wait()?)
    }

    fn description(&self) -> SlabDescription {
        let strategy_name = match &self.part {
            SlabPart::Host(wave, _) => wave.strategy().name(),
            SlabPart::Device(linked) => linked.slab().strategy().name(),
        };
        SlabDescription { device: self.part.device().cloned(), strategy_name, steps_per_pass: 1 }
    }

    fn divided(self, team: &Team, device: DeviceOf<'_, WavePhysics>) -> Result<TeamField<Self>, WaveError> {
        let earlier_samples = self.earlier_samples;
        let (mut medium, mut state) = match self.part {
            SlabPart::Host(wave, _) => wave.into_parts(),
            SlabPart::Device(linked) => {
                let wave = linked.into_slab();
                let state = wave.state()?;
                (wave.into_medium()?, state)
            }
        };
        let division = SlabDivision::new(&medium.grid, &medium.sides, team.size())?;
        let setup = WaveDeviceSetup::of(device, |device| {
            WaveDeviceStrategy::default_for(device, WaveShape::of_medium(&medium))
        });
        let start = WaveStart { dt: medium.dt, step: state.step, has_state: true };
        TeamField::lead(team, start, setup.is_some(), || {
            medium.limit_to(&division.slabs[0]);
            let recorded = std::mem::take(&mut state.samples);
            let mut state = scatter_state(team, &division, &medium, state)?;
            state.samples = [earlier_samples, recorded].concat();
            Self::with_slab(team, division, medium, state, setup.as_ref())
        })
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
    follow_leader(team, setup.is_some(), |WaveStart { dt, step, has_state }| {
        let owned = division.slabs[team.transport().rank()].clone();
        let medium = Medium::<R>::of_slab(problem, dt, &owned);
        let state = WaveState { step, ..WaveState::slab_at_rest(&medium, &owned) };
        let state = if has_state { scatter_state(team, &division, &medium, state)? } else { state };
        TeamWave::with_slab(team, division, medium, state, setup)
    })
}
