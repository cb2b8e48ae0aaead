//! The connection of a rank to the other ranks of its group.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Pod;
use orrery_device::{BufferRange, Element};

use crate::counters::{Counters, Traffic};
use crate::error::ClusterError;
use crate::location::RankLocation;
use crate::mpi::{Mpi, PendingMessages, Transfer};
use crate::request::{ReceiveRequest, ReceiveState, SendRequest};
use crate::tag::Tag;
use crate::threads::{Member, PendingReceives, into_value};

/// A rank of a group, connected to the others. Clones are the same rank. One thread at a time uses
/// it.
///
/// Messages with the same sender, receiver and tag arrive in the order in which they were sent, and
/// the receives are served in the order in which they were started. A rank may send to itself. A
/// send can wait for its receiver, so two ranks that first send and then receive must use requests
/// or an exchange. All ranks call collective operations ([`Transport::barrier`],
/// [`Transport::broadcast`], ...) in the same order.
#[derive(Clone)]
pub struct Transport {
    link: Link,
    counters: Arc<Counters>,
    /// Number of lower ranks on the same computer.
    local_rank: usize,
    /// Number of all connected ranks on the same computer.
    local_size: usize,
    /// Number of ranks of this group, which may be a part of those that are connected.
    size: usize,
}

#[derive(Clone)]
enum Link {
    Threads(Arc<Member>),
    Mpi(Arc<Mpi>),
}

impl Transport {
    /// Returns the only rank of a group.
    pub fn alone() -> Self {
        Self::from_member(Member::alone())
    }

    pub(crate) fn from_member(member: Member) -> Self {
        let (local_rank, size) = (member.rank(), member.size());
        let link = Link::Threads(Arc::new(member));
        Self { link, counters: Arc::default(), local_rank, local_size: size, size }
    }

    /// Connects a rank of MPI. All ranks must call it.
    pub(crate) fn from_mpi(mpi: Mpi) -> Result<Self, ClusterError> {
        let (size, mpi) = (mpi.size(), Arc::new(mpi));
        let link = Link::Mpi(Arc::clone(&mpi));
        let mut transport = Self { link, counters: Arc::default(), local_rank: 0, local_size: 1, size };
        let locations = transport.all_gather(&RankLocation::of_process().to_bytes())?;
        let locations: Vec<_> = locations.iter().map(|bytes| RankLocation::from_bytes(bytes)).collect();
        let own = &locations[mpi.rank()];
        (transport.local_rank, transport.local_size) = local_rank_and_size(&locations, mpi.rank());
        let ranks_on_cores = locations.iter().filter(|other| *other == own).count();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        mpi.set_has_core(ranks_on_cores <= cores);
        // The table of times starts here.
        transport.counters = Arc::default();
        Ok(transport)
    }

    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        match &self.link {
            Link::Threads(member) => member.rank(),
            Link::Mpi(mpi) => mpi.rank(),
        }
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the numbers of all ranks but this one, in their order.
    pub fn other_ranks(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.rank();
        (0..self.size()).filter(move |rank| *rank != own)
    }

    /// Returns the group of the first `count` ranks, or `None` on the ranks outside it. These may
    /// wait, for example in a barrier of the whole group.
    ///
    /// The ranks of the group share tags, counters and aborts with the whole group. Messages
    /// between two ranks have one order, so all ranks must use both groups in the same order.
    ///
    /// # Panics
    /// If `count` is 0, or larger than the number of ranks.
    pub fn first_ranks(&self, count: usize) -> Option<Self> {
        assert!((1..=self.size).contains(&count), "{count} of {} ranks", self.size);
        (self.rank() < count).then(|| Self { size: count, ..self.clone() })
    }

    /// Returns the number of this rank among those on the same computer, from 0. It selects a GPU.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// Returns the number of connected ranks on the same computer.
    pub fn local_size(&self) -> usize {
        self.local_size
    }

