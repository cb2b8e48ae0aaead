//! The plan of a run, before it starts.

use super::Size;
use crate::case::Case;
use crate::compute_device::ComputeDevice;

/// Memory and device that a run would need, for `run --dry-run`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The case, with the time of the start and absolute paths.
    pub case: Case,
    /// Number of elements of the system.
    pub size: Size,
    /// Memory of the host that the run needs, in bytes.
    pub host_bytes: u64,
    /// The device that would compute.
    pub selected: ComputeDevice,
    /// Memory of the device that the run needs, in bytes. `None` on the CPU.
    pub device_bytes: Option<u64>,
}
