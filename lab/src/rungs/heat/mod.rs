//! Steps from the course's solver to the production kernel: one time step, then the range of the
//! field, which the course compares with a limit after every step.
//!
//! Course: K. Ljungkvist, "CUDA exercises" (2016). Its plate has fixed edges and uniform
//! conductivity.

pub mod selftest;

use std::time::Instant;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math};
use orrery_fields::heat::Plate;
use orrery_fields::heat::device::{DeviceHeat, HeatDeviceStrategy, StoredField};
use orrery_model::Precision;

// SAFETY: all kernels skip nodes outside the nx * ny nodes of their fields, and columns from nx on.
// `CourseSolver` allocates fields of nx * ny values and results of nx values.
const RUNGS: KernelFile = unsafe { KernelFile::new("heat_rungs.cu", include_str!("heat_rungs.cu")) };

/// Threads of a block along x and y.
const TILE: u32 = 16;

/// Algorithm of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeatVariant {
    /// The update on the device, with memory allocated and both fields copied in every step.
    CopiesEveryStep,
    /// Fields stay on the device. The whole grid is copied back for the range.
    DataStays,
    /// The range on the device, with one thread per column.
    RangeOnDevice,
    /// Neighbouring threads update neighbouring nodes of a row.
    Coalesced,
    /// A tile in shared memory, with ghost cells.
    SharedTile,
    /// The production kernel with one step per pass: a warp marches along y with vector loads.
    VectorRows,
    /// The production kernel with several steps per pass.
    SeveralSteps,
    /// The production kernel with the strategy that runs use.
    Production,
}

impl HeatVariant {
    /// Returns the kernel of the update in `heat_rungs.cu`, or None for a production kernel.
    fn course_kernel(self) -> Option<&'static str> {
        match self {
            Self::CopiesEveryStep | Self::DataStays | Self::RangeOnDevice => Some("update_across_rows"),
            Self::Coalesced => Some("update_along_rows"),
            Self::SharedTile => Some("update_tile"),
            Self::VectorRows | Self::SeveralSteps | Self::Production => None,
        }
    }

    /// Returns true if blocks along x cover nodes of a row, as neighbouring threads do.
    fn is_coalesced(self) -> bool {
        matches!(self, Self::Coalesced | Self::SharedTile)
    }
}

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: HeatVariant,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first.
pub fn rungs() -> [HeatRung; 8] {
    let rung = |name, variant, note| HeatRung { name, variant, note };
    [
        rung(
            "update on the device",
            HeatVariant::CopiesEveryStep,
            "memory is allocated and both fields are copied in every step; in the course almost 2 times slower than its CPU",
        ),
        rung(
            "data stays on the device",
            HeatVariant::DataStays,
            "the grid is copied back for the range on the CPU",
        ),
        rung(
            "range on the device",
            HeatVariant::RangeOnDevice,
            "one thread per column; in the course the range becomes 20 times faster and all of it 7 times",
        ),
        rung("coalesced update", HeatVariant::Coalesced, "the course leaves this out"),
        rung(
            "tile in shared memory",
            HeatVariant::SharedTile,
            "in the course the update becomes 40% faster, all of it 2.5 times faster than the CPU",
        ),
        rung(
            "rows in registers, vector loads",
            HeatVariant::VectorRows,
            "one step per pass, range by all threads",
        ),
        rung("4 steps per pass", HeatVariant::SeveralSteps, "one range per pass, here and below"),
        rung("tuned default", HeatVariant::Production, ""),
    ]
}

/// Times of the parts of an iteration, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeatPartTimes {
    /// Kernels of the update, by events of the device.
    pub update: f64,
    /// Range of the field.
    pub range: f64,
    /// Copies between host and device, with the allocation of their targets.
    pub transfer: f64,
}

/// A plate on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct RungHeat {
    solver: RungSolver,
}

#[derive(Debug)]
enum RungSolver {
    Course(Box<CourseSolver>),
    Streaming(Box<DeviceHeat<f32>>),
}

