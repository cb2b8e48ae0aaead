//! How a device walks the tree: data, so that the ladder and the benchmarks can enumerate it.

use orrery_device::Device;
use serde::{Deserialize, Serialize};

use crate::settings::Precision;
use crate::tree::device::Order;

/// The kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeAlgorithm {
    /// Bodies sorted along a curve, cells from the keys, groups of neighbours that walk together.
    Groups,
    /// Six kernels after Burtscher & Pingali (2011): bodies inserted one by one under locks, a thread a body walks. f32,
    /// monopoles, geometric acceptance; rungs of the ladder.
    Insertion {
        /// Bodies walk in the order of the tree, so that a warp's bodies are neighbours.
        sorted: bool,
        /// A warp opens a cell together as soon as one of its bodies must.
        vote: bool,
        /// Barriers hold back threads whose work would be in vain.
        throttled: bool,
    },
}

/// How the device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeDeviceStrategy {
    /// The kernels.
    pub form: TreeAlgorithm,
    /// The arithmetic.
    pub precision: Precision,
    /// The highest multipole.
    pub order: Order,
    /// Most bodies in a leaf.
    pub leaf_size: u32,
    /// Most bodies in a group that walks together.
    pub group_size: u32,
}

impl TreeDeviceStrategy {
    /// What a device runs.
    pub fn default_for(_device: &Device, precision: Precision) -> Self {
        Self {
            form: TreeAlgorithm::Groups,
            precision,
            order: Order::Quadrupole,
            leaf_size: 16,
            group_size: 32,
        }
    }

    /// Whether the kernels are made for it.
    pub fn fits(&self) -> bool {
        let precision_fits = self.form == TreeAlgorithm::Groups || self.precision == Precision::Single;
        precision_fits && (1..=1024).contains(&self.leaf_size) && (1..=32).contains(&self.group_size)
    }

    /// Whether a run may take it: the other forms are rungs of the ladder.
    pub fn is_for_runs(&self) -> bool {
        self.form == TreeAlgorithm::Groups
    }

    /// In a few words: "groups of 32, leaves of 16, quadrupole".
    pub fn describe(&self) -> String {
        let Self { form, order, leaf_size, group_size, .. } = self;
        match form {
            TreeAlgorithm::Groups => {
                let order = format!("{order:?}").to_lowercase();
                format!("groups of {group_size}, leaves of {leaf_size}, {order}")
            }
            TreeAlgorithm::Insertion { sorted, vote, throttled } => {
                let flags = [(*sorted, "sorted"), (*vote, "vote"), (*throttled, "throttled")];
                let named = flags.iter().filter(|(set, _)| *set).map(|(_, name)| format!(", {name}"));
                format!("insertion{}", named.collect::<String>())
            }
        }
    }
}
