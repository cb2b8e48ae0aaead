//! Neighbour lists on a device. `lists.cu` describes the cells that they are built from.

use orrery_device::{Arg, Buffer, Device, DeviceError};
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_primitives::scan::{Scan, ScanKind};

use super::DeviceFluid;
use super::strategy::{FluidStrategy, default_lanes};
use crate::cells::CellGrid;
use crate::settings::FluidSettings;

/// Most cells along x per radius of the lists. More cells exclude more particles that are too far
/// away, but make more cells to count and scan.
const CELLS_PER_RADIUS: usize = 4;

/// Neighbour lists and the cells that they are built from.
pub(super) struct Lists {
    /// Number of cells along each axis.
    pub(super) cells: [u32; 3],
    /// Particles in each cell, and one number more that stays 0. All are 0 between builds.
    pub(super) cell_counts: Buffer<u32>,
    /// First particle of each cell, followed by the number of particles.
    pub(super) cell_starts: Buffer<u32>,
    /// As `cell_counts` and `cell_starts`, for ghosts.
    pub(super) ghost_counts: Buffer<u32>,
    pub(super) ghost_starts: Buffer<u32>,
    pub(super) scan: Scan<u32>,
    pub(super) cell_of: Buffer<u32>,
    pub(super) rank_of: Buffer<u32>,
    pub(super) counts: Buffer<u32>,
    /// Neighbours in quads (`quad_position` in `particles.cu`).
    pub(super) entries: Buffer<[f32; 4]>,
    /// Most neighbours of a particle.
    pub(super) capacity: u32,
    /// Threads per particle.
    lanes: u32,
    radius2: f32,
    pub(super) half_skin2: f32,
}

impl Lists {
    /// Allocates lists for `total` particles in the box, of which `stride` may be here with ghosts.
    /// Only one rank of several needs memory for cells of ghosts ([`Lists::add_ghost_cells`]).
    pub(super) fn new(
        device: &Device,
        [total, stride]: [usize; 2],
        settings: &FluidSettings,
        bounds: &SimulationBox,
        strategy: &FluidStrategy,
    ) -> Result<Self, DeviceError> {
        let unit = settings.potential.length_unit();
        let cells = cell_counts(total, settings, bounds);
        let cell_count = cells.iter().product::<usize>();
        let lanes = strategy.lanes;
        let capacity = whole_rows(first_capacity(total, settings, bounds), lanes);
        let half_skin = 0.5 * settings.skin / unit;
        Ok(Self {
            cells: cells.map(|count| count as u32),
            cell_counts: device.zeros(cell_count + 1)?,
            cell_starts: device.zeros(cell_count + 1)?,
            scan: Scan::new(device, ScanKind::Exclusive)?,
            ghost_counts: device.zeros(1)?,
            ghost_starts: device.zeros(1)?,
            cell_of: device.zeros(stride)?,
            rank_of: device.zeros(stride)?,
            counts: device.zeros(stride)?,
            entries: device.zeros(list_quads(stride, capacity))?,
            capacity,
            lanes,
            // Rounding errors of f32 must not lose a pair at the radius, and must not hide a move.
            radius2: ((settings.list_radius() / unit).powi(2) * (1.0 + 1e-5)) as f32,
            half_skin2: (half_skin * half_skin * (1.0 - 1e-5)) as f32,
        })
    }

