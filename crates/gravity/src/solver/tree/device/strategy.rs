//! Strategies of the tree on a device, as data that benchmarks and the tuner can enumerate.

use orrery_device::{Device, DeviceKind};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use crate::tree::device::Order;

/// Set of kernels that builds and walks the tree. Checkpoints and tuning files contain its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeAlgorithm {
    /// Bodies are sorted along a curve, cells follow from the keys, and groups of neighbours walk
    /// together.
    Groups,
}

/// Compile-time options of the kernel that walks in groups. They change its speed and keep all bits
/// of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkOptions {
    /// Warps that must fit on an SM. More warps have fewer registers each.
    pub warps_per_sm: u32,
    /// Number of iterations of the loop over listed bodies that are unrolled.
    pub unroll_bodies: u32,
    /// Number of iterations of the loop over listed cells that are unrolled.
    pub unroll_cells: u32,
}

impl WalkOptions {
    /// Returns the fastest options on an H200 (`orrery bench tree --device cuda`). 24 warps per SM
    /// instead of 32 were 5% slower there.
    pub(super) fn default_for(device: &Device, precision: Precision, order: Order) -> Self {
        let warps_per_sm = match (precision, order) {
            (Precision::Double, _) => 16,
            (_, Order::Octupole) => 20,
            _ => 32,
        };
        // PoCL takes long to compile unrolled loops.
        let is_gpu = device.properties().kind == DeviceKind::Gpu;
        let [unroll_bodies, unroll_cells] = if is_gpu { [8, 4] } else { [1, 1] };
        Self { warps_per_sm, unroll_bodies, unroll_cells }
    }

    /// Returns the options other than the default that the tuner measures for quadrupoles. On an
    /// H200, 20 warps do not limit the registers, and 32 warps in f64 would spill some. There are
    /// no other options for OpenCL on a CPU.
    pub(crate) fn candidates(device: &Device, precision: Precision) -> Vec<Self> {
        if device.properties().kind != DeviceKind::Gpu {
            return Vec::new();
        }
        let default = Self::default_for(device, precision, Order::Quadrupole);
        let warps = if precision == Precision::Double { [16, 20, 24, 28] } else { [20, 24, 28, 32] };
        let unrolls = [(8, 4), (4, 2), (16, 8)];
        let of_warps = |warps_per_sm| {
            unrolls.map(|(unroll_bodies, unroll_cells)| Self { warps_per_sm, unroll_bodies, unroll_cells })
        };
        let mut all: Vec<Self> = warps.into_iter().flat_map(of_warps).collect();
        all.retain(|options| *options != default);
        all
    }

    fn fits(&self) -> bool {
        let Self { warps_per_sm, unroll_bodies, unroll_cells } = self;
        (1..=64).contains(warps_per_sm) && [unroll_bodies, unroll_cells].iter().all(|n| (1..=32).contains(*n))
    }
}

/// Strategy of the tree on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeDeviceStrategy {
    /// Set of kernels.
    #[serde(rename = "form")]
    pub algorithm: TreeAlgorithm,
    /// Arithmetic.
    pub precision: Precision,
    /// Highest multipole moment of a cell.
    pub order: Order,
    /// Largest number of bodies in a leaf.
    pub leaf_size: u32,
    /// Largest number of bodies in a group that walks together.
    pub group_size: u32,
    /// Options of the walk in groups. `None` means the default of the device. Files of earlier
    /// versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk_options: Option<WalkOptions>,
}

/// Sizes of leaves that the tuner measures. The first is the default. Opened leaves are summed body
/// by body, and larger leaves allow wider groups, which open more cells. So the errors of the
/// forces are at most those of the default. Leaves of 8 bodies had up to 29% larger ones
/// (`orrery bench tree --leaf 8 --theta 0.6`, 2,000 bodies).
const LEAF_SIZES: [u32; 4] = [16, 24, 32, 48];

impl TreeDeviceStrategy {
    /// Returns the default of a device.
    pub fn default_for(_device: &Device, precision: Precision) -> Self {
        Self {
            algorithm: TreeAlgorithm::Groups,
            precision,
            order: Order::Quadrupole,
            leaf_size: LEAF_SIZES[0],
            group_size: 32,
            walk_options: None,
        }
    }

