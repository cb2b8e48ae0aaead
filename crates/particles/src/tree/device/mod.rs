//! The octree on a device: bodies along Hilbert's curve, cells over them with their moments, groups of neighbours.
//!
//! An evaluation queues some sixty launches, and the host waits for none of them: what one finds, how many cells a generation
//! has or how many groups there are, the next reads from the device's memory. `layout.cu` says how things are kept.
//!
//! Invariants, beside those of [`crate::tree`]
//! - Children of a cell are contiguous and of the next generation. Numbers of cells differ from run to run, the tree does
//!   not.
//! - There are at most 8/7 n + 16 cells where a leaf may hold 16 bodies, and 24 from level 12 on (`cells.cu`): what has most
//!   cells are chains that split off one body a level and end in eight parts.

pub mod selftest;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Math};
use orrery_primitives::sort::Sort;
use serde::{Deserialize, Serialize};

use crate::builder::Builder;
use crate::settings::Precision;
use crate::solver::direct::device::Columns;

/// What kernels of other rooms put before their own text to read the tree.
pub(crate) const LAYOUT: &str = include_str!("layout.cu");
const TEXT: &str = concat!(
    include_str!("layout.cu"),
    include_str!("keys.cu"),
    include_str!("cells.cu"),
    include_str!("moments.cu"),
    include_str!("groups.cu")
);

/// Threads of a group of these kernels.
const BLOCK_SIZE: u32 = 256;
/// As in `layout.cu`.
const GENERATIONS: i32 = super::BITS as i32 + 1;
const COUNTS: usize = 64;
const CLASSES: std::ops::Range<usize> = 24..40;
/// A run parts where its box would be so many times as wide as the smallest part of the grid that it touches. Narrower groups
/// leave lanes idle, wider ones meet more bodies: 4 to 6 cost least on cubes and clusters.
const SPREAD: u32 = 4;

/// The highest multipole of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Masses at their centres.
    Monopole,
    /// And second moments.
    Quadrupole,
    /// And third.
    Octupole,
}

impl Order {
    /// All, from the lowest.
    pub const ALL: [Self; 3] = [Self::Monopole, Self::Quadrupole, Self::Octupole];

    /// Vectors of four numbers that a cell's moments take.
    fn record(self) -> usize {
        match self {
            Self::Monopole => 1,
            Self::Quadrupole => 3,
            Self::Octupole => 5,
        }
    }
}

/// What the tree is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub precision: Precision,
    pub order: Order,
    pub leaf_size: u32,
    pub group_size: u32,
}

impl Plan {
    /// For kernels that read the tree.
    pub fn layout(&self) -> Vec<(&'static str, String)> {
        let precision = match self.precision {
            Precision::Single => 0,
            Precision::Mixed => 1,
            Precision::Double => 2,
        };
        vec![("PRECISION", precision.to_string()), ("ORDER", (self.order as u32 + 1).to_string())]
    }

    /// For kernels that build it.
    fn definitions(&self) -> Vec<(&'static str, String)> {
        let mut definitions = self.layout();
        definitions.extend([
            ("LEAF_SIZE", format!("{}u", self.leaf_size)),
            ("GROUP_BODIES", format!("{}u", self.group_size)),
            ("SPREAD", SPREAD.to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
        ]);
        definitions
    }

    /// The most cells that `n` bodies can have.
    fn most_cells(&self, n: usize) -> usize {
        // With smaller leaves, what any tree without single children has.
        if self.leaf_size >= 16 { n + n / 7 + 16 } else { 2 * n + 16 }
    }

    fn runs(&self, n: usize) -> usize {
        n.div_ceil(self.group_size as usize)
    }

    /// Bytes that the tree of `n` bodies takes on a device.
    pub fn bytes(&self, n: usize) -> u64 {
        let vector = if self.precision == Precision::Double { 32 } else { 16 };
        let has_low = self.precision == Precision::Mixed;
        let body = 8 + 4 + 1 + 2 * 4 + vector * if has_low { 2 } else { 1 };
        // Begin, end, children, level, and what the relative acceptance needs.
        let cell = 4 + 4 + 4 + 1 + 4 + vector * (1 + self.order.record());
        (n * body + self.most_cells(n) * cell) as u64 + Sort::<u64>::device_bytes(n)
    }
}

/// Vectors of four numbers, in the arithmetic of the tree.
pub(crate) enum Vectors {
    Single(Buffer<[f32; 4]>),
    Double(Buffer<[f64; 4]>),
}

impl Vectors {
    fn new(device: &Device, precision: Precision, len: usize) -> Result<Self, DeviceError> {
        Ok(match precision {
            Precision::Double => Self::Double(device.zeros(len)?),
            Precision::Single | Precision::Mixed => Self::Single(device.zeros(len)?),
        })
    }

