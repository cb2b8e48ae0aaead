//! Barnes-Hut by insertion: six kernels after Burtscher & Pingali (2011), kept as rungs of the
//! ladder.
//!
//! 1. `find_box` (`box.cu`): the cube around all bodies by reduction, and the frame.
//! 2. `insert_bodies` (`insert.cu`): the octree, with locks in its child pointers.
//! 3. `sum_cells` (`cells.cu`): masses and centres of mass, bottom-up.
//! 4. `order_bodies` (`cells.cu`): bodies in the order of the tree, top-down.
//! 5. `walk` (`walk.cu`): forces, in the user's units.
//! 6. `integrate` (`integrate.cu`): motion. Only steps have it, because the integrators of a run
//!    kick and drift the bodies.
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
//! - A thread that polls gives up after a while and continues with another cell (`cells.cu`
//!   explains why).
//! - Children are added when all of them are summed and not one by one, so that sums have one
//!   order.

mod kernels;
pub mod selftest;
mod steps;

pub use steps::InsertionSteps;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder};
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::device::ForceRequest;
use orrery_gravity::solver::direct::device::{Columns, frame_slot};
use orrery_measure::workload::TimedSolver;

use crate::kernel_enum::kernel_enum;
use crate::rungs::gravity::{check_body_count, check_request};
use kernels::InsertionKernels;

/// Optimisations of the kernels that insert bodies one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertionOptions {
    /// Threads that fail to insert a body wait at a barrier before they retry.
    pub throttled: bool,
    /// Treatment of cells that depend on cells of other threads.
    pub waiting: Waiting,
    /// Bodies walk in the order of the tree, so the bodies of a warp are neighbours.
    pub sorted: bool,
    /// Walk of the force kernel.
    pub walk: WarpWalk,
}

impl InsertionOptions {
    /// The first version: no optimisation.
    pub const PLAIN: Self =
        Self { throttled: false, waiting: Waiting::PollAll, sorted: false, walk: WarpWalk::Alone };
    /// The complete program of the course.
    pub const COURSE: Self =
        Self { throttled: true, waiting: Waiting::PollMissing, sorted: true, walk: WarpWalk::Vote };
}

kernel_enum! {
    /// How the sums over cells, bottom-up, and the order of bodies, top-down, treat a cell that
    /// depends on cells of other threads.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Waiting {
        /// No thread waits: the one that finishes the last child of a cell continues with the cell.
        /// Top-down, each cell adds up its start on the path to the root.
        None = 0 => "NO_WAITING",
        /// A thread polls all children of its cell until they are summed. Top-down, it polls the
        /// start of its cell.
        PollAll = 1 => "POLL_ALL",
        /// As above, but it remembers which children are missing and polls only these.
        PollMissing = 2 => "POLL_MISSING",
    }
}

kernel_enum! {
    /// Walk of the force kernel. Each version keeps the changes before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WarpWalk {
        /// Each thread walks for its body.
        Alone = 0 => "WALK_ALONE",
        /// The lanes of a warp walk together, and open a cell if at least one of them has to. One
        /// lane reads each node for all of them.
        OneReader = 1 => "WALK_ONE_READER",
        /// The children of a cell are read at once and cached in shared memory.
        CachedNodes = 2 => "WALK_CACHED",
        /// A warp has one stack, in shared memory.
        SharedStack = 3 => "WALK_SHARED_STACK",
        /// The lanes vote whether they open a cell.
        Vote = 4 => "WALK_VOTE",
    }
}

/// Names of the six kernels in reports, in order.
pub const INSERTION_KERNELS: [&str; 6] = ["box", "build", "summarise", "sort", "force", "integrate"];

/// Blocks per SM of the six kernels. The number of blocks of a kernel is a multiple of the number
/// of SMs, as in the course, unless the bodies need fewer.
///
/// Blocks have 256 threads, so 8 blocks are all threads of an SM. More blocks than run at once wait
/// for their turn. Kernels whose threads wait for others run at most as many as fit.
pub const BLOCKS_PER_SM: [u32; 6] = [4, 8, 8, 8, 8, 8];

/// Slightly less than 2/√3, the largest opening angle at which no body, however near a corner,
/// accepts the cell that contains it.
const MAX_SAFE_THETA: f64 = 1.15;

// The same values as in `box.cu` and `walk.cu`.
const BOX_FIELDS: usize = 7;
const TOTALS: usize = 3;

/// Tree of `n` bodies and its kernels. `nodes.cu` and `cells.cu` describe the arrays.
pub struct Insertion {
    device: Device,
    n: usize,
    options: InsertionOptions,
    kernels: InsertionKernels,
    block_boxes: Buffer<f64>,
    arrived_blocks: Buffer<u32>,
    frame: Buffer<f64>,
    /// Number of cells.
    cell_count: Buffer<u32>,
    node: Buffer<[f32; 4]>,
    child: Buffer<u32>,
    parent: Buffer<u32>,
    child_cells: Buffer<u32>,
    finished: Buffer<u32>,
    /// Representatives of the cells during the insertion, afterwards their numbers of bodies.
    body_count: Buffer<u32>,
    start: Buffer<u32>,
    opening2: Buffer<f32>,
    order: Buffer<u32>,
    totals: Buffer<u64>,
}

