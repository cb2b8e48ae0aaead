//! Strategies of the tree on a device, as data that the ladder and the benchmarks can enumerate.

use orrery_device::Device;
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use crate::tree::device::Order;

/// Set of kernels that builds and walks the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeAlgorithm {
    /// Bodies are sorted along a curve, cells follow from the keys, and groups of neighbours walk
    /// together.
    Groups,
    /// Six kernels after Burtscher & Pingali (2011): bodies are inserted one by one under locks,
    /// and one thread per body walks. f32, monopoles and the geometric acceptance only. For rungs
    /// of the ladder.
    Insertion(InsertionOptions),
}

/// Optimisations of the kernels that insert bodies one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InsertionOptions {
    /// Threads that fail to insert a body wait at a barrier before they retry.
    pub throttled: bool,
    /// Treatment of cells that depend on cells of other threads.
    pub waiting: Waiting,
    /// Bodies walk in the order of the tree, so the bodies of a warp are neighbours.
    pub sorted: bool,
    /// Walk of the force kernel.
    pub walk: WarpWalk,
}

impl InsertionOptions {
    /// The first version: no optimisation.
    pub const PLAIN: Self =
        Self { throttled: false, waiting: Waiting::PollAll, sorted: false, walk: WarpWalk::Alone };
    /// The complete program of the course.
    pub const COURSE: Self =
        Self { throttled: true, waiting: Waiting::PollMissing, sorted: true, walk: WarpWalk::Vote };
}

/// How the sums over cells, bottom-up, and the order of bodies, top-down, treat a cell that depends
/// on cells of other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// A thread polls all children of its cell until they are summed. Top-down, it polls the start
    /// of its cell.
    PollAll,
    /// As above, but it remembers which children are missing and polls only these.
    PollMissing,
    /// No thread waits: the one that finishes the last child of a cell continues with the cell.
    /// Top-down, each cell adds up its start on the path to the root.
    None,
}

/// Walk of the force kernel. Each version keeps the changes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarpWalk {
    /// Each thread walks for its body.
    Alone,
    /// The lanes of a warp walk together, and open a cell if at least one of them has to. One lane
    /// reads each node for all of them.
    OneReader,
    /// The children of a cell are read at once and cached in shared memory.
    CachedNodes,
    /// A warp has one stack, in shared memory.
    SharedStack,
    /// The lanes vote whether they open a cell.
    Vote,
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
}

impl TreeDeviceStrategy {
    /// Returns the default of a device.
    pub fn default_for(_device: &Device, precision: Precision) -> Self {
        Self {
            algorithm: TreeAlgorithm::Groups,
            precision,
            order: Order::Quadrupole,
            leaf_size: 16,
            group_size: 32,
        }
    }

    /// Whether there are kernels for this combination. For example, insertion supports only single
    /// precision.
    pub fn fits(&self) -> bool {
        let precision_fits = self.algorithm == TreeAlgorithm::Groups || self.precision == Precision::Single;
        precision_fits && (1..=1024).contains(&self.leaf_size) && (1..=32).contains(&self.group_size)
    }

    /// Whether a run may use it. Insertion is only for rungs of the ladder.
    pub fn is_for_runs(&self) -> bool {
        self.algorithm == TreeAlgorithm::Groups
    }

    /// Returns a short description, such as "groups of 32, leaves of 16, quadrupole".
    pub fn describe(&self) -> String {
        let Self { algorithm, order, leaf_size, group_size, .. } = self;
        match algorithm {
            TreeAlgorithm::Groups => {
                let order = format!("{order:?}").to_lowercase();
                format!("groups of {group_size}, leaves of {leaf_size}, {order}")
            }
            TreeAlgorithm::Insertion(InsertionOptions { throttled, waiting, sorted, walk }) => {
                let flags = [(*throttled, ", throttled"), (*sorted, ", sorted")];
                let named: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
                format!("insertion{named}, waiting {waiting:?}, walk {walk:?}")
            }
        }
    }
}
