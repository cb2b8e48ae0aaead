//! Operations of all ranks, built on messages between two ranks.
//!
//! | operation | messages | steps for p ranks |
//! |---|---|---|
//! | barrier | dissemination: step k notifies the rank at distance 2^k | ceil(log2 p) |
//! | broadcast | binomial tree | ceil(log2 p) |
//! | gather, reduce | all send to one, which receives in rank order | p - 1 |
//! | all-gather, short | Bruck et al. (1997): each step doubles the known parts | ceil(log2 p) |
//! | all-gather, long | ring: each rank passes the part on that it received last | p - 1 |
//! | all-reduce, short | all-gather, then each rank computes the same sum | ceil(log2 p) |
//! | all-reduce, long | each rank reduces one part of the values, then all-gather | p |
//!
//! Reductions combine the values of ranks 0, 1, 2, ... in this order, ((v0 + v1) + v2) + ..., so
//! the bits depend neither on timing nor on the algorithm.
//!
//! Values are sent as bytes. The functions of bytes are compiled once, and those of values, which
//! are compiled in every crate that calls them, are short.

use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

use crate::error::ClusterError;
use crate::tag::Tag;
use crate::transport::Transport;

/// Total bytes up to which an operation counts as short. The latency of p - 1 steps is then larger
/// than the time of copying the parts.
const SHORT_BYTES: usize = 1 << 16;

