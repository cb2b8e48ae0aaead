//! Kernels and memory of a fluid on a device.

use std::borrow::Cow;

use orrery_device::{Buffer, Device, DeviceError, Element, Math};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::lists::Lists;
use super::part::SlabKernels;
use super::{
    CONTROL_WORDS, ControlWord, DeviceFluid, DeviceFluidError, FluidKernels, FluidStrategy, KERNELS,
    MOTION_SLOTS, MOTION_SPECIES_SLOTS, SUM_WORDS, kernel_number,
};
use crate::arithmetic::{EnergyArithmetic, EnergyConstants, PairArithmetic, PairConstants};
use crate::ensemble::Ensemble;
use crate::potential::Truncation;
use crate::settings::FluidSettings;

/// Place of particles among those of all ranks, and room for them.
pub(super) struct FluidLayout {
    /// User's index of each particle.
    pub order: Vec<u32>,
    /// Identifiers of the particles of all ranks, in the user's order.
    pub id: Vec<u64>,
    /// Room for particles and ghosts on a side of the state.
    pub stride: usize,
    /// True on one rank of several.
    pub has_ghosts: bool,
}

impl DeviceFluid {
    /// As [`DeviceFluid::new`], with a strategy. The skin is the one of the strategy. The default
    /// strategy replaces one that does not fit the device.
    pub fn with_strategy(
        device: &Device,
        particles: &FluidParticles,
        settings: &FluidSettings,
        strategy: &FluidStrategy,
    ) -> Result<Self, DeviceFluidError> {
        let particles = &*in_middle_of_box(particles);
        let n = particles.len();
        Self::check_support(device, n, settings)?;
        let (order, id) = ((0..n as u32).collect(), particles.id.clone());
        let layout = FluidLayout { order, id, stride: n, has_ghosts: false };
        let mut fluid = Self::without_forces(device, particles, settings, strategy, layout)?;
        fluid.update_forces()?;
        Ok(fluid)
    }

    /// Copies particles to a device, without lists and forces. The identifiers are those of
    /// `layout`.
    pub(super) fn without_forces(
        device: &Device,
        particles: &FluidParticles,
        settings: &FluidSettings,
        strategy: &FluidStrategy,
        layout: FluidLayout,
    ) -> Result<Self, DeviceError> {
        let FluidLayout { order, id, stride, has_ghosts } = layout;
        let (n, total, bounds) = (particles.len(), id.len(), particles.bounds);
        let strategy = match strategy.fits(device) {
            true => *strategy,
            false => FluidStrategy::default_for(device, n, settings),
        };
        let settings = &FluidSettings { skin: strategy.skin, ..settings.clone() };
        let single = PairArithmetic::<f32>::new(&settings.potential, &bounds);
        let energies = EnergyArithmetic::new(&settings.potential, &bounds);
        let uses_lists = settings.uses_lists(total, &bounds);
        let mut words = [0; CONTROL_WORDS];
        words[ControlWord::Rebuild as usize] = u32::from(uses_lists);
        let species: Vec<u32> = particles.species.iter().map(|&s| u32::from(s)).collect();
        let Vec3s { x, y, z } = &particles.velocity;
        let upper_of = |k: usize| {
            let [x, y, z] = particles.fractions(k).map(|fraction| (fraction >> 32) as u32);
            [x, y, z, species[k]].map(f32::from_bits)
        };
        let upper: Vec<[f32; 4]> = (0..n).map(upper_of).collect();
        let [px, py, pz] = &particles.position;
        let [ix, iy, iz] = &particles.image;
        let flags = [uses_lists, has_ghosts, single.has_wide_sums()];
        let kernels = FluidKernels::new(device, settings, &bounds, &strategy, flags)?;
        let blocks_per_sm = kernels.take_steps.blocks_per_sm(strategy.block_size);
        let noise_ids = match settings.ensemble {
            Ensemble::Langevin { .. } => device.upload(&id)?,
            Ensemble::Nve | Ensemble::Rescaling { .. } => device.zeros(1)?,
        };
        let new_lists = || {
            let mut lists = Lists::new(device, [total, stride], settings, &bounds, &strategy)?;
            if has_ghosts {
                lists.add_ghost_cells(device)?;
            }
            Ok::<_, DeviceError>(lists)
        };
        let motion_len = MOTION_SLOTS + MOTION_SPECIES_SLOTS * settings.mass.len();
        Ok(Self {
            resident_blocks: blocks_per_sm.map_or(1, |blocks| blocks * device.properties().sm_count),
            kernels,
            sums: device.zeros(SUM_WORDS)?,
            motion: device.zeros(motion_len)?,
            noise_ids,
            kinetic_sum: device.zeros(2)?,
            factor: device.zeros(1)?,
            rescaling_numbers: device.zeros(2)?,
            lists: uses_lists.then(new_lists).transpose()?,
            control: device.upload(&words)?,
            position: upload_sides(device, [px, py, pz], stride)?,
            image: upload_sides(device, [ix, iy, iz], stride)?,
            velocity: upload_sides(device, [x, y, z], stride)?,
            species: upload_side(device, &species, stride)?,
            order: upload_side(device, &order, stride)?,
            force: [device.zeros(stride)?, device.zeros(stride)?, device.zeros(stride)?],
            listed: device.upload(&padded(&upper, stride))?,
            upper: upload_side(device, &upper, stride)?,
            pairs: device.upload(&single.pairs.iter().flat_map(pair_slots).collect::<Vec<_>>())?,
            energy_pairs: device.upload(&energy_slots(&energies))?,
            mass: device.upload(&settings.mass)?,
            settings: settings.clone(),
            device: device.clone(),
            bounds,
            single,
            energies,
            n,
            total,
            stride,
            id,
            strategy,
            words,
            pinned: [device.pinned(CONTROL_WORDS)?, device.pinned(CONTROL_WORDS)?],
            steps_per_build: 8.0,
        })
    }

