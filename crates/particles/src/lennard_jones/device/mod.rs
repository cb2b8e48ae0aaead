//! A fluid on a device. `particles.cu` describes the memory and how kernels decide what to do, and
//! `batch.rs` how the host queues them.

mod batch;
mod lists;
mod read;
mod strategy;
#[cfg(test)]
mod tests;

pub use strategy::FluidStrategy;

use std::borrow::Cow;

use orrery_cluster::ClusterError;
use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Pinned, kernel_source};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use thiserror::Error;

use super::Exploded;
use super::arithmetic::{EnergyArithmetic, EnergyConstants, PairArithmetic, PairConstants, PairReal};
use super::ensemble::Ensemble;
use super::potential::Truncation;
use super::settings::{FluidSettings, PairPrecision};
use lists::Lists;

/// Number of words of `control`.
const CONTROL_WORDS: usize = 17;
/// Number of sums of `measure`.
const SUM_COUNT: usize = 6;
/// Numbers of `motion` that do not belong to a species.
const MOTION_SLOTS: usize = 10;
/// Numbers of `motion` per species.
const MOTION_SPECIES_SLOTS: usize = 3;

// SAFETY: kernels with one thread per particle access the first n particles of a side of the state,
// and entries of lists below the capacity, for which `Lists::new` allocates memory. Indices in
// lists are those of particles, and cells are below the number of cells, because fractions are
// below 1, and those in an open box are in its middle half (`in_middle_of_box`, CONTROL_WIDEN).
// `batch.rs` writes two random numbers per step of a batch. All loops end: blocks that wait for one
// another are launched together.
const KERNELS: KernelFile = unsafe {
    KernelFile::new(
        "fluid.cu",
        kernel_source!("particles.cu", "noise.cu", "forces.cu", "step.cu", "lists.cu", "measure.cu"),
    )
};

/// Words of `control`, as in `particles.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Step = 0,
    Target = 1,
    Rebuild = 2,
    Side = 4,
    Overflow = 6,
    Failed = 7,
    IsFinal = 8,
    Rebuilds = 9,
    OverflowNext = 11,
    Start = 12,
    Widen = 14,
    WidenNext = 15,
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
    /// Several ranks.
    #[error("a fluid on several ranks needs the CPU")]
    SeveralRanks,
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

struct Kernels {
    take_step: Kernel,
    take_force_step: Kernel,
    take_steps: Kernel,
    assign_cells: Kernel,
    sort_particles: Kernel,
    build_lists: Kernel,
    widen_box: Kernel,
    measure: Kernel,
}

/// A fluid on a device.
pub struct DeviceFluid {
    device: Device,
    settings: FluidSettings,
    bounds: SimulationBox,
    single: PairArithmetic<f32>,
    energies: EnergyArithmetic,
    n: usize,
    id: Vec<u64>,
    kernels: Kernels,
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
    /// Rescaling: sum of the kinetic energy, factor of the velocities, two numbers per step.
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