    /// Returns whether the ranks are MPI processes.
    pub fn is_mpi(&self) -> bool {
        matches!(self.link, Link::Mpi(_))
    }

    /// Returns whether MPI accepts addresses of CUDA devices, as far as the library reports it.
    pub fn is_cuda_aware(&self) -> bool {
        matches!(&self.link, Link::Mpi(mpi) if mpi.is_cuda_aware())
    }

    /// Returns the kind of transport, for example "Open MPI v4.1.4 (libmpi.so.40)" or "threads".
    pub fn description(&self) -> String {
        match &self.link {
            Link::Threads(_) => "threads".to_owned(),
            Link::Mpi(mpi) => mpi.description(),
        }
    }

    /// Returns times and amounts of the communication of this rank since its start.
    pub fn traffic(&self) -> Traffic {
        self.counters.traffic()
    }

    /// Starts to send a message, which moves into the request.
    pub fn start_send(&self, to: usize, tag: Tag, message: Vec<u8>) -> Result<SendRequest, ClusterError> {
        self.check_rank(to)?;
        self.counters.count_sent(message.len());
        let transfer = self.counters.time(|_| match &self.link {
            Link::Threads(member) => member.send(to, tag, Box::new(message)).map(|()| None),
            Link::Mpi(mpi) => Ok(Some((Arc::clone(mpi), Transfer::send(mpi, to, tag, message)?))),
        })?;
        Ok(SendRequest { counters: Arc::clone(&self.counters), transfer })
    }

    /// Starts to receive a message of `length` bytes.
    pub fn start_receive(
        &self,
        from: usize,
        tag: Tag,
        length: usize,
    ) -> Result<ReceiveRequest, ClusterError> {
        self.check_rank(from)?;
        let state = self.counters.time(|_| match &self.link {
            Link::Threads(member) => {
                Ok(ReceiveState::Waiting(Arc::clone(member), member.start_receive(from, tag)))
            }
            Link::Mpi(mpi) => {
                Ok(ReceiveState::Mpi(Arc::clone(mpi), Transfer::receive(mpi, from, tag, length)?))
            }
        })?;
        Ok(ReceiveRequest { counters: Arc::clone(&self.counters), length, state: Some(state) })
    }

    /// Waits for a message of any length and returns it.
    pub fn receive(&self, from: usize, tag: Tag) -> Result<Vec<u8>, ClusterError> {
        self.check_rank(from)?;
        let message = self.counters.time(|waited| match &self.link {
            Link::Threads(member) => {
                let ticket = member.start_receive(from, tag);
                into_value::<Vec<u8>>(member.take(&ticket, waited)?, &ticket)
            }
            Link::Mpi(mpi) => mpi.receive(from, tag, waited),
        })?;
        self.counters.count_received(message.len());
        Ok(message)
    }

    /// Waits at most `limit` for the next message, and returns whether it is there. Does not
    /// receive it. Receives that were started must be complete before.
    ///
    /// A rank that waits for a message and also for a signal calls this in a loop.
    pub fn wait_for_message(&self, from: usize, tag: Tag, limit: Duration) -> Result<bool, ClusterError> {
        self.check_rank(from)?;
        self.counters.time(|waited| match &self.link {
            Link::Threads(member) => member.wait_for_message(from, tag, limit, waited),
            Link::Mpi(mpi) => mpi.wait_for_message(from, tag, limit, waited),
        })
    }

