//! A fluid on a device. `particles.cu` describes the memory and how kernels decide what to do.
//!
//! A batch of steps is queued in rounds: some steps, and then the kernels that build lists if a
//! particle has moved too far. Steps that come too late for the lists return at once and are taken
//! in the next round. The host reads the number of steps done one round later, so it never waits for
//! a single step.

mod strategy;

pub use strategy::FluidStrategy;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Pinned, kernel_source};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_primitives::scan::{Scan, ScanKind};
use thiserror::Error;

use super::arithmetic::{
    ENERGY_BITS, EnergyArithmetic, EnergyConstants, PairArithmetic, PairConstants, PairReal,
};
use super::cells::CellGrid;
use super::ensemble::Ensemble;
use super::settings::{FluidSettings, PairPrecision};
use super::{Exploded, FluidMeasures};

/// Number of words of `control`.
const CONTROL_WORDS: usize = 13;
/// Number of sums of `measure`.
const SUM_COUNT: usize = 6;
/// Most steps of one batch, because steps are counted in 32 bits.
const MAX_BATCH: u64 = 1 << 20;

// SAFETY: kernels with one thread per particle access the first n particles of a side of the state,
// and entries of lists below the capacity, for which `Lists::new` allocates memory. Indices in lists
// are those of particles, and cells are below the number of cells, because fractions are below 1. All
// loops end.
const KERNELS: KernelFile = unsafe {
    KernelFile::new("fluid.cu", kernel_source!("particles.cu", "step.cu", "lists.cu", "measure.cu"))
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
}

/// Kinds of `take_step`.
#[derive(Clone, Copy, Debug)]
enum StepKind {
    First = 0,
    Middle = 1,
    LastKick = 2,
}

/// Reason why a fluid on a device cannot be moved.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DeviceFluidError {
    /// The settings need the CPU.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedFluid),
    /// A particle moves too fast.
    #[error(transparent)]
    Exploded(#[from] Exploded),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Reason why a fluid cannot be on a device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnsupportedFluid {
    /// Forces in f64.
    #[error("forces in double precision need the CPU; on devices they have mixed precision")]
    DoublePrecision,
    /// A thermostat.
    #[error("thermostats need the CPU; on devices a fluid has constant energy")]
    Thermostat,
    /// An open box.
    #[error("open boxes need the CPU; on devices a box is periodic")]
    OpenBox,
    /// The device has no f64.
    #[error("{device} has no double precision, which velocities and energies need")]
    NoDoubles {
        /// Title of the device.
        device: String,
    },
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
    clear_cells: Kernel,
    assign_cells: Kernel,
    sort_particles: Kernel,
    build_lists: Kernel,
    measure: Kernel,
}

