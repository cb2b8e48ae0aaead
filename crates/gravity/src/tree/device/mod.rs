//! The octree on a device: bodies along a Hilbert curve, cells with their moments, and groups of
//! neighbours.
//!
//! Invariants, in addition to those of [`crate::tree`]:
//! - The children of a cell are contiguous and belong to the next generation. Cell numbers differ
//!   from run to run, the tree does not.
//! - There are at most 8/7 n + 16 cells if a leaf may contain 16 bodies, and 24 from level 12 on
//!   (`cells.cu`). The most cells come from chains that split off one body per level and end in
//!   eight octants.
//!
//! An evaluation queues about 60 launches, and the host waits for none of them. Results such as the
//! number of cells of a generation or the number of groups stay in device memory, where the next
//! kernel reads them. `layout.cu` describes the arrays.

pub mod selftest;

use std::ops::Range;

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, defined_number, join_sources,
    kernel_source,
};
use orrery_model::Precision;
use orrery_primitives::sort::Sort;
use serde::{Deserialize, Serialize};

use crate::precision::{PRECISION_SOURCE, precision_definition};
use crate::solver::direct::device::{Columns, FRAME_SLOTS_SOURCE, frame_slot};

/// Text for kernels that read a tree: names of precisions, slots of the frame, `layout.cu`.
pub(crate) const LAYOUT_SOURCE: &str =
    join_sources!(PRECISION_SOURCE, FRAME_SLOTS_SOURCE, kernel_source!("layout.cu"));

// SAFETY: the kernels access n elements of the arrays with one entry per body, `max_cells` of those
// with one entry per cell, and the slots that `layout.cu` names. `DeviceOctree::new` allocates as
// many, and the launches pass columns of length n.
const TREE: KernelFile = unsafe {
    KernelFile::new(
        "tree.cu",
        join_sources!(LAYOUT_SOURCE, kernel_source!("keys.cu", "cells.cu", "moments.cu", "groups.cu")),
    )
};

const BLOCK_SIZE: u32 = 256;
const GENERATIONS: i32 = super::COORDINATE_BITS as i32 + 1;
const _: () = assert!(super::COORDINATE_BITS as usize == defined_number(LAYOUT_SOURCE, "COORDINATE_BITS"));
/// Groups of each width class in `counts`.
const COUNT_CLASS: Range<usize> = {
    let first = defined_number(LAYOUT_SOURCE, "COUNT_CLASS");
    first..first + defined_number(LAYOUT_SOURCE, "WIDTH_CLASSES")
};
/// Largest width of a group, in units of the smallest octant that contains a leaf of one of its
/// bodies. Narrower groups leave lanes idle, wider groups interact with more bodies. 4 to 6 were
/// fastest on cubes and clusters.
const MAX_GROUP_WIDTH: u32 = 4;

/// Highest multipole moment of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Masses at their centres of mass.
    Monopole,
    /// Masses and second moments.
    Quadrupole,
    /// Masses, second and third moments.
    Octupole,
}

impl Order {
    /// All orders, from the lowest.
    pub const ALL: [Self; 3] = [Self::Monopole, Self::Quadrupole, Self::Octupole];

    /// Number of 4-vectors that store a cell's moments: MOMENT_VECTORS in `layout.cu`.
    fn moment_vectors(self) -> usize {
        match self {
            Self::Monopole => 1,
            Self::Quadrupole => 3,
            Self::Octupole => 5,
        }
    }
}

/// Parameters of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreePlan {
    pub precision: Precision,
    pub order: Order,
    pub leaf_size: u32,
    pub group_size: u32,
}

impl TreePlan {
    /// Returns the definitions for kernels that read the tree.
    pub fn layout_definitions(&self) -> Vec<(&'static str, String)> {
        vec![precision_definition(self.precision), ("ORDER", (self.order as u32 + 1).to_string())]
    }

