//! Operations of a wave field, without the type of its numbers.

use std::fmt::Debug;

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_model::Precision;
use orrery_model::grid::{PixelMeans, PixelWeights};

use super::device::WaveDeviceStrategy;
use super::field::{GridPlane, WaveColumn};
use super::host::StoredWave;
use super::problem::check_len;
use super::team::TeamWave;
use super::{LayerMemory, Medium, WaveError, WaveMeasures, WaveProblem, WaveState};
use crate::Scalar;
use crate::heat::FieldColumn;

/// Operations of a field of f32 or f64.
pub(super) trait WaveWorker: Debug + Send + Sync {
    fn advance(&mut self, steps: u64) -> Result<(), WaveError>;
    fn step_ahead(&mut self, fraction: f64) -> Result<(), WaveError>;
    fn end_ahead(&mut self) -> Result<(), WaveError>;
    fn step(&self) -> u64;
    fn wait(&self) -> Result<(), WaveError>;
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
        team: &Team,
        device: Option<(&Device, Option<WaveDeviceStrategy>)>,
    ) -> Result<Box<dyn WaveWorker>, WaveError>;
}

/// Names of the columns that every state has. Without receivers, `samples` may be missing.
const COLUMNS: [&str; 3] = ["u", "u_previous", "samples"];

/// Returns the columns of a state.
pub(super) fn state_columns<R: Scalar>(state: WaveState<R>) -> Vec<WaveColumn> {
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
    // Without receivers, a checkpoint has no samples.
    let samples = if samples == 0 { Vec::new() } else { take(COLUMNS[2], samples)? };
    let mut layers = LayerMemory::<R>::zeros(problem.grid(), problem.sides());
    for layer in &mut layers {
        let side = layer.side.as_str();
        layer.psi = take(&format!("psi_{side}"), layer.psi.len())?;
        layer.zeta = take(&format!("zeta_{side}"), layer.zeta.len())?;
    }
    let state = WaveState { step, now, previous, layers, samples };
    let medium = Medium::<R>::new(problem, dt);
    Ok(Box::new(TeamWave::on_host(medium, state)?))
}
