//! Commands of the leader of a wave field.

use orrery_model::grid::PixelDivision;
use serde::{Deserialize, Serialize};

use crate::wave::{GridPlane, StoredWave};

/// First message of the leader. The state of the slabs follows if it has one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct WaveStart {
    pub(super) dt: f64,
    pub(super) step: u64,
    /// False for a field at rest at time 0.
    pub(super) has_state: bool,
    pub(super) is_on_device: bool,
}

/// An operation of all ranks. The methods of [`super::WaveWorker`] have the same names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(in crate::wave) enum WaveCommand {
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
    End,
}
