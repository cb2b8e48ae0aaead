//! Check of the tree that the kernels build: every body is in one cell, sums of cells are those of
//! their bodies, and the order is that of the tree.

use orrery_device::Device;
use orrery_model::analysis::max_or_nan;

use super::{ALL, Insertion, NO_WAITING, error_message, on_few_positions};
use crate::rungs::gravity::test_system::LectureSystem;
use crate::rungs::gravity::tree::insertion::{InsertionOptions, Waiting};

/// Slightly more than 2^-24, the largest relative error of rounding to f32.
const ROUNDING: f64 = 6e-8;

/// Tree as read back from the device.
struct InsertedTree {
    n: usize,
    node: Vec<[f32; 4]>,
    child: Vec<u32>,
    body_count: Vec<u32>,
    /// Largest coordinate of a body, at least 1, in scaled units.
    largest_coordinate: f64,
    /// Bodies in the order of the tree, as far as it has been visited.
    visited_bodies: Vec<u32>,
    visited_cells: u64,
}

/// Sums over the bodies of a node.
struct InsertedSubtree {
    /// Sums of m x, m y, m z and m.
    sum: [f64; 4],
    /// Levels of cells: 0 for a body.
    height: u32,
}

impl InsertedTree {
    /// Checks a cell and all cells below it.
    fn visit_cell(&mut self, cell: usize) -> Result<InsertedSubtree, String> {
        let (mut sum, mut height, first) = ([0.0; 4], 0, self.visited_bodies.len());
        let children: Vec<u32> =
            self.child[8 * cell..][..8].iter().copied().take_while(|&node| node as i32 >= 0).collect();
        if cell != self.n - 1 && children.len() < 2 {
            return Err(format!("cell {cell} has {} children, expected 2 or more", children.len()));
        }
        self.visited_cells += 1;
        for node in children {
            let part = match (node as usize).checked_sub(self.n) {
                Some(below) => self.visit_cell(below)?,
                None => self.visit_body(node),
            };
            sum = std::array::from_fn(|c| sum[c] + part.sum[c]);
            height = height.max(part.height + 1);
        }
        let subtree = InsertedSubtree { sum, height };
        let bodies = self.visited_bodies.len() - first;
        let error = self.sum_error(cell, &subtree);
        if error.is_nan() || error > 1.0 || bodies != self.body_count[cell] as usize {
            let [x, y, z, mass] = self.node[self.n + cell];
            let found = format!("mass {mass}, centre {:?}, {} bodies", [x, y, z], self.body_count[cell]);
            return Err(format!("cell {cell}: found {found}, expected moments {sum:?} of {bodies} bodies"));
        }
        Ok(subtree)
    }

    fn visit_body(&mut self, body: u32) -> InsertedSubtree {
        self.visited_bodies.push(body);
        let [x, y, z, m] = self.node[body as usize].map(f64::from);
        InsertedSubtree { sum: [m * x, m * y, m * z, m], height: 0 }
    }

    /// Returns the largest error of a cell's moments and mass, as a fraction of its bound.
    ///
    /// A cell of height h rounds its centre, an error of 2^-24 X for coordinates up to X. The
    /// masses of its children are rounded h - 1 times, which moves the centre by at most
    /// 2 (h - 1) 2^-24 X. Over all heights up to h these are h² 2^-24 X.
    fn sum_error(&self, cell: usize, InsertedSubtree { sum, height }: &InsertedSubtree) -> f64 {
        let [x, y, z, mass] = self.node[self.n + cell].map(f64::from);
        let moments = [x * sum[3], y * sum[3], z * sum[3], mass];
        let error = moments.iter().zip(sum).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan);
        let bound = f64::from(*height).powi(2) * ROUNDING * self.largest_coordinate * sum[3];
        error / bound
    }
}

pub(super) fn check_tree(device: &Device) -> Result<(), String> {
    // The last two are bodies that only their indices separate, and a tree in which each cell has
    // one cell below it.
    let systems = [
        LectureSystem::cluster(1),
        LectureSystem::cluster(2),
        LectureSystem::cluster(1000),
        on_few_positions(1000),
        LectureSystem::cluster(257).moved(|_, _| [0.4, -0.7, 12.3]),
        LectureSystem::chain(),
    ];
    let poll_all = InsertionOptions { waiting: Waiting::PollAll, ..ALL };
    for system in systems {
        let n = system.mass.len();
        for options in [ALL, poll_all, NO_WAITING] {
            let tree = system.insertion_forces(device, options, 0.5)?.1;
            check_structure(&tree).map_err(|message| format!("{options:?}, n = {n}: {message}"))?;
        }
    }
    Ok(())
}

/// Reads a tree back and checks its cells and the order of its bodies.
fn check_structure(tree: &Insertion) -> Result<(), String> {
    let n = tree.n;
    let read = || {
        let (node, child) = (tree.node.to_vec()?, tree.child.to_vec()?);
        let coordinates = node[..n].iter().flat_map(|&[x, y, z, _]| [x, y, z]);
        let host = InsertedTree {
            n,
            largest_coordinate: coordinates.map(|x| f64::from(x).abs()).fold(1.0, max_or_nan),
            node,
            child,
            body_count: tree.body_count.to_vec()?,
            visited_bodies: Vec::new(),
            visited_cells: 0,
        };
        Ok((host, tree.order.to_vec()?, tree.cell_count()?))
    };
    let (mut host, order, cells) = read().map_err(error_message)?;
    host.visit_cell(n - 1)?;
    if host.visited_cells != cells || cells > n as u64 {
        let visited = host.visited_cells;
        return Err(format!("{cells} cells of {n} bodies, {visited} reached from the root"));
    }
    if host.visited_bodies != order {
        return Err("bodies are not in the order of the tree".to_owned());
    }
    host.visited_bodies.sort_unstable();
    if !host.visited_bodies.iter().copied().eq(0..n as u32) {
        return Err("a body is not in exactly one cell".to_owned());
    }
    Ok(())
}