impl RungHeat {
    /// Uploads a plate with fixed edges and uniform conductivity, and its state. `production` is
    /// the strategy of [`HeatVariant::Production`].
    ///
    /// # Panics
    /// If the plate has other edges, another conductivity or a source.
    pub fn new(
        device: &Device,
        variant: HeatVariant,
        plate: &Plate<f32>,
        initial: &[f32],
        production: HeatDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let is_fixed = [
            &plate.boundaries.west,
            &plate.boundaries.east,
            &plate.boundaries.south,
            &plate.boundaries.north,
        ]
        .iter()
        .all(|boundary| boundary.is_fixed());
        assert!(is_fixed && plate.resistivity.is_none() && plate.source.is_none());
        let (precision, nodes) = (Precision::Single, plate.grid.len());
        if let Some(kernel) = variant.course_kernel() {
            let solver = CourseSolver::new(device, variant, kernel, plate, initial)?;
            return Ok(Self { solver: RungSolver::Course(Box::new(solver)) });
        }
        let strategy = match variant {
            HeatVariant::VectorRows => HeatDeviceStrategy::one_step_for(device, precision, false),
            HeatVariant::SeveralSteps => HeatDeviceStrategy {
                steps_per_pass: 4,
                ..HeatDeviceStrategy::default_for(device, nodes, precision, false)
            },
            _ => production,
        };
        let heat = DeviceHeat::new(device, plate.clone(), initial, strategy)?;
        Ok(Self { solver: RungSolver::Streaming(Box::new(heat)) })
    }

    /// Returns the time steps of an iteration.
    pub fn steps_per_iteration(&self) -> u32 {
        match &self.solver {
            RungSolver::Course(_) => 1,
            RungSolver::Streaming(heat) => heat.strategy().steps_per_pass,
        }
    }

    /// Computes the steps of one iteration and the range of the field. Returns minimum and maximum
    /// with the times of the parts.
    pub fn iterate(&mut self, dt: f64) -> Result<([f32; 2], HeatPartTimes), DeviceError> {
        let heat = match &mut self.solver {
            RungSolver::Course(solver) => return solver.iterate(dt),
            RungSolver::Streaming(heat) => heat,
        };
        let queue = heat.device().clone();
        let queue = queue.queue();
        let start = queue.record()?;
        heat.advance(dt, u64::from(heat.strategy().steps_per_pass))?;
        let end = queue.record()?;
        let update = end.seconds_since(&start)?;
        let range_start = Instant::now();
        let measures = heat.measures(StoredField::State)?;
        let range = range_start.elapsed().as_secs_f64();
        Ok(([measures.min as f32, measures.max as f32], HeatPartTimes { update, range, transfer: 0.0 }))
    }

    /// Waits for the iterations and returns the values of all nodes.
    pub fn values(&self) -> Result<Vec<f32>, DeviceError> {
        match &self.solver {
            RungSolver::Course(solver) => solver.values(),
            RungSolver::Streaming(heat) => heat.values(StoredField::State),
        }
    }

    /// Returns the kernel of the update.
    pub fn kernel(&mut self) -> Result<Kernel, DeviceError> {
        match &mut self.solver {
            RungSolver::Course(solver) => Ok(solver.update.clone()),
            RungSolver::Streaming(heat) => heat.kernel(),
        }
    }
}

/// The solver of the course. The fields have nx * ny values.
#[derive(Debug)]
struct CourseSolver {
    device: Device,
    plate: Plate<f32>,
    variant: HeatVariant,
    update: Kernel,
    range: Kernel,
    state: Buffer<f32>,
    next: Buffer<f32>,
    minima: Buffer<f32>,
    maxima: Buffer<f32>,
    /// The state on the host, where the rung has it there.
    host: Vec<f32>,
}

