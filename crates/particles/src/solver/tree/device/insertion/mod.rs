//! Barnes-Hut by insertion: six kernels after Burtscher & Pingali (2011), kept as rungs of the ladder.
//!
//! 1. `find_box` (`box.cu`): the box by reduction, and the frame.
//! 2. `insert` (`insert.cu`): the octree, under locks in its child pointers.
//! 3. `moments` (`cells.cu`): masses and their centres, bottom-up.
//! 4. `arrange` (`cells.cu`): bodies in the order of the tree.
//! 5. `walk` (`walk.cu`): forces.
//! 6. The integration: kick and drift are those of all bodies, so that here it is but the accelerations in the user's units,
//!    at the end of 5.
//!
//! f32, monopoles, geometric acceptance (the relative one falls back on its opening angle), no potentials. Equal
//! bodies give equal bits, though threads race: the tree's shape depends on the bodies alone, and every sum goes by octants.
//!
//! Away from the paper: a node is one vector of 16 bytes and not four arrays, as a load of that width is one
//! instruction today; parameters need no copy to constant memory, where CUDA puts them itself; cells with one child are
//! left out; no kernel polls (`cells.cu` says why).

pub mod selftest;

use std::time::Duration;

use orrery_device::{Arg, Buffer, Device, DeviceError, Event, Kernel, Math, Origin, Source};

use super::{ForceRequest, Report, Stages, TreeAlgorithm, TreeDeviceStrategy};
use crate::settings::Acceptance;
use crate::solver::direct::device::Columns;

/// The most bodies: a node's number is an `int`, and there are as many cells as bodies.
const MOST_BODIES: usize = 1 << 30;

/// The largest opening angle at which no body, however near a corner, finds its own cell far enough away: 2/√3, less
/// a little.
const SAFE_THETA: f64 = 1.15;

/// Threads a group of the kernels that build.
const BLOCK_SIZE: u32 = 256;

/// Numbers of a part of the box in `box.cu`, words of its frame, and numbers a group counts in `walk.cu`.
const EXTREMES: usize = 7;
const FRAME: usize = 16;
const TOTALS: usize = 3;

const BOX: &str = concat!(
    include_str!("nodes.cu"),
    "#line 1 \"frame_slots.cu\"\n",
    include_str!("../../../direct/device/frame_slots.cu"),
    "#line 1 \"frame.cu\"\n",
    include_str!("../../../direct/device/frame.cu"),
    "#line 1 \"box.cu\"\n",
    include_str!("box.cu")
);
const INSERT: &str = concat!(
    include_str!("nodes.cu"),
    "#line 1 \"frame_slots.cu\"\n",
    include_str!("../../../direct/device/frame_slots.cu"),
    "#line 1 \"insert.cu\"\n",
    include_str!("insert.cu")
);
const CELLS: &str = concat!(
    include_str!("nodes.cu"),
    "#line 1 \"frame_slots.cu\"\n",
    include_str!("../../../direct/device/frame_slots.cu"),
    "#line 1 \"cells.cu\"\n",
    include_str!("cells.cu")
);
const WALK: &str = concat!(
    include_str!("nodes.cu"),
    "#line 1 \"frame_slots.cu\"\n",
    include_str!("../../../direct/device/frame_slots.cu"),
    "#line 1 \"pair.cu\"\n",
    include_str!("../../../direct/device/pair.cu"),
    "#line 1 \"walk.cu\"\n",
    include_str!("walk.cu")
);

/// The tree of `n` bodies and its kernels.
pub struct Insertion {
    device: Device,
    n: usize,
    is_sorted: bool,
    votes: bool,
    kernels: Kernels,
    times: Vec<(String, Origin, Duration)>,
    /// Groups of the kernels that build.
    groups: u32,
    walkers: u32,
    parts: Buffer<f64>,
    arrived_groups: Buffer<u32>,
    frame: Buffer<f64>,
    /// How many cells there are.
    cells: Buffer<u32>,
    node: Buffer<[f32; 4]>,
    child: Buffer<u32>,
    parent: Buffer<u32>,
    awaited: Buffer<u32>,
    arrived: Buffer<u32>,
    /// The witness first, the count of bodies then.
    count: Buffer<u32>,
    before: Buffer<u32>,
    near2: Buffer<f32>,
    order: Buffer<u32>,
    totals: Buffer<u64>,
}

struct Kernels {
    find_box: Kernel,
    insert: Kernel,
    moments: Kernel,
    arrange: Kernel,
    walk: Kernel,
}

