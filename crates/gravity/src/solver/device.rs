//! Force solvers on a device: the direct sum or the tree, whichever is faster for the number of
//! bodies.

use orrery_cluster::LinkError;
use orrery_device::{BuildTime, Device, DeviceError, DeviceKind, Kernel};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

pub use super::tree::device::ForceRequest;

use super::direct::device::{self as direct, DeviceDirect};
use super::tree::device::{self as tree, DeviceTree};
use crate::settings::{GravitySettings, SolverChoice};
use crate::share::{DeviceGather, SharedEvaluation};

/// Number of bodies from which a GPU uses the tree.
///
/// On an H200 the tree at theta = 0.6 is three times as fast as the direct sum at this number, and
/// the direct sum is still faster at half of it (`orrery bench crossover --device cuda`,
/// benchmarks/runs).
const MIN_TREE_BODIES_GPU: usize = 131_072;
/// Number of bodies from which OpenCL on a CPU uses the tree. With PoCL on two cores both solvers
/// took the same time at half of it.
const MIN_TREE_BODIES_OPENCL_CPU: usize = 16_384;

/// Force solver of a device, with its parameters.
///
/// Files contain the fields of the variant without a tag. The two variants have different fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeviceStrategy {
    /// Direct sum over all pairs.
    Direct(direct::DirectDeviceStrategy),
    /// Barnes-Hut tree.
    Tree(tree::TreeDeviceStrategy),
}

impl From<direct::DirectDeviceStrategy> for DeviceStrategy {
    fn from(strategy: direct::DirectDeviceStrategy) -> Self {
        Self::Direct(strategy)
    }
}

impl From<tree::TreeDeviceStrategy> for DeviceStrategy {
    fn from(strategy: tree::TreeDeviceStrategy) -> Self {
        Self::Tree(strategy)
    }
}

impl DeviceStrategy {
    /// Returns the default strategy for `n` bodies on `device` with these settings, without tuning.
    pub fn resolve(device: &Device, n: usize, settings: &GravitySettings) -> Self {
        let min_tree_bodies = match device.properties().kind {
            DeviceKind::Gpu => MIN_TREE_BODIES_GPU,
            DeviceKind::Cpu | DeviceKind::Other => MIN_TREE_BODIES_OPENCL_CPU,
        };
        let is_tree = match settings.solver {
            SolverChoice::Auto => n >= min_tree_bodies,
            SolverChoice::Direct => false,
            SolverChoice::Tree => true,
        };
        if is_tree {
            tree::TreeDeviceStrategy::default_for(device, settings.precision).into()
        } else {
            direct::DirectDeviceStrategy::default_for(device, n, settings.precision).into()
        }
    }

    /// Returns a short name of the solver for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Tree(_) => "tree",
        }
    }

    /// Returns the arithmetic of the forces.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Direct(direct) => direct.precision,
            Self::Tree(tree) => tree.precision,
        }
    }

    /// Describes the strategy in a few words.
    pub fn describe(&self) -> String {
        match self {
            Self::Direct(direct) => direct.describe(),
            Self::Tree(tree) => tree.describe(),
        }
    }

    /// Returns whether `device` can run this strategy.
    pub fn fits(&self, device: &Device) -> bool {
        match self {
            Self::Direct(direct) => direct.fits(device),
            Self::Tree(tree) => tree.fits(),
        }
    }

    /// Returns the bytes of scratch memory on the device for `n` bodies, in addition to the bodies.
    pub fn scratch_bytes(&self, device: &Device, n: usize) -> u64 {
        match self {
            Self::Direct(direct) => DeviceDirect::scratch_bytes(device, n, direct),
            Self::Tree(tree) => DeviceTree::scratch_bytes(device, n, tree),
        }
    }
}

/// A solver for `n` bodies on a device, with its kernels and scratch memory.
pub enum DeviceSolver {
    /// Direct sum over all pairs.
    Direct(Box<DeviceDirect>),
    /// Barnes-Hut tree.
    Tree(Box<DeviceTree>),
}

