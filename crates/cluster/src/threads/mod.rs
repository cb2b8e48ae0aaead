//! Ranks as threads of one process.
//!
//! Each member has a mailbox with one queue per sender and tag. A queue numbers its messages in the
//! order of arrival, and the receives in the order in which they were started. Receive k gets
//! message k, as in MPI. Sending never waits: the message moves into the mailbox without a copy.
//!
//! Invariant: a member waits only with its mailbox locked, after it has checked for an abort. An
//! abort is stored first, then every mailbox is locked and its member woken. So no member sleeps
//! after an abort.

mod exchange;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ClusterError;
use crate::tag::Tag;
use crate::transport::Transport;
pub(crate) use exchange::PendingReceives;

/// A message. Bytes are a `Vec<u8>`, and threads may also send values of other types.
pub(crate) type Message = Box<dyn Any + Send>;

/// Sender and tag of a queue.
type QueueKey = (usize, Tag);

/// Runs `body` on `size` threads, which are the ranks of a group, and returns their results in the
/// order of ranks. If a rank fails or panics, calls of the others to their transports return
/// [`ClusterError::Aborted`]. The error of the rank that failed first is returned, and its panic is
/// resumed.
///
/// # Panics
/// If `size` is 0, or if a rank panicked.
pub fn run<T, E>(size: usize, body: impl Fn(&Transport) -> Result<T, E> + Sync) -> Result<Vec<T>, E>
where
    T: Send,
    E: Display + From<ClusterError> + Send,
{
    assert!(size > 0, "a group has at least one rank");
    let group = Arc::new(Group::new(size));
    let run_member = |rank: usize| {
        let member = Member { group: Arc::clone(&group), rank };
        let transport = Transport::from_member(member.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&transport)));
        match &outcome {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => drop(member.abort(&error.to_string())),
            Err(payload) => drop(member.abort(&panic_text(payload.as_ref()))),
        }
        outcome
    };
    let run_member = &run_member;
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let start = |rank| {
            let name = format!("rank {rank}");
            let thread = std::thread::Builder::new().name(name);
            // Without a thread the group is incomplete, so the threads that exist must end.
            thread.spawn_scoped(scope, move || run_member(rank)).map_err(|error| {
                Member { group: Arc::clone(&group), rank }.abort(&format!("thread not started: {error}"))
            })
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        let join = |thread: Result<std::thread::ScopedJoinHandle<_>, ClusterError>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(Err),
            Err(error) => Ok(Err(E::from(error))),
        };
        threads.into_iter().map(join).collect()
    });
    if let Some(abort) = group.abort.get() {
        // The other errors only report this one.
        let outcome = outcomes.swap_remove(abort.rank);
        return match outcome.unwrap_or_else(|payload| resume_unwind(payload)) {
            Err(error) => Err(error),
            Ok(_) => Err(abort.error().into()),
        };
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|payload| resume_unwind(payload))).collect()
}

/// Returns the message of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("no message"))
}

/// State that the members share.
struct Group {
    mailboxes: Vec<Mailbox>,
    abort: OnceLock<Abort>,
    /// Memory of long messages that were received.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// Bytes from which the memory of a message is used again. The allocator returns longer blocks to
/// the system, and new pages take longer than the copy.
const LONG_MESSAGE: usize = 1 << 17;
/// Number of spare buffers per member: one for each of two neighbours.
const SPARE_PER_MEMBER: usize = 2;

/// First failure of a member.
struct Abort {
    rank: usize,
    message: String,
}

impl Abort {
    fn error(&self) -> ClusterError {
        ClusterError::Aborted { rank: self.rank, message: self.message.clone() }
    }
}

/// Messages to one member.
#[derive(Default)]
struct Mailbox {
    queues: Mutex<HashMap<QueueKey, Queue>>,
    changed: Condvar,
}

/// Messages from one member with one tag.
#[derive(Default)]
struct Queue {
    /// Number of receives that were started.
    started: u64,
    /// Number of messages that arrived.
    arrived: u64,
    /// Messages that were not received yet, by number.
    messages: HashMap<u64, Message>,
    /// Receives that were given up before their message arrived.
    cancelled: HashSet<u64>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, HashMap<QueueKey, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    fn new(size: usize) -> Self {
        let mailboxes = (0..size).map(|_| Mailbox::default()).collect();
        Self { mailboxes, abort: OnceLock::new(), spare: Mutex::default() }
    }
}

/// A receive that was started. It is completed by [`Member::take`] or ended by [`Member::cancel`].
pub(crate) struct Ticket {
    pub(crate) from: usize,
    pub(crate) tag: Tag,
    number: u64,
}

/// One member of a group of threads.
#[derive(Clone)]
pub(crate) struct Member {
    group: Arc<Group>,
    rank: usize,
}

impl Member {
    /// Returns the only member of a group.
    pub(crate) fn alone() -> Self {
        Self { group: Arc::new(Group::new(1)), rank: 0 }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.group.mailboxes.len()
    }

