//! A check that a device computes rightly, for `orrery selftest` and the tests.

use crate::device::Device;

/// A named question to a device. Rooms that have kernels offer lists of these.
#[derive(Clone, Debug)]
pub struct Check {
    /// "room: what".
    pub name: String,
    /// Says what is wrong, in one line.
    pub run: fn(&Device) -> Result<(), String>,
}
