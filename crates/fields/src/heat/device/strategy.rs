//! Launch parameters of the kernel `heat.cu`.

use orrery_device::{Device, DeviceKind};
use orrery_model::Precision;

/// Launch parameters of the kernel. All of them give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeatDeviceStrategy {
    /// Time steps per launch, 1 to [`MAX_STEPS_PER_PASS`]. With a conductivity per node at most
    /// [`MAX_VARIABLE_STEPS_PER_PASS`].
    pub steps_per_pass: u32,
    /// Vectors of 16 bytes per lane: 1 or 2.
    pub vectors_per_lane: u32,
    /// Rows that a warp loads ahead, at least 1. A row moves through three registers, so multiples
    /// of 3 need no copies between registers.
    pub rows_in_flight: u32,
    /// Warps per block: 1 to 16. Only 1 on a device without warps.
    pub warps_per_block: u32,
    /// Number of blocks per SM for which the compiler must leave enough registers.
    pub min_blocks_per_sm: u32,
    /// Number of times that a launch fills the device with blocks. More waves have shorter chunks
    /// of rows.
    pub waves: u32,
}

/// Largest number of steps per pass. With more, a strip would have few columns between its halos.
pub const MAX_STEPS_PER_PASS: u32 = 12;

/// Largest number of steps per pass with a conductivity per node. Each step keeps a row of faces in
/// registers.
pub const MAX_VARIABLE_STEPS_PER_PASS: u32 = 4;

impl HeatDeviceStrategy {
    /// Returns the fastest strategy that was measured, for a grid with or without a conductivity
    /// per node.
    pub fn default_for(device: &Device, precision: Precision, is_variable: bool) -> Self {
        if !device.properties().has_warp_shuffle || device.properties().kind != DeviceKind::Gpu {
            return Self::WITHOUT_WARPS;
        }
        let steps_per_pass = if is_variable { 2 } else { 8 };
        match precision {
            Precision::Double => Self { steps_per_pass, ..Self::GPU },
            Precision::Single | Precision::Mixed => Self { steps_per_pass, ..Self::GPU },
        }
    }

    const GPU: Self = Self {
        steps_per_pass: 8,
        vectors_per_lane: 1,
        rows_in_flight: 3,
        warps_per_block: 4,
        min_blocks_per_sm: 1,
        waves: 1,
    };

    /// The compiler of PoCL is slow, so there are few rows to unroll.
    const WITHOUT_WARPS: Self =
        Self { steps_per_pass: 4, rows_in_flight: 1, warps_per_block: 1, ..Self::GPU };

    /// Returns the strategies that the tuner tries, best guesses first.
    pub fn candidates(device: &Device, precision: Precision, is_variable: bool) -> Vec<Self> {
        let default = Self::default_for(device, precision, is_variable);
        if !device.properties().has_warp_shuffle {
            return vec![default];
        }
        let steps: &[u32] = if is_variable { &[2, 1, 3, 4] } else { &[8, 6, 10, 4, 12, 2, 1] };
        let mut candidates = vec![default];
        for &steps_per_pass in steps {
            for (rows_in_flight, warps_per_block) in [(3, 4), (3, 8), (6, 4), (2, 4), (3, 2)] {
                for waves in [1, 2, 4] {
                    let candidate =
                        Self { steps_per_pass, rows_in_flight, warps_per_block, waves, ..Self::GPU };
                    if !candidates.contains(&candidate) {
                        candidates.push(candidate);
                    }
                }
            }
        }
        candidates
    }

    /// Returns a short name, for example "8 steps per pass, 4 warps".
    pub fn name(&self) -> String {
        let steps = match self.steps_per_pass {
            1 => "1 step per pass".to_owned(),
            n => format!("{n} steps per pass"),
        };
        let Self { vectors_per_lane, rows_in_flight, warps_per_block, min_blocks_per_sm, waves, .. } = self;
        format!(
            "{steps}, {vectors_per_lane} vectors, {rows_in_flight} rows, {warps_per_block} warps, \
             {min_blocks_per_sm} blocks, {waves} waves"
        )
    }

    /// Returns the number of columns that a strip stores, for vectors of `vector_width` numbers.
    pub(super) fn stored_columns(&self, steps: u32, vector_width: u32) -> u32 {
        let columns_per_lane = self.vectors_per_lane * vector_width;
        let halo = steps.next_multiple_of(columns_per_lane);
        LANES * columns_per_lane - 2 * halo
    }

    /// Returns the threads per block.
    pub(super) fn block_size(&self) -> u32 {
        self.warps_per_block * LANES
    }
}

/// Lanes per warp, as in the kernel dialect.
const LANES: u32 = 32;
