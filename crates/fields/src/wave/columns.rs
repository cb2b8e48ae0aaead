//! Columns of a state, as checkpoints store them.

use super::problem::check_len;
use super::{LayerMemory, WaveError, WaveProblem, WaveState};
use crate::{NamedColumn, Scalar};

/// Names of the columns that every state has. Without receivers, `samples` may be missing.
const COLUMNS: [&str; 3] = ["u", "u_previous", "samples"];

/// Returns the columns of a state.
pub(super) fn state_columns<R: Scalar>(state: WaveState<R>) -> Vec<NamedColumn> {
    let column =
        |name: &str, values: Vec<R>| NamedColumn { name: name.into(), values: R::into_column(values) };
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

/// Returns a stored state after `step` steps.
pub(super) fn state_of_columns<R: Scalar>(
    problem: &WaveProblem,
    step: u64,
    mut columns: Vec<NamedColumn>,
) -> Result<WaveState<R>, WaveError> {
    let mut take = |name: &str, expected: usize| {
        let position = columns.iter().position(|column| column.name == name);
        let position = position.ok_or_else(|| WaveError::MissingColumn(name.into()))?;
        let values = R::from_column(columns.swap_remove(position).values).map_err(|found| {
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
    Ok(WaveState { step, now, previous, layers, samples })
}