    /// Makes room for at least `needed` particles and ghosts. The particles keep their numbers.
    /// Ghosts and lists are lost.
    pub(super) fn reserve(&mut self, needed: usize) -> Result<(), DeviceError> {
        if needed <= self.stride {
            return Ok(());
        }
        // Numbers of particles and ghosts change a little with every build.
        let stride = needed + needed / 8 + 64;
        let (side, step) = (self.side(), self.words[ControlWord::Step as usize] as usize);
        self.position = self.wider_columns(&self.position, side, stride)?;
        self.image = self.wider_columns(&self.image, side, stride)?;
        self.velocity = self.wider_columns(&self.velocity, side, stride)?;
        self.species = self.wider(&self.species, side, stride)?;
        self.order = self.wider(&self.order, side, stride)?;
        self.upper = self.wider(&self.upper, step % 2, stride)?;
        let listed = self.device.zeros(stride)?;
        self.device.queue().copy(self.listed.range(..self.n)?, listed.range(..self.n)?)?;
        self.listed = listed;
        self.force = [self.device.zeros(stride)?, self.device.zeros(stride)?, self.device.zeros(stride)?];
        if let Some(lists) = &mut self.lists {
            lists.reserve(&self.device, stride)?;
        }
        self.stride = stride;
        Ok(())
    }

    /// Copies the particles on one side of a column to a column with longer sides.
    fn wider<T: Element>(
        &self,
        column: &Buffer<T>,
        side: usize,
        stride: usize,
    ) -> Result<Buffer<T>, DeviceError> {
        let wider = self.device.zeros(2 * stride)?;
        let (from, to) = (side * self.stride, side * stride);
        self.device.queue().copy(column.range(from..from + self.n)?, wider.range(to..to + self.n)?)?;
        Ok(wider)
    }

    fn wider_columns<T: Element>(
        &self,
        [x, y, z]: &[Buffer<T>; 3],
        side: usize,
        stride: usize,
    ) -> Result<[Buffer<T>; 3], DeviceError> {
        Ok([self.wider(x, side, stride)?, self.wider(y, side, stride)?, self.wider(z, side, stride)?])
    }
}

/// Returns `column` with default values up to this length.
fn padded<T: Element>(column: &[T], len: usize) -> Vec<T> {
    let mut padded = vec![T::default(); len];
    padded[..column.len()].copy_from_slice(column);
    padded
}

/// Copies a column to the first one of two sides with this room.
fn upload_side<T: Element>(device: &Device, column: &[T], stride: usize) -> Result<Buffer<T>, DeviceError> {
    device.upload(&padded(column, 2 * stride))
}

fn upload_sides<T: Element>(
    device: &Device,
    [x, y, z]: [&Vec<T>; 3],
    stride: usize,
) -> Result<[Buffer<T>; 3], DeviceError> {
    Ok([upload_side(device, x, stride)?, upload_side(device, y, stride)?, upload_side(device, z, stride)?])
}

impl FluidKernels {
    fn new(
        device: &Device,
        settings: &FluidSettings,
        bounds: &SimulationBox,
        strategy: &FluidStrategy,
        [uses_lists, has_ghosts, has_wide_sums]: [bool; 3],
    ) -> Result<Self, DeviceError> {
        let flag = |yes: bool| u8::from(yes).to_string();
        let is_switched = matches!(settings.potential.truncation, Truncation::Switched { .. });
        // Threads that an SM must have room for, which limits their registers. On an H200 with
        // 1,048,576 particles and 1536, 1280 and 1024 threads: 2183, 2154 and 2155 steps per
        // second. Noise needs more registers.
        let (ensemble, threads_per_sm) = match settings.ensemble {
            Ensemble::Nve => ("ENSEMBLE_NVE", 1536),
            Ensemble::Langevin { .. } => ("ENSEMBLE_LANGEVIN", 1024),
            Ensemble::Rescaling { .. } => ("ENSEMBLE_RESCALING", 1536),
        };
        let definitions = [
            ("BLOCK_SIZE", strategy.block_size.to_string()),
            ("LANES", strategy.lanes.to_string()),
            ("BUILD_LANES", strategy.build_lanes.to_string()),
            ("ENSEMBLE", ensemble.to_owned()),
            ("STEP_THREADS_PER_SM", threads_per_sm.to_string()),
            ("SPECIES", settings.potential.species_count().to_string()),
            ("IS_SWITCHED", flag(is_switched)),
            ("IS_PERIODIC", flag(bounds.sides == BoxSides::Periodic)),
            ("IS_ALL_PAIRS", flag(!uses_lists)),
            ("HAS_GHOSTS", flag(has_ghosts)),
            ("HAS_WIDE_SUMS", flag(has_wide_sums)),
            ("DIMENSIONS", bounds.dimensions.to_string()),
        ];
        let module = device.build(&KERNELS, &definitions, Math::Precise)?;
        Ok(Self {
            slab: has_ghosts.then(|| SlabKernels::new(&module, uses_lists)).transpose()?,
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
fn pair_slots(pair: &PairConstants<f32>) -> [f32; kernel_number("PAIR_SLOTS")] {
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
