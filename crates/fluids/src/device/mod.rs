//! A fluid on a device. `particles.cu` describes the memory and how kernels decide what to do, and
//! `batch.rs` how the host queues them.

mod batch;
mod create;
mod lists;
mod part;
mod read;
mod strategy;
#[cfg(test)]
mod tests;

pub(super) use batch::MAX_BATCH;
pub(super) use part::FluidDevicePart;
pub use strategy::FluidStrategy;

use orrery_cluster::{ClusterError, LinkError};
use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Pinned, defined_number, kernel_source};
use orrery_model::analysis::max_or_nan;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;
use thiserror::Error;

use super::Exploded;
use super::arithmetic::{EnergyArithmetic, PairArithmetic, force_quantum};
use super::settings::{FluidSettings, PairPrecision};
use super::sums::MeasureSums;
use lists::Lists;
use part::SlabKernels;

// SAFETY: kernels with one thread per particle access the first n particles of a side of the state,
// and entries of lists below the capacity, for which `Lists::new` allocates memory. Indices in
// lists are those of particles, and cells are below the number of cells, because fractions are
// below 1, and those in an open box are in its middle half (`in_middle_of_box`, CONTROL_WIDEN).
// `batch.rs` writes two random numbers per step of a batch. All loops end: blocks that wait for one
// another are launched together. Kernels of `slab.cu` access as many particles, ghosts and records
// as `part.rs` has allocated: `DeviceFluid::reserve` makes room for particles and ghosts, and a
// list of selected particles has room for all particles per window.
const KERNELS: KernelFile = unsafe {
    KernelFile::new(
        "fluid.cu",
        kernel_source!(
            "particles.cu",
            "noise.cu",
            "forces.cu",
            "step.cu",
            "lists.cu",
            "measure.cu",
            "slab.cu"
        ),
    )
};

/// Returns a number by its name in the kernel files.
const fn kernel_number(name: &str) -> usize {
    defined_number(KERNELS.text(), name)
}

/// Number of words of `control`.
const CONTROL_WORDS: usize = kernel_number("CONTROL_WORDS");
/// Words of the sums of `measure`.
const SUM_WORDS: usize = kernel_number("WORDS_PER_SUM") * MeasureSums::COUNT;
/// Numbers of `motion` that do not belong to a species.
const MOTION_SLOTS: usize = kernel_number("MOTION_SPECIES");
/// Numbers of `motion` per species.
const MOTION_SPECIES_SLOTS: usize = kernel_number("MOTION_SPECIES_SLOTS");

/// Words of `control`. `particles.cu` describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum ControlWord {
    Step = kernel_number("CONTROL_STEP"),
    Target = kernel_number("CONTROL_TARGET"),
    Rebuild = kernel_number("CONTROL_REBUILD"),
    Side = kernel_number("CONTROL_SIDE"),
    Overflow = kernel_number("CONTROL_OVERFLOW"),
    Failed = kernel_number("CONTROL_FAILED"),
    IsFinal = kernel_number("CONTROL_IS_FINAL"),
    Rebuilds = kernel_number("CONTROL_REBUILDS"),
    OverflowNext = kernel_number("CONTROL_OVERFLOW_NEXT"),
    Start = kernel_number("CONTROL_START"),
    IsKicked = kernel_number("CONTROL_IS_KICKED"),
    Widen = kernel_number("CONTROL_WIDEN"),
    WidenNext = kernel_number("CONTROL_WIDEN_NEXT"),
}

/// Reason why a fluid cannot be created, moved or read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DeviceFluidError {
    /// The settings need the CPU.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedFluid),
    /// A particle moves too fast.
    #[error(transparent)]
    Exploded(#[from] Exploded),
    /// Kernels were queued and nothing happened.
    #[error("{device} ran the kernels of a fluid without a result")]
    Stalled {
        /// Title of the device.
        device: String,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Another rank failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl From<LinkError> for DeviceFluidError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Device(error) => Self::Device(error),
            LinkError::Cluster(error) => Self::Cluster(error),
        }
    }
}