    fn to_vec(&self) -> Result<Vec<[f64; 4]>, DeviceError> {
        Ok(match self {
            Self::Single(buffer) => buffer.to_vec()?.into_iter().map(|v| v.map(f64::from)).collect(),
            Self::Double(buffer) => buffer.to_vec()?,
        })
    }
}

impl<'a> From<&'a Vectors> for Arg<'a> {
    fn from(vectors: &'a Vectors) -> Self {
        match vectors {
            Vectors::Single(buffer) => buffer.into(),
            Vectors::Double(buffer) => buffer.into(),
        }
    }
}

struct Kernels {
    find_frame: Kernel,
    find_keys: Kernel,
    gather: Kernel,
    divide: Kernel,
    find_moments: Kernel,
    part_runs: Kernel,
    order_groups: Kernel,
}

/// What a tree is built from.
#[derive(Clone, Copy)]
pub(crate) struct BodyColumns<'a> {
    pub position: Columns<'a>,
    pub mass: &'a Buffer<f64>,
    pub g: f64,
    pub eps: f64,
    pub total_mass: f64,
}

/// The tree of `n` bodies, at least one.
pub(crate) struct DeviceOctree {
    device: Device,
    n: usize,
    plan: Plan,
    kernels: Kernels,
    sort: Sort<u64>,
    keys: Buffer<u64>,
    /// `order[k]` is the user's index of sorted body k.
    pub order: Buffer<u32>,
    pub frame: Buffer<f64>,
    pub counts: Buffer<u32>,
    pub begin: Buffer<u32>,
    pub end: Buffer<u32>,
    pub child: Buffer<u32>,
    level: Buffer<u8>,
    slot: Buffer<u8>,
    pub high: Vectors,
    pub low: Vectors,
    pub reach: Vectors,
    pub records: Vectors,
    /// (M l³)^{2/5}: of use to the relative acceptance, and made when that is first asked for.
    pub relative: Buffer<f32>,
    /// Of each group, by its first body.
    pub sizes: Buffer<u32>,
    /// The groups' first bodies.
    pub groups: Buffer<u32>,
    /// Of `find_frame`.
    shares: Buffer<f64>,
    framers: u32,
}

impl DeviceOctree {
    pub fn new(builder: &mut Builder, n: usize, plan: Plan) -> Result<Self, DeviceError> {
        let module = builder.build("tree.cu", TEXT, &plan.definitions(), Math::Precise)?;
        let kernels = Kernels {
            find_frame: module.kernel("find_frame")?,
            find_keys: module.kernel("find_keys")?,
            gather: module.kernel("gather")?,
            divide: module.kernel("divide")?,
            find_moments: module.kernel("find_moments")?,
            part_runs: module.kernel("part_runs")?,
            order_groups: module.kernel("order_groups")?,
        };
        let device = &builder.device;
        let (cells, precision) = (plan.most_cells(n), plan.precision);
        let framers = multiprocessors(device).saturating_mul(4).min((n as u32).div_ceil(BLOCK_SIZE));
        let vectors = |len| Vectors::new(device, precision, len);
        Ok(Self {
            device: device.clone(),
            n,
            plan,
            kernels,
            sort: Sort::new(device, n)?,
            keys: device.zeros(n)?,
            order: device.zeros(n)?,
            frame: device.zeros(16)?,
            counts: device.zeros(COUNTS)?,
            begin: device.zeros(cells)?,
            end: device.zeros(cells)?,
            child: device.zeros(cells)?,
            level: device.zeros(cells)?,
            slot: device.zeros(n)?,
            high: vectors(n)?,
            low: vectors(if precision == Precision::Mixed { n } else { 0 })?,
            reach: vectors(cells)?,
            records: vectors(cells * plan.order.record())?,
            relative: device.zeros(0)?,
            sizes: device.zeros(n)?,
            groups: device.zeros(n)?,
            shares: device.zeros(6 * framers as usize)?,
            framers,
        })
    }

