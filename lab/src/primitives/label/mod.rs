//! Connected components of a mask: pixels that are set and neighbours get the same label.
//!
//! With N(i) the neighbours of pixel i, and i ~ j if both are set and j ∈ N(i), the components are
//! the classes of the transitive closure of ~. Labels are
//!
//!   lᵢ = 0 where the mask is 0, else
//!   lᵢ = 1 + number of components whose first pixel comes before that of i's component.
//!
//! The first pixel of a component is the one with the lowest index. So the labels 1 ... k are
//! unique: every version has the same bits, however its threads race. `scipy.ndimage.label` numbers
//! in the same way. Masks are images or volumes, and [`Connectivity`] says which pixels are
//! neighbours.
//!
//! [`label_reference`] is the definition: it fills one component after the other. [`label_on_cpu`]
//! and [`Label`] are the fast versions. [`Threshold`] makes a mask from an image.
//!
//! Cost: one byte is read and 4 bytes are written per pixel. A copy with as many bytes is a bound
//! that no version reaches, because the label of a pixel depends on pixels at any distance. The
//! work is to find out which local labels belong together. `runs.cu` describes how the default does
//! it, and [`rungs`] lists the steps that lead to it.
//!
//! Not for masks with 2^32 pixels or more.

mod cpu;
mod device;
mod numbering;
mod pixels;
pub mod rungs;
mod runs;
pub mod selftest;
mod threshold;

use std::collections::VecDeque;

pub use cpu::label_on_cpu;
pub use device::{Label, LabelStrategy};
pub use runs::RunTiles;
pub use threshold::{Threshold, threshold_on_cpu, threshold_reference};

/// Extents of a mask. Pixel (plane, row, column) has the index (plane · rows + row) · columns +
/// column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskShape {
    /// Number of planes, 1 for an image.
    pub planes: usize,
    /// Number of rows of a plane.
    pub rows: usize,
    /// Number of pixels of a row.
    pub columns: usize,
}

impl MaskShape {
    /// Returns the shape of an image.
    pub fn image(rows: usize, columns: usize) -> Self {
        Self { planes: 1, rows, columns }
    }

    /// Returns the number of pixels.
    ///
    /// # Panics
    /// If it does not fit in a `usize`. No buffer has that many elements.
    pub fn pixel_count(self) -> usize {
        let in_plane = self.rows.checked_mul(self.columns);
        in_plane.and_then(|n| n.checked_mul(self.planes)).expect("the number of pixels fits in memory")
    }

    /// Returns whether the mask has a single plane.
    pub fn is_image(self) -> bool {
        self.planes == 1
    }
}

/// Pixels that are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Connectivity {
    /// Those that share a side: 4 in an image, 6 in a volume.
    Faces,
    /// Those that share at least a corner: 8 in an image, 26 in a volume.
    Corners,
}

impl Connectivity {
    /// Both values.
    pub const ALL: [Self; 2] = [Self::Faces, Self::Corners];

    /// Returns the steps (plane, row, column) to all neighbours, in the order of their index.
    fn steps(self) -> Vec<[isize; 3]> {
        let all = (0..27).map(|i| [i / 9 - 1, i / 3 % 3 - 1, i % 3 - 1]);
        let is_neighbour = |step: &[isize; 3]| {
            let moved = step.iter().filter(|along| **along != 0).count();
            moved == 1 || moved > 1 && self == Self::Corners
        };
        all.filter(is_neighbour).collect()
    }
}

/// Reference implementation: writes the labels of `mask` to `labels` and returns the number of
/// components. Fills one component after the other, in breadth-first order from its first pixel.
///
/// ```
/// use orrery_lab::primitives::label::{Connectivity, MaskShape, label_reference};
///
/// let mask = [1, 0, 1,
///             1, 0, 1,
///             0, 1, 0];
/// let mut labels = [0; 9];
/// let shape = MaskShape::image(3, 3);
/// assert_eq!(label_reference(shape, Connectivity::Faces, &mask, &mut labels), 3);
/// assert_eq!(labels, [1, 0, 2, 1, 0, 2, 0, 3, 0]);
/// assert_eq!(label_reference(shape, Connectivity::Corners, &mask, &mut labels), 1);
/// ```
///
/// # Panics
/// If a slice has another length than the shape, or if there are 2^32 pixels or more.
pub fn label_reference(shape: MaskShape, connectivity: Connectivity, mask: &[u8], labels: &mut [u32]) -> u32 {
    check_lengths(shape, mask, labels);
    let MaskShape { planes, rows, columns } = shape;
    let steps = connectivity.steps();
    labels.fill(0);
    let (mut count, mut open) = (0, VecDeque::new());
    for first in 0..mask.len() {
        if mask[first] == 0 || labels[first] != 0 {
            continue;
        }
        count += 1;
        labels[first] = count;
        open.push_back(first);
        while let Some(pixel) = open.pop_front() {
            let at = [pixel / columns / rows, pixel / columns % rows, pixel % columns];
            for step in &steps {
                let moved = |axis: usize, extent: usize| {
                    at[axis].checked_add_signed(step[axis]).filter(|coordinate| *coordinate < extent)
                };
                let (Some(plane), Some(row), Some(column)) =
                    (moved(0, planes), moved(1, rows), moved(2, columns))
                else {
                    continue;
                };
                let neighbour = (plane * rows + row) * columns + column;
                if mask[neighbour] != 0 && labels[neighbour] == 0 {
                    labels[neighbour] = count;
                    open.push_back(neighbour);
                }
            }
        }
    }
    count
}

/// Panics if a slice has another length than the shape, or if an index does not fit in a label.
fn check_lengths(shape: MaskShape, mask: &[u8], labels: &[u32]) {
    let expected = shape.pixel_count();
    assert!(
        mask.len() == expected && labels.len() == expected,
        "{shape:?} has {expected} pixels, got {} and {}",
        mask.len(),
        labels.len()
    );
    assert!(expected < u32::MAX as usize, "{shape:?} has {expected} pixels, expected fewer than 2^32 - 1");
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_side_or_a_corner() {
        let counts = |connectivity: Connectivity| {
            let steps = connectivity.steps();
            [steps.iter().filter(|step| step[0] == 0).count(), steps.len()]
        };
        assert_eq!(counts(Connectivity::Faces), [4, 6]);
        assert_eq!(counts(Connectivity::Corners), [8, 26]);
    }

    /// Components of a volume, by hand: a bar through all planes, and a pixel at its corner.
    #[test]
    fn reference_labels_a_volume() {
        let shape = MaskShape { planes: 2, rows: 2, columns: 3 };
        let mask = [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
        let label = |connectivity| {
            let mut labels = [7; 12];
            let count = label_reference(shape, connectivity, &mask, &mut labels);
            (count, labels)
        };
        assert_eq!(label(Connectivity::Faces), (2, [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]));
        assert_eq!(label(Connectivity::Corners), (1, [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]));
    }

    #[test]
    #[should_panic(expected = "has 6 pixels, got 6 and 5")]
    fn wrong_lengths_are_refused() {
        label_reference(MaskShape::image(2, 3), Connectivity::Faces, &[0; 6], &mut [0; 5]);
    }
}