    /// Calls `body`, which starts messages with borrowed buffers, and waits until they are
    /// complete. Work that `body` does after it has started the messages overlaps with them.
    ///
    /// If `body` fails while messages are incomplete, it is an error of this rank only, and the
    /// messages still get half a second. If they do not complete, MPI ends all ranks.
    pub fn exchange<'b, R, E: Display + From<ClusterError>>(
        &self,
        body: impl FnOnce(&Exchange<'_, 'b>) -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.link {
            Link::Threads(member) => {
                let pending = PendingReceives::new(member);
                let exchange = Exchange { transport: self, link: ExchangeLink::Threads(&pending) };
                let value = body(&exchange)?;
                exchange.wait()?;
                Ok(value)
            }
            Link::Mpi(mpi) => PendingMessages::run(mpi, |pending| {
                let exchange = Exchange { transport: self, link: ExchangeLink::Mpi(pending) };
                let value = body(&exchange)?;
                exchange.wait()?;
                Ok(value)
            }),
        }
    }

    /// Sends a value of any type to another thread, for example a handle of a buffer. Only threads
    /// share memory: MPI returns [`ClusterError::SeparateMemory`].
    pub fn send_value<T: Send + 'static>(&self, to: usize, tag: Tag, value: T) -> Result<(), ClusterError> {
        self.check_rank(to)?;
        let Link::Threads(member) = &self.link else { return Err(ClusterError::SeparateMemory) };
        self.counters.count_sent(0);
        self.counters.time(|_| member.send(to, tag, Box::new(value)))
    }

    /// Waits for a value of [`Transport::send_value`] and returns it.
    pub fn receive_value<T: Send + 'static>(&self, from: usize, tag: Tag) -> Result<T, ClusterError> {
        self.check_rank(from)?;
        let Link::Threads(member) = &self.link else { return Err(ClusterError::SeparateMemory) };
        self.counters.count_received(0);
        self.counters.time(|waited| {
            let ticket = member.start_receive(from, tag);
            into_value(member.take(&ticket, waited)?, &ticket)
        })
    }

    /// Ends all ranks because this one failed. Threads: later calls of all ranks return the
    /// returned error. MPI: prints the message, ends all processes with status 1 and does not
    /// return.
    #[must_use = "the caller returns this error"]
    pub fn abort(&self, message: &str) -> ClusterError {
        self.abort_with_status(message, 1)
    }

    /// Is [`Transport::abort`] with an exit status for MPI.
    #[must_use = "the caller returns this error"]
    pub fn abort_with_status(&self, message: &str, exit_status: u8) -> ClusterError {
        match &self.link {
            Link::Threads(member) => member.abort(message),
            Link::Mpi(mpi) => mpi.abort(message, exit_status),
        }
    }

    /// Waits for all ranks and ends the use of MPI. Does nothing for threads.
    pub(crate) fn finalize(&self) -> Result<(), ClusterError> {
        let Link::Mpi(mpi) = &self.link else { return Ok(()) };
        // MPI_Finalize waits in a busy loop. This barrier sleeps.
        self.barrier()?;
        mpi.finalize()
    }

    pub(crate) fn check_rank(&self, rank: usize) -> Result<(), ClusterError> {
        let size = self.size();
        if rank < size { Ok(()) } else { Err(ClusterError::Rank { rank, size }) }
    }
}

/// Returns the number of a rank among those on its computer, and their number.
fn local_rank_and_size(locations: &[RankLocation], rank: usize) -> (usize, usize) {
    let count = |ranks: &[RankLocation]| {
        ranks.iter().filter(|other| other.computer == locations[rank].computer).count()
    };
    (count(&locations[..rank]), count(locations))
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transport(rank {} of {}, {})", self.rank(), self.size(), self.description())
    }
}

/// Messages with borrowed buffers. [`Transport::exchange`] waits for their end.
pub struct Exchange<'x, 'b> {
    transport: &'x Transport,
    link: ExchangeLink<'x, 'b>,
}