    /// As [`DeviceFluid::new`], with a strategy. The skin is the one of the strategy. The default
    /// strategy replaces one that does not fit the device.
    pub fn with_strategy(
        device: &Device,
        particles: &FluidParticles,
        settings: &FluidSettings,
        strategy: &FluidStrategy,
    ) -> Result<Self, DeviceFluidError> {
        let particles = &*in_middle_of_box(particles);
        let (n, bounds) = (particles.len(), particles.bounds);
        Self::check_support(device, n, settings)?;
        let strategy = match strategy.fits(device) {
            true => *strategy,
            false => FluidStrategy::default_for(device, n, settings),
        };
        let settings = &FluidSettings { skin: strategy.skin, ..settings.clone() };
        let single = PairArithmetic::<f32>::new(&settings.potential, &bounds);
        let energies = EnergyArithmetic::new(&settings.potential, &bounds);
        let uses_lists = settings.uses_lists(n, &bounds);
        let mut words = [0; CONTROL_WORDS];
        words[Word::Rebuild as usize] = u32::from(uses_lists);
        // Both sides of the state start with the particles in the user's order.
        let twice_u64 = |column: &[u64]| device.upload(&[column, column].concat());
        let species: Vec<u32> = particles.species.iter().map(|&s| u32::from(s)).collect();
        let order: Vec<u32> = (0..n as u32).collect();
        let Vec3s { x, y, z } = &particles.velocity;
        let upper: Vec<[f32; 4]> = (0..2 * n)
            .map(|k| {
                let [x, y, z] = particles.fractions(k % n).map(|fraction| (fraction >> 32) as u32);
                [x, y, z, species[k % n]].map(f32::from_bits)
            })
            .collect();
        let [px, py, pz] = &particles.position;
        let [ix, iy, iz] = &particles.image;
        let kernels = Kernels::new(device, settings, &bounds, &strategy, uses_lists)?;
        let blocks_per_sm = kernels.take_steps.blocks_per_sm(strategy.block_size);
        let noise_ids = match settings.ensemble {
            Ensemble::Langevin { .. } => device.upload(&particles.id)?,
            Ensemble::Nve | Ensemble::Rescaling { .. } => device.zeros(1)?,
        };
        let motion_len = MOTION_SLOTS + MOTION_SPECIES_SLOTS * settings.mass.len();
        let mut fluid = Self {
            resident_blocks: blocks_per_sm.map_or(1, |blocks| blocks * device.properties().sm_count),
            kernels,
            sums: device.zeros(SUM_COUNT)?,
            motion: device.zeros(motion_len)?,
            noise_ids,
            kinetic_sum: device.zeros(1)?,
            factor: device.zeros(1)?,
            rescaling_numbers: device.zeros(2)?,
            lists: uses_lists.then(|| Lists::new(device, n, settings, &bounds, &strategy)).transpose()?,
            control: device.upload(&words)?,
            position: [twice_u64(px)?, twice_u64(py)?, twice_u64(pz)?],
            image: [
                device.upload(&[&ix[..], ix].concat())?,
                device.upload(&[&iy[..], iy].concat())?,
                device.upload(&[&iz[..], iz].concat())?,
            ],
            velocity: [
                device.upload(&[&x[..], x].concat())?,
                device.upload(&[&y[..], y].concat())?,
                device.upload(&[&z[..], z].concat())?,
            ],
            species: device.upload(&[&species[..], &species].concat())?,
            order: device.upload(&[&order[..], &order].concat())?,
            force: [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?],
            listed: device.upload(&upper[..n])?,
            upper: device.upload(&upper)?,
            pairs: device.upload(&single.pairs.iter().flat_map(pair_slots).collect::<Vec<_>>())?,
            energy_pairs: device.upload(&energy_slots(&energies))?,
            mass: device.upload(&settings.mass)?,
            settings: settings.clone(),
            device: device.clone(),
            bounds,
            single,
            energies,
            n,
            id: particles.id.clone(),
            strategy,
            words,
            pinned: [device.pinned(CONTROL_WORDS)?, device.pinned(CONTROL_WORDS)?],
            steps_per_build: 8.0,
        };
        fluid.update_forces()?;
        Ok(fluid)
    }

    fn side(&self) -> usize {
        self.words[Word::Side as usize] as usize
    }

    /// Returns the force of one integer unit, in the units of the case.
    fn force_unit(&self) -> f64 {
        let potential = &self.settings.potential;
        potential.energy_unit() / potential.length_unit() * 2f64.powi(-f32::FORCE_BITS)
    }

    fn blocks(&self, threads_per_particle: u32) -> u32 {
        (self.n as u32 * threads_per_particle).div_ceil(self.strategy.block_size)
    }

    /// Returns the number of builds of the neighbour lists.
    pub fn rebuilds(&self) -> u64 {
        self.words[Word::Rebuilds as usize].into()
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
        self.settings.ensemble.degrees_of_freedom(self.n, self.bounds.dimensions)
    }
}

