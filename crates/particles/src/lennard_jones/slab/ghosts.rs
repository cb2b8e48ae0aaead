//! Messages between the ranks: particles that change their rank, and ghosts.

use orrery_cluster::{ClusterError, Pod, Tag, Transport};

/// Lists of particles that change their rank, or become ghosts.
const LISTS: Tag = Tag::new(60);
/// Positions of ghosts.
const POSITIONS: Tag = Tag::new(61);

/// Sends `outgoing[r]` to each rank r and returns the lists that this rank gets, in rank order. All
/// ranks must call it.
pub(super) fn exchange_lists<T: Pod>(
    transport: &Transport,
    outgoing: &[Vec<T>],
) -> Result<Vec<Vec<T>>, ClusterError> {
    let (rank, size) = (transport.rank(), transport.size());
    let mut lengths = vec![0u64; size * size];
    for (to, list) in outgoing.iter().enumerate() {
        lengths[rank * size + to] = list.len() as u64;
    }
    transport.all_gather_in_place(&mut lengths, &vec![size; size])?;
    let empty_list = |from: usize| vec![T::zeroed(); lengths[from * size + rank] as usize];
    let mut incoming: Vec<Vec<T>> = (0..size).map(empty_list).collect();
    transport.exchange(|exchange| {
        for (from, list) in incoming.iter_mut().enumerate().filter(|(_, list)| !list.is_empty()) {
            exchange.receive(from, LISTS, list)?;
        }
        for (to, list) in outgoing.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            exchange.send(to, LISTS, list)?;
        }
        Ok::<_, ClusterError>(())
    })?;
    Ok(incoming)
}

/// Particles whose positions the ranks send to one another in every step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ghosts {
    /// Ranks, and the indices of the particles that each of them needs.
    sent: Vec<(usize, Vec<u32>)>,
    /// Ranks that send ghosts, and their numbers.
    received: Vec<(usize, usize)>,
    /// Index behind the particles of each ghost, in the order of the messages.
    slots: Vec<u32>,
}

impl Ghosts {
    /// Takes the particles that are ghosts of each rank, the numbers of ghosts that each rank sends
    /// here, and their indices.
    pub(super) fn new(selected: Vec<Vec<u32>>, numbers: &[usize], slots: Vec<u32>) -> Self {
        Self {
            sent: selected.into_iter().enumerate().filter(|(_, indices)| !indices.is_empty()).collect(),
            received: numbers.iter().copied().enumerate().filter(|(_, number)| *number > 0).collect(),
            slots,
        }
    }

    /// Returns the index of each ghost, in the order of the values of [`Ghosts::exchange`].
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().map(|&slot| slot as usize)
    }

    /// Sends `value_of` the particles that other ranks need. Returns the values of the ghosts here.
    pub(super) fn exchange<T: Pod>(
        &self,
        transport: &Transport,
        value_of: impl Fn(usize) -> T,
    ) -> Result<Vec<T>, ClusterError> {
        let values_of = |indices: &Vec<u32>| indices.iter().map(|&k| value_of(k as usize)).collect();
        let outgoing: Vec<Vec<T>> = self.sent.iter().map(|(_, indices)| values_of(indices)).collect();
        let mut values = vec![T::zeroed(); self.slots.len()];
        transport.exchange(|exchange| {
            let mut rest = &mut values[..];
            for &(from, number) in &self.received {
                let (part, later) = rest.split_at_mut(number);
                exchange.receive(from, POSITIONS, part)?;
                rest = later;
            }
            for ((to, _), values) in self.sent.iter().zip(&outgoing) {
                exchange.send(*to, POSITIONS, values)?;
            }
            Ok::<_, ClusterError>(())
        })?;
        Ok(values)
    }
}
