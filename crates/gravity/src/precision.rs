//! Precision of the kernels. See `precision.cu`.

use orrery_device::kernel_source;
use orrery_model::Precision;

/// Text of `precision.cu`, for kernel files with conditions on PRECISION.
pub(crate) const PRECISION_SOURCE: &str = kernel_source!("precision.cu");

/// Returns the definition of PRECISION for a kernel file that contains [`PRECISION_SOURCE`].
pub(crate) fn precision_definition(precision: Precision) -> (&'static str, String) {
    let name = match precision {
        Precision::Single => "PRECISION_SINGLE",
        Precision::Mixed => "PRECISION_MIXED",
        Precision::Double => "PRECISION_DOUBLE",
    };
    ("PRECISION", name.to_owned())
}
