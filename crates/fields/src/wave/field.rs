//! The state of a wave problem with all operations of a run.

use std::ops::Range;

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::grid::{PixelMeans, PixelWeights};
use orrery_model::wave::{Sides, WaveGrid};
use serde::{Deserialize, Serialize};

use super::columns::state_of_columns;
use super::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use super::division::SlabDivision;
use super::energy::WaveMeasures;
use super::host::{HostWave, StoredWave};
use super::team::{TeamWave, WaveCommand, WavePhysics};
use super::{Medium, Velocity, WaveError, WaveProblem};
use crate::team::{LedField, TeamReply};
use crate::{DeviceSetup, FieldColumn, NamedColumn, Scalar};

/// A device, and the strategy that computes steps on it.
pub type WaveDeviceSetup = DeviceSetup<WaveDeviceStrategy>;

impl WaveDeviceSetup {
    /// Returns the default strategy for a problem.
    pub fn new(device: &Device, problem: &WaveProblem) -> Self {
        let strategy = WaveDeviceStrategy::default_for(device, WaveShape::of_problem(problem));
        Self { device: device.clone(), strategy }
    }
}

/// A field of acoustic waves, on the host or on a device.
///
/// For example, a source between absorbing layers, and a receiver above it:
///
/// ```
/// use orrery_fields::wave::{SpaceOrder, Velocity, WaveField, WaveProblem, WaveSource};
/// use orrery_model::Precision;
/// use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};
///
/// let grid = WaveGrid::plane([101, 81], [10.0, 10.0]);
/// let sides = Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(10)));
/// let wavelet = Wavelet::ricker(20.0);
/// let source = WaveSource { position: [500.0, 400.0, 0.0], wavelet };
/// let receiver = [500.0, 150.0, 0.0];
/// let problem = WaveProblem::new(
///     grid,
///     sides,
///     SpaceOrder::Eighth,
///     Velocity::Uniform(2000.0),
///     vec![source],
///     vec![receiver],
///     Precision::Single,
/// )?;
/// assert_eq!(problem.points_per_wavelength(20.0), 10.0);
///
/// // `None` keeps the field on the CPU.
/// let dt = 2e-3;
/// let mut field = WaveField::new(&problem, dt, None)?;
/// field.advance(dt, 150)?;
/// assert!(field.now().measures()?.largest > 0.0);
///
/// // The wave needs 250 m / 2000 m/s = 0.125 s, and its maximum was sent after 0.075 s.
/// let trace = &field.seismograms()?[0];
/// let arrival = (0..trace.len()).max_by(|&a, &b| trace[a].total_cmp(&trace[b])).unwrap();
/// assert!((arrival as f64 * dt - 0.2).abs() < 0.01);
///
/// // The field a quarter of a step later, without a change of the state.
/// let before = field.now().values()?;
/// assert_ne!(field.ahead(0.25 * dt)?.values()?, before);
/// assert_eq!(field.now().values()?, before);
/// # Ok::<(), orrery_fields::wave::WaveError>(())
/// ```
#[derive(Debug)]
pub struct WaveField {
    grid: WaveGrid,
    sides: Sides,
    precision: Precision,
    dt: f64,
    receivers: usize,
    is_variable: bool,
    /// Whether a shortened step was the last one.
    is_ended: bool,
    step: u64,
    state: Box<dyn LedField<WavePhysics>>,
}

impl WaveField {
    /// Creates a field at rest at time 0, for steps of length `dt`, on the device of `setup`, or on
    /// the host if it is `None`.
    pub fn new(problem: &WaveProblem, dt: f64, setup: Option<&WaveDeviceSetup>) -> Result<Self, WaveError> {
        Self::new_in_team(&Team::alone(), problem, dt, setup)
    }