impl Kernels {
    fn new(
        device: &Device,
        settings: &FluidSettings,
        bounds: &SimulationBox,
        strategy: &FluidStrategy,
        uses_lists: bool,
    ) -> Result<Self, DeviceError> {
        let flag = |yes: bool| u8::from(yes).to_string();
        let is_switched = matches!(settings.potential.truncation, Truncation::Switched { .. });
        // Threads that an SM must have room for, which limits their registers. On an H200 with
        // 1,048,576 particles and 1536, 1280 and 1024 threads: 2183, 2154 and 2155 steps per
        // second. Noise needs more registers.
        let (ensemble, threads_per_sm) = match settings.ensemble {
            Ensemble::Nve => (0, 1536),
            Ensemble::Langevin { .. } => (1, 1024),
            Ensemble::Rescaling { .. } => (2, 1536),
        };
        let definitions = [
            ("BLOCK_SIZE", strategy.block_size.to_string()),
            ("LANES", strategy.lanes.to_string()),
            ("BUILD_LANES", strategy.build_lanes.to_string()),
            ("ENSEMBLE", ensemble.to_string()),
            ("STEP_THREADS_PER_SM", threads_per_sm.to_string()),
            ("SPECIES", settings.potential.species_count().to_string()),
            ("IS_SWITCHED", flag(is_switched)),
            ("IS_PERIODIC", flag(bounds.sides == BoxSides::Periodic)),
            ("IS_ALL_PAIRS", flag(!uses_lists)),
            ("DIMENSIONS", bounds.dimensions.to_string()),
        ];
        let module = device.build(&KERNELS, &definitions, Math::Precise)?;
        Ok(Self {
            take_step: module.kernel("take_step")?,
            take_force_step: module.kernel("take_force_step")?,
            take_steps: module.kernel("take_steps")?,
            assign_cells: module.kernel("assign_cells")?,
            sort_particles: module.kernel("sort_particles")?,
            build_lists: module.kernel("build_lists")?,
            widen_box: module.kernel("widen_box")?,
            measure: module.kernel("measure")?,
        })
    }
}

/// Returns particles that are in the middle half of an open box, which the kernels rely on.
fn in_middle_of_box(particles: &FluidParticles) -> Cow<'_, FluidParticles> {
    let mut particles = Cow::Borrowed(particles);
    let (sides, dimensions) = (particles.bounds.sides, particles.bounds.dimensions);
    let is_outside = |particles: &FluidParticles| {
        !particles.position[..dimensions].iter().flatten().all(|&x| SimulationBox::is_in_middle(x))
    };
    while sides == BoxSides::Open && is_outside(&particles) {
        let widened = particles.to_mut();
        widened.bounds = widened.bounds.doubled();
        for fraction in widened.position[..dimensions].iter_mut().flatten() {
            *fraction = SimulationBox::halved(*fraction);
        }
    }
    particles
}

/// Returns the numbers of a pair in the order of `particles.cu`.
fn pair_slots(pair: &PairConstants<f32>) -> [f32; 8] {
    let PairConstants { cutoff2, near2, damping2, repulsion, attraction, switch_start, switch } = *pair;
    [cutoff2, near2, damping2, repulsion, attraction, switch_start, switch[0], switch[1]]
}

/// Returns the numbers of all pairs in the order of `measure.cu`.
fn energy_slots(arithmetic: &EnergyArithmetic) -> Vec<f64> {
    let pairs = arithmetic.forces.pairs.iter().zip(&arithmetic.energies);
    pairs
        .flat_map(|(pair, energy)| {
            let EnergyConstants { repulsion, attraction, shift, switch } = *energy;
            let of_forces = [
                pair.cutoff2,
                pair.damping2,
                pair.repulsion,
                pair.attraction,
                pair.switch_start,
                pair.switch[0],
                pair.switch[1],
            ];
            of_forces.into_iter().chain([repulsion, attraction, shift, switch[0], switch[1]])
        })
        .collect()
}