    /// Returns the definitions for the kernels that build the tree.
    fn build_definitions(&self) -> Vec<(&'static str, String)> {
        let mut definitions = self.layout_definitions();
        definitions.extend([
            ("LEAF_SIZE", format!("{}u", self.leaf_size)),
            ("GROUP_BODIES", format!("{}u", self.group_size)),
            ("MAX_GROUP_WIDTH", MAX_GROUP_WIDTH.to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
        ]);
        definitions
    }

    /// Returns the largest number of cells of `n` bodies.
    fn max_cells(&self, n: usize) -> usize {
        // For smaller leaves: the bound for any tree in which no cell has a single child.
        if self.leaf_size >= 16 { n + n / 7 + 16 } else { 2 * n + 16 }
    }

    /// Returns the device memory of the tree of `n` bodies, in bytes.
    pub fn device_bytes(&self, n: usize) -> u64 {
        let vector = if self.precision == Precision::Double { 32 } else { 16 };
        let has_low = self.precision == Precision::Mixed;
        // Key, order, octant level, sizes and groups, and one or two vectors.
        let per_body = 8 + 4 + 1 + 2 * 4 + vector * if has_low { 2 } else { 1 };
        // Begin, end, children, level, relative limit, and vectors.
        let per_cell = 4 + 4 + 4 + 1 + 4 + vector * (1 + self.order.moment_vectors());
        (n * per_body + self.max_cells(n) * per_cell) as u64 + Sort::<u64>::device_bytes(n)
    }
}

/// Buffer of 4-vectors in the arithmetic of the tree.
pub(crate) enum TreeVectors {
    Single(Buffer<[f32; 4]>),
    Double(Buffer<[f64; 4]>),
}

impl TreeVectors {
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

impl<'a> From<&'a TreeVectors> for Arg<'a> {
    fn from(vectors: &'a TreeVectors) -> Self {
        match vectors {
            TreeVectors::Single(buffer) => buffer.into(),
            TreeVectors::Double(buffer) => buffer.into(),
        }
    }
}

struct TreeKernels {
    find_frame: Kernel,
    find_keys: Kernel,
    gather_bodies: Kernel,
    divide_cells: Kernel,
    find_moments: Kernel,
    split_runs: Kernel,
    order_groups: Kernel,
}

/// Bodies from which a tree is built, and the constants of the force law.
#[derive(Clone, Copy)]
pub(crate) struct BodyColumns<'a> {
    pub position: Columns<'a>,
    pub mass: &'a Buffer<f64>,
    pub g: f64,
    pub eps: f64,
    pub total_mass: f64,
}

/// Tree of `n` bodies on a device. `n` is at least 1.
///
/// Arrays with one entry per body are indexed by sorted body, arrays with one entry per cell by
/// cell.
pub(crate) struct DeviceOctree {
    device: Device,
    n: usize,
    plan: TreePlan,
    kernels: TreeKernels,
    sort: Sort<u64>,
    keys: Buffer<u64>,
    /// `order[k]` is the user's index of sorted body k.
    pub order: Buffer<u32>,
    pub frame: Buffer<f64>,
    pub counts: Buffer<u32>,
    pub begin: Buffer<u32>,
    pub end: Buffer<u32>,
    pub children: Buffer<u32>,
    level: Buffer<u8>,
    /// Per body: level of the octant of its leaf's parent that contains the leaf.
    octant_level: Buffer<u8>,
    pub high: TreeVectors,
    pub low: TreeVectors,
    pub centres: TreeVectors,
    pub moments: TreeVectors,
    /// (M l³)^{2/5} per cell, for the relative acceptance. Empty until it is first used.
    pub relative_limits: Buffer<f32>,
    /// Size and width class of a group at its first body, 0 at all other bodies.
    pub sizes: Buffer<u32>,
    /// First body of each group.
    pub groups: Buffer<u32>,
    /// Bounds of the bodies of each block of `find_frame`.
    block_bounds: Buffer<f64>,
    frame_blocks: u32,
}