    /// As [`WaveField::new`], computed by all ranks of a team. This rank is the leader, and the
    /// others call [`follow`](super::follow) until the field is dropped. `setup` is the device of
    /// this rank. All results have the bits of a field on one rank.
    pub fn new_in_team(
        team: &Team,
        problem: &WaveProblem,
        dt: f64,
        setup: Option<&WaveDeviceSetup>,
    ) -> Result<Self, WaveError> {
        problem.check_step(dt)?;
        let state: Box<dyn LedField<WavePhysics>> = match problem.precision() {
            Precision::Single => Box::new(TeamWave::<f32>::at_rest(team, problem, dt, setup)?),
            _ => Box::new(TeamWave::<f64>::at_rest(team, problem, dt, setup)?),
        };
        Ok(Self::with_state(problem, dt, 0, state))
    }

    /// Continues on the host from a stored state after `step` steps of length `dt`: the result of
    /// [`WaveField::columns`]. [`WaveField::moved_to`] moves it to a device.
    pub fn restore(
        problem: &WaveProblem,
        dt: f64,
        step: u64,
        columns: Vec<NamedColumn>,
    ) -> Result<Self, WaveError> {
        problem.check_step(dt)?;
        let state = match problem.precision() {
            Precision::Single => restored::<f32>(problem, dt, step, columns)?,
            _ => restored::<f64>(problem, dt, step, columns)?,
        };
        Ok(Self::with_state(problem, dt, step, state))
    }

    fn with_state(problem: &WaveProblem, dt: f64, step: u64, state: Box<dyn LedField<WavePhysics>>) -> Self {
        Self {
            grid: *problem.grid(),
            sides: *problem.sides(),
            precision: problem.precision(),
            dt,
            receivers: problem.receivers().len(),
            is_variable: matches!(problem.velocity(), Velocity::Field(_)),
            is_ended: false,
            step,
            state,
        }
    }

    /// Returns an upper bound of the bytes that a field needs, on the host or on a device. The
    /// memory of the [`WaveProblem`], of seismograms and of [`WaveView::pixel_means`] is not
    /// included.
    pub fn needed_bytes(
        grid: &WaveGrid,
        sides: &Sides,
        precision: Precision,
        is_variable: bool,
        is_on_device: bool,
    ) -> u64 {
        let needed = match (precision, is_on_device) {
            (Precision::Single, false) => HostWave::<f32>::needed_bytes,
            (Precision::Single, true) => DeviceWave::<f32>::needed_bytes,
            (_, false) => HostWave::<f64>::needed_bytes,
            (_, true) => DeviceWave::<f64>::needed_bytes,
        };
        needed(grid, sides, is_variable)
    }

    /// Returns the grid of the largest of the slabs into which `ranks` ranks divide a grid, for
    /// [`WaveField::needed_bytes`]. Fails if there are too many ranks.
    pub fn largest_slab(grid: &WaveGrid, sides: &Sides, ranks: usize) -> Result<WaveGrid, WaveError> {
        Ok(SlabDivision::new(grid, sides, ranks)?.largest_slab(grid))
    }

    /// Moves the field to a device. Without a strategy, it uses the default one. The result of a
    /// look ahead is lost.
    ///
    /// # Panics
    /// If several ranks compute the field.
    pub fn moved_to(self, device: &Device, strategy: Option<WaveDeviceStrategy>) -> Result<Self, WaveError> {
        self.moved_to_team(&Team::alone(), Some((device, strategy)))
    }

    /// Divides the field among the ranks of a team. This rank is the leader, and the others call
    /// [`follow`](super::follow) until the field is dropped. `device` is that of this rank with its
    /// strategy, `None` for the CPU. Without a strategy, it uses the default one. The result of a
    /// look ahead is lost.
    ///
    /// # Panics
    /// If several ranks compute the field already.
    pub fn moved_to_team(
        self,
        team: &Team,
        device: Option<(&Device, Option<WaveDeviceStrategy>)>,
    ) -> Result<Self, WaveError> {
        Ok(Self { state: self.state.moved_to(team, device)?, ..self })
    }

    /// Waits until the steps on a device are complete, as far as this rank computes them.
    pub fn wait(&self) -> Result<(), WaveError> {
        self.state.wait()
    }

