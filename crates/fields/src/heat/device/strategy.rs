//! Launch parameters of the kernel `heat.cu`.

use orrery_device::{Device, DeviceKind};
use orrery_model::{Precision, format_count};
use serde::{Deserialize, Serialize};

/// Launch parameters of the kernel. All of them give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Number of times that a launch fills the device with blocks. More waves have shorter chunks
    /// of rows.
    pub waves: u32,
}

/// Largest number of steps per pass. With more, a strip would have few columns between its halos.
pub const MAX_STEPS_PER_PASS: u32 = 12;

/// Largest number of steps per pass with a conductivity per node. Each step keeps a row of faces in
/// registers.
pub const MAX_VARIABLE_STEPS_PER_PASS: u32 = 4;

/// Number of nodes from which a grid keeps an H200 busy with long passes.
const LARGE_GRID: usize = 1 << 26;
/// Number of nodes below which launches, not steps, take most of the time on an H200.
const SMALL_GRID: usize = 1 << 22;

impl HeatDeviceStrategy {
    /// Returns the fastest strategy that was measured for a grid of `nodes` nodes, with or without
    /// a conductivity per node.
    ///
    /// Measured on an H200, in Gpoint/s. 16384² nodes, single: 2266 with 8 steps per pass, 2109
    /// with 7, 1970 with 6, 1792 with 4, 505 with 1. Blocks of 4 warps instead of 2 reach 2217, 1
    /// wave instead of 6 less than 2100. Double: 995 with 8 steps, 965 with 6, 244 with 1.
    /// Conductivity per node: 589 with 4 steps, 544 with 3, 460 with 2, 307 with 1, and in double
    /// 370 with 3, 251 with 2. 4096² nodes: 1188 with 6 steps, 1039 with 8. 1024² nodes: 197 with 2
    /// steps. `orrery tune heat` repeats the measurement.
    pub fn default_for(device: &Device, nodes: usize, precision: Precision, is_variable: bool) -> Self {
        let is_double = precision == Precision::Double;
        if !Self::has_warps(device) {
            return Self::WITHOUT_WARPS;
        }
        if nodes < SMALL_GRID {
            return Self { steps_per_pass: 2, warps_per_block: 4, waves: 1, ..Self::GPU };
        }
        match (is_variable, is_double) {
            (true, false) => {
                Self { steps_per_pass: 4, rows_in_flight: 4, warps_per_block: 4, waves: 8, ..Self::GPU }
            }
            (true, true) => Self { steps_per_pass: 3, warps_per_block: 4, waves: 4, ..Self::GPU },
            (false, _) if nodes < LARGE_GRID => {
                Self { steps_per_pass: 6, warps_per_block: 4, waves: 2, ..Self::GPU }
            }
            (false, true) => Self { warps_per_block: 4, waves: 2, ..Self::GPU },
            (false, false) => Self::GPU,
        }
    }

    /// Returns the fastest strategy that was measured for one step per pass, on an H200 with 16384²
    /// nodes.
    pub fn one_step_for(device: &Device, precision: Precision, is_variable: bool) -> Self {
        if !Self::has_warps(device) {
            return Self { steps_per_pass: 1, ..Self::WITHOUT_WARPS };
        }
        let (rows_in_flight, waves) = match (is_variable, precision) {
            (false, Precision::Double) => (4, 16),
            (false, _) => (6, 64),
            (true, Precision::Double) => (3, 2),
            (true, _) => (4, 8),
        };
        Self { steps_per_pass: 1, rows_in_flight, warps_per_block: 4, waves, ..Self::GPU }
    }

    /// Default for large grids with uniform conductivity in single precision.
    pub(super) const GPU: Self =
        Self { steps_per_pass: 8, vectors_per_lane: 1, rows_in_flight: 3, warps_per_block: 2, waves: 6 };

    /// The compiler of PoCL is slow, so there are few rows to unroll.
    const WITHOUT_WARPS: Self =
        Self { steps_per_pass: 4, rows_in_flight: 1, warps_per_block: 1, waves: 1, ..Self::GPU };

    fn has_warps(device: &Device) -> bool {
        device.properties().has_warp_shuffle && device.properties().kind == DeviceKind::Gpu
    }

    /// Returns the strategies that the tuner tries, the default first.
    pub fn candidates(device: &Device, nodes: usize, precision: Precision, is_variable: bool) -> Vec<Self> {
        let default = Self::default_for(device, nodes, precision, is_variable);
        if !Self::has_warps(device) {
            return vec![default];
        }
        let steps: &[u32] = if is_variable { &[4, 3, 2, 1] } else { &[8, 6, 4, 2, 7, 5, 10, 1] };
        let mut candidates = vec![default, Self::one_step_for(device, precision, is_variable)];
        for (rows_in_flight, warps_per_block) in [(3, 4), (3, 2), (4, 4), (6, 4)] {
            for &steps_per_pass in steps {
                for waves in [1, 2, 4, 6, 8] {
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

    /// Returns a name for reports, for example "8 steps per pass, 3 rows ahead, 2 warps, 6 waves".
    pub fn name(&self) -> String {
        let count = |n: u32, one: &str, many: &str| format_count(u64::from(n), one, many);
        let mut name = format!(
            "{} per pass, {} ahead, {}, {}",
            count(self.steps_per_pass, "step", "steps"),
            count(self.rows_in_flight, "row", "rows"),
            count(self.warps_per_block, "warp", "warps"),
            count(self.waves, "wave", "waves"),
        );
        if self.vectors_per_lane > 1 {
            name.push_str(&format!(", {} vectors per lane", self.vectors_per_lane));
        }
        name
    }

    /// Returns the numbers of columns that a strip stores and loads, for vectors of `vector_width`
    /// numbers.
    pub fn strip_columns(&self, steps: u32, vector_width: u32) -> (u64, u64) {
        let columns_per_lane = self.vectors_per_lane * vector_width;
        let halo = steps.next_multiple_of(columns_per_lane);
        let loaded = LANES * columns_per_lane;
        (u64::from(loaded - 2 * halo), u64::from(loaded))
    }

    /// Returns the threads per block.
    pub(super) fn block_size(&self) -> u32 {
        self.warps_per_block * LANES
    }
}

/// Lanes per warp, as in the kernel dialect.
const LANES: u32 = 32;
