//! Cells of the box, and the order of the particles in them.
//!
//! The box is divided into cells whose sides are at least the radius of the neighbour lists. So all
//! neighbours of a particle are in its cell and in those next to it. Cells are numbered row by row,
//! x fastest, and particles are sorted by the number of their cell. Those of neighbouring cells
//! along x are then next to one another in memory.
//!
//! With three or more cells along an axis of a periodic box, a cell has two neighbours along it.
//! With one or two cells, all of them are neighbours, each once. An open box has no cells beyond
//! its ends: the cells cover the part of the box with particles. The same holds for one rank of
//! several, whose cells cover its part of the box.

use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::arithmetic::upper_half;

/// Fractions of the box in 32 bits.
pub const FRACTIONS: u64 = 1 << 32;

/// Division of a box into cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellGrid {
    /// Number of cells along each axis.
    pub counts: [usize; 3],
    /// Lowest fraction of the box that the cells cover, in 32 bits.
    low: [u32; 3],
    /// Number of fractions that the cells cover, up to 2³².
    span: [u64; 3],
    /// True for an axis along which the first and the last cell are neighbours.
    is_periodic: [bool; 3],
}

/// Indices of neighbouring cells along one axis: up to three, without repetition.
#[derive(Clone, Copy, Debug)]
pub struct AxisNeighbours {
    cells: [usize; 3],
    count: usize,
}

impl AxisNeighbours {
    /// Returns the cells.
    pub fn as_slice(&self) -> &[usize] {
        &self.cells[..self.count]
    }
}

impl CellGrid {
    /// Divides `bounds` into cells with sides of at least `radius`. `low` and `high` are the lowest
    /// and highest fractions of the particles, in 32 bits. There are at most two cells per
    /// particle.
    pub fn new(bounds: &SimulationBox, radius: f64, low: [u32; 3], high: [u32; 3], n: usize) -> Self {
        match bounds.sides {
            BoxSides::Periodic => Self::within(bounds, radius, [0; 3], [FRACTIONS; 3], n),
            BoxSides::Open => {
                let span = [0, 1, 2].map(|axis| u64::from(high[axis] - low[axis]) + 1);
                Self::within(bounds, radius, low, span, n)
            }
        }
    }

    /// Divides a part of `bounds` into cells with sides of at least `radius`. The part starts at
    /// the fraction `low` and has `span` fractions, in 32 bits. In a periodic box it may continue
    /// at the other end. There are at most two cells per particle.
    pub fn within(bounds: &SimulationBox, radius: f64, low: [u32; 3], span: [u64; 3], n: usize) -> Self {
        let is_periodic = [0, 1, 2].map(|axis| bounds.sides == BoxSides::Periodic && span[axis] == FRACTIONS);
        let dimensions = bounds.dimensions;
        let count = |axis: usize, radius: f64| {
            if axis >= dimensions {
                return 1;
            }
            let length = bounds.lengths[axis] * (span[axis] as f64 / FRACTIONS as f64);
            ((length / radius) as usize).clamp(1, 1 << 20)
        };
        // Few particles in a large box need no more cells than particles.
        let mut radius = radius;
        let mut counts = [0, 1, 2].map(|axis| count(axis, radius));
        while counts.iter().product::<usize>() > 2 * n.max(8) {
            radius *= 1.25;
            counts = [0, 1, 2].map(|axis| count(axis, radius));
        }
        Self { counts, low, span, is_periodic }
    }

    /// Returns the number of all cells.
    pub fn len(&self) -> usize {
        self.counts.iter().product()
    }

    /// Returns the cell of a coordinate along an axis. `fraction` is within the covered part.
    pub fn axis_cell(&self, axis: usize, fraction: u32) -> usize {
        let offset = u64::from(fraction.wrapping_sub(self.low[axis]));
        (offset * self.counts[axis] as u64 / self.span[axis]) as usize
    }

    /// Returns the number of the cell at a position.
    pub fn cell(&self, position: [u64; 3]) -> usize {
        let [x, y, z] = [0, 1, 2].map(|axis| self.axis_cell(axis, upper_half(position[axis]) as u32));
        self.number([x, y, z])
    }

    /// Returns the number of the cell with these indices.
    pub fn number(&self, [x, y, z]: [usize; 3]) -> usize {
        (z * self.counts[1] + y) * self.counts[0] + x
    }

    /// Returns the neighbours of cell `index` along an axis, and the cell itself.
    pub fn neighbours_along(&self, axis: usize, index: usize) -> AxisNeighbours {
        let count = self.counts[axis];
        let mut neighbours = AxisNeighbours { cells: [0; 3], count: 0 };
        let mut add = |cell: usize| {
            neighbours.cells[neighbours.count] = cell;
            neighbours.count += 1;
        };
        match count {
            1 | 2 => (0..count).for_each(add),
            _ => {
                if index > 0 {
                    add(index - 1);
                }
                add(index);
                if index + 1 < count {
                    add(index + 1);
                }
                if self.is_periodic[axis] && index == 0 {
                    add(count - 1);
                }
                if self.is_periodic[axis] && index + 1 == count {
                    add(0);
                }
            }
        }
        neighbours
    }

