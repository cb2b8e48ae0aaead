//! Neighbours of a rank, and the exchange of borders in host memory.

use std::ops::Range;

use orrery_cluster::{ClusterError, Exchange, Pod, Tag, Team, Transport};

/// Messages to the rank with higher slices.
pub(super) const UPWARDS: Tag = Tag::new(101);
/// Messages to the rank with lower slices.
pub(super) const DOWNWARDS: Tag = Tag::new(102);

/// A rank with the ranks that own the slices before and after its own.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    pub(super) transport: Transport,
    /// Owner of the slices below.
    pub(super) lower: Option<usize>,
    /// Owner of the slices above.
    pub(super) upper: Option<usize>,
}

impl Neighbours {
    /// Returns the neighbours of this rank. On a periodic grid those of the first and of the last
    /// rank are each other. A single rank has none.
    pub(crate) fn new(team: &Team, is_periodic: bool) -> Self {
        let transport = team.transport().clone();
        let (rank, size) = (transport.rank(), transport.size());
        let has_ends = !is_periodic || size == 1;
        let lower = (rank > 0 || !has_ends).then(|| (rank + size - 1) % size);
        let upper = (rank + 1 < size || !has_ends).then(|| (rank + 1) % size);
        Self { transport, lower, upper }
    }

    /// Returns true if this rank computes alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.lower.is_none() && self.upper.is_none()
    }

    /// Returns true if messages move only during calls, so that a long computation must poll.
    pub(crate) fn needs_polls(&self) -> bool {
        self.transport.is_mpi()
    }

    /// Splits `slices` slices into the border of the lower neighbour, the interior and the border
    /// of the upper neighbour. Each border has `border` slices, or none without a neighbour.
    pub(crate) fn split(&self, slices: usize, border: usize) -> [Range<usize>; 3] {
        let low = if self.lower.is_some() { border } else { 0 };
        let high = if self.upper.is_some() { slices - border } else { slices };
        [0..low, low..high, high..slices]
    }

    /// Sends the borders to the neighbours, receives their borders as ghost slices, and calls
    /// `work` while the messages move. Slices are those of the lower and of the upper side.
    pub(crate) fn exchange<'b, R: Pod>(
        &self,
        borders: [&'b [R]; 2],
        ghosts: [&'b mut [R]; 2],
        work: impl FnOnce(&Exchange<'_, 'b>) -> Result<(), ClusterError>,
    ) -> Result<(), ClusterError> {
        let [low_ghosts, high_ghosts] = ghosts;
        self.transport.exchange(|exchange| {
            // A message whose receive was started before needs no copy.
            if let Some(lower) = self.lower {
                exchange.receive(lower, UPWARDS, low_ghosts)?;
            }
            if let Some(upper) = self.upper {
                exchange.receive(upper, DOWNWARDS, high_ghosts)?;
                exchange.send(upper, UPWARDS, borders[1])?;
            }
            if let Some(lower) = self.lower {
                exchange.send(lower, DOWNWARDS, borders[0])?;
            }
            work(exchange)
        })
    }
}

/// Parts of a field in host memory: the ghost slices below and above, the borders of the lower and
/// of the upper neighbour, and the interior.
pub(crate) struct SlabParts<'a, R> {
    pub(crate) ghosts: [&'a mut [R]; 2],
    pub(crate) borders: [&'a mut [R]; 2],
    pub(crate) interior: &'a mut [R],
}

impl<'a, R: Pod> SlabParts<'a, R> {
    /// Splits a field. `starts` has the positions at which ghost slices, border, interior, border
    /// and ghost slices start, and the end of the last ones.
    pub(crate) fn split(field: &'a mut [R], starts: [usize; 6]) -> Self {
        let mut rest = &mut field[starts[0]..starts[5]];
        let [below, low, interior, high, above] = std::array::from_fn(|part| {
            let (part, later) = std::mem::take(&mut rest).split_at_mut(starts[part + 1] - starts[part]);
            rest = later;
            part
        });
        Self { ghosts: [below, above], borders: [low, high], interior }
    }

    /// Replaces the ghost slices by the slices of the neighbours.
    pub(crate) fn exchange_ghosts(self, neighbours: &Neighbours) -> Result<(), ClusterError> {
        let [low, high] = self.borders;
        neighbours.exchange([low, high], self.ghosts, |_| Ok(()))
    }
}
