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
//! The leader's field sends a command before each operation, and [`crate::wave::follow`] and
//! [`crate::heat::follow`] execute it. Sums run from the first slice to the last one, whatever rank
//! owns it, so the number of ranks does not change bits.

mod border_links;
mod border_times;
mod division;
mod neighbours;
mod pixel_rows;
mod transfers;

pub(crate) use border_links::BorderLinks;
pub use border_times::{BorderTime, time_border_exchange};
pub(crate) use division::{EndSlices, divided_slices};
pub(crate) use neighbours::Neighbours;
pub(crate) use pixel_rows::{PixelRows, RowSource};
pub(crate) use transfers::{LastCommand, gather_parts, pass_along, scatter_parts};

/// Returns the place where a rank computes, for messages.
pub(crate) fn place(is_on_device: bool) -> &'static str {
    if is_on_device { "a device" } else { "the CPU" }
}
