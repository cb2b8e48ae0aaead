//! The solvers on a device: all pairs or the tree, whichever is quicker for so many bodies.

use std::time::Duration;

use orrery_device::{Device, DeviceError, DeviceKind, Kernel, Origin};
use serde::{Deserialize, Serialize};

pub use super::tree::device::ForceRequest;

use super::direct::device::{self as direct, DeviceDirect};
use super::tree::device::{self as tree, DeviceTree};
use crate::settings::{Acceptance, GravitySettings, Precision, SolverChoice};

/// From so many bodies on the tree at theta = 0.6 is quicker than all pairs: three times on an H200, where all pairs still win
/// at half as many (`orrery bench crossover --device cuda`, benchmarks/runs).
const TREE_FROM: usize = 131_072;
/// The same where OpenCL runs on a processor: with PoCL on two cores both took the same time at half as many.
const TREE_FROM_ON_A_PROCESSOR: usize = 16_384;

/// How a device computes forces. In files each is what its solver writes, without a tag: their fields differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeviceStrategy {
    /// All pairs.
    Direct(direct::DirectDeviceStrategy),
    /// Barnes-Hut.
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
    /// What the settings come to for `n` bodies on `device`, before anything was tuned.
    pub fn resolve(device: &Device, n: usize, settings: &GravitySettings) -> Self {
        let from = match device.properties().kind {
            DeviceKind::Gpu => TREE_FROM,
            DeviceKind::Cpu | DeviceKind::Other => TREE_FROM_ON_A_PROCESSOR,
        };
        let is_tree = match settings.solver {
            SolverChoice::Auto => n >= from,
            SolverChoice::Direct => false,
            SolverChoice::Tree => true,
        };
        if is_tree {
            tree::TreeDeviceStrategy::default_for(device, settings.precision).into()
        } else {
            direct::DirectDeviceStrategy::default_for(device, n, settings.precision).into()
        }
    }

    /// A short name of the solver, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Tree(_) => "tree",
        }
    }

    /// The arithmetic.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Direct(direct) => direct.precision,
            Self::Tree(tree) => tree.precision,
        }
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        match self {
            Self::Direct(direct) => direct.describe(),
            Self::Tree(tree) => tree.describe(),
        }
    }

    /// Whether a run on `device` may take it: what is left are rungs of a ladder, and what another device could do.
    pub fn is_for_runs(&self, device: &Device) -> bool {
        match self {
            Self::Direct(direct) => direct.is_for_runs() && direct.fits(device),
            Self::Tree(tree) => tree.is_for_runs() && tree.fits(),
        }
    }

    /// Bytes of scratch on the device for `n` bodies, beyond the bodies.
    pub fn scratch_bytes(&self, device: &Device, n: usize) -> u64 {
        match self {
            Self::Direct(direct) => DeviceDirect::scratch_bytes(device, n, direct),
            Self::Tree(tree) => DeviceTree::scratch_bytes(device, n, tree),
        }
    }
}

/// A solver for `n` bodies on a device, with all that it needs between evaluations.
pub enum DeviceSolver {
    /// All pairs.
    Direct(Box<DeviceDirect>),
    /// Barnes-Hut.
    Tree(Box<DeviceTree>),
}

impl DeviceSolver {
    /// For `n` bodies, whose masses must be the same in every evaluation.
    pub fn new(device: &Device, n: usize, strategy: &DeviceStrategy) -> Result<Self, DeviceError> {
        Ok(match strategy {
            DeviceStrategy::Direct(strategy) => Self::Direct(DeviceDirect::new(device, n, strategy)?.into()),
            DeviceStrategy::Tree(strategy) => Self::Tree(DeviceTree::new(device, n, strategy)?.into()),
        })
    }

    /// Fills acceleration, and potential where it is asked for. Queued, not waited for.
    pub fn forces(&mut self, evaluation: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, acceptance, previous, acceleration, potential } =
            *evaluation;
        match self {
            Self::Direct(direct) => direct.forces(position, mass, g, eps, acceleration, potential),
            Self::Tree(tree) => {
                let previous = previous.filter(|_| matches!(acceptance, Acceptance::Relative { .. }));
                tree.forces(&ForceRequest { previous, ..*evaluation })
            }
        }
    }

    /// The kernel that takes the time, and its group, once it is built.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        match self {
            Self::Direct(direct) => direct.main_kernel(),
            Self::Tree(tree) => tree.main_kernel(),
        }
    }

    /// What was built, where it came from and how long that took.
    pub fn build_times(&self) -> &[(String, Origin, Duration)] {
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

    /// What a file holds is what the solver's own strategy writes: those from before the tree was on devices are still
    /// read, and neither is taken for the other.
    #[test]
    fn files_tell_the_solvers_apart() {
        let direct = direct::DirectDeviceStrategy {
            form: DirectKernel::PairsOnce,
            precision: Precision::Mixed,
            block: 64,
            targets: 4,
            unroll: 4,
            splits: 2,
        };
        let text =
            r#"{"form":"pairs-once","precision":"mixed","block":64,"targets":4,"unroll":4,"splits":2}"#;
        let tree = tree::TreeDeviceStrategy {
            form: TreeAlgorithm::Groups,
            precision: Precision::Double,
            order: Order::Octupole,
            leaf_size: 24,
            group_size: 16,
        };
        for (strategy, own) in [
            (DeviceStrategy::from(direct), text.to_owned()),
            (tree.into(), serde_json::to_string(&tree).unwrap()),
        ] {
            assert_eq!(serde_json::to_string(&strategy).unwrap(), own);
            assert_eq!(serde_json::from_str::<DeviceStrategy>(&own).unwrap(), strategy);
        }
        assert!(serde_json::from_str::<DeviceStrategy>(r#"{"form":"groups"}"#).is_err());
    }
}