impl DeviceSolver {
    /// Creates a solver for `n` bodies. Their masses must be the same in every evaluation.
    pub fn new(device: &Device, n: usize, strategy: &DeviceStrategy) -> Result<Self, DeviceError> {
        Ok(match strategy {
            DeviceStrategy::Direct(strategy) => Self::Direct(DeviceDirect::new(device, n, strategy)?.into()),
            DeviceStrategy::Tree(strategy) => Self::Tree(DeviceTree::new(device, n, strategy)?.into()),
        })
    }

    /// Queues the computation of accelerations, and of potentials if requested. Does not wait for
    /// it.
    pub fn forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, acceleration, potential, .. } = *request;
        match self {
            Self::Direct(direct) => direct.forces(position, mass, g, eps, acceleration, potential),
            Self::Tree(tree) => tree.forces(&request.with_previous_if_read()),
        }
    }

    /// Does [`forces`](Self::forces) together with other ranks. Waits for all of them.
    pub(crate) fn shared_forces(
        &mut self,
        request: &ForceRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        match self {
            Self::Direct(direct) => direct.shared_forces(request, evaluation, gather),
            Self::Tree(tree) => tree.shared_forces(&request.with_previous_if_read(), evaluation, gather),
        }
    }

    /// Returns the kernel that takes most of the time and its block size, once it is built.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        match self {
            Self::Direct(direct) => direct.main_kernel(),
            Self::Tree(tree) => tree.main_kernel(),
        }
    }

    /// Returns the build time of each module built so far.
    pub fn build_times(&self) -> &[BuildTime] {
        match self {
            Self::Direct(direct) => direct.build_times(),
            Self::Tree(tree) => tree.build_times(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::direct::device::DirectKernel;
    use crate::solver::tree::device::{Order, TreeAlgorithm};

    /// A file contains the fields of the solver's strategy without a tag. Files from before the
    /// tree ran on devices can still be read, and neither strategy is read as the other.
    #[test]
    fn strategies_in_files_are_distinguished_by_their_fields() {
        let direct = direct::DirectDeviceStrategy {
            kernel: DirectKernel::PairsOnce,
            precision: Precision::Mixed,
            block: 64,
            targets: 4,
            unroll: 4,
            splits: 2,
        };
        let direct_json =
            r#"{"form":"pairs-once","precision":"mixed","block":64,"targets":4,"unroll":4,"splits":2}"#;
        let tree = tree::TreeDeviceStrategy {
            algorithm: TreeAlgorithm::Groups,
            precision: Precision::Double,
            order: Order::Octupole,
            leaf_size: 24,
            group_size: 16,
            walk_options: None,
        };
        for (strategy, json) in [
            (DeviceStrategy::from(direct), direct_json.to_owned()),
            (tree.into(), serde_json::to_string(&tree).unwrap()),
        ] {
            assert_eq!(serde_json::to_string(&strategy).unwrap(), json);
            assert_eq!(serde_json::from_str::<DeviceStrategy>(&json).unwrap(), strategy);
        }
        assert!(serde_json::from_str::<DeviceStrategy>(r#"{"form":"groups"}"#).is_err());
    }

    /// Earlier versions could serialise the kernels of lectures, which no run uses.
    #[test]
    fn kernels_of_lectures_are_refused() {
        let direct =
            r#"{"form":"fast-math","precision":"single","block":256,"targets":1,"unroll":128,"splits":1}"#;
        let message = serde_json::from_str::<direct::DirectDeviceStrategy>(direct).unwrap_err().to_string();
        assert!(message.starts_with("unknown variant `fast-math`, expected `tiled` or `pairs-once`"));
        let tree = r#"{"form":{"insertion":{"throttled":true,"waiting":"none","sorted":true,"walk":"vote"}},
            "precision":"single","order":"monopole","leaf_size":16,"group_size":32}"#;
        let message = serde_json::from_str::<tree::TreeDeviceStrategy>(tree).unwrap_err().to_string();
        assert!(message.starts_with("unknown variant `insertion`, expected `groups`"), "{message}");
        for text in [direct, tree] {
            serde_json::from_str::<DeviceStrategy>(text).unwrap_err();
        }
    }
}
