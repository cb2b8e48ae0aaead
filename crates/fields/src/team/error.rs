//! Errors of fields that several ranks compute.

use orrery_cluster::ClusterError;
use thiserror::Error;

/// Reason why ranks cannot compute a field together.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TeamError {
    /// The grid has too few nodes for so many ranks.
    #[error(
        "the grid has {found} nodes along {axis}, expected at least {needed} for {ranks} ranks: {fewest} per rank{}",
        layer_text(*beyond_layer)
    )]
    TooManyRanks {
        /// Number of ranks.
        ranks: usize,
        /// "y" or "z": the axis along which ranks divide the grid.
        axis: &'static str,
        /// Nodes along this axis.
        found: usize,
        /// Nodes that so many ranks need.
        needed: usize,
        /// Fewest nodes per rank.
        fewest: usize,
        /// Fewest nodes besides an absorbing layer of a rank at an end, if there are layers.
        beyond_layer: Option<usize>,
    },
    /// Some ranks compute on the CPU and others on devices.
    #[error("rank {rank} computes on {}, expected {}, as on rank 0", place(*is_on_device), place(!*is_on_device))]
    MixedRanks {
        /// The rank.
        rank: usize,
        /// Whether it computes on a device.
        is_on_device: bool,
    },
    /// Another rank failed, or the connection to it.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Returns the place where a rank computes, for messages.
fn place(is_on_device: bool) -> &'static str {
    if is_on_device { "a device" } else { "the CPU" }
}

fn layer_text(beyond_layer: Option<usize>) -> String {
    beyond_layer
        .map_or(String::new(), |nodes| format!(", and {nodes} more than its absorbing layer at each end"))
}