impl DeviceFluidError {
    /// Returns the error with the number of steps before the one that failed.
    pub(super) fn at_step(self, step: u64) -> Self {
        match self {
            Self::Exploded(exploded) => Self::Exploded(Exploded { step, ..exploded }),
            other => other,
        }
    }
}

/// Reason why a fluid cannot be on a device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnsupportedFluid {
    /// Forces in f64.
    #[error("forces in double precision need the CPU; on devices they have mixed precision")]
    DoublePrecision,
    /// The device has no f64.
    #[error("{device} has no double precision, which velocities and energies need")]
    NoDoubles {
        /// Title of the device.
        device: String,
    },
    /// A rank without a device.
    #[error("rank {rank} has no device, expected one as on rank 0")]
    NoDevice {
        /// The rank.
        rank: usize,
    },
    /// No particles.
    #[error("a fluid without particles cannot be on a device")]
    Empty,
    /// Too many particles.
    #[error("{n} particles are too many for a device, expected at most {MAX_PARTICLES}")]
    TooMany {
        /// Number found.
        n: usize,
    },
}

/// Most particles: two sides of the state are indexed with 32 bits, and so are 32 threads of each.
pub const MAX_PARTICLES: usize = 1 << 26;

struct FluidKernels {
    take_step: Kernel,
    take_force_step: Kernel,
    take_steps: Kernel,
    assign_cells: Kernel,
    sort_particles: Kernel,
    build_lists: Kernel,
    widen_box: Kernel,
    measure: Kernel,
    /// Those of one rank of several.
    slab: Option<SlabKernels>,
}

/// A fluid on a device, or the part of one rank.
pub struct DeviceFluid {
    device: Device,
    settings: FluidSettings,
    bounds: SimulationBox,
    single: PairArithmetic<f32>,
    energies: EnergyArithmetic,
    /// Number of particles here.
    n: usize,
    /// Number of particles of all ranks.
    total: usize,
    /// Room for particles and ghosts on a side of the state.
    stride: usize,
    /// Identifiers of the particles of all ranks, in the user's order.
    id: Vec<u64>,
    kernels: FluidKernels,
    strategy: FluidStrategy,
    control: Buffer<u32>,
    position: [Buffer<u64>; 3],
    image: [Buffer<i32>; 3],
    velocity: [Buffer<f64>; 3],
    species: Buffer<u32>,
    order: Buffer<u32>,
    force: [Buffer<u64>; 3],
    upper: Buffer<[f32; 4]>,
    listed: Buffer<[f32; 4]>,
    lists: Option<Lists>,
    pairs: Buffer<f32>,
    energy_pairs: Buffer<f64>,
    mass: Buffer<f64>,
    /// Sums of `measure`.
    sums: Buffer<u64>,
    /// Constants of kicks and drifts, as in `step.cu`.
    motion: Buffer<f64>,
    /// Identifiers in the user's order, for the noise of Langevin dynamics.
    noise_ids: Buffer<u64>,
    /// Rescaling: words of the sum of the kinetic energy, factor of the velocities, two numbers per
    /// step.
    kinetic_sum: Buffer<u64>,
    factor: Buffer<f64>,
    rescaling_numbers: Buffer<f64>,
    /// Most blocks of a launch of several steps.
    resident_blocks: u32,
    /// Words of `control` after the last batch.
    words: [u32; CONTROL_WORDS],
    /// Page-locked memory for the words after the last round and after the one before.
    pinned: [Pinned<u32>; 2],
    /// Steps that were taken with one build of the lists, on average.
    steps_per_build: f64,
}

impl std::fmt::Debug for DeviceFluid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceFluid").field("device", &self.device).field("n", &self.n).finish()
    }
}

impl DeviceFluid {
    /// Returns an error with the reason if a fluid with these settings needs the CPU.
    pub fn check_support(
        device: &Device,
        n: usize,
        settings: &FluidSettings,
    ) -> Result<(), UnsupportedFluid> {
        if settings.precision == PairPrecision::Double {
            return Err(UnsupportedFluid::DoublePrecision);
        }
        if !device.properties().has_f64 {
            return Err(UnsupportedFluid::NoDoubles { device: device.title() });
        }
        if n == 0 {
            return Err(UnsupportedFluid::Empty);
        }
        if n > MAX_PARTICLES {
            return Err(UnsupportedFluid::TooMany { n });
        }
        Ok(())
    }