    /// Computes `steps` steps of length `dt`, which must be the step of the field. On a device the
    /// call does not wait for them.
    ///
    /// A single step may be shorter. It ends the computation: the state is that of
    /// [`WaveField::ahead`], and no step can follow.
    pub fn advance(&mut self, dt: f64, steps: u64) -> Result<(), WaveError> {
        if self.is_ended {
            return Err(WaveError::Ended);
        }
        if dt == self.dt {
            self.state.run(WaveCommand::Advance { steps })?;
            self.step += steps;
            return Ok(());
        }
        if steps != 1 || !(dt > 0.0 && dt < self.dt) {
            return Err(WaveError::OtherStep { dt, steps, expected: self.dt });
        }
        self.state.run(WaveCommand::StepAhead { fraction: dt / self.dt })?;
        self.state.run(WaveCommand::EndAhead)?;
        self.is_ended = true;
        Ok(())
    }

    /// Returns the current state.
    pub fn now(&self) -> WaveView<'_> {
        WaveView { field: self, stored: StoredWave::State }
    }

    /// Returns the field at a time `dt` later, at most one step, from a parabola through three
    /// times. The state does not change.
    pub fn ahead(&mut self, dt: f64) -> Result<WaveView<'_>, WaveError> {
        if self.is_ended {
            return Err(WaveError::Ended);
        }
        if !(dt > 0.0 && dt <= self.dt) {
            return Err(WaveError::OtherStep { dt, steps: 1, expected: self.dt });
        }
        self.state.run(WaveCommand::StepAhead { fraction: dt / self.dt })?;
        Ok(self.last_ahead())
    }

    /// Returns the result of the last call of [`WaveField::ahead`]. There must have been one since
    /// the field was created.
    pub fn last_ahead(&self) -> WaveView<'_> {
        WaveView { field: self, stored: StoredWave::Ahead }
    }

    /// Returns the values at each receiver at the times 0, dt, 2 dt, … up to the last full step, as
    /// the scheme gives them. [`corrected_traces`](super::corrected_traces) removes the error in
    /// time if the problem has [`TimeDispersion::Corrected`](super::TimeDispersion::Corrected).
    pub fn seismograms(&self) -> Result<Vec<Vec<f64>>, WaveError> {
        let samples = self.state.run(WaveCommand::Samples)?.column().into_f64();
        let trace =
            |receiver: usize| samples.iter().skip(receiver).step_by(self.receivers).copied().collect();
        Ok((0..self.receivers).map(trace).collect())
    }

    /// Returns the complete state as columns: u, u_previous, psi and zeta of each layer, and
    /// samples.
    pub fn columns(&self) -> Result<Vec<NamedColumn>, WaveError> {
        Ok(self.state.run(WaveCommand::State)?.columns())
    }

    /// Returns the number of full steps since time 0.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Returns the length of a step.
    pub fn dt(&self) -> f64 {
        self.dt
    }

    /// Returns the grid.
    pub fn grid(&self) -> &WaveGrid {
        &self.grid
    }

    /// Returns the conditions on the sides.
    pub fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Returns the precision of state and arithmetic.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns true if the velocity differs between nodes.
    pub fn is_variable(&self) -> bool {
        self.is_variable
    }

    /// Returns the device of the field, `None` on the host.
    pub fn device(&self) -> Option<&Device> {
        self.state.description().device.as_ref()
    }

    /// Returns the name of the strategy for reports, for example "AVX-512, 4 planes per sweep".
    pub fn strategy_name(&self) -> String {
        self.state.description().strategy_name.clone()
    }
}

/// A plane of nodes of a grid. Its nodes are in the order of the axes: x before y before z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridPlane {
    /// Axis that is perpendicular to the plane: 0 for x, 1 for y, 2 for z.
    pub normal: usize,
    /// Node of the plane along this axis.
    pub node: usize,
}

impl GridPlane {
    /// Returns the axes of the plane. The first one is the faster one.
    pub fn axes(&self) -> [usize; 2] {
        match self.normal {
            0 => [1, 2],
            1 => [0, 2],
            _ => [0, 1],
        }
    }