    pub(crate) fn send(&self, to: usize, tag: Tag, message: Message) -> Result<(), ClusterError> {
        self.check_abort()?;
        let mailbox = &self.group.mailboxes[to];
        let mut queues = mailbox.lock();
        let queue = queues.entry((self.rank, tag)).or_default();
        if !queue.cancelled.remove(&queue.arrived) {
            queue.messages.insert(queue.arrived, message);
        }
        queue.arrived += 1;
        mailbox.changed.notify_all();
        Ok(())
    }

    /// Starts a receive.
    pub(crate) fn start_receive(&self, from: usize, tag: Tag) -> Ticket {
        let mut queues = self.mailbox().lock();
        let queue = queues.entry((from, tag)).or_default();
        queue.started += 1;
        Ticket { from, tag, number: queue.started - 1 }
    }

    /// Returns the message of a receive if it has arrived.
    pub(crate) fn try_take(&self, ticket: &Ticket) -> Result<Option<Message>, ClusterError> {
        self.check_abort()?;
        Ok(remove_message(&mut self.mailbox().lock(), ticket))
    }

    /// Waits for the message of a receive and adds the time to `waited`.
    pub(crate) fn take(&self, ticket: &Ticket, waited: &mut Duration) -> Result<Message, ClusterError> {
        let mailbox = self.mailbox();
        let mut queues = mailbox.lock();
        let start = Instant::now();
        let mut has_waited = false;
        let result = loop {
            if let Err(error) = self.check_abort() {
                break Err(error);
            }
            if let Some(message) = remove_message(&mut queues, ticket) {
                break Ok(message);
            }
            has_waited = true;
            queues = mailbox.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        };
        if has_waited {
            *waited += start.elapsed();
        }
        result
    }

    /// Waits at most `limit` for the message of the next receive, and returns whether it is there.
    pub(crate) fn wait_for_message(
        &self,
        from: usize,
        tag: Tag,
        limit: Duration,
        waited: &mut Duration,
    ) -> Result<bool, ClusterError> {
        let mailbox = self.mailbox();
        let is_missing = |queues: &mut HashMap<QueueKey, Queue>| {
            self.check_abort().is_ok()
                && queues.get(&(from, tag)).is_none_or(|queue| queue.arrived <= queue.started)
        };
        let start = Instant::now();
        let wait = mailbox.changed.wait_timeout_while(mailbox.lock(), limit, is_missing);
        let (_queues, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
        *waited += start.elapsed();
        self.check_abort()?;
        Ok(!timeout.timed_out())
    }

    /// Ends a receive without its message.
    pub(crate) fn cancel(&self, ticket: &Ticket) {
        let mut queues = self.mailbox().lock();
        if remove_message(&mut queues, ticket).is_none() {
            queues.entry((ticket.from, ticket.tag)).or_default().cancelled.insert(ticket.number);
        }
    }

    /// Ends the group. All calls of all members fail from now on. Returns the first failure, which
    /// is another one if a member failed before.
    pub(crate) fn abort(&self, message: &str) -> ClusterError {
        let first = self.group.abort.get_or_init(|| Abort { rank: self.rank, message: message.to_owned() });
        for mailbox in &self.group.mailboxes {
            let _queues = mailbox.lock();
            mailbox.changed.notify_all();
        }
        first.error()
    }

    /// Returns a copy of `bytes`, in memory of an earlier message where possible.
    fn copy_message(&self, bytes: &[u8]) -> Vec<u8> {
        let mut spare = self.group.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |buffer: &Vec<u8>| buffer.capacity() >= bytes.len() && buffer.capacity() / 2 <= bytes.len();
        let reused = spare.iter().position(fits).map(|index| spare.swap_remove(index));
        drop(spare);
        let mut message = reused.unwrap_or_default();
        message.clear();
        message.extend_from_slice(bytes);
        message
    }

    /// Keeps the memory of a message for later ones.
    fn recycle_message(&self, message: Vec<u8>) {
        if message.capacity() >= LONG_MESSAGE {
            let mut spare = self.group.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() >= SPARE_PER_MEMBER * self.size() {
                spare.remove(0);
            }
            spare.push(message);
        }
    }

    fn check_abort(&self) -> Result<(), ClusterError> {
        self.group.abort.get().map_or(Ok(()), |abort| Err(abort.error()))
    }

    fn mailbox(&self) -> &Mailbox {
        &self.group.mailboxes[self.rank]
    }
}

fn remove_message(queues: &mut HashMap<QueueKey, Queue>, ticket: &Ticket) -> Option<Message> {
    queues.get_mut(&(ticket.from, ticket.tag))?.messages.remove(&ticket.number)
}

/// Returns the value of a message, or an error if it has another type.
pub(crate) fn into_value<T: 'static>(message: Message, ticket: &Ticket) -> Result<T, ClusterError> {
    let Ticket { from, tag, .. } = *ticket;
    let value = message.downcast::<T>();
    value.map(|value| *value).map_err(|_| ClusterError::Type {
        from,
        tag,
        expected: std::any::type_name::<T>(),
    })
}
