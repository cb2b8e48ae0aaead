//! Memory of the solvers on the CPU, kept from evaluation to evaluation.

use super::tree::OpeningData;
use crate::tree::{BodyGroup, Octree};

/// Memory of [`forces_into`](super::GravityCpuStrategy::forces_into). It contains no results that a
/// later evaluation reads.
#[derive(Debug, Default)]
pub struct CpuMemory {
    pub(super) tree: Octree,
    pub(super) groups: Vec<BodyGroup>,
    pub(super) opening: OpeningData,
    /// ax, ay, az and φ of each body in solver order.
    pub(super) results: Vec<[f64; 4]>,
}

/// A copy of a simulation gets its own memory when it evaluates forces.
impl Clone for CpuMemory {
    fn clone(&self) -> Self {
        Self::default()
    }
}
