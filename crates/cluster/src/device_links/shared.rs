//! Messages through page-locked memory that processes of one computer share.
//!
//! Each rank has memory for its outgoing messages: a slot per message of a round, and two turns,
//! one for even and one for odd rounds. In round n,
//!
//! 1. [`SharedMessages::copy`] queues the copy of a message to its slot,
//! 2. when the copy is complete, the receiver gets a notice with turn and slot, and with the name
//!    of the memory if it is new there,
//! 3. the receiver opens new memory and confirms that, because a name is valid only as long as the
//!    sender has the memory,
//! 4. the receiver queues the copy from the memory.
//!
//! A slot that is too short is replaced by longer memory with another name.

use std::collections::BTreeMap;

use orrery_device::{BufferRange, Device, DeviceError, Element, Event, Queue, SharedName, SharedPinned};

use super::LinkError;
use crate::error::ClusterError;
use crate::tag::Tag;

/// Shared memory of a rank, and that of others which it has opened.
pub(super) struct SharedMessages<T: Element> {
    device: Device,
    /// Memory of this rank: the slots of both turns.
    outgoing: [Vec<SharedPinned<T>>; 2],
    /// Turn of the current round.
    turn: usize,
    /// Memory of other ranks.
    opened: BTreeMap<Place, SharedPinned<T>>,
    /// Memory of this rank that other ranks have opened.
    announced: BTreeMap<Place, SharedName>,
}

/// Message about a copy in shared memory.
pub(super) struct Notice {
    pub(super) bytes: Vec<u8>,
    /// Whether the receiver confirms that it has opened the memory.
    pub(super) is_confirmed: bool,
}

/// Rank, turn and slot of shared memory.
pub(super) type Place = (usize, usize, usize);

impl<T: Element> SharedMessages<T> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            outgoing: [vec![], vec![]],
            turn: 0,
            opened: BTreeMap::new(),
            announced: BTreeMap::new(),
        }
    }

    /// Returns the name of memory with `len` elements for the first message. None if it cannot be
    /// created, for example in a container that forbids it.
    pub(super) fn offer(&mut self, len: usize) -> Option<SharedName> {
        let memory = self.device.new_shared_pinned(len).ok()?;
        let name = memory.name().clone();
        self.outgoing[0] = vec![memory];
        Some(name)
    }

    /// Returns whether the memory of another rank can be opened. That rank may be on another
    /// computer.
    pub(super) fn can_open(&self, name: &SharedName) -> bool {
        self.device.open_shared_pinned::<T>(name).is_ok()
    }

    /// Changes the turn.
    pub(super) fn start_round(&mut self) {
        self.turn = 1 - self.turn;
    }

    /// Queues the copy of a message to a slot. Slots are used in their order.
    pub(super) fn copy(
        &mut self,
        queue: &Queue,
        slot: usize,
        from: BufferRange<'_, T>,
    ) -> Result<Event, DeviceError> {
        let (device, slots, len) = (&self.device, &mut self.outgoing[self.turn], from.len());
        if slot == slots.len() {
            slots.push(device.new_shared_pinned(len)?);
        } else if slots[slot].len() < len {
            slots[slot] = device.new_shared_pinned(len + len / 8)?;
        }
        queue.read_async(from, slots[slot].first(len))
    }

    /// Returns the notice for a rank after the copy to a slot.
    pub(super) fn notice(&mut self, to: usize, slot: usize) -> Notice {
        let (turn, name) = (self.turn, self.outgoing[self.turn][slot].name());
        let place = (to, turn, slot);
        if self.announced.get(&place) == Some(name) {
            return Notice { bytes: format!("{turn} {slot}").into_bytes(), is_confirmed: false };
        }
        self.announced.insert(place, name.clone());
        let bytes = format!("{turn} {slot} {}", name.to_text()).into_bytes();
        Notice { bytes, is_confirmed: true }
    }

    /// Opens the memory of a notice if it is new. Returns its place, and whether it was new, which
    /// the receiver then confirms.
    pub(super) fn open(&mut self, from: usize, tag: Tag, notice: &[u8]) -> Result<(Place, bool), LinkError> {
        let ([turn, slot], name) = read_notice(notice).ok_or(ClusterError::Notice { from, tag })?;
        let place = (from, turn, slot);
        let Some(name) = name else { return Ok((place, false)) };
        self.opened.insert(place, self.device.open_shared_pinned(&name)?);
        Ok((place, true))
    }

    /// Returns open memory, which must have at least `len` elements.
    pub(super) fn received(
        &mut self,
        place: Place,
        tag: Tag,
        len: usize,
    ) -> Result<&mut SharedPinned<T>, LinkError> {
        let from = place.0;
        let memory = self.opened.get_mut(&place).ok_or(ClusterError::Notice { from, tag })?;
        let [found, expected] = [memory.len(), len].map(|len| len * size_of::<T>());
        if found < expected {
            return Err(ClusterError::Length { from, tag, found, expected }.into());
        }
        Ok(memory)
    }
}

/// Returns turn and slot, and the name if there is one.
fn read_notice(notice: &[u8]) -> Option<([usize; 2], Option<SharedName>)> {
    let mut words = std::str::from_utf8(notice).ok()?.splitn(3, ' ');
    let place = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
    match words.next() {
        None => Some((place, None)),
        Some(name) => Some((place, Some(SharedName::from_text(name)?))),
    }
}