impl Transport {
    /// Waits until all ranks have called it.
    pub fn barrier(&self) -> Result<(), ClusterError> {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            let (sent, mut received) = ([0u8; 0], [0u8; 0]);
            self.exchange(|exchange| {
                exchange.send((rank + distance) % size, Tag::BARRIER, &sent)?;
                exchange.receive((rank + size - distance) % size, Tag::BARRIER, &mut received)
            })?;
            distance *= 2;
        }
        Ok(())
    }

    /// Returns the values of rank `root` on all ranks. The values of the others are ignored and may
    /// be empty.
    pub fn broadcast<T: Pod>(&self, root: usize, values: Vec<T>) -> Result<Vec<T>, ClusterError> {
        match self.broadcast_bytes(root, bytemuck::cast_slice(&values))? {
            None => Ok(values),
            Some((from, message)) => into_values(message, from, Tag::BROADCAST),
        }
    }

    /// Does [`Transport::broadcast`]. Returns the message and the rank that sent it, or `None` on
    /// rank `root`.
    fn broadcast_bytes(&self, root: usize, own: &[u8]) -> Result<Option<(usize, Vec<u8>)>, ClusterError> {
        self.check_rank(root)?;
        let (rank, size) = (self.rank(), self.size());
        // Ranks counted from the root. Each rank gets the values from the rank without its lowest
        // bit, and sends them to those with one lower bit more.
        let relative = (rank + size - root) % size;
        let lowest_bit =
            if relative == 0 { size.next_power_of_two() } else { relative & relative.wrapping_neg() };
        let message = if relative == 0 {
            None
        } else {
            let from = (rank + size - lowest_bit) % size;
            Some((from, self.receive(from, Tag::BROADCAST)?))
        };
        let bytes = message.as_ref().map_or(own, |(_, bytes)| bytes);
        self.exchange(|exchange| {
            let mut bit = lowest_bit / 2;
            while bit > 0 {
                if relative + bit < size {
                    exchange.send((rank + bit) % size, Tag::BROADCAST, bytes)?;
                }
                bit /= 2;
            }
            Ok::<_, ClusterError>(())
        })?;
        Ok(message)
    }

    /// Waits at most `limit` for the values of the next [`Transport::broadcast`] of rank `root`.
    /// Returns whether they are there. The ranks between `root` and this one must have called it.
    pub(crate) fn wait_for_broadcast(&self, root: usize, limit: Duration) -> Result<bool, ClusterError> {
        let (rank, size) = (self.rank(), self.size());
        let relative = (rank + size - root) % size;
        let lowest_bit = relative & relative.wrapping_neg();
        self.wait_for_message((rank + size - lowest_bit) % size, Tag::BROADCAST, limit)
    }

    /// Returns the values of all ranks on rank `root`, in rank order, and `None` on the others. The
    /// lengths may differ.
    pub fn gather<T: Pod>(&self, root: usize, values: &[T]) -> Result<Option<Vec<Vec<T>>>, ClusterError> {
        self.check_rank(root)?;
        if self.rank() != root {
            self.send_all(root, Tag::GATHER, bytemuck::cast_slice(values))?;
            return Ok(None);
        }
        let part_of = |rank: usize| {
            if rank == root {
                return Ok(values.to_vec());
            }
            into_values(self.receive(rank, Tag::GATHER)?, rank, Tag::GATHER)
        };
        (0..self.size()).map(part_of).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the values of all ranks, in rank order. The lengths may differ.
    pub fn all_gather<T: Pod>(&self, values: &[T]) -> Result<Vec<Vec<T>>, ClusterError> {
        let mut lengths = vec![0u64; self.size()];
        lengths[self.rank()] = values.len() as u64;
        self.all_gather_in_place(&mut lengths, &vec![1; self.size()])?;
        let lengths: Vec<usize> = lengths.iter().map(|&length| length as usize).collect();
        let mut all = vec![T::zeroed(); lengths.iter().sum()];
        let ranges = part_ranges(&lengths);
        all[ranges[self.rank()].clone()].copy_from_slice(values);
        self.all_gather_in_place(&mut all, &lengths)?;
        Ok(ranges.into_iter().map(|range| all[range].to_vec()).collect())
    }

    /// Fills `values` with the parts of all ranks. The parts follow one another in rank order, and
    /// part r has `lengths[r]` elements. All ranks pass the same lengths. On entry only the part of
    /// this rank is read.
    ///
    /// # Panics
    /// If there is not one length per rank, or if their sum is not the length of `values`.
    pub fn all_gather_in_place<T: Pod>(
        &self,
        values: &mut [T],
        lengths: &[usize],
    ) -> Result<(), ClusterError> {
        assert_eq!(lengths.len(), self.size(), "one length per rank");
        assert_eq!(lengths.iter().sum::<usize>(), values.len(), "the parts fill the values");
        self.all_gather_bytes(bytemuck::cast_slice_mut(values), &byte_ranges::<T>(lengths))
    }

    fn all_gather_bytes(&self, values: &mut [u8], ranges: &[Range<usize>]) -> Result<(), ClusterError> {
        if values.len() <= SHORT_BYTES {
            self.all_gather_by_doubling(values, ranges)
        } else {
            self.all_gather_in_ring(values, ranges)
        }
    }

    /// Each step sends all known parts to the rank `known` below, so that every rank knows twice as
    /// many parts: its own and those of the next ranks.
    fn all_gather_by_doubling(&self, values: &mut [u8], ranges: &[Range<usize>]) -> Result<(), ClusterError> {
        let (rank, size) = (self.rank(), self.size());
        let mut known = 1;
        while known < size {
            let count = known.min(size - known);
            let parts_from = |first: usize| (first..first + count).map(|part| ranges[part % size].clone());
            let sent: Vec<u8> = parts_from(rank).flat_map(|range| values[range].iter().copied()).collect();
            let received_length = parts_from(rank + known).map(|range| range.len()).sum();
            let mut received = vec![0u8; received_length];
            self.exchange(|exchange| {
                exchange.send((rank + size - known) % size, Tag::ALL_GATHER, &sent)?;
                exchange.receive((rank + known) % size, Tag::ALL_GATHER, &mut received)
            })?;
            let mut rest = &received[..];
            for range in parts_from(rank + known) {
                let (part, later) = rest.split_at(range.len());
                values[range].copy_from_slice(part);
                rest = later;
            }
            known += count;
        }
        Ok(())
    }

    /// Step k sends the part of rank - k to the next rank and receives the one before it.
    fn all_gather_in_ring(&self, values: &mut [u8], ranges: &[Range<usize>]) -> Result<(), ClusterError> {
        let (rank, size) = (self.rank(), self.size());
        for step in 0..size - 1 {
            let sent = ranges[(rank + size - step) % size].clone();
            let received = ranges[(rank + size - step - 1) % size].clone();
            let (sent, received) = disjoint_parts(values, sent, received);
            self.exchange(|exchange| {
                exchange.send((rank + 1) % size, Tag::ALL_GATHER, sent)?;
                exchange.receive((rank + size - 1) % size, Tag::ALL_GATHER, received)
            })?;
        }
        Ok(())
    }

    /// Combines the values of all ranks element by element on rank `root`, in rank order, and
    /// returns `None` on the others. All ranks have the same number of values.
    pub fn reduce<T: Pod>(
        &self,
        root: usize,
        values: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<Option<Vec<T>>, ClusterError> {
        self.check_rank(root)?;
        if self.rank() != root {
            self.send_all(root, Tag::REDUCE, bytemuck::cast_slice(values))?;
            return Ok(None);
        }
        let mut result: Vec<T> = Vec::new();
        let mut received = vec![T::zeroed(); values.len()];
        for rank in 0..self.size() {
            let part = if rank == root {
                values
            } else {
                self.receive_all(rank, Tag::REDUCE, bytemuck::cast_slice_mut(&mut received))?;
                &received
            };
            fold_into(&mut result, part, &combine);
        }
        Ok(Some(result))
    }

    /// Combines the values of all ranks element by element, in rank order, and returns the result
    /// on all ranks. All ranks have the same number of values.
    ///
    /// `transport.all_reduce(&[energy], |a, b| a + b)`
    pub fn all_reduce<T: Pod>(
        &self,
        values: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<Vec<T>, ClusterError> {
        let size = self.size();
        if size_of_val(values) * size > SHORT_BYTES {
            return self.all_reduce_parts(values, combine);
        }
        let length = values.len();
        let mut all = vec![T::zeroed(); length * size];
        all[self.rank() * length..][..length].copy_from_slice(values);
        self.all_gather_in_place(&mut all, &vec![length; size])?;
        let mut result = Vec::new();
        for rank in 0..size {
            fold_into(&mut result, &all[rank * length..][..length], &combine);
        }
        Ok(result)
    }

    /// Rank r reduces part r of the values, then the parts are gathered.
    fn all_reduce_parts<T: Pod>(
        &self,
        values: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<Vec<T>, ClusterError> {
        let (rank, size) = (self.rank(), self.size());
        let border = |part: usize| (values.len() as u128 * part as u128 / size as u128) as usize;
        let lengths: Vec<usize> = (0..size).map(|part| border(part + 1) - border(part)).collect();
        let ranges = part_ranges(&lengths);
        let mut parts: Vec<Vec<T>> = (0..size).map(|_| vec![T::zeroed(); lengths[rank]]).collect();
        let mut part_bytes: Vec<_> = parts.iter_mut().map(|part| bytemuck::cast_slice_mut(part)).collect();
        self.exchange_parts(bytemuck::cast_slice(values), &byte_ranges::<T>(&lengths), &mut part_bytes)?;
        let mut sum = Vec::new();
        parts.iter().for_each(|part| fold_into(&mut sum, part, &combine));
        let mut result = vec![T::zeroed(); values.len()];
        result[ranges[rank].clone()].copy_from_slice(&sum);
        self.all_gather_in_place(&mut result, &lengths)?;
        Ok(result)
    }

    /// Sends part r of the values to rank r, and fills `parts` with the parts that the ranks send
    /// to this one, in rank order.
    fn exchange_parts(
        &self,
        values: &[u8],
        ranges: &[Range<usize>],
        parts: &mut [&mut [u8]],
    ) -> Result<(), ClusterError> {
        let (rank, size) = (self.rank(), self.size());
        parts[rank].copy_from_slice(&values[ranges[rank].clone()]);
        self.exchange(|exchange| {
            for (from, part) in parts.iter_mut().enumerate().filter(|(from, _)| *from != rank) {
                exchange.receive(from, Tag::REDUCE, part)?;
            }
            // Each rank starts with the next one, so that they do not all send to the same rank.
            for to in (rank + 1..size).chain(0..rank) {
                exchange.send(to, Tag::REDUCE, &values[ranges[to].clone()])?;
            }
            Ok(())
        })
    }

    /// Sends a message and waits for its end.
    fn send_all(&self, to: usize, tag: Tag, bytes: &[u8]) -> Result<(), ClusterError> {
        self.exchange(|exchange| exchange.send(to, tag, bytes))
    }

    /// Waits for a message that fills `buffer`.
    fn receive_all(&self, from: usize, tag: Tag, buffer: &mut [u8]) -> Result<(), ClusterError> {
        self.exchange(|exchange| exchange.receive(from, tag, buffer))
    }
}

/// Combines `values` with `result` element by element. The first values replace an empty result.
fn fold_into<T: Pod>(result: &mut Vec<T>, values: &[T], combine: impl Fn(T, T) -> T) {
    if result.is_empty() {
        result.extend_from_slice(values);
    } else {
        for (sum, &value) in result.iter_mut().zip(values) {
            *sum = combine(*sum, value);
        }
    }
}

/// Returns the ranges of parts that follow one another.
fn part_ranges(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range_of = |&length: &usize| {
        let start = end;
        end += length;
        start..end
    };
    lengths.iter().map(range_of).collect()
}

/// Returns the ranges, in bytes, of parts of these lengths.
fn byte_ranges<T>(lengths: &[usize]) -> Vec<Range<usize>> {
    let ranges = part_ranges(lengths).into_iter();
    ranges.map(|range| range.start * size_of::<T>()..range.end * size_of::<T>()).collect()
}

/// Borrows two ranges that do not overlap.
fn disjoint_parts(values: &mut [u8], read: Range<usize>, written: Range<usize>) -> (&[u8], &mut [u8]) {
    if read.end <= written.start {
        let (low, high) = values.split_at_mut(written.start);
        (&low[read], &mut high[..written.len()])
    } else {
        let (low, high) = values.split_at_mut(read.start);
        (&high[..read.len()], &mut low[written])
    }
}

/// Returns the values of a message.
fn into_values<T: Pod>(message: Vec<u8>, from: usize, tag: Tag) -> Result<Vec<T>, ClusterError> {
    let (found, expected) = (message.len(), size_of::<T>());
    if expected == 0 || found % expected != 0 {
        return Err(ClusterError::Length { from, tag, found, expected });
    }
    let mut values = vec![T::zeroed(); found / expected];
    bytemuck::cast_slice_mut(&mut values).copy_from_slice(&message);
    Ok(values)
}
