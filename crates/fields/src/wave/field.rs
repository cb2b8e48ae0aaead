//! The state of a wave problem with all operations of a run.

use std::fmt::Debug;

use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::wave::{Sides, WaveGrid};
use rayon::prelude::*;

use super::cpu::WaveCpuStrategy;
use super::energy::WaveMeasures;
use super::host::{HostWave, StoredWave, check_finite};
use super::problem::check_len;
use super::{LayerMemory, Medium, WaveError, WaveProblem, WaveState};
use crate::Scalar;
use crate::heat::FieldColumn;

/// A named column of a state, as checkpoints store it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveColumn {
    /// Name, for example "u" or "psi_x_min".
    pub name: String,
    /// The values.
    pub values: FieldColumn,
}

/// A field of acoustic waves.
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
/// // 20 Hz has 10 points per wavelength, and 50 Hz has 4.
/// assert_eq!(problem.resolved_frequency(), 50.0);
///
/// let dt = 2e-3;
/// let mut field = WaveField::new(&problem, dt)?;
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
    worker: Box<dyn WaveWorker>,
}

impl WaveField {
    /// Creates a field at rest at time 0, for steps of length `dt`.
    pub fn new(problem: &WaveProblem, dt: f64) -> Result<Self, WaveError> {
        problem.check_step(dt)?;
        let worker: Box<dyn WaveWorker> = match problem.precision() {
            Precision::Single => worker_at_rest::<f32>(problem, dt),
            _ => worker_at_rest::<f64>(problem, dt),
        };
        Ok(Self::with_worker(problem, dt, worker))
    }

    /// Continues from a stored state after `step` steps of length `dt`: the result of
    /// [`WaveField::columns`].
    pub fn restore(
        problem: &WaveProblem,
        dt: f64,
        step: u64,
        columns: Vec<WaveColumn>,
    ) -> Result<Self, WaveError> {
        problem.check_step(dt)?;
        let worker: Box<dyn WaveWorker> = match problem.precision() {
            Precision::Single => restored_worker::<f32>(problem, dt, step, columns, |column| match column {
                FieldColumn::Single(values) => Ok(values),
                FieldColumn::Double(_) => Err(Precision::Double),
            })?,
            _ => restored_worker::<f64>(problem, dt, step, columns, |column| match column {
                FieldColumn::Double(values) => Ok(values),
                FieldColumn::Single(_) => Err(Precision::Single),
            })?,
        };
        Ok(Self::with_worker(problem, dt, worker))
    }

    fn with_worker(problem: &WaveProblem, dt: f64, worker: Box<dyn WaveWorker>) -> Self {
        Self {
            grid: *problem.grid(),
            sides: *problem.sides(),
            precision: problem.precision(),
            dt,
            receivers: problem.receivers().len(),
            is_variable: matches!(problem.velocity(), super::Velocity::Field(_)),
            is_ended: false,
            worker,
        }
    }

    /// Returns an upper bound of the bytes that a field needs in host memory. The memory of the
    /// [`WaveProblem`] and of seismograms is not included.
    pub fn needed_bytes(grid: &WaveGrid, sides: &Sides, precision: Precision, is_variable: bool) -> u64 {
        match precision {
            Precision::Single => HostWave::<f32>::needed_bytes(grid, sides, is_variable),
            _ => HostWave::<f64>::needed_bytes(grid, sides, is_variable),
        }
    }

    /// Computes `steps` steps of length `dt`, which must be the step of the field.
    ///
    /// A single step may be shorter. It ends the computation: the state is that of
    /// [`WaveField::ahead`], and no step can follow.
    pub fn advance(&mut self, dt: f64, steps: u64) -> Result<(), WaveError> {
        if self.is_ended {
            return Err(WaveError::Ended);
        }
        if dt == self.dt {
            return self.worker.advance(steps);
        }
        if steps != 1 || !(dt > 0.0 && dt < self.dt) {
            return Err(WaveError::OtherStep { dt, steps, expected: self.dt });
        }
        self.worker.step_ahead(dt / self.dt)?;
        self.worker.end_ahead()?;
        self.is_ended = true;
        Ok(())
    }

