//! What holds for every tree that a device builds.

use orrery_device::check::Check;
use orrery_device::{Buffer, Device, DeviceError};

use super::{BodyColumns, Builder, DeviceOctree, GENERATIONS, Order, Plan};
use crate::settings::Precision;
use crate::solver::tree::test_systems::{TestSystem, columns};
use crate::tree::BITS;

type Checked = Result<(), String>;

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: {name}"), run };
    vec![
        check("keys ascend, every body in one leaf", leaves),
        check("moments equal direct sums", moments),
        check("groups hold every body once", groups),
    ]
}

fn plan(precision: Precision, order: Order) -> Plan {
    Plan { precision, order, leaf_size: 16, group_size: 32 }
}

/// A tree as read back from a device.
struct Read {
    keys: Vec<u64>,
    order: Vec<u32>,
    begin: Vec<u32>,
    end: Vec<u32>,
    child: Vec<u32>,
    level: Vec<u8>,
    frame: Vec<f64>,
    high: Vec<[f64; 4]>,
    low: Vec<[f64; 4]>,
    reach: Vec<[f64; 4]>,
    records: Vec<[f64; 4]>,
    cells: usize,
    /// (first body, bodies)
    groups: Vec<(u32, u32)>,
}

const LEAF: u32 = u32::MAX;

impl Read {
    fn children(&self, c: usize) -> std::ops::Range<usize> {
        match self.child[c] {
            LEAF => 0..0,
            word => (word >> 3) as usize..(word >> 3) as usize + (word & 7) as usize + 1,
        }
    }

    fn bodies(&self, c: usize) -> std::ops::Range<usize> {
        self.begin[c] as usize..self.end[c] as usize
    }

    /// Position and mass of sorted body k, scaled.
    fn body(&self, k: usize) -> [f64; 4] {
        let low = self.low.get(k).copied().unwrap_or_default();
        std::array::from_fn(|c| self.high[k][c] + low[c])
    }
}

