//! Checks that a device computes correctly, for `orrery selftest` and the tests.

use crate::device::Device;

/// A named check of a device. Each crate with kernels provides a list of them.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name in the form "crate: subject", for example "primitives: reduce f32".
    pub name: String,
    /// Runs the check. The error is one line that says what is wrong.
    pub run: fn(&Device) -> Result<(), String>,
}