    /// Returns an upper bound of the memory of new lists, in bytes.
    pub(super) fn device_bytes(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> u64 {
        let quads = list_quads(n, whole_rows(first_capacity(n, settings, bounds), default_lanes(n)));
        let cells = 2 * (most_cells(n) + 1);
        4 * (4 * quads + cells + 3 * n) as u64 + Scan::<u32>::device_bytes(most_cells(n) + 1)
    }

    /// Makes room for `count` neighbours of each of `stride` particles.
    pub(super) fn grow(&mut self, device: &Device, stride: usize, count: u32) -> Result<(), DeviceError> {
        self.capacity = whole_rows(count + count / 8, self.lanes);
        self.allocate_entries(device, stride)
    }

    /// Makes room for more particles and ghosts. Lists are lost.
    pub(super) fn reserve(&mut self, device: &Device, stride: usize) -> Result<(), DeviceError> {
        self.cell_of = device.zeros(stride)?;
        self.rank_of = device.zeros(stride)?;
        self.counts = device.zeros(stride)?;
        self.allocate_entries(device, stride)
    }

    fn allocate_entries(&mut self, device: &Device, stride: usize) -> Result<(), DeviceError> {
        // The old lists are freed first.
        self.entries = device.zeros(0)?;
        self.entries = device.zeros(list_quads(stride, self.capacity))?;
        Ok(())
    }

    /// Allocates the cells of ghosts.
    pub(super) fn add_ghost_cells(&mut self, device: &Device) -> Result<(), DeviceError> {
        self.ghost_counts = device.zeros(self.cell_counts.len())?;
        self.ghost_starts = device.zeros(self.cell_counts.len())?;
        Ok(())
    }
}

/// Returns the largest number of cells.
fn most_cells(n: usize) -> usize {
    2 * n.max(8)
}

/// Returns the number of cells along each axis.
fn cell_counts(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> [usize; 3] {
    // Cells cover the middle half of an open box.
    let (low, high) = match bounds.sides {
        BoxSides::Periodic => ([0; 3], [u32::MAX; 3]),
        BoxSides::Open => ([1 << 30; 3], [(3 << 30) - 1; 3]),
    };
    let [x, y, z] = CellGrid::new(bounds, settings.list_radius(), low, high, n).counts;
    let split = (1..=CELLS_PER_RADIUS).rev().find(|split| split * x * y * z <= most_cells(n)).unwrap_or(1);
    [split * x, y, z]
}

/// Returns the first length of a list: the neighbours in a uniform fluid, and half as many again.
fn first_capacity(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> u32 {
    let radius = settings.list_radius();
    let density = n as f64 / bounds.volume();
    let volume = match bounds.dimensions {
        2 => std::f64::consts::PI * radius.powi(2),
        _ => 4.0 / 3.0 * std::f64::consts::PI * radius.powi(3),
    };
    (1.5 * density * volume).min(n as f64) as u32 + 16
}

/// Returns a length of lists that is at least `count` and fills rows of quads.
fn whole_rows(count: u32, lanes: u32) -> u32 {
    count.next_multiple_of(4 * lanes)
}

/// Returns the number of quads of all lists, with those of warps that are not full.
fn list_quads(n: usize, capacity: u32) -> usize {
    n.next_multiple_of(32) * capacity as usize / 4
}

impl DeviceFluid {
    /// Queues the kernels that build lists. They return at once if the lists are valid.
    pub(super) fn queue_build(&mut self) -> Result<(), DeviceError> {
        self.queue_sort()?;
        self.queue_lists()
    }

    /// Queues the kernels that sort the particles by cell.
    pub(super) fn queue_sort(&mut self) -> Result<(), DeviceError> {
        let (blocks, block_size) = (self.blocks(1), self.strategy.block_size);
        let sizes = [self.n as u32, self.stride as u32].map(Arg::from);
        let Some(lists) = &mut self.lists else { return Ok(()) };
        let (queue, kernels, control) = (self.device.queue(), &self.kernels, &self.control);

        let mut args: Vec<Arg> = vec![control.into()];
        args.extend(sizes);
        args.extend(lists.cells.map(Arg::from));
        args.extend(self.position.iter().map(Arg::from));
        args.extend([&lists.cell_counts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        queue.launch(&kernels.assign_cells, blocks, block_size, &args)?;

        lists.scan.launch(queue, &lists.cell_counts, &lists.cell_starts)?;

        let mut args: Vec<Arg> = vec![control.into()];
        args.extend(sizes);
        args.push((lists.cell_counts.len() as u32).into());
        args.extend([&lists.cell_counts, &lists.cell_starts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        args.extend(self.position.iter().map(Arg::from));
        args.extend(self.image.iter().map(Arg::from));
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend([&self.species, &self.order].map(Arg::from));
        args.extend([&self.upper, &self.listed].map(Arg::from));
        queue.launch(&kernels.sort_particles, blocks, block_size, &args)
    }

    /// Queues the kernel that finds the neighbours of sorted particles.
    pub(super) fn queue_lists(&self) -> Result<(), DeviceError> {
        let (blocks, block_size) = (self.blocks(self.strategy.build_lanes), self.strategy.block_size);
        let Some(lists) = &self.lists else { return Ok(()) };
        let mut args: Vec<Arg> = vec![(&self.control).into(), (self.n as u32).into()];
        args.extend(lists.cells.map(Arg::from));
        args.extend([&lists.cell_starts, &lists.ghost_starts].map(Arg::from));
        args.extend([Arg::from(&self.listed), lists.radius2.into()]);
        args.extend(self.single.scale.map(Arg::from));
        args.extend([Arg::from(&lists.counts), (&lists.entries).into(), lists.capacity.into()]);
        self.device.queue().launch(&self.kernels.build_lists, blocks, block_size, &args)
    }
}