impl DeviceOctree {
    pub fn new(builder: &mut KernelBuilder, n: usize, plan: TreePlan) -> Result<Self, DeviceError> {
        let module = builder.build(&TREE, &plan.build_definitions(), Math::Precise)?;
        let kernels = TreeKernels {
            find_frame: module.kernel("find_frame")?,
            find_keys: module.kernel("find_keys")?,
            gather_bodies: module.kernel("gather_bodies")?,
            divide_cells: module.kernel("divide_cells")?,
            find_moments: module.kernel("find_moments")?,
            split_runs: module.kernel("split_runs")?,
            order_groups: module.kernel("order_groups")?,
        };
        let device = builder.device();
        let (cells, precision) = (plan.max_cells(n), plan.precision);
        let frame_blocks = sm_count(device).saturating_mul(4).min((n as u32).div_ceil(BLOCK_SIZE));
        let vectors = |len| TreeVectors::new(device, precision, len);
        Ok(Self {
            device: device.clone(),
            n,
            plan,
            kernels,
            sort: Sort::new(device, n)?,
            keys: device.zeros(n)?,
            order: device.zeros(n)?,
            frame: device.zeros(frame_slot("FRAME_SLOTS"))?,
            counts: device.zeros(defined_number(LAYOUT_SOURCE, "COUNT_SLOTS"))?,
            begin: device.zeros(cells)?,
            end: device.zeros(cells)?,
            children: device.zeros(cells)?,
            level: device.zeros(cells)?,
            octant_level: device.zeros(n)?,
            high: vectors(n)?,
            low: vectors(if precision == Precision::Mixed { n } else { 0 })?,
            centres: vectors(cells)?,
            moments: vectors(cells * plan.order.moment_vectors())?,
            relative_limits: device.zeros(0)?,
            sizes: device.zeros(n)?,
            groups: device.zeros(n)?,
            block_bounds: device.zeros(6 * frame_blocks as usize)?,
            frame_blocks,
        })
    }

    fn launch(&self, kernel: &Kernel, blocks: u32, args: &[Arg]) -> Result<(), DeviceError> {
        self.device.queue().launch(kernel, blocks, BLOCK_SIZE, args)
    }

    /// Queues the whole build except for the moments, with the groups of all bodies.
    pub fn build(&mut self, bodies: &BodyColumns) -> Result<(), DeviceError> {
        self.build_cells(bodies)?;
        self.find_groups(0..self.n)
    }

    /// Queues the frame, the sort and the cells.
    pub fn build_cells(&mut self, bodies: &BodyColumns) -> Result<(), DeviceError> {
        let BodyColumns { position, mass, g, eps, total_mass } = *bodies;
        let ([x, y, z], n) = (position.args(), Arg::U32(self.n as u32));
        let body_blocks = (self.n as u32).div_ceil(BLOCK_SIZE);
        let (frame, counts, order) =
            (Arg::from(&self.frame), Arg::from(&self.counts), Arg::from(&self.order));
        let (begin, end, level) = (Arg::from(&self.begin), Arg::from(&self.end), Arg::from(&self.level));
        let (high, low) = (Arg::from(&self.high), Arg::from(&self.low));
        let (g, eps, total_mass): (Arg, Arg, Arg) = (g.into(), eps.into(), total_mass.into());
        let block_bounds = Arg::from(&self.block_bounds);
        self.launch(
            &self.kernels.find_frame,
            self.frame_blocks,
            &[x, y, z, n, g, eps, total_mass, block_bounds, frame, counts, begin, end, level],
        )?;
        let keys = Arg::from(&self.keys);
        self.launch(&self.kernels.find_keys, body_blocks, &[x, y, z, n, frame, keys, order])?;
        self.sort.launch(self.device.queue(), &self.keys, &self.order)?;
        let (keys, order) = (Arg::from(&self.keys), Arg::from(&self.order));
        let args = [x, y, z, mass.into(), n, frame, order, high, low];
        self.launch(&self.kernels.gather_bodies, body_blocks, &args)?;
        let (children, octant_level) = (Arg::from(&self.children), Arg::from(&self.octant_level));
        for generation in 0..GENERATIONS {
            self.launch(
                &self.kernels.divide_cells,
                self.generation_blocks(generation, BLOCK_SIZE / 8),
                &[keys, generation.into(), counts, begin, end, children, level, octant_level],
            )?;
        }
        Ok(())
    }