    /// Returns the current state.
    pub fn now(&self) -> WaveView<'_> {
        WaveView { field: self, stored: StoredWave::State }
    }

    /// Returns the field at a time `dt` later, at most one step, from a parabola through three times.
    /// The state does not change.
    pub fn ahead(&mut self, dt: f64) -> Result<WaveView<'_>, WaveError> {
        if self.is_ended {
            return Err(WaveError::Ended);
        }
        if !(dt > 0.0 && dt <= self.dt) {
            return Err(WaveError::OtherStep { dt, steps: 1, expected: self.dt });
        }
        self.worker.step_ahead(dt / self.dt)?;
        Ok(self.last_ahead())
    }

    /// Returns the result of the last call of [`WaveField::ahead`]. There must have been one since the
    /// field was created.
    pub fn last_ahead(&self) -> WaveView<'_> {
        WaveView { field: self, stored: StoredWave::Ahead }
    }

    /// Returns the values at each receiver at the times 0, dt, 2 dt, … up to the last full step.
    pub fn seismograms(&self) -> Result<Vec<Vec<f64>>, WaveError> {
        let samples = to_f64(self.worker.samples()?);
        let trace =
            |receiver: usize| samples.iter().skip(receiver).step_by(self.receivers).copied().collect();
        Ok((0..self.receivers).map(trace).collect())
    }

    /// Returns the complete state as columns: u, u_previous, psi and zeta of each layer, and samples.
    pub fn columns(&self) -> Result<Vec<WaveColumn>, WaveError> {
        self.worker.columns()
    }

    /// Returns the number of full steps since time 0.
    pub fn step(&self) -> u64 {
        self.worker.step()
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
        self.worker.device()
    }

    /// Returns the name of the strategy for reports, for example "AVX-512, 2 planes per sweep".
    pub fn strategy_name(&self) -> String {
        self.worker.strategy_name()
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
        self.field.worker.measures(self.stored)
    }

    /// Returns the values of all nodes in their precision.
    pub fn column(&self) -> Result<FieldColumn, WaveError> {
        self.field.worker.column(self.stored)
    }

    /// Returns the values of all nodes in f64.
    pub fn values(&self) -> Result<Vec<f64>, WaveError> {
        Ok(to_f64(self.column()?))
    }

    /// Fails if a value is NaN or infinite. The error names the first such node.
    pub fn check_finite(&self) -> Result<(), WaveError> {
        if self.field.worker.largest(self.stored)?.is_finite() {
            return Ok(());
        }
        let grid = &self.field.grid;
        match self.column()? {
            FieldColumn::Single(values) => check_finite(grid, &values),
            FieldColumn::Double(values) => check_finite(grid, &values),
        }
    }
}

fn to_f64(column: FieldColumn) -> Vec<f64> {
    match column {
        FieldColumn::Single(values) => values.into_par_iter().map(f64::from).collect(),
        FieldColumn::Double(values) => values,
    }
}

/// Operations that the host and devices implement.
trait WaveWorker: Debug + Send + Sync {
    fn advance(&mut self, steps: u64) -> Result<(), WaveError>;
    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError>;
    fn end_ahead(&mut self) -> Result<(), WaveError>;
    fn step(&self) -> u64;
    fn measures(&self, field: StoredWave) -> Result<WaveMeasures, WaveError>;
    fn largest(&self, field: StoredWave) -> Result<f64, WaveError>;
    fn column(&self, field: StoredWave) -> Result<FieldColumn, WaveError>;
    fn samples(&self) -> Result<FieldColumn, WaveError>;
    fn columns(&self) -> Result<Vec<WaveColumn>, WaveError>;
    fn device(&self) -> Option<&Device>;
    fn strategy_name(&self) -> String;
}

