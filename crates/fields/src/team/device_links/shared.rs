//! Links through page-locked memory that two processes share.
//!
//! Each end of a link creates two buffers for its own borders, which take turns, and opens those of
//! the other end. In step n, for each end:
//!
//! 1. [`SharedBorders::start`] queues the copy of the border to the buffer of this turn.
//! 2. When the copy is complete, an empty message is sent, and that of the neighbour received.
//! 3. [`SharedBorders::finish`] queues the copy from the neighbour's buffer of this turn to the
//!    ghosts, and the turn changes.
//!
//! Two buffers are enough. A rank writes to the buffer of step n again in step n + 2, after it has
//! received the neighbour's message of step n + 1. The neighbour has sent that message after its
//! copy 1 of step n + 1, and this copy comes after its copy 3 of step n in the same queue, which
//! runs in order. So the neighbour's device has read the buffer of step n.

use orrery_cluster::Transport;
use orrery_device::{BufferRange, Device, DeviceError, Event, Queue, SharedName, SharedPinned};

use super::{LinkError, RECEIVED, SENT};
use crate::Scalar;

/// Message of a rank that could open the memory of its neighbour.
const OPENED: &[u8] = b"opened";

/// Buffers of a link, as seen by one of its ends.
#[derive(Debug)]
pub(super) struct SharedBorders<R: Scalar> {
    /// Memory of this rank for its borders.
    outgoing: [SharedPinned<R>; 2],
    /// Memory of the neighbour with its borders.
    incoming: [SharedPinned<R>; 2],
    /// Index of the buffers of the current step, the same on both ends.
    turn: usize,
    /// Event after the copy to the outgoing buffer, from `start` until the message is sent.
    copied: Option<Event>,
}

impl<R: Scalar> SharedBorders<R> {
    /// Queues the copy of a border to this rank's memory.
    pub(super) fn start(&mut self, queue: &Queue, border: BufferRange<'_, R>) -> Result<(), DeviceError> {
        self.copied = Some(queue.read_to_shared(border, &mut self.outgoing[self.turn])?);
        Ok(())
    }

    /// Returns the event after the copy of [`Self::start`]. The neighbour may read the memory after
    /// it.
    pub(super) fn take_event(&mut self) -> Option<Event> {
        self.copied.take()
    }

    /// Queues the copy of the neighbour's border to the ghosts. Its message must have arrived.
    pub(super) fn finish(&mut self, queue: &Queue, ghosts: BufferRange<'_, R>) -> Result<(), DeviceError> {
        queue.write_from_shared(ghosts, &mut self.incoming[self.turn])?;
        self.turn = 1 - self.turn;
        Ok(())
    }
}

/// Connects this rank with its lower and upper neighbour, for borders of `border_len` values.
/// Returns `None` for a link if one of its ends does not offer shared memory, cannot create its
/// own, or cannot open that of the other: for example on another computer or in another container.
/// Both ends of a link get the same result. Both ends must call it.
pub(super) fn connect<R: Scalar>(
    device: &Device,
    transport: &Transport,
    ranks: [Option<usize>; 2],
    border_len: usize,
    offers_shared: bool,
) -> Result<[Option<SharedBorders<R>>; 2], LinkError> {
    let create = |_| device.new_shared_pinned::<R>(border_len).ok();
    let outgoing = ranks.map(|rank| rank.filter(|_| offers_shared).and_then(|_| both([0, 1].map(create))));
    // An empty message says that there is no memory.
    let offers = outgoing.each_ref().map(|pair| pair.as_ref().map_or(Vec::new(), names_message));
    let offers = exchange_messages(transport, ranks, offers)?;
    let open = |name: SharedName| {
        let memory = device.open_shared_pinned::<R>(&name).ok();
        memory.filter(|memory| memory.len() == border_len)
    };
    let incoming = [0, 1].map(|side| {
        let names = outgoing[side].as_ref().and_then(|_| read_names(&offers[side]))?;
        both(names.map(open))
    });
    let answers = incoming.each_ref().map(|pair| pair.as_ref().map_or(Vec::new(), |_| OPENED.to_vec()));
    let answers = exchange_messages(transport, ranks, answers)?;
    let mut borders =
        outgoing.into_iter().zip(incoming).zip(answers).map(|((outgoing, incoming), answer)| {
            let (outgoing, incoming) = outgoing.zip(incoming).filter(|_| answer == OPENED)?;
            Some(SharedBorders { outgoing, incoming, turn: 0, copied: None })
        });
    Ok([borders.next().flatten(), borders.next().flatten()])
}

/// Sends a message to each neighbour, and returns theirs. They are empty where there is none.
fn exchange_messages(
    transport: &Transport,
    ranks: [Option<usize>; 2],
    messages: [Vec<u8>; 2],
) -> Result<[Vec<u8>; 2], LinkError> {
    let mut sends = Vec::new();
    for (side, message) in messages.into_iter().enumerate() {
        if let Some(rank) = ranks[side] {
            sends.push(transport.start_send(rank, SENT[side], message)?);
        }
    }
    let mut received = [Vec::new(), Vec::new()];
    for (side, message) in received.iter_mut().enumerate() {
        if let Some(rank) = ranks[side] {
            *message = transport.receive(rank, RECEIVED[side])?;
        }
    }
    for send in sends {
        send.wait()?;
    }
    Ok(received)
}

/// Returns both values if there are two.
fn both<T>([first, second]: [Option<T>; 2]) -> Option<[T; 2]> {
    Some([first?, second?])
}

/// Returns the names of both buffers, one per line.
fn names_message<R: Scalar>(memory: &[SharedPinned<R>; 2]) -> Vec<u8> {
    memory.each_ref().map(|memory| memory.name().to_text()).join("\n").into_bytes()
}

fn read_names(message: &[u8]) -> Option<[SharedName; 2]> {
    let (first, second) = std::str::from_utf8(message).ok()?.split_once('\n')?;
    both([first, second].map(SharedName::from_text))
}