enum ExchangeLink<'x, 'b> {
    Threads(&'x PendingReceives<'x, 'b>),
    Mpi(&'x PendingMessages<'x, 'b>),
}

impl<'b> Exchange<'_, 'b> {
    // The work is in functions of bytes, which are compiled once and not in every crate that
    // exchanges values.

    /// Starts to send `values`.
    pub fn send<T: Pod>(&self, to: usize, tag: Tag, values: &'b [T]) -> Result<(), ClusterError> {
        self.send_bytes(to, tag, bytemuck::cast_slice(values))
    }

    /// Starts to receive a message that fills `values`.
    pub fn receive<T: Pod>(&self, from: usize, tag: Tag, values: &'b mut [T]) -> Result<(), ClusterError> {
        self.receive_bytes(from, tag, bytemuck::cast_slice_mut(values))
    }

    fn send_bytes(&self, to: usize, tag: Tag, bytes: &'b [u8]) -> Result<(), ClusterError> {
        self.transport.check_rank(to)?;
        self.transport.counters.count_sent(bytes.len());
        self.transport.counters.time(|_| match &self.link {
            ExchangeLink::Threads(pending) => pending.send(to, tag, bytes),
            ExchangeLink::Mpi(pending) => pending.send(to, tag, bytes),
        })
    }

    fn receive_bytes(&self, from: usize, tag: Tag, buffer: &'b mut [u8]) -> Result<(), ClusterError> {
        self.transport.check_rank(from)?;
        self.transport.counters.count_received(buffer.len());
        self.transport.counters.time(|_| match &self.link {
            ExchangeLink::Threads(pending) => {
                pending.receive(from, tag, buffer);
                Ok(())
            }
            ExchangeLink::Mpi(pending) => pending.receive(from, tag, buffer),
        })
    }

    /// Starts to send elements in the memory of a CUDA device, with a library that
    /// [accepts them](Transport::is_cuda_aware). MPI does not wait for queues, so the elements must
    /// be complete.
    pub fn send_from_device<T: Element>(
        &self,
        to: usize,
        tag: Tag,
        values: BufferRange<'b, T>,
    ) -> Result<(), ClusterError> {
        self.transport.check_rank(to)?;
        let ExchangeLink::Mpi(pending) = &self.link else { return Err(ClusterError::DeviceMemory) };
        self.transport.counters.count_sent(values.len() * size_of::<T>());
        self.transport.counters.time(|_| pending.send_from_device(to, tag, values))
    }

    /// Starts to receive a message that fills elements in the memory of a CUDA device. No kernel
    /// may use them until the exchange has ended.
    pub fn receive_on_device<T: Element>(
        &self,
        from: usize,
        tag: Tag,
        values: BufferRange<'b, T>,
    ) -> Result<(), ClusterError> {
        self.transport.check_rank(from)?;
        let ExchangeLink::Mpi(pending) = &self.link else { return Err(ClusterError::DeviceMemory) };
        self.transport.counters.count_received(values.len() * size_of::<T>());
        self.transport.counters.time(|_| pending.receive_on_device(from, tag, values))
    }

    /// Waits for all messages.
    fn wait(&self) -> Result<(), ClusterError> {
        self.transport.counters.time(|waited| match &self.link {
            ExchangeLink::Threads(pending) => pending.wait(waited),
            ExchangeLink::Mpi(pending) => pending.wait(waited),
        })
    }

    /// Returns whether all messages are complete. Does not wait. MPI may move long messages only
    /// during calls, so a long computation within an exchange should call this now and then.
    pub fn poll(&self) -> Result<bool, ClusterError> {
        self.transport.counters.time(|_| match &self.link {
            ExchangeLink::Threads(pending) => pending.poll(),
            ExchangeLink::Mpi(pending) => pending.poll(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launchers place ranks node by node, or in turn. Cores do not matter.
    #[test]
    fn ranks_are_numbered_on_each_computer() {
        let found = |computers: &str| -> Vec<(usize, usize)> {
            let locations: Vec<_> = computers
                .chars()
                .enumerate()
                .map(|(k, name)| RankLocation::from_bytes(format!("{name}\n{k}").as_bytes()))
                .collect();
            (0..locations.len()).map(|rank| local_rank_and_size(&locations, rank)).collect()
        };
        assert_eq!(found("aabbb"), [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]);
        assert_eq!(found("abab"), [(0, 2), (0, 2), (1, 2), (1, 2)]);
    }
}
