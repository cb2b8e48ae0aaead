//! Labels on all CPU cores: runs of set pixels and union-find, by strips of rows.
//!
//! A strip has neighbouring rows, of one or of several planes. Invariant: runs are numbered in
//! raster order, sets of runs and the components of strips in the order of their first pixel, and a
//! parent is never larger than its child. So the root of a tree is the component with the first
//! pixel, and counting roots in order gives the final labels.
//!
//!   1. Each strip turns its bytes into bits, finds the runs of each row, and merges those that
//!      touch: two neighbouring rows are walked at the same time.
//!   2. Components that touch across the border of two strips are merged, on one core.
//!   3. Each strip writes the labels of its runs.
//!
//! Cost: one byte is read and 4 bytes are written per pixel, and 12 bytes per run, of which a
//! random image has one per 4 pixels. Branches that depend on the pixels are the limit. Step 2
//! visits the first row of each strip, or its first plane. The number of strips follows from the
//! number of threads. It does not change the result.

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
    let neighbours = RowNeighbours { shape, connectivity };
    let chunks = mask.par_chunks(strip_len).enumerate();
    let mut strips: Vec<Strip> =
        chunks.map(|(strip, mask)| Strip::label(&neighbours, strip * rows_per_strip, mask)).collect();
    let mut components = 0;
    for strip in &mut strips {
        strip.first_component = components;
        components += strip.component_count;
    }
    let mut sets = DisjointSets { parents: (0..components).collect() };
    merge_strips(&neighbours, &strips, &mut sets);
    let (numbers, count) = sets.into_numbers();
    labels.par_chunks_mut(strip_len).zip(&strips).for_each(|(labels, strip)| {
        for (row, labels) in labels.chunks_mut(shape.columns).enumerate() {
            labels.fill(0);
            for run in strip.row(row) {
                let number = numbers[(strip.first_component + run.set) as usize];
                labels[run.start as usize..run.end as usize].fill(number);
            }
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

/// Finds the rows that contain neighbours of a row, and the runs that touch.
#[derive(Clone, Copy)]
struct RowNeighbours {
    shape: MaskShape,
    connectivity: Connectivity,
}

impl RowNeighbours {
    /// Returns the distances to the earlier rows that are neighbours of `row`, which counts the
    /// rows of all planes.
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

    /// Calls `touch` for each pair of a run of `row` and a run of an earlier row that touch, by
    /// their indices.
    fn for_touching_runs(&self, row: &[PixelRun], earlier: &[PixelRun], mut touch: impl FnMut(usize, usize)) {
        let reach = u32::from(self.connectivity == Connectivity::Corners);
        let mut first = 0;
        for (index, run) in row.iter().enumerate() {
            while first < earlier.len() && earlier[first].end + reach <= run.start {
                first += 1;
            }
            let mut other = first;
            while other < earlier.len() && earlier[other].start < run.end + reach {
                touch(index, other);
                other += 1;
            }
        }
    }
}

/// Maximal row of set pixels: columns from `start` to before `end`.
#[derive(Clone, Copy)]
struct PixelRun {
    start: u32,
    end: u32,
    /// Component within the strip. While a strip is labelled, an element of its sets.
    set: u32,
}

/// Runs of all rows of a strip.
struct Strip {
    runs: Vec<PixelRun>,
    /// Index of the first run of each row, and the number of runs.
    row_starts: Vec<usize>,
    component_count: u32,
    /// Number of the components of all strips before.
    first_component: u32,
}

impl Strip {
    /// Returns the runs of a row, which is counted within the strip.
    fn row(&self, row: usize) -> &[PixelRun] {
        &self.runs[self.row_starts[row]..self.row_starts[row + 1]]
    }

    /// Labels the runs of a strip by its components. `first_row` is the number of rows before it.
    fn label(neighbours: &RowNeighbours, first_row: usize, mask: &[u8]) -> Self {
        /// Element of a run that touches no earlier one yet.
        const NO_SET: u32 = u32::MAX;
        let mut strip =
            Self { runs: Vec::new(), row_starts: vec![0], component_count: 0, first_component: 0 };
        let (mut sets, mut touching) = (DisjointSets::default(), Vec::new());
        for (row, mask) in mask.chunks(neighbours.shape.columns).enumerate() {
            let begin = strip.runs.len();
            push_runs(mask, |start, end| strip.runs.push(PixelRun { start, end, set: NO_SET }));
            strip.row_starts.push(strip.runs.len());
            let (earlier, runs) = strip.runs.split_at_mut(begin);
            let distances = neighbours.earlier_rows(first_row + row).filter(|distance| *distance <= row);
            for above in distances.map(|distance| row - distance) {
                let above = &earlier[strip.row_starts[above]..strip.row_starts[above + 1]];
                neighbours
                    .for_touching_runs(runs, above, |run, other| touching.push((run, above[other].set)));
                for (run, other) in touching.drain(..) {
                    match &mut runs[run].set {
                        set @ &mut NO_SET => *set = other,
                        set => sets.unite(*set, other),
                    }
                }
            }
            runs.iter_mut().filter(|run| run.set == NO_SET).for_each(|run| run.set = sets.push());
        }
        let (numbers, count) = sets.into_numbers();
        strip.runs.iter_mut().for_each(|run| run.set = numbers[run.set as usize] - 1);
        strip.component_count = count;
        strip
    }
}

/// Merges components of different strips that touch. All strips but the last have the same number
/// of rows.
fn merge_strips(neighbours: &RowNeighbours, strips: &[Strip], sets: &mut DisjointSets) {
    let rows_per_strip = strips[0].row_starts.len() - 1;
    for (index, strip) in strips.iter().enumerate() {
        for row in 0..strip.row_starts.len() - 1 {
            let of_image = index * rows_per_strip + row;
            for distance in neighbours.earlier_rows(of_image).filter(|distance| *distance > row) {
                let other = &strips[(of_image - distance) / rows_per_strip];
                let earlier = other.row((of_image - distance) % rows_per_strip);
                let runs = strip.row(row);
                neighbours.for_touching_runs(runs, earlier, |run, touching| {
                    let [a, b] = [
                        strip.first_component + runs[run].set,
                        other.first_component + earlier[touching].set,
                    ];
                    sets.unite(a, b);
                });
            }
        }
    }
}

/// Calls `push` with start and end of each run of a row.
fn push_runs(mask: &[u8], mut push: impl FnMut(u32, u32)) {
    let mut start = None;
    for (word, bytes) in mask.chunks(64).enumerate() {
        let bits = bits_of(bytes);
        // A run starts or ends wherever a pixel differs from the one before.
        let mut changes = bits ^ (bits << 1 | u64::from(start.is_some()));
        while changes != 0 {
            let column = (64 * word) as u32 + changes.trailing_zeros();
            match start.take() {
                None => start = Some(column),
                Some(start) => push(start, column),
            }
            changes &= changes - 1;
        }
    }
    if let Some(start) = start {
        push(start, mask.len() as u32);
    }
}

/// Returns one bit for each of at most 64 bytes, set where the byte is not 0.
fn bits_of(bytes: &[u8]) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let mut bits = 0;
    for (eighth, bytes) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        let high_bits = (((word & LOW_BITS) + LOW_BITS) | word) & !LOW_BITS;
        // Moves bits 0, 8, ... 56 to 56 ... 63. No two products meet in a bit.
        let gathered = (high_bits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= gathered << (8 * eighth);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::label::label_reference;
    use crate::primitives::label::selftest::{example_masks, random_mask};

    #[test]
    fn bits_are_set_where_bytes_are_not_zero() {
        for len in [0, 1, 7, 8, 9, 63, 64] {
            let bytes: Vec<u8> = (0..len).map(|i: u8| if i % 3 == 1 { 1 << (i % 8) } else { 0 }).collect();
            let expected: u64 = (0..len).filter(|i| i % 3 == 1).map(|i| 1u64 << i).sum();
            assert_eq!(bits_of(&bytes), expected, "{len}");
            assert_eq!(bits_of(&vec![255; len.into()]), if len == 64 { u64::MAX } else { (1 << len) - 1 });
        }
    }

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