impl Insertion {
    /// Builds the kernels and buffers for `n` bodies, at least one. [`BLOCKS_PER_SM`] describes
    /// `blocks_per_sm`.
    pub fn new(
        builder: &mut KernelBuilder,
        n: usize,
        options: InsertionOptions,
        blocks_per_sm: [u32; 6],
    ) -> Result<Self, DeviceError> {
        let device = &builder.device().clone();
        check_body_count(device, n)?;
        let kernels = InsertionKernels::build(builder, n, options, blocks_per_sm)?;
        Ok(Self {
            n,
            options,
            block_boxes: device.zeros(kernels.find_box.blocks as usize * BOX_FIELDS)?,
            arrived_blocks: device.zeros(1)?,
            frame: device.zeros(frame_slot("FRAME_SLOTS"))?,
            cell_count: device.zeros(1)?,
            node: device.zeros(2 * n)?,
            child: device.zeros(8 * n)?,
            parent: device.zeros(n)?,
            child_cells: device.zeros(n)?,
            finished: device.zeros(n)?,
            body_count: device.zeros(n)?,
            start: device.zeros(n)?,
            opening2: device.zeros(n)?,
            order: device.zeros(if options.sorted { n } else { 1 })?,
            totals: device.zeros(kernels.walk.blocks as usize * TOTALS)?,
            kernels,
            device: device.clone(),
        })
    }

    /// Queues kernels 1 to 5. Calls `mark` before the first and after each of them.
    fn queue_kernels(
        &mut self,
        request: &ForceRequest,
        mark: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        check_request(request, self.n, "insertion")?;
        mark()?;
        self.queue_box(request)?;
        mark()?;
        self.queue_insertion(request)?;
        mark()?;
        self.queue_sums(request)?;
        mark()?;
        if self.options.sorted {
            self.queue_order()?;
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

    /// Kernel 1.
    fn queue_box(&self, request: &ForceRequest) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, .. } = *request;
        let [x, y, z] = position.args();
        let launch = &self.kernels.find_box;
        let chunk = (self.n as u32).div_ceil(launch.blocks);
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
            (&self.finished).into(),
            (&self.cell_count).into(),
        ];
        launch.queue(&self.device, &args)
    }

    /// Kernel 2.
    fn queue_insertion(&self, request: &ForceRequest) -> Result<(), DeviceError> {
        let [x, y, z] = request.position.args();
        let args = [
            x,
            y,
            z,
            request.mass.into(),
            (&self.frame).into(),
            self.n_arg(),
            self.node_words()?,
            (&self.child).into(),
            (&self.parent).into(),
            (&self.child_cells).into(),
            (&self.finished).into(),
            (&self.body_count).into(),
            (&self.cell_count).into(),
        ];
        self.kernels.insert_bodies.queue(&self.device, &args)
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
            (&self.finished).into(),
            (&self.body_count).into(),
            (&self.start).into(),
            (&self.opening2).into(),
            (&self.cell_count).into(),
        ];
        self.kernels.sum_cells.queue(&self.device, &args)
    }

    /// Kernel 4.
    fn queue_order(&self) -> Result<(), DeviceError> {
        let args = [
            self.n_arg(),
            (&self.child).into(),
            (&self.parent).into(),
            (&self.body_count).into(),
            (&self.start).into(),
            (&self.order).into(),
            (&self.cell_count).into(),
        ];
        self.kernels.order_bodies.queue(&self.device, &args)
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
        self.kernels.walk.queue(&self.device, &args)
    }

    /// Kernel 6. All columns have n elements.
    fn queue_motion(
        &self,
        position: Columns,
        velocity: Columns,
        acceleration: Columns,
        dt: f64,
    ) -> Result<(), DeviceError> {
        let ([x, y, z], [u, v, w], [ax, ay, az]) = (position.args(), velocity.args(), acceleration.args());
        let args = [x, y, z, u, v, w, ax, ay, az, dt.into(), self.n_arg()];
        self.kernels.integrate.queue(&self.device, &args)
    }

    /// Waits for the last evaluation and returns its number of cells. Bodies are leaves here and do
    /// not count as cells.
    pub fn cell_count(&self) -> Result<u64, DeviceError> {
        Ok(u64::from(self.cell_count.to_vec()?[0]))
    }
}

impl TimedSolver for Insertion {
    fn queue_forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        self.queue_kernels(request, &mut || Ok(()))
    }

    fn count_terms(&self, _n: usize) -> Result<[u64; 2], DeviceError> {
        let mut terms = [0; 2];
        for block in self.totals.to_vec()?.chunks_exact(TOTALS) {
            terms = [terms[0] + block[0], terms[1] + block[1]];
        }
        Ok(terms)
    }

    fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some((&self.kernels.walk.kernel, self.kernels.walk.block_size))
    }
}
