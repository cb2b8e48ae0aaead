//! Barnes-Hut by insertion: six kernels after Burtscher & Pingali (2011), kept as rungs of the
//! ladder.
//!
//! 1. `find_box` (`box.cu`): the cube around all bodies by reduction, and the frame.
//! 2. `insert_bodies` (`insert.cu`): the octree, with locks in its child pointers.
//! 3. `sum_cells` (`cells.cu`): masses and centres of mass, bottom-up.
//! 4. `order_bodies` (`cells.cu`): bodies in the order of the tree.
//! 5. `walk` (`walk.cu`): forces.
//! 6. Integration. The integrators kick and drift all bodies, so the only part of kernel 6 left
//!    here is the conversion of accelerations to the user's units, at the end of kernel 5.
//!
//! f32, monopoles, no potentials. Only the geometric acceptance: the relative one uses its opening
//! angle. Equal bodies give equal bits although threads race, because the tree depends only on the
//! bodies and every sum is in the order of octants.
//!
//! Differences from the paper:
//! - A node is one vector of 16 bytes and not four arrays, because a load of that width is one
//!   instruction.
//! - Parameters are not copied to constant memory. CUDA puts kernel arguments there.
//! - There are no cells with one child.
//! - No kernel polls (`cells.cu` explains why).

pub mod selftest;

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Event, Kernel, KernelBuilder, KernelFile, Math, kernel_source,
};

use super::{DeviceTreeReport, ForceRequest, TreeAlgorithm, TreeDeviceStrategy, TreeStageTimes};
use crate::settings::Acceptance;

/// Largest number of bodies. A node number is an `int`, and there are at most as many cells as
/// bodies.
const MAX_BODIES: usize = 1 << 30;

/// Slightly less than 2/√3, the largest opening angle at which no body, however near a corner,
/// accepts the cell that contains it.
const MAX_SAFE_THETA: f64 = 1.15;

/// Threads per block of the kernels that build the tree.
const BLOCK_SIZE: u32 = 256;

// The same values as in `box.cu` and `walk.cu`. FRAME_SLOTS is enough for the slots of `nodes.cu`.
const BOX_FIELDS: usize = 7;
const FRAME_SLOTS: usize = 16;
const TOTALS: usize = 3;

// SAFETY: for all four files, the kernels access n elements of the columns, 2 n nodes, 8 n children
// and n elements of the other arrays of cells. `Insertion::new` allocates as many, and the launches
// pass columns of length n. A thread that waits for a lock waits for a thread that does not wait.
const BOX: KernelFile = unsafe {
    KernelFile::new(
        "box.cu",
        kernel_source!(
            "nodes.cu",
            "../../../direct/device/frame_slots.cu",
            "../../../direct/device/frame.cu",
            "box.cu"
        ),
    )
};
// SAFETY: as above.
const INSERT: KernelFile = unsafe {
    KernelFile::new(
        "insert.cu",
        kernel_source!("nodes.cu", "../../../direct/device/frame_slots.cu", "insert.cu"),
    )
};
// SAFETY: as above.
const CELLS: KernelFile = unsafe {
    KernelFile::new(
        "cells.cu",
        kernel_source!("nodes.cu", "../../../direct/device/frame_slots.cu", "cells.cu"),
    )
};
// SAFETY: as above.
const WALK: KernelFile = unsafe {
    KernelFile::new(
        "walk.cu",
        kernel_source!(
            "nodes.cu",
            "../../../direct/device/frame_slots.cu",
            "../../../direct/device/pair.cu",
            "walk.cu"
        ),
    )
};

/// Tree of `n` bodies and its kernels. `nodes.cu` and `cells.cu` describe the arrays.
pub struct Insertion {
    device: Device,
    n: usize,
    is_sorted: bool,
    votes: bool,
    kernels: Kernels,
    /// Blocks of the kernels that build the tree.
    build_blocks: u32,
    /// Threads per block of the walk.
    walk_block_size: u32,
    block_boxes: Buffer<f64>,
    arrived_blocks: Buffer<u32>,
    frame: Buffer<f64>,
    /// Number of cells.
    cell_count: Buffer<u32>,
    node: Buffer<[f32; 4]>,
    child: Buffer<u32>,
    parent: Buffer<u32>,
    child_cells: Buffer<u32>,
    summed_children: Buffer<u32>,
    /// Representatives of the cells during the insertion, afterwards their numbers of bodies.
    body_count: Buffer<u32>,
    bodies_before: Buffer<u32>,
    opening2: Buffer<f32>,
    order: Buffer<u32>,
    totals: Buffer<u64>,
}

struct Kernels {
    find_box: Kernel,
    insert_bodies: Kernel,
    sum_cells: Kernel,
    order_bodies: Kernel,
    walk: Kernel,
}