    /// Returns the strategies that the tuner measures. The default is the first, and none has
    /// larger errors. Smaller leaves and groups would accept more cells.
    pub fn candidates(device: &Device, precision: Precision) -> Vec<Self> {
        let default = Self::default_for(device, precision);
        let walk_options = WalkOptions::candidates(device, precision);
        let walk_options = std::iter::once(None).chain(walk_options.into_iter().map(Some));
        walk_options
            .flat_map(|walk_options| LEAF_SIZES.map(|leaf_size| Self { leaf_size, walk_options, ..default }))
            .collect()
    }

    /// Returns whether there are kernels for these sizes and options. For example, a group has at
    /// most 32 bodies.
    pub fn fits(&self) -> bool {
        (1..=1024).contains(&self.leaf_size)
            && (1..=32).contains(&self.group_size)
            && self.walk_options.is_none_or(|options| options.fits())
    }

    /// Returns a short description, such as "groups of 32, leaves of 16, quadrupole".
    pub fn describe(&self) -> String {
        let Self { order, leaf_size, group_size, walk_options, .. } = self;
        let order = format!("{order:?}").to_lowercase();
        let sizes = format!("groups of {group_size}, leaves of {leaf_size}, {order}");
        match walk_options {
            None => sizes,
            Some(WalkOptions { warps_per_sm, unroll_bodies, unroll_cells }) => {
                format!("{sizes}, {warps_per_sm} warps per SM, unroll {unroll_bodies} and {unroll_cells}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_device::testing::{compile_only_cuda, test_devices};

    use super::*;

    #[test]
    fn candidates_differ_and_are_at_least_as_accurate_as_the_default() {
        let gpu = compile_only_cuda((9, 0)).map(|cuda| cuda.device);
        for (device, precision) in test_devices()
            .into_iter()
            .chain(gpu)
            .flat_map(|device| Precision::ALL.map(|p| (device.clone(), p)))
        {
            let default = TreeDeviceStrategy::default_for(&device, precision);
            let candidates = TreeDeviceStrategy::candidates(&device, precision);
            assert_eq!(candidates[0], default);
            let is_gpu = device.properties().kind == DeviceKind::Gpu;
            assert_eq!(candidates.len(), LEAF_SIZES.len() * if is_gpu { 12 } else { 1 });
            for (index, candidate) in candidates.iter().enumerate() {
                assert!(candidate.fits(), "{candidate:?}");
                assert!(!candidates[..index].contains(candidate), "{candidate:?}");
                let TreeDeviceStrategy { leaf_size, walk_options, .. } = *candidate;
                assert_eq!(*candidate, TreeDeviceStrategy { leaf_size, walk_options, ..default });
                assert!(leaf_size >= default.leaf_size);
                // The default has no second name.
                let order = default.order;
                assert_ne!(walk_options, Some(WalkOptions::default_for(&device, precision, order)));
            }
        }
    }

    /// Checkpoints of earlier versions have no options, and their runs continue with the same bits.
    #[test]
    fn options_in_files_are_optional_and_checked() {
        let text =
            r#"{"form":"groups","precision":"mixed","order":"quadrupole","leaf_size":16,"group_size":32}"#;
        let old: TreeDeviceStrategy = serde_json::from_str(text).unwrap();
        assert_eq!(old.walk_options, None);
        assert_eq!(serde_json::to_string(&old).unwrap(), text);
        let options = WalkOptions { warps_per_sm: 24, unroll_bodies: 16, unroll_cells: 8 };
        let tuned = TreeDeviceStrategy { walk_options: Some(options), ..old };
        let text = serde_json::to_string(&tuned).unwrap();
        assert_eq!(serde_json::from_str::<TreeDeviceStrategy>(&text).unwrap(), tuned);
        assert_eq!(
            tuned.describe(),
            "groups of 32, leaves of 16, quadrupole, 24 warps per SM, unroll 16 and 8"
        );
        assert!(tuned.fits());
        for wrong in [
            WalkOptions { warps_per_sm: 0, ..options },
            WalkOptions { warps_per_sm: 65, ..options },
            WalkOptions { unroll_bodies: 0, ..options },
            WalkOptions { unroll_cells: 33, ..options },
        ] {
            assert!(!TreeDeviceStrategy { walk_options: Some(wrong), ..old }.fits(), "{wrong:?}");
        }
    }
}