    fn launch(&self, kernel: &Kernel, groups: u32, args: &[Arg]) -> Result<(), DeviceError> {
        self.device.queue().launch(kernel, groups, BLOCK_SIZE, args)
    }

    /// Queues everything but the moments.
    pub fn build(&mut self, bodies: &BodyColumns) -> Result<(), DeviceError> {
        let BodyColumns { position, mass, g, eps, total_mass } = *bodies;
        let ([x, y, z], n) = (position.args(), Arg::U32(self.n as u32));
        let all = (self.n as u32).div_ceil(BLOCK_SIZE);
        let (frame, counts, order) =
            (Arg::from(&self.frame), Arg::from(&self.counts), Arg::from(&self.order));
        let (begin, end, level) = (Arg::from(&self.begin), Arg::from(&self.end), Arg::from(&self.level));
        let (high, low) = (Arg::from(&self.high), Arg::from(&self.low));
        let constants = [g.into(), eps.into(), total_mass.into()];
        let shares = Arg::from(&self.shares);
        let [g, eps, total_mass] = constants;
        self.launch(
            &self.kernels.find_frame,
            self.framers,
            &[x, y, z, n, g, eps, total_mass, shares, frame, counts, begin, end, level],
        )?;
        let keys = Arg::from(&self.keys);
        self.launch(&self.kernels.find_keys, all, &[x, y, z, n, frame, keys, order])?;
        self.sort.queue(&self.keys, &self.order)?;
        let (keys, order) = (Arg::from(&self.keys), Arg::from(&self.order));
        self.launch(&self.kernels.gather, all, &[x, y, z, mass.into(), n, frame, order, high, low])?;
        let (child, slot) = (Arg::from(&self.child), Arg::from(&self.slot));
        for generation in 0..GENERATIONS {
            let groups = self.for_generation(generation, BLOCK_SIZE / 8);
            self.launch(
                &self.kernels.divide,
                groups,
                &[keys, generation.into(), counts, begin, end, child, level, slot],
            )?;
        }
        let runs = self.plan.runs(self.n) as u32;
        let sizes = Arg::from(&self.sizes);
        self.launch(
            &self.kernels.part_runs,
            runs.div_ceil(BLOCK_SIZE),
            &[n, frame, high, slot, sizes, counts],
        )?;
        self.launch(&self.kernels.order_groups, all, &[n, sizes, counts, (&self.groups).into()])
    }

    /// Queues the moments, and the distances that cells are opened within, for an opening angle. With `is_relative` also
    /// what the relative acceptance needs.
    pub fn find_moments(&mut self, theta: f64, is_relative: bool) -> Result<(), DeviceError> {
        if is_relative && self.relative.is_empty() {
            self.relative = self.device.zeros(self.plan.most_cells(self.n))?;
        }
        for generation in (0..GENERATIONS).rev() {
            let args = [
                generation.into(),
                theta.into(),
                i32::from(is_relative).into(),
                (&self.frame).into(),
                (&self.counts).into(),
                (&self.begin).into(),
                (&self.end).into(),
                (&self.child).into(),
                (&self.level).into(),
                (&self.high).into(),
                (&self.low).into(),
                (&self.reach).into(),
                (&self.records).into(),
                (&self.relative).into(),
            ];
            self.launch(&self.kernels.find_moments, self.for_generation(generation, BLOCK_SIZE), &args)?;
        }
        Ok(())
    }

    /// Groups for a generation, whose cells are not counted yet: as many as it can need, at most what fills the device.
    fn for_generation(&self, generation: i32, cells_per_group: u32) -> u32 {
        let most = 1u64 << (3 * generation).min(40);
        let most = most.min(self.n as u64).div_ceil(u64::from(cells_per_group)) as u32;
        most.min(multiprocessors(&self.device) * 8)
    }

    /// Cells and groups of the last evaluation; waits for it.
    pub fn cells_and_groups(&self) -> Result<(u64, u64), DeviceError> {
        let counts = self.counts.to_vec()?;
        let sum = |range: std::ops::Range<usize>| counts[range].iter().map(|&c| u64::from(c)).sum();
        Ok((sum(0..GENERATIONS as usize), sum(CLASSES)))
    }
}

fn multiprocessors(device: &Device) -> u32 {
    device.properties().sm_count.max(1)
}
