//! Implementations of the operations of a wave field, on the host and on devices.

use std::fmt::Debug;

use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::grid::{PixelMeans, PixelWeights};

use super::cpu::WaveCpuStrategy;
use super::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use super::field::{GridPlane, WaveColumn, WaveDeviceSetup};
use super::host::{HostWave, StoredWave};
use super::problem::check_len;
use super::{LayerMemory, Medium, WaveError, WaveMeasures, WaveProblem, WaveState};
use crate::Scalar;
use crate::heat::FieldColumn;
use crate::pixels::pixel_means_of;

/// Operations that the host and devices implement.
pub(super) trait WaveWorker: Debug + Send + Sync {
    fn advance(&mut self, steps: u64) -> Result<(), WaveError>;
    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError>;
    fn end_ahead(&mut self) -> Result<(), WaveError>;
    fn step(&self) -> u64;
    fn measures(&self, field: StoredWave) -> Result<WaveMeasures, WaveError>;
    fn largest(&self, field: StoredWave) -> Result<f64, WaveError>;
    fn column(&self, field: StoredWave) -> Result<FieldColumn, WaveError>;
    fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<FieldColumn, WaveError>;
    fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, WaveError>;
    fn samples(&self) -> Result<FieldColumn, WaveError>;
    fn columns(&self) -> Result<Vec<WaveColumn>, WaveError>;
    fn device(&self) -> Option<&Device>;
    fn strategy_name(&self) -> String;
    fn moved_to(
        self: Box<Self>,
        device: &Device,
        strategy: Option<WaveDeviceStrategy>,
    ) -> Result<Box<dyn WaveWorker>, WaveError>;
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

    fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<FieldColumn, WaveError> {
        Ok(R::into_column(HostWave::plane(self, field, plane)))
    }

    fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, WaveError> {
        Ok(pixel_means_of(&HostWave::plane(self, field, plane), weights))
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

    fn moved_to(
        self: Box<Self>,
        device: &Device,
        strategy: Option<WaveDeviceStrategy>,
    ) -> Result<Box<dyn WaveWorker>, WaveError> {
        let (medium, state) = self.into_parts();
        moved(device, medium, &state, strategy)
    }
}

impl<R: Scalar> WaveWorker for DeviceWave<R> {
    fn advance(&mut self, steps: u64) -> Result<(), WaveError> {
        Ok(DeviceWave::advance(self, steps)?)
    }

    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError> {
        Ok(DeviceWave::step_ahead(self, fraction)?)
    }

    fn end_ahead(&mut self) -> Result<(), WaveError> {
        Ok(DeviceWave::end_ahead(self)?)
    }

    fn step(&self) -> u64 {
        DeviceWave::step(self)
    }

    fn measures(&self, field: StoredWave) -> Result<WaveMeasures, WaveError> {
        Ok(DeviceWave::measures(self, field)?)
    }

    fn largest(&self, field: StoredWave) -> Result<f64, WaveError> {
        Ok(DeviceWave::largest(self, field)?)
    }

    fn column(&self, field: StoredWave) -> Result<FieldColumn, WaveError> {
        Ok(R::into_column(self.values(field)?))
    }

    fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<FieldColumn, WaveError> {
        Ok(R::into_column(DeviceWave::plane(self, field, plane)?))
    }

    fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, WaveError> {
        Ok(DeviceWave::pixel_means(self, field, plane, weights)?)
    }

    fn samples(&self) -> Result<FieldColumn, WaveError> {
        Ok(R::into_column(DeviceWave::samples(self)?))
    }

    fn columns(&self) -> Result<Vec<WaveColumn>, WaveError> {
        Ok(state_columns(self.state()?))
    }

    fn device(&self) -> Option<&Device> {
        Some(DeviceWave::device(self))
    }

    fn strategy_name(&self) -> String {
        self.strategy().name()
    }

    fn moved_to(
        self: Box<Self>,
        device: &Device,
        strategy: Option<WaveDeviceStrategy>,
    ) -> Result<Box<dyn WaveWorker>, WaveError> {
        let state = self.state()?;
        moved(device, self.into_medium()?, &state, strategy)
    }
}

/// Uploads a medium and a state. Without a strategy, the default one is used.
fn moved<R: Scalar>(
    device: &Device,
    medium: Medium<R>,
    state: &WaveState<R>,
    strategy: Option<WaveDeviceStrategy>,
) -> Result<Box<dyn WaveWorker>, WaveError> {
    let default = || WaveDeviceStrategy::default_for(device, WaveShape::of_medium(&medium));
    let strategy = strategy.unwrap_or_else(default);
    Ok(Box::new(DeviceWave::new(device, medium, state, strategy)?))
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

/// Returns a worker for a field at rest, on the device of `setup` or on the host.
pub(super) fn worker_at_rest<R: Scalar>(
    problem: &WaveProblem,
    dt: f64,
    setup: Option<&WaveDeviceSetup>,
) -> Result<Box<dyn WaveWorker>, WaveError> {
    let medium = Medium::<R>::new(problem, dt);
    let state = WaveState::at_rest(&medium);
    match setup {
        Some(setup) => moved(&setup.device, medium, &state, Some(setup.strategy)),
        None => Ok(Box::new(HostWave::new(medium, &state, WaveCpuStrategy::resolve()))),
    }
}

/// Returns a worker on the host with a stored state. `unwrap` returns the values of a column, or
/// its precision if that is another one.
pub(super) fn restored_worker<R: Scalar>(
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
