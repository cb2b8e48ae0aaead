//! Labels on all CPU cores: two passes with union-find, by strips of rows.
//!
//! A strip has neighbouring rows, of one or of several planes. Invariant: provisional labels and
//! the components of strips are numbered in the order of their first pixel, and a parent is never
//! larger than its child. So the root of a tree is the component with the first pixel, and counting
//! roots in order gives the final labels.
//!
//!   1. Each strip labels its pixels: runs of set pixels get the label of a neighbour above, and
//!      further neighbours are merged. A second pass replaces provisional labels by the numbers of
//!      the strip's components.
//!   2. Components that touch across the border of two strips are merged, on one core.
//!   3. Each strip replaces the numbers of its components by the final labels.
//!
//! Cost: both passes of step 1 and step 3 read or write 4 bytes per pixel, and step 1 reads 1 byte
//! of the mask. Step 2 visits the first row of each strip, or its first plane. The number of strips
//! follows from the number of threads. It does not change the result.

use rayon::prelude::*;

use super::{Connectivity, MaskShape, check_lengths};

/// Strips per thread, so that a thread whose strips have few components takes another one.
const STRIPS_PER_THREAD: usize = 4;
/// Smallest number of rows of a strip of an image.
const MIN_ROWS: usize = 16;

/// Writes the labels of `mask` to `labels`, on all CPU cores, and returns the number of components.
///
/// # Panics
/// If a slice has another length than the shape, or if there are 2^32 - 1 pixels or more.
pub fn label_on_cpu(shape: MaskShape, connectivity: Connectivity, mask: &[u8], labels: &mut [u32]) -> u32 {
    let strips = STRIPS_PER_THREAD * rayon::current_num_threads();
    let rows_per_strip = match shape.is_image() {
        true => shape.rows.div_ceil(strips).max(MIN_ROWS),
        false => shape.planes.div_ceil(strips) * shape.rows,
    };
    label_by_strips(shape, connectivity, rows_per_strip, mask, labels)
}

/// Does the same with a given number of rows per strip. The rows of all planes count.
fn label_by_strips(
    shape: MaskShape,
    connectivity: Connectivity,
    rows_per_strip: usize,
    mask: &[u8],
    labels: &mut [u32],
) -> u32 {
    check_lengths(shape, mask, labels);
    if mask.is_empty() {
        return 0;
    }
    let strip_len = rows_per_strip * shape.columns;
    let neighbours = RowNeighbours { shape, connectivity, rows_per_strip };
    let strips = mask.par_chunks(strip_len).zip(labels.par_chunks_mut(strip_len)).enumerate();
    let counts: Vec<u32> = strips
        .map(|(strip, (mask, labels))| neighbours.label_strip(strip * rows_per_strip, mask, labels))
        .collect();
    let first_nodes: Vec<u32> = counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum - count)
        })
        .collect();
    let mut components = DisjointSets::with_len(counts.iter().sum());
    neighbours.merge_strips(labels, &first_nodes, &mut components);
    let (numbers, count) = components.into_numbers();
    labels.par_chunks_mut(strip_len).zip(&first_nodes).for_each(|(labels, first)| {
        for label in labels.iter_mut().filter(|label| **label != 0) {
            *label = numbers[(*first + *label - 1) as usize];
        }
    });
    count
}

/// Forest of disjoint sets. A parent is at most as large as its child, and the root of a set is its
/// smallest element.
#[derive(Default)]
struct DisjointSets {
    parents: Vec<u32>,
}

impl DisjointSets {
    /// Returns sets of one element each.
    fn with_len(len: u32) -> Self {
        Self { parents: (0..len).collect() }
    }

    /// Adds a set with a new element and returns the element.
    fn push(&mut self) -> u32 {
        let element = self.parents.len() as u32;
        self.parents.push(element);
        element
    }

    /// Returns the smallest element of a set. Halves the paths of the elements on its way.
    fn root_of(&mut self, mut element: u32) -> u32 {
        loop {
            let parent = self.parents[element as usize];
            if parent == element {
                return element;
            }
            let grandparent = self.parents[parent as usize];
            self.parents[element as usize] = grandparent;
            element = grandparent;
        }
    }

    /// Merges the sets of two elements.
    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root_of(a), self.root_of(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// Returns the number of each element's set, and the number of sets. Sets are numbered from 1,
    /// in the order of their smallest elements.
    fn into_numbers(self) -> (Vec<u32>, u32) {
        let (mut numbers, mut count) = (self.parents, 0);
        for element in 0..numbers.len() {
            let parent = numbers[element] as usize;
            numbers[element] = if parent == element {
                count += 1;
                count
            } else {
                // Parents are smaller, so this one has its number already.
                numbers[parent]
            };
        }
        (numbers, count)
    }
}

/// Finds the rows that contain neighbours of a row.
#[derive(Clone, Copy)]
struct RowNeighbours {
    shape: MaskShape,
    connectivity: Connectivity,
    rows_per_strip: usize,
}

impl RowNeighbours {
    /// Returns the distances to the earlier rows that are neighbours of `row`, which counts the
    /// rows of all planes. Those of an image are at most 1 long.
    fn earlier_rows(&self, row: usize) -> impl Iterator<Item = usize> {
        let (rows, is_wide) = (self.shape.rows, self.connectivity == Connectivity::Corners);
        let (plane, in_plane) = (row / rows, row % rows);
        let has_above = in_plane > 0;
        [
            (plane > 0 && is_wide && has_above, rows + 1),
            (plane > 0, rows),
            (plane > 0 && is_wide && in_plane + 1 < rows, rows.wrapping_sub(1)),
            (has_above, 1),
        ]
        .into_iter()
        .filter_map(|(is_neighbour, distance)| is_neighbour.then_some(distance))
    }