/// Neighbour lists and the cells that they are built from.
struct Lists {
    cells: [u32; 3],
    cell_counts: Buffer<u32>,
    cell_starts: Buffer<u32>,
    scan: Scan<u32>,
    cell_of: Buffer<u32>,
    rank_of: Buffer<u32>,
    counts: Buffer<u32>,
    entries: Buffer<u32>,
    /// Most neighbours of a particle.
    capacity: u32,
    radius2: f32,
    half_skin2: f32,
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
        bounds: &SimulationBox,
    ) -> Result<(), UnsupportedFluid> {
        if settings.precision == PairPrecision::Double {
            return Err(UnsupportedFluid::DoublePrecision);
        }
        if settings.ensemble != Ensemble::Nve {
            return Err(UnsupportedFluid::Thermostat);
        }
        if bounds.sides != BoxSides::Periodic {
            return Err(UnsupportedFluid::OpenBox);
        }
        if !device.properties().has_f64 {
            return Err(UnsupportedFluid::NoDoubles { device: device.title() });
        }
        if n > MAX_PARTICLES {
            return Err(UnsupportedFluid::TooMany { n });
        }
        Ok(())
    }

    /// Returns the memory that a fluid of `n` particles needs on a device, in bytes. Lists have room
    /// for half as many neighbours again as in a uniform fluid. They grow where a particle has more.
    pub fn device_bytes(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> u64 {
        // Positions, images, velocities, species and order on two sides, forces, and the positions
        // that lists use.
        let state = 2 * (24 + 12 + 24 + 4 + 4) + 24 + 32 + 16;
        let lists = match settings.uses_lists(n, bounds) {
            true => Lists::bytes(n, settings, bounds),
            false => 0,
        };
        state * n as u64 + lists + (1 << 20)
    }

    /// Copies the particles to `device`, builds their lists and computes their forces. Forces are not
    /// part of a saved state: the same particles have the same forces.
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
        let (n, bounds) = (particles.len(), particles.bounds);
        Self::check_support(device, n, settings, &bounds)?;
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
        let mut fluid = Self {
            kernels: Kernels::new(device, settings, &bounds, &strategy, uses_lists)?,
            lists: uses_lists.then(|| Lists::new(device, n, settings, &bounds)).transpose()?,
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
        // A batch of no steps builds the lists and computes the forces.
        fluid.advance_batch(0.0, 0, 0)?;
        Ok(fluid)
    }

    /// Takes `steps` steps of length `dt`. `first` is the number of steps before.
    pub fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        let mut done = 0;
        while done < steps {
            let batch = (steps - done).min(MAX_BATCH);
            self.advance_batch(dt, first + done, batch as u32)?;
            done += batch;
        }
        Ok(())
    }

    /// Takes `steps` steps. With none, computes the forces.
    fn advance_batch(&mut self, dt: f64, first: u64, steps: u32) -> Result<(), DeviceFluidError> {
        let start = self.words[Word::Step as usize];
        self.words[Word::Start as usize] = start;
        self.words[Word::Target as usize] = start.wrapping_add(steps);
        self.words[Word::IsFinal as usize] = 0;
        let builds_before = self.words[Word::Rebuilds as usize];
        self.device.queue().write(&self.control, &self.words)?;
        let unit = self.force_unit();
        let kick: Vec<f64> = self.settings.mass.iter().map(|mass| 0.5 * dt * unit / mass).collect();
        let kick = self.device.upload(&kick)?;
        let step = StepArguments { dt, kick: &kick };
        self.queue_step(StepKind::First, &step)?;
        let mut left = steps;
        // The words are read one round later, so that the device always has a round to work on.
        let mut is_pending = false;
        loop {
            self.queue_round(left, &step)?;
            self.pinned.swap(0, 1);
            self.device.queue().read_async(&self.control, &mut self.pinned[0])?;
            if !std::mem::replace(&mut is_pending, true) {
                continue;
            }
            self.words.copy_from_slice(&self.pinned[1]);
            if self.words[Word::Failed as usize] > 0 || self.words[Word::Overflow as usize] > 0 {
                self.words.copy_from_slice(&self.pinned[0]);
                self.resolve_failures(dt, first)?;
                is_pending = false;
            }
            if self.words[Word::IsFinal as usize] > 0 {
                break;
            }
            left = steps - self.words[Word::Step as usize].wrapping_sub(start);
        }
        // The last round did nothing, but its copy of the words must not be read later.
        self.words.copy_from_slice(&self.pinned[0]);
        let builds = self.words[Word::Rebuilds as usize].wrapping_sub(builds_before);
        if builds > 0 && steps > 0 {
            self.steps_per_build = f64::from(steps) / f64::from(builds);
        }
        Ok(())
    }

    /// Queues steps, up to the number that the lists will allow, and a build of the lists.
    fn queue_round(&mut self, left: u32, step: &StepArguments<'_>) -> Result<(), DeviceError> {
        let round = match self.lists {
            Some(_) => (self.steps_per_build as u32 + 1).clamp(1, 64).min(left.max(1)),
            None => left.clamp(1, 256),
        };
        for _ in 0..round {
            self.queue_step(StepKind::Middle, step)?;
        }
        self.queue_build()?;
        self.queue_step(StepKind::LastKick, step)
    }

    /// Grows lists that were too short. Returns an error if a particle moves too fast.
    fn resolve_failures(&mut self, dt: f64, first: u64) -> Result<(), DeviceFluidError> {
        if self.words[Word::Failed as usize] > 0 {
            return Err(self.find_exploded(dt, first)?.into());
        }
        let overflow = self.words[Word::Overflow as usize];
        if overflow > 0 {
            self.words[Word::Overflow as usize] = 0;
            self.words[Word::OverflowNext as usize] = 0;
            if let Some(lists) = &mut self.lists {
                lists.grow(&self.device, self.n, overflow)?;
            }
            self.device.queue().write(&self.control, &self.words)?;
        }
        Ok(())
    }

    /// Returns the error of the particle that would move too far.
    fn find_exploded(&self, dt: f64, first: u64) -> Result<Exploded, DeviceError> {
        let user = self.n - self.words[Word::Failed as usize] as usize;
        let [x, y, z] = self.particles()?.velocity.get(user);
        let largest = self.settings.largest_move(&self.bounds);
        // As in `take_step`. NaN moves too far.
        let is_too_far = |axis: usize, v: f64| {
            let to_fraction = |distance: f64| distance / self.bounds.lengths[axis] * 2f64.powi(64);
            let step = v * to_fraction(dt);
            step.is_nan() || step.abs() >= to_fraction(largest)
        };
        let failed = [x, y, z].into_iter().enumerate().find(|&(axis, v)| is_too_far(axis, v));
        let (axis, velocity) = failed.unwrap_or((0, x));
        // The step that failed was counted.
        let done = self.words[Word::Step as usize].wrapping_sub(self.words[Word::Start as usize]) - 1;
        Ok(Exploded { id: self.id[user], velocity, axis, step: first + u64::from(done) })
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

    fn queue_step(&self, kind: StepKind, arguments: &StepArguments<'_>) -> Result<(), DeviceError> {
        let lengths = self.bounds.lengths;
        let to_fraction = 2f64.powi(64);
        let largest = self.settings.largest_move(&self.bounds);
        let (counts, entries, capacity, half_skin2) = match &self.lists {
            Some(lists) => (&lists.counts, &lists.entries, lists.capacity, lists.half_skin2),
            // The kernel does not read them.
            None => (&self.order, &self.order, 1, 0.0),
        };
        let mut args: Vec<Arg> = vec![
            (kind as i32).into(),
            (self.n as u32).into(),
            (&self.control).into(),
            (&self.upper).into(),
            (&self.listed).into(),
            counts.into(),
            entries.into(),
            capacity.into(),
            (&self.pairs).into(),
        ];
        args.extend(self.single.scale.map(Arg::from));
        args.push(arguments.kick.into());
        args.extend(lengths.map(|length| Arg::from(arguments.dt / length * to_fraction)));
        args.extend(lengths.map(|length| Arg::from(largest / length * to_fraction)));
        args.push(half_skin2.into());
        args.extend(self.position.iter().map(Arg::from));
        args.extend(self.image.iter().map(Arg::from));
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend(self.force.iter().map(Arg::from));
        args.push((&self.order).into());
        self.device.queue().launch(
            &self.kernels.take_step,
            self.blocks(self.strategy.lanes),
            self.strategy.block_size,
            &args,
        )
    }

    /// Queues the kernels that build lists. They return at once if the lists are valid.
    fn queue_build(&mut self) -> Result<(), DeviceError> {
        let (blocks, block_size, n) = (self.blocks(1), self.strategy.block_size, self.n as u32);
        let Some(lists) = &mut self.lists else { return Ok(()) };
        let (queue, kernels, control) = (self.device.queue(), &self.kernels, &self.control);
        let cells = lists.cells.map(Arg::from);
        let cell_count = lists.cell_counts.len() as u32;
        let args = [control.into(), cell_count.into(), (&lists.cell_counts).into()];
        queue.launch(&kernels.clear_cells, cell_count.div_ceil(block_size), block_size, &args)?;

        let mut args: Vec<Arg> = vec![control.into(), n.into()];
        args.extend(cells);
        args.extend(self.position.iter().map(Arg::from));
        args.extend([&lists.cell_counts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        queue.launch(&kernels.assign_cells, blocks, block_size, &args)?;

        lists.scan.launch(queue, &lists.cell_counts, &lists.cell_starts)?;

        let mut args: Vec<Arg> = vec![control.into(), n.into()];
        args.extend([&lists.cell_starts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        args.extend(self.position.iter().map(Arg::from));
        args.extend(self.image.iter().map(Arg::from));
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend([&self.species, &self.order].map(Arg::from));
        args.extend([&self.upper, &self.listed].map(Arg::from));
        queue.launch(&kernels.sort_particles, blocks, block_size, &args)?;

        let mut args: Vec<Arg> = vec![control.into(), n.into()];
        args.extend(cells);
        args.extend([&lists.cell_starts, &lists.cell_counts].map(Arg::from));
        args.extend([Arg::from(&self.listed), lists.radius2.into()]);
        args.extend(self.single.scale.map(Arg::from));
        args.extend([Arg::from(&lists.counts), (&lists.entries).into(), lists.capacity.into()]);
        queue.launch(&kernels.build_lists, blocks, block_size, &args)
    }

    /// Measures energies, momentum and virial.
    pub fn measure(&self) -> Result<FluidMeasures, DeviceError> {
        let (counts, entries, capacity) = match &self.lists {
            Some(lists) => (&lists.counts, &lists.entries, lists.capacity),
            None => (&self.order, &self.order, 1),
        };
        let sums: Buffer<u64> = self.device.zeros(SUM_COUNT)?;
        let unit = self.settings.potential.energy_unit();
        let mut args: Vec<Arg> = vec![(&self.control).into(), (self.n as u32).into()];
        args.extend(self.position.iter().map(Arg::from));
        args.push((&self.species).into());
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend([Arg::from(counts), entries.into(), capacity.into()]);
        args.extend([&self.energy_pairs, &self.mass].map(Arg::from));
        args.extend(self.energies.forces.scale.map(Arg::from));
        args.extend(
            [
                2f64.powi(ENERGY_BITS),
                2f64.powi(ENERGY_BITS - f64::FORCE_BITS),
                2f64.powi(ENERGY_BITS) / unit,
                self.settings.momentum_unit(),
            ]
            .map(Arg::from),
        );
        args.push((&sums).into());
        self.device.queue().launch(&self.kernels.measure, self.blocks(1), self.strategy.block_size, &args)?;
        let sums: Vec<f64> = sums.to_vec()?.into_iter().map(|sum| sum as i64 as f64).collect();
        let energy = unit * 2f64.powi(-ENERGY_BITS);
        let momentum = self.settings.momentum_unit();
        Ok(FluidMeasures {
            potential: 0.5 * sums[0] * energy,
            virial: 0.5 * sums[1] * energy,
            kinetic: sums[2] * energy,
            momentum: [3, 4, 5].map(|k| sums[k] * momentum),
        })
    }

    /// Returns the particles in the user's order.
    pub fn particles(&self) -> Result<FluidParticles, DeviceError> {
        let side = self.side() * self.n;
        let order = self.order.to_vec()?;
        let mut ranks = vec![0; self.n];
        for (rank, &user) in order[side..side + self.n].iter().enumerate() {
            ranks[user as usize] = side + rank;
        }
        fn gathered<T: Copy>(values: &[T], ranks: &[usize]) -> Vec<T> {
            ranks.iter().map(|&rank| values[rank]).collect()
        }
        let [px, py, pz] = &self.position;
        let [ix, iy, iz] = &self.image;
        let [vx, vy, vz] = &self.velocity;
        let species = gathered(&self.species.to_vec()?, &ranks);
        Ok(FluidParticles {
            bounds: self.bounds,
            position: [
                gathered(&px.to_vec()?, &ranks),
                gathered(&py.to_vec()?, &ranks),
                gathered(&pz.to_vec()?, &ranks),
            ],
            image: [
                gathered(&ix.to_vec()?, &ranks),
                gathered(&iy.to_vec()?, &ranks),
                gathered(&iz.to_vec()?, &ranks),
            ],
            velocity: Vec3s {
                x: gathered(&vx.to_vec()?, &ranks),
                y: gathered(&vy.to_vec()?, &ranks),
                z: gathered(&vz.to_vec()?, &ranks),
            },
            species: species.into_iter().map(|species| species as u8).collect(),
            id: self.id.clone(),
        })
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
            4 * (cells + lists.counts.len() + lists.entries.len())
        });
        (3 * columns + others + lists) as u64
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

/// Arguments of a step that depend on its length.
struct StepArguments<'a> {
    dt: f64,
    kick: &'a Buffer<f64>,
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
        let is_switched =
            matches!(settings.potential.truncation, super::potential::Truncation::Switched { .. });
        let definitions = [
            ("BLOCK_SIZE", strategy.block_size.to_string()),
            ("LANES", strategy.lanes.to_string()),
            ("SPECIES", settings.potential.species_count().to_string()),
            ("IS_SWITCHED", flag(is_switched)),
            ("IS_PERIODIC", flag(bounds.sides == BoxSides::Periodic)),
            ("IS_ALL_PAIRS", flag(!uses_lists)),
            ("DIMENSIONS", bounds.dimensions.to_string()),
        ];
        let module = device.build(&KERNELS, &definitions, Math::Precise)?;
        Ok(Self {
            take_step: module.kernel("take_step")?,
            clear_cells: module.kernel("clear_cells")?,
            assign_cells: module.kernel("assign_cells")?,
            sort_particles: module.kernel("sort_particles")?,
            build_lists: module.kernel("build_lists")?,
            measure: module.kernel("measure")?,
        })
    }
}

/// Entries of lists come in rows of this many, for any number of threads per particle.
const CAPACITY_STEP: u32 = 32;

impl Lists {
    fn new(
        device: &Device,
        n: usize,
        settings: &FluidSettings,
        bounds: &SimulationBox,
    ) -> Result<Self, DeviceError> {
        let unit = settings.potential.length_unit();
        let radius = list_radius(settings);
        let grid = CellGrid::new(bounds, radius, [0; 3], [u32::MAX; 3], n);
        let capacity = Self::first_capacity(n, settings, bounds);
        let cells = grid.counts.map(|count| count as u32);
        let half_skin = 0.5 * settings.skin / unit;
        Ok(Self {
            cells,
            cell_counts: device.zeros(grid.len())?,
            cell_starts: device.zeros(grid.len())?,
            scan: Scan::new(device, ScanKind::Exclusive)?,
            cell_of: device.zeros(n)?,
            rank_of: device.zeros(n)?,
            counts: device.zeros(n)?,
            entries: device.zeros(list_entries(n, capacity))?,
            capacity,
            radius2: ((radius / unit).powi(2) * (1.0 + 1e-5)) as f32,
            half_skin2: (half_skin * half_skin * (1.0 - 1e-5)) as f32,
        })
    }

    /// Returns the first length of a list: the neighbours in a uniform fluid, and half as many again.
    fn first_capacity(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> u32 {
        let radius = list_radius(settings);
        let density = n as f64 / bounds.volume();
        let volume = match bounds.dimensions {
            2 => std::f64::consts::PI * radius.powi(2),
            _ => 4.0 / 3.0 * std::f64::consts::PI * radius.powi(3),
        };
        let expected = (1.5 * density * volume).min(n as f64) as u32;
        (expected + 16).next_multiple_of(CAPACITY_STEP)
    }

    /// Returns the memory of new lists in bytes. There are at most two cells per particle.
    fn bytes(n: usize, settings: &FluidSettings, bounds: &SimulationBox) -> u64 {
        let entries = list_entries(n, Self::first_capacity(n, settings, bounds));
        4 * (entries as u64 + 3 * n as u64 + 4 * n.max(8) as u64)
    }

    /// Makes room for `count` neighbours of a particle.
    fn grow(&mut self, device: &Device, n: usize, count: u32) -> Result<(), DeviceError> {
        self.capacity = (count + count / 8).next_multiple_of(CAPACITY_STEP);
        // The old lists are freed first.
        self.entries = device.zeros(0)?;
        self.entries = device.zeros(list_entries(n, self.capacity))?;
        Ok(())
    }
}

/// Returns the largest cutoff with the skin.
fn list_radius(settings: &FluidSettings) -> f64 {
    settings.potential.largest_cutoff().unwrap_or_default() + settings.skin
}

/// Returns the number of entries of all lists, with those of warps that are not full.
fn list_entries(n: usize, capacity: u32) -> usize {
    n.next_multiple_of(32) * capacity as usize
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