fn read(system: &TestSystem, device: &Device, plan: Plan) -> Result<Read, String> {
    let run = || {
        let n = system.mass.len();
        let mut builder = Builder::new(device);
        let position: [Buffer<f64>; 3] = [
            device.upload(&system.position.x)?,
            device.upload(&system.position.y)?,
            device.upload(&system.position.z)?,
        ];
        let mass = device.upload(&system.mass)?;
        let mut tree = DeviceOctree::new(&mut builder, n, plan)?;
        // Twice: what the first leaves behind must not matter.
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
        Ok::<_, DeviceError>(Read {
            keys: tree.keys.to_vec()?,
            order: tree.order.to_vec()?,
            begin: tree.begin.to_vec()?,
            end: tree.end.to_vec()?,
            child: tree.child.to_vec()?,
            level: tree.level.to_vec()?,
            frame: tree.frame.to_vec()?,
            high: tree.high.to_vec()?,
            low: if plan.precision == Precision::Mixed { tree.low.to_vec()? } else { Vec::new() },
            reach: tree.reach.to_vec()?,
            records: tree.records.to_vec()?,
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

fn systems() -> Vec<(&'static str, TestSystem)> {
    let mut systems = vec![
        ("one body", TestSystem::cluster(1)),
        ("two", TestSystem::cluster(2)),
        ("33", TestSystem::cluster(33)),
    ];
    systems.push(("a cluster", TestSystem::cluster(3000)));
    systems.push(("a cube", TestSystem::cube(4099)));
    systems.push(("a chain of cells", TestSystem::chains(1)));
    systems.push(("64 chains of cells", TestSystem::chains(64)));
    systems.extend(TestSystem::awkward(1000));
    systems
}

fn wrong<T>(name: &str, what: String) -> Result<T, String> {
    Err(format!("{name}: {what}"))
}

fn leaves(device: &Device) -> Checked {
    for (name, system) in systems() {
        let (n, plan) = (system.mass.len(), plan(Precision::Mixed, Order::Monopole));
        let tree = read(&system, device, plan)?;
        if !tree.keys.is_sorted() {
            return wrong(name, "keys do not ascend".to_owned());
        }
        let mut seen = tree.order.clone();
        seen.sort_unstable();
        if seen.iter().enumerate().any(|(i, &o)| i != o as usize) {
            return wrong(name, "the order is no permutation of the bodies".to_owned());
        }
        if tree.cells > plan.most_cells(n) {
            return wrong(name, format!("{} cells, expected at most {}", tree.cells, plan.most_cells(n)));
        }
        let (mut held, mut reached, mut stack) = (vec![0; n], 0, vec![(0usize, 0)]);
        if tree.bodies(0) != (0..n) {
            return wrong(name, format!("the root holds {:?}, expected {:?}", tree.bodies(0), 0..n));
        }
        while let Some((c, generation)) = stack.pop() {
            reached += 1;
            let (bodies, children) = (tree.bodies(c), tree.children(c));
            let shift = 3 * (BITS - u32::from(tree.level[c]));
            if tree.keys[bodies.clone()].iter().any(|key| key >> shift != tree.keys[bodies.start] >> shift) {
                return wrong(name, format!("bodies of cell {c} do not share its part of the key"));
            }
            if children.is_empty() {
                let most = if tree.level[c] < 12 { plan.leaf_size } else { 24 };
                if bodies.len() > most as usize && u32::from(tree.level[c]) < BITS {
                    return wrong(name, format!("leaf {c} holds {} bodies", bodies.len()));
                }
                bodies.for_each(|k| held[k] += 1);
                continue;
            }
            let mut at = bodies.start;
            for child in children.clone() {
                if tree.bodies(child).start != at
                    || tree.bodies(child).is_empty()
                    || tree.level[child] <= tree.level[c]
                {
                    return wrong(name, format!("child {child} of cell {c} does not follow its sibling"));
                }
                at = tree.bodies(child).end;
                stack.push((child, generation + 1));
            }
            if at != bodies.end || children.len() < 2 || generation >= GENERATIONS {
                return wrong(name, format!("children of cell {c} do not make it up"));
            }
        }
        if held.iter().any(|&times| times != 1) || reached != tree.cells {
            return wrong(name, format!("{reached} cells of {} reached, a body not in one leaf", tree.cells));
        }
    }
    Ok(())
}

/// Of every cell, straight from its bodies.
fn moments(device: &Device) -> Checked {
    for (name, system) in systems() {
        let system = if name == "a cluster" { system.with_unequal_masses() } else { system };
        for precision in [Precision::Mixed, Precision::Double] {
            let tree = read(&system, device, plan(precision, Order::Octupole))?;
            let tolerance = if precision == Precision::Double { 1e-9 } else { 2e-5 };
            for c in 0..tree.cells {
                check_cell(&tree, c, tolerance).map_err(|what| format!("{name}, {precision:?}: {what}"))?;
            }
        }
    }
    Ok(())
}

fn check_cell(tree: &Read, c: usize, tolerance: f64) -> Checked {
    let bodies: Vec<[f64; 4]> = tree.bodies(c).map(|k| tree.body(k)).collect();
    let mass: f64 = bodies.iter().map(|b| b[3]).sum();
    let centre: [f64; 3] = std::array::from_fn(|k| match mass > 0.0 {
        true => bodies.iter().map(|b| b[3] * b[k]).sum::<f64>() / mass,
        false => bodies[0][k],
    });
    let record = &tree.records[5 * c..5 * c + 5];
    let (reach, side) = (tree.reach[c], tree.frame[8] * 0.5f64.powi(i32::from(tree.level[c])));
    let near = |what: &str, got: f64, expected: f64, unit: f64| match (got - expected).abs()
        <= tolerance * unit + 1e-14
    {
        true => Ok(()),
        false => Err(format!("{what} of cell {c}: got {got:e}, expected {expected:e}")),
    };
    near("mass", record[0][0], mass, mass)?;
    (0..3).try_for_each(|k| near("centre", reach[k] + record[0][k + 1], centre[k], side))?;
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
    let got = record[1..].concat();
    let moment = |axes: &[usize]| -> f64 {
        bodies.iter().map(|b| b[3] * axes.iter().map(|&k| b[k] - centre[k]).product::<f64>()).sum()
    };
    for (got, axes) in got.iter().zip(pairs) {
        near("a second moment", *got, moment(&axes), mass * side * side)?;
    }
    for (got, axes) in got[pairs.len()..].iter().zip(triples) {
        near("a third moment", *got, moment(&axes), mass * side.powi(3))?;
    }
    // It is opened within l / theta + offset of its centre of mass from its middle, theta being 0.5 here.
    let offset2: f64 = (0..3)
        .map(|k| {
            let edge = tree.frame[13 + k] - 0.5 * tree.frame[8];
            let middle = (((bodies[0][k] - edge) / side).floor() + 0.5) * side + edge;
            (centre[k] - middle).powi(2)
        })
        .sum();
    let reached = 2.0 * side + offset2.sqrt();
    near("reach", reach[3].sqrt(), reached, 10.0 * side)
}

fn groups(device: &Device) -> Checked {
    for (name, system) in systems() {
        let (n, plan) = (system.mass.len(), plan(Precision::Single, Order::Monopole));
        let tree = read(&system, device, plan)?;
        let mut held = vec![0; n];
        for &(first, bodies) in &tree.groups {
            if bodies == 0 || bodies > plan.group_size {
                return wrong(name, format!("a group of {bodies} bodies"));
            }
            (first..first + bodies).for_each(|k| held[k as usize] += 1);
        }
        if held.iter().any(|&times| times != 1) {
            return wrong(name, "a body is not in one group".to_owned());
        }
    }
    Ok(())
}