    /// Returns the values of the plane from those of all nodes of a grid.
    pub fn values_of<T: Copy>(&self, nodes: [usize; 3], values: &[T]) -> Vec<T> {
        let strides = [1, nodes[0], nodes[0] * nodes[1]];
        let [right, up] = self.axes();
        let first = self.node * strides[self.normal];
        let row =
            |j: usize| (0..nodes[right]).map(move |i| values[first + j * strides[up] + i * strides[right]]);
        (0..nodes[up]).flat_map(row).collect()
    }

    /// Returns the part of the plane in the slices `owned` of a grid, as a plane of these slices.
    /// `None` if there is none. The nodes of the parts of consecutive slices follow one another.
    pub(super) fn in_slices(&self, grid: &WaveGrid, owned: &Range<usize>) -> Option<Self> {
        if self.normal != grid.depth_axis() {
            return Some(*self);
        }
        owned.contains(&self.node).then(|| Self { node: self.node - owned.start, ..*self })
    }

    /// Returns the number of nodes of the part in the slices `owned`.
    pub(super) fn nodes_in_slices(&self, grid: &WaveGrid, owned: &Range<usize>) -> usize {
        let mut nodes = grid.nodes;
        nodes[grid.depth_axis()] = owned.len();
        let [right, up] = self.axes().map(|axis| nodes[axis]);
        self.in_slices(grid, owned).map_or(0, |_| right * up)
    }
}

/// The state of a [`WaveField`], or the state a short time later.
#[derive(Clone, Copy, Debug)]
pub struct WaveView<'a> {
    field: &'a WaveField,
    stored: StoredWave,
}

impl WaveView<'_> {
    /// Returns energy and largest amplitude. The energy of a look ahead is that of the state.
    pub fn measures(&self) -> Result<WaveMeasures, WaveError> {
        Ok(self.run(WaveCommand::Measures { field: self.stored })?.measures())
    }

    /// Returns the values of all nodes in their precision.
    pub fn column(&self) -> Result<FieldColumn, WaveError> {
        Ok(self.run(WaveCommand::Values { field: self.stored })?.column())
    }

    /// Returns the values of a plane of the grid in their precision. From a device only these are
    /// copied.
    pub fn plane(&self, plane: GridPlane) -> Result<FieldColumn, WaveError> {
        Ok(self.run(WaveCommand::Plane { field: self.stored, plane })?.column())
    }

    /// Returns the means of a plane of the grid over the pixels of a picture of it, and the range
    /// of its values. From a device only the means are copied.
    pub fn pixel_means(&self, plane: GridPlane, weights: &PixelWeights) -> Result<PixelMeans, WaveError> {
        let (field, division) = (self.stored, weights.division());
        Ok(self.run(WaveCommand::PixelMeans { field, plane, division })?.means())
    }

    /// Returns the values of all nodes in f64.
    pub fn values(&self) -> Result<Vec<f64>, WaveError> {
        Ok(self.column()?.into_f64())
    }

    /// Fails if a value is NaN or infinite. The error names the first such node.
    pub fn check_finite(&self) -> Result<(), WaveError> {
        let largest = self.run(WaveCommand::Largest { field: self.stored })?.numbers();
        if largest[0].is_finite() {
            return Ok(());
        }
        match self.column()?.first_not_finite() {
            Some((index, value)) => Err(WaveError::not_finite(&self.field.grid, index, value)),
            None => Ok(()),
        }
    }

    fn run(&self, command: WaveCommand) -> Result<TeamReply<WaveMeasures>, WaveError> {
        self.field.state.run(command)
    }
}

/// Returns a field on the host with a stored state.
fn restored<R: Scalar>(
    problem: &WaveProblem,
    dt: f64,
    step: u64,
    columns: Vec<NamedColumn>,
) -> Result<Box<dyn LedField<WavePhysics>>, WaveError> {
    let state = state_of_columns::<R>(problem, step, columns)?;
    Ok(Box::new(TeamWave::on_host(Medium::new(problem, dt), state)?))
}