    /// Returns the memory that a fluid of `n` particles needs on a device, in bytes. Lists have
    /// room for half as many neighbours again as in a uniform fluid. They grow where a particle has
    /// more.
    pub fn device_bytes(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> u64 {
        // Positions, images, velocities, species and order on two sides, forces, the positions that
        // lists use, and identifiers.
        let state = 2 * (24 + 12 + 24 + 4 + 4) + 24 + 32 + 16 + 8;
        let lists = match settings.uses_lists(n, bounds) {
            true => Lists::device_bytes(n, settings, bounds),
            false => 0,
        };
        state * n as u64 + lists + (1 << 20)
    }

    /// Returns about the bytes that each of several ranks needs on its device for its part of a
    /// fluid of `n` particles.
    pub fn device_bytes_of_rank(
        n: usize,
        ranks: usize,
        settings: &FluidSettings,
        bounds: &SimulationBox,
    ) -> u64 {
        let all = Self::device_bytes(n, settings, bounds);
        if ranks == 1 || !settings.uses_lists(n, bounds) {
            return all;
        }
        let longest = bounds.lengths.iter().copied().fold(0.0, max_or_nan);
        let share = 1.0 / ranks as f64 + 2.0 * settings.list_radius() / longest;
        // Sides have room for particles that arrive. Messages are small.
        (all as f64 * (1.25 * share).min(1.5)) as u64
    }

    /// Copies the particles to `device`, builds their lists and computes their forces. Forces are
    /// not part of a saved state: the same particles have the same forces.
    pub fn new(
        device: &Device,
        particles: &FluidParticles,
        settings: &FluidSettings,
    ) -> Result<Self, DeviceFluidError> {
        let strategy = FluidStrategy::default_for(device, particles.len(), settings);
        Self::with_strategy(device, particles, settings, &strategy)
    }

    fn side(&self) -> usize {
        self.words[ControlWord::Side as usize] as usize
    }

    /// Returns the force of one integer unit, in the units of the case.
    fn force_unit(&self) -> f64 {
        force_quantum::<f32>(&self.settings.potential)
    }

    fn blocks(&self, threads_per_particle: u32) -> u32 {
        (self.n as u32 * threads_per_particle).div_ceil(self.strategy.block_size)
    }

    /// Returns the number of builds of the neighbour lists.
    pub fn rebuilds(&self) -> u64 {
        self.words[ControlWord::Rebuilds as usize].into()
    }

    /// Returns the bytes of the buffers that depend on the number of particles.
    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> u64 {
        let columns = 8 * (self.position[0].len() + self.velocity[0].len() + self.force[0].len())
            + 4 * self.image[0].len();
        let others =
            4 * (self.species.len() + self.order.len()) + 16 * (self.upper.len() + self.listed.len());
        let lists = self.lists.as_ref().map_or(0, |lists| {
            let buffers = [&lists.cell_counts, &lists.cell_starts, &lists.cell_of, &lists.rank_of];
            let cells: usize = buffers.iter().map(|buffer| buffer.len()).sum();
            4 * (cells + lists.counts.len()) + 16 * lists.entries.len()
        });
        (3 * columns + others + lists) as u64
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the number of particles.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns true if there are no particles.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the settings, with the skin of the strategy.
    pub fn settings(&self) -> &FluidSettings {
        &self.settings
    }

    /// Returns the strategy in use.
    pub fn strategy(&self) -> &FluidStrategy {
        &self.strategy
    }

    /// Returns the box.
    pub fn bounds(&self) -> &SimulationBox {
        &self.bounds
    }

    /// Returns the number of degrees of freedom, for the temperature.
    pub fn degrees_of_freedom(&self) -> f64 {
        self.settings.ensemble.degrees_of_freedom(self.total, self.bounds.dimensions)
    }
}