    /// Queues the groups of the sorted bodies `range`, which starts and ends between runs: at
    /// multiples of the group size, or at the number of bodies. The cells must be queued.
    pub fn find_groups(&self, range: Range<usize>) -> Result<(), DeviceError> {
        let group_size = self.plan.group_size as usize;
        debug_assert!(range.start.is_multiple_of(group_size) || range.start == self.n);
        debug_assert!(range.end.is_multiple_of(group_size) || range.end == self.n);
        let runs = [range.start, range.end].map(|body| body.div_ceil(group_size) as u32);
        let [first_run, end_run] = runs.map(Arg::from);
        let [first_body, end_body] = [range.start, range.end].map(|body| Arg::from(body as u32));
        let (n, counts, sizes) = (Arg::U32(self.n as u32), Arg::from(&self.counts), Arg::from(&self.sizes));
        let (frame, high) = (Arg::from(&self.frame), Arg::from(&self.high));
        self.launch(
            &self.kernels.split_runs,
            (runs[1] - runs[0]).div_ceil(BLOCK_SIZE),
            &[n, first_run, end_run, frame, high, (&self.octant_level).into(), sizes, counts],
        )?;
        self.launch(
            &self.kernels.order_groups,
            (range.len() as u32).div_ceil(BLOCK_SIZE),
            &[first_body, end_body, sizes, counts, (&self.groups).into()],
        )
    }

    /// Queues the moments and the opening distances for the opening angle `theta`. With
    /// `is_relative` also queues the limits of the relative acceptance.
    pub fn find_moments(&mut self, theta: f64, is_relative: bool) -> Result<(), DeviceError> {
        if is_relative && self.relative_limits.is_empty() {
            self.relative_limits = self.device.zeros(self.plan.max_cells(self.n))?;
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
                (&self.children).into(),
                (&self.level).into(),
                (&self.high).into(),
                (&self.low).into(),
                (&self.centres).into(),
                (&self.moments).into(),
                (&self.relative_limits).into(),
            ];
            self.launch(&self.kernels.find_moments, self.generation_blocks(generation, BLOCK_SIZE), &args)?;
        }
        Ok(())
    }

    /// Returns the number of blocks for a generation. The host does not know how many cells it has,
    /// so this is the number for the most cells that it can have, or the number that fills the
    /// device.
    fn generation_blocks(&self, generation: i32, cells_per_block: u32) -> u32 {
        let max_cells = (1u64 << (3 * generation).min(40)).min(self.n as u64);
        let blocks = max_cells.div_ceil(u64::from(cells_per_block)) as u32;
        blocks.min(sm_count(&self.device) * 8)
    }

    /// Returns the numbers of cells and groups of the last evaluation. Waits for it.
    pub fn cells_and_groups(&self) -> Result<(u64, u64), DeviceError> {
        let counts = self.counts.to_vec()?;
        let sum = |range: Range<usize>| counts[range].iter().map(|&c| u64::from(c)).sum();
        Ok((sum(0..GENERATIONS as usize), sum(COUNT_CLASS)))
    }
}

fn sm_count(device: &Device) -> u32 {
    device.properties().sm_count.max(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Inserts an error as line `line` of one file of a concatenated source and checks that the
    /// compilers of all devices report this file and line.
    pub(crate) fn check_reported_line(
        source: &str,
        definitions: &[(&'static str, String)],
        file: &str,
        line: usize,
    ) {
        let marker = format!("#line 1 \"{file}\"\n");
        let file_start = source.find(&marker).expect("the file has a #line directive") + marker.len();
        let lines = source[file_start..].split_inclusive('\n');
        let line_start = file_start + lines.take(line - 1).map(str::len).sum::<usize>();
        let (before, after) = source.split_at(line_start);
        let text = format!("{before}no_such_type variable;\n{after}");
        for device in Device::list().devices {
            // SAFETY: the source does not compile, so it is never launched.
            let file_with_error = unsafe { KernelFile::new("source.cu", &text) };
            let result = device.build(&file_with_error, definitions, Math::Precise);
            let Err(error) = result else { panic!("{file} compiles with an error in it") };
            // clang and the OpenCL compilers write file:line, NVRTC writes file(line).
            let message = error.to_string();
            let is_reported =
                message.contains(&format!("{file}:{line}:")) || message.contains(&format!("{file}({line})"));
            assert!(is_reported, "expected an error in line {line} of {file}: {message}");
        }
    }

    #[test]
    fn compile_errors_name_the_file_and_line() {
        let plan =
            TreePlan { precision: Precision::Mixed, order: Order::Quadrupole, leaf_size: 16, group_size: 32 };
        for file in ["layout.cu", "keys.cu", "groups.cu"] {
            check_reported_line(TREE.text(), &plan.build_definitions(), file, 3);
        }
    }
}