impl CourseSolver {
    fn new(
        device: &Device,
        variant: HeatVariant,
        kernel: &str,
        plate: &Plate<f32>,
        initial: &[f32],
    ) -> Result<Self, DeviceError> {
        let module = device.build(&RUNGS, &[("TILE", TILE.to_string())], Math::Precise)?;
        let (state, next) = match variant {
            HeatVariant::CopiesEveryStep => (device.zeros(0)?, device.zeros(0)?),
            _ => (device.upload(initial)?, device.upload(initial)?),
        };
        Ok(Self {
            update: module.kernel(kernel)?,
            range: module.kernel("range_of_columns")?,
            minima: device.zeros(plate.grid.nx)?,
            maxima: device.zeros(plate.grid.nx)?,
            device: device.clone(),
            plate: plate.clone(),
            variant,
            state,
            next,
            host: initial.to_vec(),
        })
    }

    fn values(&self) -> Result<Vec<f32>, DeviceError> {
        match self.variant {
            HeatVariant::CopiesEveryStep => Ok(self.host.clone()),
            _ => self.state.to_vec(),
        }
    }

    fn iterate(&mut self, dt: f64) -> Result<([f32; 2], HeatPartTimes), DeviceError> {
        let mut times = HeatPartTimes::default();
        if self.variant == HeatVariant::CopiesEveryStep {
            let start = Instant::now();
            self.state = self.device.upload(&self.host)?;
            self.next = self.device.upload(&self.host)?;
            times.transfer += start.elapsed().as_secs_f64();
        }
        times.update = self.update(dt)?;
        if matches!(self.variant, HeatVariant::CopiesEveryStep | HeatVariant::DataStays) {
            let start = Instant::now();
            self.device.queue().read(&self.state, &mut self.host)?;
            if self.variant == HeatVariant::CopiesEveryStep {
                (self.state, self.next) = (self.device.zeros(0)?, self.device.zeros(0)?);
            }
            times.transfer += start.elapsed().as_secs_f64();
        }
        let start = Instant::now();
        let range = match self.variant {
            HeatVariant::CopiesEveryStep | HeatVariant::DataStays => range_of(&self.host, &self.host),
            _ => self.range_on_device()?,
        };
        times.range = start.elapsed().as_secs_f64();
        Ok((range, times))
    }

    /// Computes one step and returns its time.
    fn update(&mut self, dt: f64) -> Result<f64, DeviceError> {
        let (queue, grid, coefficients) =
            (self.device.queue(), &self.plate.grid, self.plate.step_coefficients(dt));
        let args = [
            (&self.state).into(),
            (&self.next).into(),
            coefficients.x.into(),
            coefficients.y.into(),
            (grid.nx as i32).into(),
            (grid.ny as i32).into(),
        ];
        let [blocks_x, blocks_y] = [grid.nx, grid.ny].map(|nodes| (nodes as u32).div_ceil(TILE));
        let blocks = if self.variant.is_coalesced() { [blocks_x, blocks_y] } else { [blocks_y, blocks_x] };
        let start = queue.record()?;
        queue.launch(&self.update, blocks, [TILE, TILE], &args)?;
        let end = queue.record()?;
        std::mem::swap(&mut self.state, &mut self.next);
        end.seconds_since(&start)
    }

    fn range_on_device(&self) -> Result<[f32; 2], DeviceError> {
        let (queue, grid) = (self.device.queue(), &self.plate.grid);
        let args = [
            (&self.state).into(),
            (grid.nx as i32).into(),
            (grid.ny as i32).into(),
            (&self.minima).into(),
            (&self.maxima).into(),
        ];
        let block_size = TILE * TILE;
        queue.launch(&self.range, (grid.nx as u32).div_ceil(block_size), block_size, &args)?;
        Ok(range_of(&self.minima.to_vec()?, &self.maxima.to_vec()?))
    }
}

/// Returns the smallest of `minima` and the largest of `maxima`.
fn range_of(minima: &[f32], maxima: &[f32]) -> [f32; 2] {
    let min = minima.iter().fold(f32::INFINITY, |min, &u| if u < min { u } else { min });
    let max = maxima.iter().fold(f32::NEG_INFINITY, |max, &u| if u > max { u } else { max });
    [min, max]
}