/// Returns the device memory for `n` bodies, in bytes.
pub fn device_bytes(n: usize) -> u64 {
    // Per body: a node of 16 bytes and an index. Per cell: a node, 8 children and 6 words.
    let per_body = 16 + 4 + 16 + 32 + 6 * 4;
    n as u64 * per_body + (n as u64).div_ceil(32) * (8 * TOTALS as u64)
}

impl Insertion {
    /// Builds the kernels and buffers for `n` bodies. A strategy with another algorithm than
    /// [`TreeAlgorithm::Insertion`] counts as insertion with all flags set.
    pub fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &TreeDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let device = &builder.device().clone();
        if n > MAX_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MAX_BODIES, got: n });
        }
        let (is_sorted, votes, throttled) = match strategy.algorithm {
            TreeAlgorithm::Insertion { sorted, vote, throttled } => (sorted, vote, throttled),
            TreeAlgorithm::Groups => (true, true, true),
        };
        // Without warp votes the lanes of a warp synchronise at block barriers, so a block must be
        // one warp.
        let walk_block_size = if votes && !device.properties().has_warp_shuffle { 32 } else { 256 };
        let mut build = |file: &KernelFile<'_>, values: &[(&str, u32)]| {
            let definitions: Vec<_> = values.iter().map(|(name, value)| (*name, value.to_string())).collect();
            builder.build(file, &definitions, Math::FlushToZero)
        };
        let find_box = build(&BOX, &[("BLOCK_SIZE", BLOCK_SIZE)])?;
        let values = [("BLOCK_SIZE", BLOCK_SIZE), ("THROTTLED", throttled.into())];
        let insert = build(&INSERT, &values)?;
        let cells = build(&CELLS, &[("BLOCK_SIZE", BLOCK_SIZE)])?;
        let values = [("BLOCK_SIZE", walk_block_size), ("SORTED", is_sorted.into()), ("VOTE", votes.into())];
        let walk = build(&WALK, &values)?;
        let kernels = Kernels {
            find_box: find_box.kernel("find_box")?,
            insert_bodies: insert.kernel("insert_bodies")?,
            sum_cells: cells.kernel("sum_cells")?,
            order_bodies: cells.kernel("order_bodies")?,
            walk: walk.kernel("walk")?,
        };
        // As many blocks as are resident at the same time.
        let fitting = kernels.insert_bodies.resident_blocks(BLOCK_SIZE);
        let build_blocks = fitting.min((n as u32).div_ceil(BLOCK_SIZE)).max(1);
        Ok(Self {
            n,
            is_sorted,
            votes,
            build_blocks,
            walk_block_size,
            block_boxes: device.zeros(build_blocks as usize * BOX_FIELDS)?,
            arrived_blocks: device.zeros(1)?,
            frame: device.zeros(FRAME_SLOTS)?,
            cell_count: device.zeros(1)?,
            node: device.zeros(2 * n)?,
            child: device.zeros(8 * n)?,
            parent: device.zeros(n)?,
            child_cells: device.zeros(n)?,
            summed_children: device.zeros(n)?,
            body_count: device.zeros(n)?,
            bodies_before: device.zeros(n)?,
            opening2: device.zeros(n)?,
            order: device.zeros(if is_sorted { n } else { 1 })?,
            totals: device.zeros(n.div_ceil(walk_block_size as usize) * TOTALS)?,
            kernels,
            device: device.clone(),
        })
    }

    /// Queues the computation of the accelerations. Returns an error if potentials are requested.
    pub fn queue(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        self.queue_kernels(request, &mut || Ok(()))
    }

    /// Computes the accelerations, waits for them, and returns the time of each stage.
    pub fn time_stages(&mut self, request: &ForceRequest) -> Result<TreeStageTimes, DeviceError> {
        let device = self.device.clone();
        let mut events: Vec<Event> = Vec::new();
        self.queue_kernels(request, &mut || {
            events.push(device.queue().record()?);
            Ok(())
        })?;
        let [start, built, summed, ordered, walked] = events.as_slice() else {
            return Ok(TreeStageTimes::default());
        };
        Ok(TreeStageTimes {
            build: built.seconds_since(start)? + ordered.seconds_since(summed)?,
            moments: summed.seconds_since(built)?,
            walk: walked.seconds_since(ordered)?,
        })
    }

    /// Queues the kernels. Calls `mark` before the first and after the second, third, fourth and
    /// fifth.
    fn queue_kernels(
        &mut self,
        request: &ForceRequest,
        mark: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.check_request(request)?;
        if self.n == 0 {
            return Ok(());
        }
        mark()?;
        self.queue_build(request)?;
        mark()?;
        self.queue_sums(request)?;
        mark()?;
        if self.is_sorted {
            let args = [
                self.n_arg(),
                (&self.child).into(),
                (&self.parent).into(),
                (&self.body_count).into(),
                (&self.bodies_before).into(),
                (&self.order).into(),
                (&self.cell_count).into(),
            ];
            self.launch_build(&self.kernels.order_bodies, &args)?;
        }
        mark()?;
        self.queue_walk(request)?;
        mark()
    }

    fn n_arg(&self) -> Arg<'_> {
        Arg::U32(self.n as u32)
    }

    /// Returns the nodes as 32-bit words, as the kernels that build the tree access them.
    fn node_words(&self) -> Result<Arg<'_>, DeviceError> {
        Ok(self.node.range(..)?.reinterpret::<u32>()?.into())
    }

    fn launch_build(&self, kernel: &Kernel, args: &[Arg]) -> Result<(), DeviceError> {
        self.device.queue().launch(kernel, self.build_blocks, BLOCK_SIZE, args)
    }

    /// Kernels 1 and 2.
    fn queue_build(&self, request: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, .. } = *request;
        let [x, y, z] = position.args();
        let chunk = (self.n as u32).div_ceil(self.build_blocks);
        let args = [
            x,
            y,
            z,
            mass.into(),
            self.n_arg(),
            chunk.into(),
            g.into(),
            eps.into(),
            (&self.block_boxes).into(),
            (&self.arrived_blocks).into(),
            (&self.frame).into(),
            self.node_words()?,
            (&self.child).into(),
            (&self.child_cells).into(),
            (&self.summed_children).into(),
            (&self.cell_count).into(),
        ];
        self.launch_build(&self.kernels.find_box, &args)?;
        let args = [
            x,
            y,
            z,
            mass.into(),
            (&self.frame).into(),
            self.n_arg(),
            self.node_words()?,
            (&self.child).into(),
            (&self.parent).into(),
            (&self.child_cells).into(),
            (&self.summed_children).into(),
            (&self.body_count).into(),
            (&self.cell_count).into(),
        ];
        self.launch_build(&self.kernels.insert_bodies, &args)
    }

    /// Kernel 3.
    fn queue_sums(&self, request: &ForceRequest) -> Result<(), DeviceError> {
        let (Acceptance::Geometric { theta } | Acceptance::Relative { theta, .. }) = request.acceptance;
        let args = [
            (&self.frame).into(),
            theta.min(MAX_SAFE_THETA).into(),
            self.n_arg(),
            self.node_words()?,
            (&self.child).into(),
            (&self.parent).into(),
            (&self.child_cells).into(),
            (&self.summed_children).into(),
            (&self.body_count).into(),
            (&self.bodies_before).into(),
            (&self.opening2).into(),
            (&self.cell_count).into(),
        ];
        self.launch_build(&self.kernels.sum_cells, &args)
    }

    /// Kernel 5.
    fn queue_walk(&self, request: &ForceRequest) -> Result<(), DeviceError> {
        let [ax, ay, az] = request.acceleration.args();
        let args = [
            (&self.order).into(),
            (&self.node).into(),
            (&self.opening2).into(),
            (&self.child).into(),
            (&self.frame).into(),
            self.n_arg(),
            (&self.totals).into(),
            ax,
            ay,
            az,
        ];
        let blocks = (self.n as u32).div_ceil(self.walk_block_size);
        self.device.queue().launch(&self.kernels.walk, blocks, self.walk_block_size, &args)
    }

    fn check_request(&self, request: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, acceleration, potential, .. } = *request;
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

    /// Returns the report of the last evaluation. Waits for it. Bodies are leaves here and do not
    /// count as cells.
    pub fn report(&self) -> Result<DeviceTreeReport, DeviceError> {
        let (cells, totals) = (self.cell_count.to_vec()?, self.totals.to_vec()?);
        let mut report = DeviceTreeReport { cells: u64::from(cells[0]), ..DeviceTreeReport::default() };
        if self.votes {
            report.groups = (self.n as u64).div_ceil(32);
        }
        for block in totals.chunks_exact(TOTALS) {
            report.body_terms += block[0];
            report.cell_terms += block[1];
            report.most_terms = report.most_terms.max(block[2]);
        }
        Ok(report)
    }

    /// Returns the kernel that takes most of the time and its block size.
    pub fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some((&self.kernels.walk, self.walk_block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::device::tests::check_reported_line;

    #[test]
    fn compile_errors_name_the_file_and_line() {
        let definitions = [("BLOCK_SIZE", "32"), ("THROTTLED", "1"), ("SORTED", "1"), ("VOTE", "1")]
            .map(|(name, value)| (name, value.to_owned()));
        check_reported_line(BOX.text(), &definitions, "box.cu", 3);
        check_reported_line(INSERT.text(), &definitions, "insert.cu", 3);
        check_reported_line(CELLS.text(), &definitions, "cells.cu", 3);
        check_reported_line(WALK.text(), &definitions, "walk.cu", 3);
    }
}