    /// Returns the columns of an earlier row that are neighbours of the run from `start` to before
    /// `end`.
    fn columns_beside(&self, start: usize, end: usize) -> std::ops::Range<usize> {
        match self.connectivity {
            Connectivity::Faces => start..end,
            Connectivity::Corners => start.saturating_sub(1)..(end + 1).min(self.shape.columns),
        }
    }

    /// Labels a strip by its components, which are numbered from 1. Returns their number.
    /// `first_row` is the number of rows before the strip.
    fn label_strip(&self, first_row: usize, mask: &[u8], labels: &mut [u32]) -> u32 {
        let columns = self.shape.columns;
        let mut sets = DisjointSets::default();
        for (in_strip, mask) in mask.chunks(columns).enumerate() {
            let (earlier, rest) = labels.split_at_mut(in_strip * columns);
            let row = &mut rest[..columns];
            let distances = self.earlier_rows(first_row + in_strip).filter(|distance| *distance <= in_strip);
            let above: Vec<&[u32]> =
                distances.map(|distance| &earlier[(in_strip - distance) * columns..][..columns]).collect();
            for run in runs_of(mask) {
                let mut label = 0;
                for above in &above {
                    for other in distinct_labels(&above[self.columns_beside(run.start, run.end)]) {
                        match label {
                            0 => label = other,
                            _ => sets.unite(label - 1, other - 1),
                        }
                    }
                }
                row[run.clone()].fill(if label == 0 { sets.push() + 1 } else { label });
            }
            fill_gaps(mask, row);
        }
        let (numbers, count) = sets.into_numbers();
        for label in labels.iter_mut().filter(|label| **label != 0) {
            *label = numbers[(*label - 1) as usize];
        }
        count
    }

    /// Merges components of different strips that have neighbouring pixels. Component c of strip s
    /// is the element first_nodes[s] + c - 1 of `components`.
    fn merge_strips(&self, labels: &[u32], first_nodes: &[u32], components: &mut DisjointSets) {
        let columns = self.shape.columns;
        let strip_of = |row: usize| row / self.rows_per_strip;
        let row_labels = |row: usize| &labels[row * columns..][..columns];
        for row in 0..labels.len() / columns {
            let distances = self.earlier_rows(row);
            for above in
                distances.map(|distance| row - distance).filter(|above| strip_of(*above) != strip_of(row))
            {
                let (first, first_above) = (first_nodes[strip_of(row)], first_nodes[strip_of(above)]);
                for (column, &label) in row_labels(row).iter().enumerate().filter(|(_, label)| **label != 0) {
                    let beside = &row_labels(above)[self.columns_beside(column, column + 1)];
                    for other in distinct_labels(beside) {
                        components.unite(first + label - 1, first_above + other - 1);
                    }
                }
            }
        }
    }
}

/// Returns the runs of pixels that are set.
fn runs_of(mask: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + mask[at..].iter().position(|pixel| *pixel != 0)?;
        at = mask[start..].iter().position(|pixel| *pixel == 0).map_or(mask.len(), |len| start + len);
        Some(start..at)
    })
}

/// Returns the labels of pixels that are set, without repetitions of neighbours.
fn distinct_labels(labels: &[u32]) -> impl Iterator<Item = u32> {
    let mut previous = 0;
    labels.iter().copied().filter(move |label| {
        let is_new = *label != 0 && *label != previous;
        previous = *label;
        is_new
    })
}

/// Sets the labels of pixels that are not set to 0.
fn fill_gaps(mask: &[u8], labels: &mut [u32]) {
    for (label, _) in labels.iter_mut().zip(mask).filter(|(_, pixel)| **pixel == 0) {
        *label = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::label_reference;
    use crate::label::selftest::{example_masks, random_mask};

    /// Strips of one row, of a few rows and of the whole mask.
    #[test]
    fn cpu_labels_equal_the_reference() {
        let random = [[1, 40, 70], [4, 5, 6], [7, 1, 9], [1, 1, 50], [1, 50, 1], [3, 17, 20]]
            .map(|[planes, rows, columns]| random_mask(MaskShape { planes, rows, columns }, 0.45, 3));
        for (shape, mask) in example_masks(20).into_iter().chain(random) {
            for connectivity in Connectivity::ALL {
                let mut expected = vec![0; mask.len()];
                let count = label_reference(shape, connectivity, &mask, &mut expected);
                for rows_per_strip in [1, 3, 16, 1000] {
                    let mut found = vec![9; mask.len()];
                    let found_count = label_by_strips(shape, connectivity, rows_per_strip, &mask, &mut found);
                    assert_eq!(found_count, count, "{shape:?}, {connectivity:?}, {rows_per_strip} rows");
                    assert!(found == expected, "{shape:?}, {connectivity:?}, {rows_per_strip} rows");
                }
                let mut found = vec![9; mask.len()];
                assert_eq!(label_on_cpu(shape, connectivity, &mask, &mut found), count);
                assert!(found == expected, "{shape:?}, {connectivity:?}");
            }
        }
    }
}
