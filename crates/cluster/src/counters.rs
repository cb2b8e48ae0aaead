//! Times and amounts of communication, for the table of times of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Communication of one rank since its start. Collective operations are counted as the messages of
/// which they consist.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Time in calls of the transport without `waiting`: starting messages and copying them.
    pub communication: Duration,
    /// Time in which a call waited for another rank, or for the transfer of a message.
    pub waiting: Duration,
    /// Number of sent messages.
    pub messages_sent: u64,
    /// Bytes of sent messages.
    pub bytes_sent: u64,
    /// Number of received messages.
    pub messages_received: u64,
    /// Bytes of received messages.
    pub bytes_received: u64,
}

impl Traffic {
    /// Returns the communication after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            communication: self.communication.saturating_sub(earlier.communication),
            waiting: self.waiting.saturating_sub(earlier.waiting),
            messages_sent: self.messages_sent - earlier.messages_sent,
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            messages_received: self.messages_received - earlier.messages_received,
            bytes_received: self.bytes_received - earlier.bytes_received,
        }
    }
}

/// Counters of one rank.
#[derive(Default)]
pub(crate) struct Counters {
    communication_nanos: AtomicU64,
    waiting_nanos: AtomicU64,
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
}

impl Counters {
    pub(crate) fn count_sent(&self, bytes: usize) {
        self.messages_sent.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, bytes: usize) {
        self.messages_received.fetch_add(1, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Calls `operation` and counts its time. The operation adds the time in which it waited to its
    /// argument.
    pub(crate) fn time<R>(&self, operation: impl FnOnce(&mut Duration) -> R) -> R {
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        let result = operation(&mut waited);
        let rest = start.elapsed().saturating_sub(waited);
        self.communication_nanos.fetch_add(rest.as_nanos() as u64, Ordering::Relaxed);
        self.waiting_nanos.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        result
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let value_of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            communication: Duration::from_nanos(value_of(&self.communication_nanos)),
            waiting: Duration::from_nanos(value_of(&self.waiting_nanos)),
            messages_sent: value_of(&self.messages_sent),
            bytes_sent: value_of(&self.bytes_sent),
            messages_received: value_of(&self.messages_received),
            bytes_received: value_of(&self.bytes_received),
        }
    }
}
