//! Checks of the invariants of trees that a device builds.

use orrery_device::check::Check;
use orrery_device::{Buffer, Device, DeviceError, KernelBuilder};
use orrery_model::Precision;

use super::{BodyColumns, DeviceOctree, GENERATIONS, Order, TreePlan};
use crate::solver::direct::device::frame_slot;
use crate::solver::tree::test_systems::{TestSystem, columns};
use crate::tree::COORDINATE_BITS;

type CheckResult = Result<(), String>;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: {name}"), run };
    vec![
        check("keys ascend, every body in one leaf", check_leaves),
        check("moments equal direct sums", check_moments),
        check("every body in one group", check_groups),
    ]
}

fn default_plan(precision: Precision, order: Order) -> TreePlan {
    TreePlan { precision, order, leaf_size: 16, group_size: 32 }
}

/// Tree as read back from a device.
struct HostTree {
    keys: Vec<u64>,
    order: Vec<u32>,
    begin: Vec<u32>,
    end: Vec<u32>,
    children: Vec<u32>,
    level: Vec<u8>,
    frame: Vec<f64>,
    high: Vec<[f64; 4]>,
    low: Vec<[f64; 4]>,
    centres: Vec<[f64; 4]>,
    moments: Vec<[f64; 4]>,
    cells: usize,
    /// First body and number of bodies of each group.
    groups: Vec<(u32, u32)>,
}

/// Children of a leaf, as in `layout.cu`.
const LEAF: u32 = u32::MAX;
const FRAME_SIDE: usize = frame_slot("FRAME_SIDE");
const FRAME_MIDDLE: usize = frame_slot("FRAME_MIDDLE");

impl HostTree {
    fn child_range(&self, cell: usize) -> std::ops::Range<usize> {
        match self.children[cell] {
            LEAF => 0..0,
            packed => (packed >> 3) as usize..(packed >> 3) as usize + (packed & 7) as usize + 1,
        }
    }

    fn bodies(&self, cell: usize) -> std::ops::Range<usize> {
        self.begin[cell] as usize..self.end[cell] as usize
    }

    /// Returns the scaled position and mass of a sorted body.
    fn body(&self, sorted: usize) -> [f64; 4] {
        let low = self.low.get(sorted).copied().unwrap_or_default();
        std::array::from_fn(|k| self.high[sorted][k] + low[k])
    }
}

/// Builds the tree of a system on a device and reads it back.
fn build_and_read(system: &TestSystem, device: &Device, plan: TreePlan) -> Result<HostTree, String> {
    let run = || {
        let n = system.mass.len();
        let mut builder = KernelBuilder::new(device);
        let position: [Buffer<f64>; 3] = [
            device.upload(&system.position.x)?,
            device.upload(&system.position.y)?,
            device.upload(&system.position.z)?,
        ];
        let mass = device.upload(&system.mass)?;
        let mut tree = DeviceOctree::new(&mut builder, n, plan)?;
        // Twice, because the second build must not depend on the memory that the first has written.
        for _ in 0..2 {
            tree.build(&BodyColumns {
                position: columns(&position),
                mass: &mass,
                g: 1.0,
                eps: system.eps,
                total_mass: system.mass.iter().sum(),
            })?;
            tree.find_moments(0.5, false)?;
        }
        let (cells, groups) = tree.cells_and_groups()?;
        let (listed, sizes) = (tree.groups.to_vec()?, tree.sizes.to_vec()?);
        Ok::<_, DeviceError>(HostTree {
            keys: tree.keys.to_vec()?,
            order: tree.order.to_vec()?,
            begin: tree.begin.to_vec()?,
            end: tree.end.to_vec()?,
            children: tree.children.to_vec()?,
            level: tree.level.to_vec()?,
            frame: tree.frame.to_vec()?,
            high: tree.high.to_vec()?,
            low: if plan.precision == Precision::Mixed { tree.low.to_vec()? } else { Vec::new() },
            centres: tree.centres.to_vec()?,
            moments: tree.moments.to_vec()?,
            cells: cells as usize,
            groups: listed
                .iter()
                .take(groups as usize)
                .map(|&first| (first, sizes[first as usize] & 255))
                .collect(),
        })
    };
    run().map_err(|error| error.to_string())
}

