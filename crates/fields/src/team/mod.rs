//! Fields that several ranks compute together.
//!
//! The nodes of a grid are divided along the slowest-varying axis: y in two dimensions, and z in
//! three. A slice is one node thick along this axis, so it is a row or a plane, and the nodes of
//! consecutive slices are consecutive in every column of a state. Each rank owns some consecutive
//! slices, its slab, and stores ghost slices on both sides: copies of the slices that its
//! neighbours own. Ranks have the order of their slices.
//!
//! A step first computes the slices that the neighbours need, its borders, and sends them while it
//! computes the interior. Cost per step: the message of one border and its latency, unless the
//! interior takes longer.
//!
//! The leader's field ([`TeamField`]) sends a command before each operation, and
//! [`crate::wave::follow`] and [`crate::heat::follow`] execute it. An equation adds its slabs on
//! the host and on a device ([`DeviceSlab`]) and its commands ([`TeamSlab`]). Sums run from the
//! first slice to the last one, whatever rank owns it, so the number of ranks does not change bits.

mod border_links;
mod border_times;
mod division;
mod error;
mod field;
mod linked_slab;
mod neighbours;
mod part;
mod pixel_rows;
mod transfers;

use border_links::BorderLinks;
pub use border_times::{BorderTime, time_border_exchange};
pub use division::{EndSlices, divided_slices};
pub use error::TeamError;
pub use field::run_team;
pub(crate) use field::{
    DeviceOf, FieldPhysics, LedField, SlabDescription, TeamField, TeamReply, TeamSlab, follow_leader,
};
pub(crate) use linked_slab::{DeviceSlab, LinkedSlab};
pub(crate) use neighbours::{Neighbours, SlabParts};
pub use part::DeviceSetup;
pub(crate) use part::SlabPart;
pub(crate) use pixel_rows::PixelRows;
pub(crate) use transfers::{gather_parts, pass_along, scatter_parts};