    /// Calls `visit` with ranges of cell numbers that together contain the neighbours of a cell and
    /// the cell itself, each once.
    pub fn for_each_neighbour_range(&self, cell: [usize; 3], mut visit: impl FnMut(usize, usize)) {
        let along_x = self.neighbours_along(0, cell[0]);
        for &z in self.neighbours_along(2, cell[2]).as_slice() {
            for &y in self.neighbours_along(1, cell[1]).as_slice() {
                // Cells that follow one another along x form one range.
                let mut cells = along_x.as_slice().iter().map(|&x| self.number([x, y, z]));
                let Some(mut first) = cells.next() else { continue };
                let mut end = first + 1;
                for next in cells {
                    if next == end {
                        end += 1;
                    } else {
                        visit(first, end);
                        (first, end) = (next, next + 1);
                    }
                }
                visit(first, end);
            }
        }
    }
}

/// Counting sort by cell: returns the first particle of each cell, followed by the number of all
/// particles, and the old index of each sorted particle. Particles of a cell keep their order.
pub fn sort_by_cell(cells: &[u32], cell_count: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; cell_count + 1];
    for &cell in cells {
        starts[cell as usize + 1] += 1;
    }
    for cell in 0..cell_count {
        starts[cell + 1] += starts[cell];
    }
    let mut next = starts.clone();
    let mut order = vec![0; cells.len()];
    for (particle, &cell) in cells.iter().enumerate() {
        order[next[cell as usize] as usize] = particle as u32;
        next[cell as usize] += 1;
    }
    (starts, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(lengths: [f64; 3], radius: f64) -> CellGrid {
        CellGrid::new(&SimulationBox::periodic(lengths, 3), radius, [0; 3], [u32::MAX; 3], 1 << 20)
    }

    #[test]
    fn cells_are_at_least_as_wide_as_the_radius() {
        let grid = grid([10.0, 5.9, 2.9], 3.0);
        assert_eq!(grid.counts, [3, 1, 1]);
        assert_eq!(grid.axis_cell(0, 0), 0);
        assert_eq!(grid.axis_cell(0, u32::MAX), 2);
        assert_eq!(grid.axis_cell(0, u32::MAX / 2), 1);
    }

    #[test]
    fn every_neighbour_is_visited_once() {
        for lengths in [[9.0, 9.0, 9.0], [3.0, 6.0, 12.0], [30.0, 3.0, 6.5]] {
            let grid = grid(lengths, 3.0);
            for z in 0..grid.counts[2] {
                for y in 0..grid.counts[1] {
                    for x in 0..grid.counts[0] {
                        let mut found = Vec::new();
                        grid.for_each_neighbour_range([x, y, z], |first, end| found.extend(first..end));
                        let count = found.len();
                        found.sort_unstable();
                        found.dedup();
                        assert_eq!(found.len(), count, "{lengths:?} {x} {y} {z}");
                        let expected: usize = grid.counts.iter().map(|&n| n.min(3)).product();
                        assert_eq!(count, expected);
                        assert!(found.contains(&grid.number([x, y, z])));
                    }
                }
            }
        }
    }

    #[test]
    fn an_open_box_has_cells_where_its_particles_are() {
        let bounds = SimulationBox::open([0.0; 3], [10.0, 1.0, 1.0], 3);
        let at = |x: f64| (bounds.fraction(0, x).0 >> 32) as u32;
        let middle = (bounds.fraction(1, 0.5).0 >> 32) as u32;
        let grid = CellGrid::new(&bounds, 2.5, [at(0.0), middle, middle], [at(10.0), middle, middle], 100);
        assert_eq!(grid.counts, [4, 1, 1]);
        assert_eq!((grid.axis_cell(0, at(0.0)), grid.axis_cell(0, at(10.0))), (0, 3));
        assert_eq!(grid.neighbours_along(0, 0).as_slice(), [0, 1]);
        assert_eq!(grid.neighbours_along(0, 3).as_slice(), [2, 3]);
    }

    /// A part of a periodic box that continues at its other end has no further neighbours there.
    #[test]
    fn a_part_of_a_box_has_two_ends() {
        let bounds = SimulationBox::periodic([12.0, 9.0, 9.0], 3);
        let at = |x: f64| (bounds.fraction(0, x).0 >> 32) as u32;
        let (low, span) = (at(9.0), u64::from(at(9.0)));
        let grid = CellGrid::within(&bounds, 2.9, [low, 0, 0], [span, FRACTIONS, FRACTIONS], 100);
        assert_eq!(grid.counts, [3, 3, 3]);
        assert_eq!([9.1, 11.9, 0.1, 5.9].map(|x| grid.axis_cell(0, at(x))), [0, 0, 1, 2]);
        assert_eq!(grid.neighbours_along(0, 0).as_slice(), [0, 1]);
        assert_eq!(grid.neighbours_along(0, 2).as_slice(), [1, 2]);
        assert_eq!(grid.neighbours_along(1, 0).as_slice(), [0, 1, 2]);
    }

    #[test]
    fn few_particles_have_few_cells() {
        let bounds = SimulationBox::periodic([1e6; 3], 3);
        let grid = CellGrid::new(&bounds, 1.0, [0; 3], [u32::MAX; 3], 10);
        assert!(grid.len() <= 20, "{:?}", grid.counts);
    }

    #[test]
    fn particles_are_sorted_by_cell() {
        let (starts, order) = sort_by_cell(&[2, 0, 2, 1, 0], 4);
        assert_eq!(starts, [0, 2, 3, 5, 5]);
        assert_eq!(order, [1, 4, 3, 0, 2]);
    }
}
