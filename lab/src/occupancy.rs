//! Occupancy of the kernels of a ladder, for `orrery occupancy NAME`.

use orrery_device::Device;
use orrery_device::occupancy::SmLimits;
use orrery_measure::MeasureError;
use orrery_measure::occupancy::{BuiltKernels, KernelOccupancy, kernels_of_device};

use crate::ladder::{LadderEntry, LadderRequest};

/// Kernel files of the measurement of roofs, which is a part of every ladder.
const ROOF_FILES: [&str; 2] = ["ceiling.cu", "caches.cu"];

/// Builds the kernels of a ladder by a short measurement of it, and returns those whose title or
/// file contains `filter`.
pub fn kernels_of_ladder(
    device: &Device,
    limits: &'static SmLimits,
    entry: &'static LadderEntry,
    filter: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<BuiltKernels, MeasureError> {
    device.forget_builds();
    // The size with which the tests run every ladder. It takes seconds on any device.
    let n = (entry.sizes.opencl_cpu / 16).max(1);
    entry.run(LadderRequest { device: Some(device), n, tuning: None, progress })?;
    let is_selected = |kernel: &KernelOccupancy| {
        !ROOF_FILES.contains(&kernel.file.as_str())
            && (kernel.title().contains(filter) || kernel.file.contains(filter))
    };
    Ok(kernels_of_device(device, limits, is_selected)?)
}

#[cfg(test)]
mod tests {
    use orrery_device::testing::compile_only_cuda;
    use orrery_measure::occupancy::find_limits;

    use super::*;
    use crate::ladder::find_ladder;

    /// Resources of all kernels of a ladder, as NVRTC compiles them.
    #[test]
    fn kernels_of_a_ladder_have_their_occupancy() {
        let Some(cuda) = compile_only_cuda((9, 0)) else { return };
        let entry = find_ladder("banks").unwrap();
        let limits = find_limits((9, 0)).unwrap();
        let found = kernels_of_ladder(&cuda.device, limits, entry, "read", &mut |_| ()).unwrap();
        assert_eq!(found.kernels.len(), 1, "{found:?}");
        let kernel = &found.kernels[0];
        // Blocks of 1,024 threads, two of which are resident unless a thread has more than 32
        // registers.
        assert_eq!((kernel.needs.threads, kernel.needs.shared_bytes), (1024, 8192));
        let expected = if kernel.needs.registers <= 32 { 2 } else { 1 };
        assert_eq!(kernel.occupancy.blocks_per_sm, expected, "{kernel:?}");
        assert!(kernel.title().starts_with("read_banks BLOCK_SIZE=1024 "), "{kernel:?}");
        let lines = found.lines();
        assert!(lines.iter().any(|line| line.starts_with("  read_banks ")), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(found.to_json()["kernels"][0]["name"], "read_banks");
        assert!(found.plot("banks").to_svg().contains("occupancy of the kernels of banks"));
    }
}