/// Bytes on the device for `n` bodies.
pub fn bytes(n: usize) -> u64 {
    // Nodes of 16 bytes and a place in the order for bodies; nodes, 8 children and 6 words for cells.
    let a_body = 16 + 4 + 16 + 32 + 6 * 4;
    n as u64 * a_body + (n as u64).div_ceil(32) * (8 * TOTALS as u64)
}

impl Insertion {
    /// For `n` bodies, by a strategy whose form is [`TreeAlgorithm::Insertion`]; any other form counts as one with all its flags.
    pub fn new(device: &Device, n: usize, strategy: &TreeDeviceStrategy) -> Result<Self, DeviceError> {
        if n > MOST_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MOST_BODIES, got: n });
        }
        let (is_sorted, votes, throttled) = match strategy.form {
            TreeAlgorithm::Insertion { sorted, vote, throttled } => (sorted, vote, throttled),
            TreeAlgorithm::Groups => (true, true, true),
        };
        // Lanes that are only threads of a group meet at its barriers: there, a warp is a group.
        let has_lanes = device.properties().capability.is_some();
        let walkers = if votes && !has_lanes { 32 } else { 256 };
        let mut times = Vec::new();
        let mut build = |name, text, values: &[(&str, u32)]| {
            let definitions: Vec<_> = values.iter().map(|(name, value)| (*name, value.to_string())).collect();
            let source =
                Source { name: "nodes.cu", text, definitions: &definitions, math: Math::FlushToZero };
            let module = device.build(&source)?;
            times.push((format!("insertion: {name}"), module.origin(), module.build_time()));
            Ok(module)
        };
        let find_box = build("box.cu", BOX, &[("BLOCK_SIZE", BLOCK_SIZE)])?;
        let insert =
            build("insert.cu", INSERT, &[("BLOCK_SIZE", BLOCK_SIZE), ("THROTTLED", throttled.into())])?;
        let cells = build("cells.cu", CELLS, &[("BLOCK_SIZE", BLOCK_SIZE)])?;
        let values = [("WALKERS", walkers), ("SORTED", is_sorted.into()), ("VOTE", votes.into())];
        let walk = build("walk.cu", WALK, &values)?;
        let kernels = Kernels {
            find_box: find_box.kernel("find_box")?,
            insert: insert.kernel("insert")?,
            moments: cells.kernel("moments")?,
            arrange: cells.kernel("arrange")?,
            walk: walk.kernel("walk")?,
        };
        // As many groups as fit at once.
        let blocks_per_sm = kernels.insert.blocks_per_sm(BLOCK_SIZE).unwrap_or(4).max(1);
        let fitting = device.properties().sm_count.max(1) * blocks_per_sm;
        let groups = fitting.min((n as u32).div_ceil(BLOCK_SIZE)).max(1);
        Ok(Self {
            n,
            is_sorted,
            votes,
            times,
            groups,
            walkers,
            parts: device.zeros(groups as usize * EXTREMES)?,
            arrived_groups: device.zeros(1)?,
            frame: device.zeros(FRAME)?,
            cells: device.zeros(1)?,
            node: device.zeros(2 * n)?,
            child: device.zeros(8 * n)?,
            parent: device.zeros(n)?,
            awaited: device.zeros(n)?,
            arrived: device.zeros(n)?,
            count: device.zeros(n)?,
            before: device.zeros(n)?,
            near2: device.zeros(n)?,
            order: device.zeros(if is_sorted { n } else { 1 })?,
            totals: device.zeros(n.div_ceil(walkers as usize) * TOTALS)?,
            kernels,
            device: device.clone(),
        })
    }

    /// Fills acceleration. Queued, not waited for; refused where potentials are wanted.
    pub fn queue(&mut self, evaluation: &ForceRequest) -> Result<(), DeviceError> {
        self.evaluate(evaluation, &mut || Ok(()))
    }

    /// The same, with the time of each stage; waits for them.
    pub fn stages(&mut self, evaluation: &ForceRequest) -> Result<Stages, DeviceError> {
        let device = self.device.clone();
        let mut marks: Vec<Event> = Vec::new();
        self.evaluate(evaluation, &mut || {
            marks.push(device.queue().record()?);
            Ok(())
        })?;
        let [start, built, summed, arranged, walked] = marks.as_slice() else { return Ok(Stages::default()) };
        Ok(Stages {
            build: built.seconds_since(start)? + arranged.seconds_since(summed)?,
            moments: summed.seconds_since(built)?,
            walk: walked.seconds_since(arranged)?,
        })
    }

    /// Calls `mark` before the first kernel and after the second, third, fourth and fifth.
    fn evaluate(
        &mut self,
        evaluation: &ForceRequest,
        mark: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.check(evaluation)?;
        if self.n == 0 {
            return Ok(());
        }
        let ForceRequest { position, mass, g, eps, acceptance, acceleration, .. } = *evaluation;
        let (Acceptance::Geometric { theta } | Acceptance::Relative { theta, .. }) = acceptance;
        let ([x, y, z], [ax, ay, az]) = (args(position), args(acceleration));
        let (n, groups, queue) = (self.n as u32, self.groups, self.device.queue());
        let (frame, cells, node, child): (Arg, Arg, Arg, Arg) =
            ((&self.frame).into(), (&self.cells).into(), (&self.node).into(), (&self.child).into());
        let (parent, awaited, arrived): (Arg, Arg, Arg) =
            ((&self.parent).into(), (&self.awaited).into(), (&self.arrived).into());
        let (count, before, near2, order): (Arg, Arg, Arg, Arg) =
            ((&self.count).into(), (&self.before).into(), (&self.near2).into(), (&self.order).into());

        mark()?;
        let (parts, arrived_groups) = ((&self.parts).into(), (&self.arrived_groups).into());
        let chunk = n.div_ceil(groups);
        queue.launch(
            &self.kernels.find_box,
            groups,
            BLOCK_SIZE,
            &[
                x,
                y,
                z,
                mass.into(),
                n.into(),
                chunk.into(),
                g.into(),
                eps.into(),
                parts,
                arrived_groups,
                frame,
                node,
                child,
                awaited,
                arrived,
                cells,
            ],
        )?;
        let tree = [node, child, parent, awaited, arrived, count, cells];
        let all = [&[x, y, z, mass.into(), frame, n.into()], &tree[..]].concat();
        queue.launch(&self.kernels.insert, groups, BLOCK_SIZE, &all)?;
        mark()?;
        let theta = theta.min(SAFE_THETA);
        let all = [
            frame,
            theta.into(),
            n.into(),
            node,
            child,
            parent,
            awaited,
            arrived,
            count,
            before,
            near2,
            cells,
        ];
        queue.launch(&self.kernels.moments, groups, BLOCK_SIZE, &all)?;
        mark()?;
        if self.is_sorted {
            let all = [n.into(), child, parent, count, before, order, cells];
            queue.launch(&self.kernels.arrange, groups, BLOCK_SIZE, &all)?;
        }
        mark()?;
        let all = [order, node, near2, child, frame, n.into(), (&self.totals).into(), ax, ay, az];
        queue.launch(&self.kernels.walk, n.div_ceil(self.walkers), self.walkers, &all)?;
        mark()
    }

    fn check(&self, evaluation: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, acceleration, potential, .. } = *evaluation;
        if potential.is_some() {
            return Err(DeviceError::Kernel {
                device: self.device.title(),
                module: "insertion".to_owned(),
                name: "potentials".to_owned(),
            });
        }
        let columns = [position, acceleration].into_iter().flat_map(|c| [c.x, c.y, c.z]);
        match columns.chain([mass]).find(|buffer| buffer.len() != self.n) {
            None => Ok(()),
            Some(buffer) => {
                Err(DeviceError::Length { device: self.device.title(), expected: self.n, got: buffer.len() })
            }
        }
    }

    /// What the last evaluation came to; waits for it. Bodies are leaves here, and not counted as cells.
    pub fn report(&self) -> Result<Report, DeviceError> {
        let (cells, totals) = (self.cells.to_vec()?, self.totals.to_vec()?);
        let mut report = Report { cells: u64::from(cells[0]), ..Report::default() };
        if self.votes {
            report.groups = (self.n as u64).div_ceil(32);
        }
        for group in totals.chunks_exact(TOTALS) {
            report.body_terms += group[0];
            report.cell_terms += group[1];
            report.most_terms = report.most_terms.max(group[2]);
        }
        Ok(report)
    }

    /// The kernel that takes the time, and its group.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some((&self.kernels.walk, self.walkers))
    }

    /// What was built, where it came from and how long that took.
    pub fn build_times(&self) -> &[(String, Origin, Duration)] {
        &self.times
    }
}

fn args(columns: Columns<'_>) -> [Arg<'_>; 3] {
    [columns.x.into(), columns.y.into(), columns.z.into()]
}
