//! Means over the pixels of a picture whose rows of nodes belong to several ranks.
//!
//! A row of pixels is computed by the rank that owns its first row of nodes. Most rows of pixels
//! have all their nodes there, so they are computed where the nodes are, for example on a device.
//! For the others, the ranks that own the following rows send them.

use std::ops::Range;

use orrery_cluster::{ClusterError, Tag, Team};
use orrery_model::grid::{PixelMeans, PixelNodes, PixelWeights};

use super::transfers::gather_parts;
use crate::Scalar;
use crate::pixels::{larger, pixel_means_of, smaller};

/// Rows of nodes for pixels of another rank.
const ROWS: Tag = Tag::new(105);

/// A picture whose rows of nodes are divided among the ranks of a team.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PixelRows<'a> {
    pub(crate) team: &'a Team,
    /// Rows of nodes of each rank.
    pub(crate) owned: &'a [Range<usize>],
    pub(crate) weights: &'a PixelWeights,
}

impl PixelRows<'_> {
    /// Returns the means and the range of all nodes on the leader, and `None` on the others.
    ///
    /// `read_rows` returns the values of some rows of this rank, counted from its first one, and
    /// `means_of` means and range for weights whose nodes are all in rows of this rank.
    pub(crate) fn means<R: Scalar, E: From<ClusterError>>(
        &self,
        read_rows: impl Fn(Range<usize>) -> Result<Vec<R>, E>,
        means_of: impl Fn(&PixelWeights) -> Result<PixelMeans, E>,
    ) -> Result<Option<PixelMeans>, E> {
        if self.team.size() == 1 {
            return means_of(self.weights).map(Some);
        }
        let (rank, width) = (self.team.transport().rank(), self.weights.width());
        let (rows, inside_end) = self.rows_of_pixels(rank);
        let mut found = PixelMeans { means: Vec::new(), min: f64::INFINITY, max: f64::NEG_INFINITY };
        let mut add = |part: PixelMeans| {
            found.means.extend(part.means);
            (found.min, found.max) = (smaller(found.min, part.min), larger(found.max, part.max));
        };
        if rows.start < inside_end {
            let owned = &self.owned[rank];
            add(means_of(&self.weights.part(rows.start..inside_end, owned.start, owned.len()))?);
        }
        let values = self.exchange_rows(read_rows)?;
        if inside_end < rows.end {
            let first = self.pixel(inside_end).first;
            let weights = self.weights.part(inside_end..rows.end, first, values.len() / self.nodes_per_row());
            add(pixel_means_of(&values, &weights));
        }
        let PixelMeans { mut means, min, max } = found;
        means.extend([min, max]);
        let length = |rank: usize| self.rows_of_pixels(rank).0.len() * width + 2;
        let lengths: Vec<usize> = (0..self.owned.len()).map(length).collect();
        let all = gather_parts(self.team, means, &lengths)?;
        Ok(self.team.is_leader().then(|| joined(&all, &lengths)))
    }

    fn pixel(&self, row: usize) -> &PixelNodes {
        &self.weights.rows().pixels()[row]
    }

    fn nodes_per_row(&self) -> usize {
        self.weights.columns().nodes()
    }

    /// Returns the rows of pixels that a rank computes, and the end of those whose nodes are all in
    /// its own rows.
    fn rows_of_pixels(&self, rank: usize) -> (Range<usize>, usize) {
        let pixels = self.weights.rows().pixels();
        let owned = &self.owned[rank];
        let index = |node: usize| pixels.partition_point(|pixel| pixel.first < node);
        // The first node of a row of pixels can be beyond the last row if the grid is periodic.
        let is_last = rank + 1 == self.owned.len();
        let rows = index(owned.start)..if is_last { pixels.len() } else { index(owned.end) };
        let inside = pixels[rows.clone()].partition_point(|pixel| pixel.end() <= owned.end);
        (rows.clone(), rows.start + inside)
    }

    /// Returns the rows of nodes that a rank needs for rows of pixels with nodes of several ranks,
    /// with their owners, in the order of positions.
    fn needed_rows(&self, rank: usize) -> Vec<(usize, Range<usize>)> {
        let (rows, inside_end) = self.rows_of_pixels(rank);
        if inside_end == rows.end {
            return Vec::new();
        }
        let (first, end) = (self.pixel(inside_end).first, self.pixel(rows.end - 1).end());
        let nodes = self.weights.rows().nodes();
        let common =
            |(owner, owned): (usize, &Range<usize>)| (owner, owned.start.max(first)..owned.end.min(end));
        let mut needed: Vec<_> = self.owned.iter().enumerate().map(common).collect();
        if end > nodes {
            // The position after the last row of a periodic grid is row 0.
            needed.push((0, 0..1));
        }
        needed.retain(|(_, rows)| !rows.is_empty());
        needed
    }

    /// Returns the rows that this rank needs, and sends those that others need.
    fn exchange_rows<R: Scalar, E: From<ClusterError>>(
        &self,
        read_rows: impl Fn(Range<usize>) -> Result<Vec<R>, E>,
    ) -> Result<Vec<R>, E> {
        let transport = self.team.transport();
        let (me, first) = (transport.rank(), self.owned[transport.rank()].start);
        let own_rows = |rows: &Range<usize>| read_rows(rows.start - first..rows.end - first);
        let (mut sends, mut parts) = (Vec::new(), Vec::new());
        for rank in 0..self.owned.len() {
            for (owner, rows) in self.needed_rows(rank) {
                match (owner == me, rank == me) {
                    (true, true) => parts.push((None, own_rows(&rows)?)),
                    (true, false) => sends.push((rank, own_rows(&rows)?)),
                    (false, true) => {
                        parts.push((Some(owner), vec![R::default(); rows.len() * self.nodes_per_row()]));
                    }
                    (false, false) => {}
                }
            }
        }
        transport.exchange(|exchange| {
            for (owner, part) in &mut parts {
                owner.map_or(Ok(()), |owner| exchange.receive(owner, ROWS, part))?;
            }
            sends.iter().try_for_each(|(rank, rows)| exchange.send(*rank, ROWS, rows))
        })?;
        Ok(parts.into_iter().flat_map(|(_, part)| part).collect())
    }
}

/// Joins the results of all ranks: means, then the smallest and the largest value.
fn joined(all: &[f64], lengths: &[usize]) -> PixelMeans {
    let mut joined = PixelMeans { means: Vec::new(), min: f64::INFINITY, max: f64::NEG_INFINITY };
    let mut rest = all;
    for &length in lengths {
        let (part, later) = rest.split_at(length);
        let (means, range) = part.split_at(length - 2);
        joined.means.extend_from_slice(means);
        (joined.min, joined.max) = (smaller(joined.min, range[0]), larger(joined.max, range[1]));
        rest = later;
    }
    joined
}
