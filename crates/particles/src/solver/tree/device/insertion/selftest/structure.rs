//! Check of the tree that the kernels build: every body is in one cell, sums of cells are those of
//! their bodies, and the order is that of the tree.

use orrery_device::Device;
use orrery_model::analysis::max_or_nan;

use super::{ALL, Insertion, NO_WAITING, error_message, on_few_positions};
use crate::solver::tree::test_systems::TestSystem;

/// Tree as read back from the device.
struct HostTree {
    n: usize,
    node: Vec<[f32; 4]>,
    child: Vec<u32>,
    body_count: Vec<u32>,
    /// Bodies in the order of the tree, as far as it has been visited.
    visited_bodies: Vec<u32>,
    visited_cells: u64,
}

impl HostTree {
    /// Checks a cell and all cells below it. Returns the sums of m x, m y, m z and m over its
    /// bodies.
    fn visit(&mut self, cell: usize) -> Result<[f64; 4], String> {
        let (mut sum, first) = ([0.0; 4], self.visited_bodies.len());
        let children: Vec<u32> =
            self.child[8 * cell..][..8].iter().copied().take_while(|&node| node as i32 >= 0).collect();
        if cell != self.n - 1 && children.len() < 2 {
            return Err(format!("cell {cell} has {} children, expected 2 or more", children.len()));
        }
        self.visited_cells += 1;
        for node in children {
            let part = match (node as usize).checked_sub(self.n) {
                Some(below) => self.visit(below)?,
                None => {
                    self.visited_bodies.push(node);
                    let [x, y, z, m] = self.node[node as usize].map(f64::from);
                    [m * x, m * y, m * z, m]
                }
            };
            sum = std::array::from_fn(|c| sum[c] + part[c]);
        }
        let [x, y, z, mass] = self.node[self.n + cell].map(f64::from);
        let bodies = self.visited_bodies.len() - first;
        // Each level rounds to 2^-24 of a coordinate, and the box is at most two units wide.
        let moments = [x * sum[3], y * sum[3], z * sum[3], mass];
        let error = moments.iter().zip(&sum).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan);
        if error.is_nan() || error > 2e-6 * sum[3] || bodies != self.body_count[cell] as usize {
            let found = format!("mass {mass}, centre {:?}, {} bodies", [x, y, z], self.body_count[cell]);
            return Err(format!("cell {cell}: found {found}, expected moments {sum:?} of {bodies} bodies"));
        }
        Ok(sum)
    }
}

pub(super) fn check_tree(device: &Device) -> Result<(), String> {
    for system in
        [TestSystem::cluster(1), TestSystem::cluster(2), TestSystem::cluster(1000), on_few_positions(1000)]
    {
        let n = system.mass.len();
        for options in [ALL, NO_WAITING] {
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
        let host = HostTree {
            n,
            node,
            child,
            body_count: tree.body_count.to_vec()?,
            visited_bodies: Vec::new(),
            visited_cells: 0,
        };
        Ok((host, tree.order.to_vec()?, tree.report()?.cells))
    };
    let (mut host, order, cells) = read().map_err(error_message)?;
    host.visit(n - 1)?;
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