fn test_systems() -> Vec<(&'static str, TestSystem)> {
    let mut systems = vec![
        ("one body", TestSystem::cluster(1)),
        ("two", TestSystem::cluster(2)),
        ("33", TestSystem::cluster(33)),
    ];
    systems.push(("a cluster", TestSystem::cluster(3000)));
    systems.push(("a cube", TestSystem::cube(4099)));
    systems.push(("a chain of cells", TestSystem::chains(1)));
    systems.push(("64 chains of cells", TestSystem::chains(64)));
    systems.extend(TestSystem::degenerate(1000));
    systems
}

fn check_leaves(device: &Device) -> CheckResult {
    for (name, system) in test_systems() {
        let plan = default_plan(Precision::Mixed, Order::Monopole);
        let tree = build_and_read(&system, device, plan)?;
        check_cells(&tree, plan, system.mass.len()).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Checks the keys, the order, and all cells from the root down.
fn check_cells(tree: &HostTree, plan: TreePlan, n: usize) -> CheckResult {
    if !tree.keys.is_sorted() {
        return Err("keys do not ascend".to_owned());
    }
    let mut seen = tree.order.clone();
    seen.sort_unstable();
    if seen.iter().enumerate().any(|(i, &o)| i != o as usize) {
        return Err("the order is not a permutation of the bodies".to_owned());
    }
    if tree.cells > plan.max_cells(n) {
        return Err(format!("{} cells, expected at most {}", tree.cells, plan.max_cells(n)));
    }
    if tree.bodies(0) != (0..n) {
        return Err(format!("the root contains bodies {:?}, expected {:?}", tree.bodies(0), 0..n));
    }
    let (mut leaves_of_body, mut reached_cells, mut stack) = (vec![0; n], 0, vec![(0, 0)]);
    while let Some((cell, generation)) = stack.pop() {
        reached_cells += 1;
        let children = check_cell(tree, plan, cell, generation)?;
        if children.is_empty() {
            tree.bodies(cell).for_each(|body| leaves_of_body[body] += 1);
        }
        stack.extend(children.map(|child| (child, generation + 1)));
    }
    if leaves_of_body.iter().any(|&leaves| leaves != 1) || reached_cells != tree.cells {
        return Err(format!(
            "{reached_cells} of {} cells reached, or a body not in exactly one leaf",
            tree.cells
        ));
    }
    Ok(())
}

/// Checks that the bodies of a cell share its key bits, that a leaf is small enough, and that
/// children follow one another without a gap. Returns the children.
fn check_cell(
    tree: &HostTree,
    plan: TreePlan,
    cell: usize,
    generation: i32,
) -> Result<std::ops::Range<usize>, String> {
    let (bodies, children, level) = (tree.bodies(cell), tree.child_range(cell), u32::from(tree.level[cell]));
    let shift = 3 * (COORDINATE_BITS - level);
    if tree.keys[bodies.clone()].iter().any(|key| key >> shift != tree.keys[bodies.start] >> shift) {
        return Err(format!("bodies of cell {cell} do not share its bits of the key"));
    }
    if children.is_empty() {
        let max_bodies = if level < 12 { plan.leaf_size } else { 24 };
        if bodies.len() > max_bodies as usize && level < COORDINATE_BITS {
            return Err(format!(
                "leaf {cell} contains {} bodies, expected at most {max_bodies}",
                bodies.len()
            ));
        }
        return Ok(children);
    }
    let mut next_body = bodies.start;
    for child in children.clone() {
        let range = tree.bodies(child);
        if range.start != next_body || range.is_empty() || u32::from(tree.level[child]) <= level {
            return Err(format!("child {child} of cell {cell} does not follow its sibling"));
        }
        next_body = range.end;
    }
    if next_body != bodies.end || children.len() < 2 || generation >= GENERATIONS {
        return Err(format!("the children of cell {cell} do not cover it"));
    }
    Ok(children)
}

/// Checks the moments of every cell against sums over its bodies.
fn check_moments(device: &Device) -> CheckResult {
    for (name, system) in test_systems() {
        let system = if name == "a cluster" { system.with_unequal_masses() } else { system };
        for precision in [Precision::Mixed, Precision::Double] {
            let tree = build_and_read(&system, device, default_plan(precision, Order::Octupole))?;
            let tolerance = if precision == Precision::Double { 1e-9 } else { 2e-5 };
            for cell in 0..tree.cells {
                check_cell_moments(&tree, cell, tolerance)
                    .map_err(|error| format!("{name}, {precision:?}: {error}"))?;
            }
        }
    }
    Ok(())
}

fn check_cell_moments(tree: &HostTree, cell: usize, tolerance: f64) -> CheckResult {
    let bodies: Vec<[f64; 4]> = tree.bodies(cell).map(|sorted| tree.body(sorted)).collect();
    let mass: f64 = bodies.iter().map(|b| b[3]).sum();
    let centre: [f64; 3] = std::array::from_fn(|axis| match mass > 0.0 {
        true => bodies.iter().map(|b| b[3] * b[axis]).sum::<f64>() / mass,
        false => bodies[0][axis],
    });
    let vectors = &tree.moments[5 * cell..5 * cell + 5];
    let found_centre = tree.centres[cell];
    let side = tree.frame[FRAME_SIDE] * 0.5f64.powi(i32::from(tree.level[cell]));
    let check_near = |quantity: &str, found: f64, expected: f64, unit: f64| match (found - expected).abs()
        <= tolerance * unit + 1e-14
    {
        true => Ok(()),
        false => Err(format!("{quantity} of cell {cell}: found {found:e}, expected {expected:e}")),
    };
    check_near("mass", vectors[0][0], mass, mass)?;
    (0..3).try_for_each(|axis| {
        check_near("centre of mass", found_centre[axis] + vectors[0][axis + 1], centre[axis], side)
    })?;
    let pairs = [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]];
    let triples = [
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, 2],
        [0, 1, 1],
        [0, 1, 2],
        [0, 2, 2],
        [1, 1, 1],
        [1, 1, 2],
        [1, 2, 2],
        [2, 2, 2],
    ];
    let found = vectors[1..].concat();
    let expected_moment = |axes: &[usize]| -> f64 {
        bodies.iter().map(|b| b[3] * axes.iter().map(|&axis| b[axis] - centre[axis]).product::<f64>()).sum()
    };
    for (found, axes) in found.iter().zip(pairs) {
        check_near("a second moment", *found, expected_moment(&axes), mass * side * side)?;
    }
    for (found, axes) in found[pairs.len()..].iter().zip(triples) {
        check_near("a third moment", *found, expected_moment(&axes), mass * side.powi(3))?;
    }
    // The opening distance is l / theta + δ. Here theta is 0.5, and δ is the distance of the centre
    // of mass from the geometric centre.
    let offset2: f64 = (0..3)
        .map(|axis| {
            let edge = tree.frame[FRAME_MIDDLE + axis] - 0.5 * tree.frame[FRAME_SIDE];
            let middle = (((bodies[0][axis] - edge) / side).floor() + 0.5) * side + edge;
            (centre[axis] - middle).powi(2)
        })
        .sum();
    check_near("opening distance", found_centre[3].sqrt(), 2.0 * side + offset2.sqrt(), 10.0 * side)
}

fn check_groups(device: &Device) -> CheckResult {
    for (name, system) in test_systems() {
        let (n, plan) = (system.mass.len(), default_plan(Precision::Single, Order::Monopole));
        let tree = build_and_read(&system, device, plan)?;
        let mut groups_of_body = vec![0; n];
        for &(first, bodies) in &tree.groups {
            if bodies == 0 || bodies > plan.group_size {
                return Err(format!("{name}: a group of {bodies} bodies, expected 1 to {}", plan.group_size));
            }
            (first..first + bodies).for_each(|body| groups_of_body[body as usize] += 1);
        }
        if groups_of_body.iter().any(|&groups| groups != 1) {
            return Err(format!("{name}: a body is not in exactly one group"));
        }
    }
    Ok(())
}
