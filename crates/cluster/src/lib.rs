//! Messages between the ranks of a run. A rank is one member of a group that computes together, and
//! a [`Transport`] is its connection to the others. The ranks are either threads of one process
//! ([`threads::run`]) or processes that an MPI launcher started ([`process::run`]). MPI is loaded
//! at run time: the program builds without it, and one binary works with Open MPI, MPICH and the
//! standard ABI of MPI 5. [`DeviceLinks`] sends messages between the memory of devices. This crate
//! does not know what is computed.
//!
//! All `unsafe` code is in `mpi`.
//!
//! ```
//! use orrery_cluster::{ClusterError, Tag, threads};
//!
//! const HALO: Tag = Tag::new(1);
//!
//! // Each of three ranks sends its number to the next one, then all add the received numbers.
//! let sums = threads::run(3, |transport| {
//!     let next = (transport.rank() + 1) % transport.size();
//!     let previous = (transport.rank() + 2) % transport.size();
//!     let sent = [transport.rank() as f64];
//!     let mut received = [0.0];
//!     transport.exchange(|exchange| {
//!         exchange.send(next, HALO, &sent)?;
//!         exchange.receive(previous, HALO, &mut received)
//!         // Work that needs neither buffer belongs here. It overlaps with the messages.
//!     })?;
//!     transport.all_reduce(&received, |a, b| a + b)
//! })?;
//! assert_eq!(sums, [[3.0], [3.0], [3.0]]);
//! # Ok::<(), ClusterError>(())
//! ```

mod collectives;
pub mod conformance;
mod counters;
mod device_links;
mod error;
mod location;
mod mpi;
pub mod process;
mod request;
mod tag;
mod team;
pub mod threads;
mod transport;

pub use bytemuck::Pod;
pub use counters::Traffic;
pub use device_links::{AllowedPaths, DeviceLinks, DeviceMessage, LinkError, MessagePath};
pub use error::ClusterError;
pub use process::{MPI_SWITCH, detach_from_launcher};
pub use request::{ReceiveRequest, SendRequest};
pub use tag::Tag;
pub use team::{RankTimes, Team};
pub use transport::{Exchange, Transport};
