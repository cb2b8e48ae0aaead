//! A fluid on a device. `particles.cu` describes the memory and how kernels decide what to do.
//!
//! A batch of steps is queued in rounds: some steps, and then the kernels that build lists if a
//! particle has moved too far. Steps that come too late for the lists return at once and are taken
//! in the next round. The host reads the number of steps done one round later, so it never waits for
//! a single step.

use orrery_device::{
    Arg, Buffer, Device, DeviceError, DeviceKind, Kernel, KernelFile, Math, Pinned, kernel_source,
};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_primitives::scan::{Scan, ScanKind};
use thiserror::Error;

use super::arithmetic::{
    ENERGY_BITS, EnergyArithmetic, EnergyConstants, PairArithmetic, PairConstants, PairReal,
};
use super::cells::CellGrid;
use super::settings::FluidSettings;
use super::{Exploded, FluidMeasures};

/// Threads per block.
const BLOCK_SIZE: u32 = 128;
/// Number of words of `control`.
const CONTROL_WORDS: usize = 13;
/// Number of sums of `measure`.
const SUM_COUNT: usize = 6;
/// Threads that keep a GPU busy. With fewer particles, more than two threads share one.
///
/// On an H200 with skin 0.3 and 0.4, steps per second with 1, 2, 4 and 8 threads per particle:
/// 1,048,576 particles 1300, 1388, 1251, 1081, and 65,536 particles 13,400, 18,300, 16,400, 16,500. With
/// 4,096 particles 32 threads are the fastest (`speed_of_the_melt_on_devices` in the tests).
const WANTED_THREADS: usize = 1 << 17;

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
    /// A particle moves too fast.
    #[error(transparent)]
    Exploded(#[from] Exploded),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

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
    /// Threads per particle.
    lanes: u32,
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
    /// Copies the particles to `device`, builds their lists and computes their forces.
    pub fn new(
        device: &Device,
        particles: &FluidParticles,
        settings: &FluidSettings,
    ) -> Result<Self, DeviceFluidError> {
        let (n, bounds) = (particles.len(), particles.bounds);
        let single = PairArithmetic::<f32>::new(&settings.potential, &bounds);
        let energies = EnergyArithmetic::new(&settings.potential, &bounds);
        let uses_lists = settings.uses_lists(n, &bounds);
        let lanes = match device.properties().kind {
            DeviceKind::Gpu if device.properties().has_warp_shuffle => {
                ((WANTED_THREADS / n.max(1)) as u32).next_power_of_two().clamp(2, 32)
            }
            _ => 1,
        };
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
            kernels: Kernels::new(device, settings, &bounds, lanes, uses_lists)?,
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
            lanes,
            words,
            pinned: [device.pinned(CONTROL_WORDS)?, device.pinned(CONTROL_WORDS)?],
            steps_per_build: 8.0,
        };
        // A batch of no steps builds the lists and computes the forces.
        fluid.advance(0.0, 0)?;
        Ok(fluid)
    }

    /// Takes `steps` steps of length `dt` with velocity Verlet.
    pub fn advance(&mut self, dt: f64, steps: u32) -> Result<(), DeviceFluidError> {
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
                self.resolve_failures()?;
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
    fn resolve_failures(&mut self) -> Result<(), DeviceFluidError> {
        let failed = self.words[Word::Failed as usize];
        if failed > 0 {
            let particle = failed as usize - 1;
            let side = self.side() * self.n;
            let rank = side + particle;
            let user = self.order.to_vec()?[rank] as usize;
            let velocity = [0, 1, 2].map(|axis| Ok(self.velocity[axis].to_vec()?[rank]));
            let velocity: [Result<f64, DeviceError>; 3] = velocity;
            let mut fastest = (0, 0.0f64);
            for (axis, velocity) in velocity.into_iter().enumerate() {
                let velocity = velocity?;
                if velocity.is_nan() || velocity.abs() > fastest.1.abs() {
                    fastest = (axis, velocity);
                }
            }
            return Err(Exploded { id: self.id[user], velocity: fastest.1, axis: fastest.0 }.into());
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

    fn side(&self) -> usize {
        self.words[4] as usize
    }

    /// Returns the force of one integer unit, in the units of the case.
    fn force_unit(&self) -> f64 {
        let potential = &self.settings.potential;
        potential.energy_unit() / potential.length_unit() * 2f64.powi(-f32::FORCE_BITS)
    }

    fn blocks(&self, threads_per_particle: u32) -> u32 {
        (self.n as u32 * threads_per_particle).div_ceil(BLOCK_SIZE)
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
        self.device.queue().launch(&self.kernels.take_step, self.blocks(self.lanes), BLOCK_SIZE, &args)
    }

    /// Queues the kernels that build lists. They return at once if the lists are valid.
    fn queue_build(&mut self) -> Result<(), DeviceError> {
        let (blocks, n) = (self.blocks(1), self.n as u32);
        let Some(lists) = &mut self.lists else { return Ok(()) };
        let (queue, kernels, control) = (self.device.queue(), &self.kernels, &self.control);
        let cells = lists.cells.map(Arg::from);
        let cell_count = lists.cell_counts.len() as u32;
        let args = [control.into(), cell_count.into(), (&lists.cell_counts).into()];
        queue.launch(&kernels.clear_cells, cell_count.div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)?;

        let mut args: Vec<Arg> = vec![control.into(), n.into()];
        args.extend(cells);
        args.extend(self.position.iter().map(Arg::from));
        args.extend([&lists.cell_counts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        queue.launch(&kernels.assign_cells, blocks, BLOCK_SIZE, &args)?;

        lists.scan.launch(queue, &lists.cell_counts, &lists.cell_starts)?;

        let mut args: Vec<Arg> = vec![control.into(), n.into()];
        args.extend([&lists.cell_starts, &lists.cell_of, &lists.rank_of].map(Arg::from));
        args.extend(self.position.iter().map(Arg::from));
        args.extend(self.image.iter().map(Arg::from));
        args.extend(self.velocity.iter().map(Arg::from));
        args.extend([&self.species, &self.order].map(Arg::from));
        args.extend([&self.upper, &self.listed].map(Arg::from));
        queue.launch(&kernels.sort_particles, blocks, BLOCK_SIZE, &args)?;

        let mut args: Vec<Arg> = vec![control.into(), n.into()];
        args.extend(cells);
        args.extend([&lists.cell_starts, &lists.cell_counts].map(Arg::from));
        args.extend([Arg::from(&self.listed), lists.radius2.into()]);
        args.extend(self.single.scale.map(Arg::from));
        args.extend([Arg::from(&lists.counts), (&lists.entries).into(), lists.capacity.into()]);
        queue.launch(&kernels.build_lists, blocks, BLOCK_SIZE, &args)
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
        self.device.queue().launch(&self.kernels.measure, self.blocks(1), BLOCK_SIZE, &args)?;
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
    pub fn rebuilds(&self) -> u32 {
        self.words[Word::Rebuilds as usize]
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
        lanes: u32,
        uses_lists: bool,
    ) -> Result<Self, DeviceError> {
        let flag = |yes: bool| u8::from(yes).to_string();
        let is_switched =
            matches!(settings.potential.truncation, super::potential::Truncation::Switched { .. });
        let definitions = [
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("LANES", lanes.to_string()),
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
        let radius = settings.potential.largest_cutoff().unwrap_or_default() + settings.skin;
        let grid = CellGrid::new(bounds, radius, [0; 3], [u32::MAX; 3], n);
        // The neighbours in a uniform fluid, and half as many again.
        let density = n as f64 / bounds.volume();
        let volume = match bounds.dimensions {
            2 => std::f64::consts::PI * radius.powi(2),
            _ => 4.0 / 3.0 * std::f64::consts::PI * radius.powi(3),
        };
        let expected = (1.5 * density * volume).min(n as f64) as u32;
        let capacity = (expected + 16).next_multiple_of(CAPACITY_STEP);
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

    /// Makes room for `count` neighbours of a particle.
    fn grow(&mut self, device: &Device, n: usize, count: u32) -> Result<(), DeviceError> {
        self.capacity = (count + count / 8).next_multiple_of(CAPACITY_STEP);
        // The old lists are freed first.
        self.entries = device.zeros(0)?;
        self.entries = device.zeros(list_entries(n, self.capacity))?;
        Ok(())
    }
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