impl<R: Scalar> WaveWorker for HostWave<R> {
    fn advance(&mut self, steps: u64) -> Result<(), WaveError> {
        HostWave::advance(self, steps);
        Ok(())
    }

    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError> {
        HostWave::step_ahead(self, fraction);
        Ok(())
    }

    fn end_ahead(&mut self) -> Result<(), WaveError> {
        HostWave::end_ahead(self);
        Ok(())
    }

    fn step(&self) -> u64 {
        HostWave::step(self)
    }

    fn measures(&self, field: StoredWave) -> Result<WaveMeasures, WaveError> {
        Ok(HostWave::measures(self, field))
    }

    fn largest(&self, field: StoredWave) -> Result<f64, WaveError> {
        Ok(HostWave::largest(self, field))
    }

    fn column(&self, field: StoredWave) -> Result<FieldColumn, WaveError> {
        Ok(R::into_column(self.values(field)))
    }

    fn samples(&self) -> Result<FieldColumn, WaveError> {
        Ok(R::into_column(HostWave::samples(self).to_vec()))
    }

    fn columns(&self) -> Result<Vec<WaveColumn>, WaveError> {
        Ok(state_columns(self.state()))
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn strategy_name(&self) -> String {
        self.strategy().name()
    }
}

/// Names of the columns that every state has.
const COLUMNS: [&str; 3] = ["u", "u_previous", "samples"];

/// Returns the columns of a state.
fn state_columns<R: Scalar>(state: WaveState<R>) -> Vec<WaveColumn> {
    let column =
        |name: &str, values: Vec<R>| WaveColumn { name: name.into(), values: R::into_column(values) };
    let mut columns = vec![
        column(COLUMNS[0], state.now),
        column(COLUMNS[1], state.previous),
        column(COLUMNS[2], state.samples),
    ];
    for LayerMemory { side, psi, zeta } in state.layers {
        columns.push(column(&format!("psi_{}", side.as_str()), psi));
        columns.push(column(&format!("zeta_{}", side.as_str()), zeta));
    }
    columns
}

fn worker_at_rest<R: Scalar>(problem: &WaveProblem, dt: f64) -> Box<dyn WaveWorker> {
    let medium = Medium::<R>::new(problem, dt);
    let state = WaveState::at_rest(&medium);
    Box::new(HostWave::new(medium, &state, WaveCpuStrategy::resolve()))
}

/// Returns a worker with a stored state. `unwrap` returns the values of a column, or its precision if
/// that is another one.
fn restored_worker<R: Scalar>(
    problem: &WaveProblem,
    dt: f64,
    step: u64,
    mut columns: Vec<WaveColumn>,
    unwrap: fn(FieldColumn) -> Result<Vec<R>, Precision>,
) -> Result<Box<dyn WaveWorker>, WaveError> {
    let mut take = |name: &str, expected: usize| {
        let position = columns.iter().position(|column| column.name == name);
        let position = position.ok_or_else(|| WaveError::MissingColumn(name.into()))?;
        let values = unwrap(columns.swap_remove(position).values).map_err(|found| {
            WaveError::StoredPrecision { column: name.into(), found, expected: R::PRECISION }
        })?;
        check_len(&format!("column {name}"), values.len(), expected)?;
        Ok::<_, WaveError>(values)
    };
    let nodes = problem.grid().len();
    let (now, previous) = (take(COLUMNS[0], nodes)?, take(COLUMNS[1], nodes)?);
    let samples = (step as usize).saturating_add(1).saturating_mul(problem.receivers().len());
    let samples = take(COLUMNS[2], samples)?;
    let mut layers = LayerMemory::<R>::zeros(problem.grid(), problem.sides());
    for layer in &mut layers {
        let side = layer.side.as_str();
        layer.psi = take(&format!("psi_{side}"), layer.psi.len())?;
        layer.zeta = take(&format!("zeta_{side}"), layer.zeta.len())?;
    }
    let state = WaveState { step, now, previous, layers, samples };
    let medium = Medium::<R>::new(problem, dt);
    Ok(Box::new(HostWave::new(medium, &state, WaveCpuStrategy::resolve())))
}
