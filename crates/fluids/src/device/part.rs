//! The particles and ghosts of one rank on a device (`slab.cu`).
//!
//! The host takes part in every step: it reads whether lists are valid, exchanges the positions of
//! ghosts, and starts the next kernel. Cells cover the whole box on every rank.

mod build;
mod ghosts;
mod steps;

use std::sync::Arc;

use orrery_cluster::{AllowedPaths, DeviceLinks, Transport};
use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Module};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;

use super::batch::StepBatch;
use super::create::FluidLayout;
use super::{DeviceFluid, FluidStrategy};
use crate::host::Unpacked;
use crate::settings::FluidSettings;
use crate::slab::{
    AxisBins, GhostBits, GhostCounts, ParticleRecord, SlabPart, SlabWindow, Slabs, WORK_PER_PARTICLE,
};
use crate::sums::MeasureSums;
use crate::{DeviceFluidError, FluidMeasures};
use build::make_room;

/// Kernels of `slab.cu`.
pub(super) struct SlabKernels {
    find_extent: Kernel,
    count_work: Kernel,
    select_particles: Kernel,
    pack_particles: Kernel,
    place_particles: Kernel,
    pack_ghosts: Kernel,
    place_ghosts: Kernel,
    pack_positions: Kernel,
    place_positions: Kernel,
    /// Kernels for lists: cells and indices of ghosts.
    lists: Option<[Kernel; 2]>,
}

impl SlabKernels {
    /// Takes the kernels of a module, with those for lists.
    pub(super) fn new(module: &Module, uses_lists: bool) -> Result<Self, DeviceError> {
        let list_kernels = || {
            let kernels = [module.kernel("assign_ghost_cells")?, module.kernel("find_ghost_slots")?];
            Ok::<_, DeviceError>(kernels)
        };
        Ok(Self {
            find_extent: module.kernel("find_extent")?,
            count_work: module.kernel("count_work")?,
            select_particles: module.kernel("select_particles")?,
            pack_particles: module.kernel("pack_particles")?,
            place_particles: module.kernel("place_particles")?,
            pack_ghosts: module.kernel("pack_ghosts")?,
            place_ghosts: module.kernel("place_ghosts")?,
            pack_positions: module.kernel("pack_positions")?,
            place_positions: module.kernel("place_positions")?,
            lists: uses_lists.then(list_kernels).transpose()?,
        })
    }
}

/// Particles and ghosts on a device.
pub(crate) struct FluidDevicePart {
    fluid: DeviceFluid,
    /// Steps that are being taken.
    batch: StepBatch,
    /// Indices of particles that have left, in ascending order.
    holes: Vec<u32>,
    /// Particles that are ghosts of other ranks, in the order of the ranks.
    sent: Buffer<u32>,
    sent_count: usize,
    /// Index of each ghost, in the order of the ranks.
    slots: Buffer<u32>,
    ghost_count: usize,
    /// Lists of particles.
    indices: Buffer<u32>,
    /// Length of a list of selected particles.
    length: Buffer<u32>,
    /// Messages of particles.
    records: Buffer<u64>,
    /// Work in bins.
    work: Buffer<u64>,
    /// Messages of ghosts, with room for all of each ghost.
    outgoing: Arc<Buffer<u32>>,
    incoming: Buffer<u32>,
    /// Connections to the other ranks. None before [`SlabPart::connect`].
    links: Option<DeviceLinks<u32>>,
    /// Returns the paths that may be used. Tests replace it.
    allowed: fn(&Transport) -> AllowedPaths,
}

impl std::fmt::Debug for FluidDevicePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FluidDevicePart")
            .field("fluid", &self.fluid)
            .field("ghosts", &self.ghost_count)
            .finish()
    }
}

impl FluidDevicePart {
    /// Copies particles to a device. `id` has the identifiers of the particles of all ranks in the
    /// user's order. The skin is the one of the strategy.
    pub(crate) fn new(
        device: &Device,
        records: &[ParticleRecord],
        bounds: SimulationBox,
        settings: &FluidSettings,
        strategy: &FluidStrategy,
        id: Vec<u64>,
    ) -> Result<Self, DeviceFluidError> {
        DeviceFluid::check_support(device, id.len(), settings)?;
        let mut particles = FluidParticles::at_rest(bounds, &Vec3s::zeros(records.len()));
        let mut order = Vec::with_capacity(records.len());
        for (k, record) in records.iter().enumerate() {
            let Unpacked { user, species, position, image, velocity, .. } = record.into();
            order.push(user);
            particles.species[k] = species;
            particles.velocity.set(k, velocity);
            for axis in 0..3 {
                particles.position[axis][k] = position[axis];
                particles.image[axis][k] = image[axis];
            }
        }
        // With all pairs, particles and ghosts fill a side.
        let stride = match settings.uses_lists(id.len(), &bounds) {
            true => records.len() + records.len() / 4 + 64,
            false => id.len(),
        };
        let layout = FluidLayout { order, id, stride, has_ghosts: true };
        Ok(Self {
            fluid: DeviceFluid::without_forces(device, &particles, settings, strategy, layout)?,
            batch: StepBatch { dt: 0.0, first: 0, steps: 0 },
            holes: Vec::new(),
            sent: device.zeros(0)?,
            sent_count: 0,
            slots: device.zeros(0)?,
            ghost_count: 0,
            indices: device.zeros(0)?,
            length: device.zeros(1)?,
            records: device.zeros(0)?,
            work: device.zeros(0)?,
            outgoing: Arc::new(device.zeros(0)?),
            incoming: device.zeros(0)?,
            links: None,
            allowed: AllowedPaths::for_transport,
        })
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &Device {
        &self.fluid.device
    }

    /// Returns the strategy in use.
    pub(crate) fn strategy(&self) -> &FluidStrategy {
        &self.fluid.strategy
    }

    /// Returns the kernels of `slab.cu`.
    fn kernels(&self) -> &SlabKernels {
        self.fluid.kernels.slab.as_ref().expect("a part has kernels for ghosts")
    }

    /// Launches a kernel with `count` threads.
    fn launch(&self, kernel: &Kernel, count: usize, args: &[Arg<'_>]) -> Result<(), DeviceError> {
        let block_size = self.fluid.strategy.block_size;
        self.fluid.device.queue().launch(kernel, (count as u32).div_ceil(block_size), block_size, args)
    }

    /// Returns the first arguments of most kernels: control, a number of particles, ghosts or
    /// records, and the room of a side.
    fn first_arguments(&self, count: usize) -> Vec<Arg<'_>> {
        vec![(&self.fluid.control).into(), (count as u32).into(), (self.fluid.stride as u32).into()]
    }

    /// Returns all columns of the state as arguments.
    fn column_arguments(&self) -> impl Iterator<Item = Arg<'_>> {
        let DeviceFluid { position, image, velocity, species, order, .. } = &self.fluid;
        let columns = position.iter().map(Arg::from).chain(image.iter().map(Arg::from));
        columns.chain(velocity.iter().map(Arg::from)).chain([species, order].map(Arg::from))
    }
}

impl SlabPart for FluidDevicePart {
    fn connect(&mut self, transport: &Transport) -> Result<(), DeviceFluidError> {
        Ok(self.connect_links(transport)?)
    }

    fn copy(&self) -> Result<Self, DeviceFluidError> {
        let records = self.records()?;
        let DeviceFluid { device, bounds, settings, strategy, id, .. } = &self.fluid;
        Self::new(device, &records, *bounds, settings, strategy, id.clone())
    }

    fn settings(&self) -> &FluidSettings {
        &self.fluid.settings
    }

    fn bounds(&self) -> &SimulationBox {
        &self.fluid.bounds
    }

    fn len(&self) -> usize {
        self.fluid.n
    }

    fn uses_lists(&self) -> bool {
        self.fluid.lists.is_some()
    }

    fn widen_box(&mut self) -> Result<(), DeviceFluidError> {
        Ok(self.widen()?)
    }

    fn extent(&mut self) -> Result<([u32; 3], [u32; 3]), DeviceFluidError> {
        let extent = self.device().upload(&[u32::MAX, u32::MAX, u32::MAX, 0, 0, 0])?;
        let mut args = self.first_arguments(self.fluid.n);
        args.extend(self.fluid.position.iter().map(Arg::from));
        args.push((&extent).into());
        self.launch(&self.kernels().find_extent, self.fluid.n, &args)?;
        let extent = extent.to_vec()?;
        Ok(([0, 1, 2].map(|axis| extent[axis]), [3, 4, 5].map(|axis| extent[axis])))
    }

    fn work_in(&mut self, bins: &AxisBins) -> Result<Vec<u64>, DeviceFluidError> {
        let AxisBins { axis, low, span, count } = *bins;
        let mut work = vec![0; count];
        make_room(&self.fluid.device, &mut self.work, count)?;
        let Some(lists) = &self.fluid.lists else { return Ok(work) };
        let queue = self.device().queue();
        queue.write(self.work.range(..count)?, &work)?;
        let mut args = self.first_arguments(self.fluid.n);
        args.extend([Arg::from(&self.fluid.position[axis]), low.into(), span.into()]);
        args.extend([Arg::from(count as u32), (&lists.counts).into(), WORK_PER_PARTICLE.into()]);
        args.push((&self.work).into());
        self.launch(&self.kernels().count_work, self.fluid.n, &args)?;
        queue.read(self.work.range(..count)?, &mut work)?;
        Ok(work)
    }

    fn take_outside(
        &mut self,
        axis: usize,
        slab: Option<SlabWindow>,
    ) -> Result<Vec<ParticleRecord>, DeviceFluidError> {
        Ok(self.take_particles_outside(axis, slab)?)
    }

    fn add_particles(&mut self, arriving: &[ParticleRecord]) -> Result<(), DeviceFluidError> {
        Ok(self.replace_holes(arriving)?)
    }

    fn sort_particles(&mut self, _slabs: &Slabs, _rank: usize) -> Result<(), DeviceFluidError> {
        Ok(self.sort()?)
    }

    fn renew_ghosts(
        &mut self,
        transport: &Transport,
        axis: usize,
        windows: &[Option<SlabWindow>],
    ) -> Result<GhostCounts, DeviceFluidError> {
        self.renew(transport, axis, windows)
    }

    fn update_ghosts(
        &mut self,
        _transport: &Transport,
        counts: &GhostCounts,
        bits: GhostBits,
    ) -> Result<(), DeviceFluidError> {
        self.exchange_positions(counts, bits)
    }

    fn compute_forces(&mut self) -> Result<(), DeviceFluidError> {
        self.start_batch(0.0, 0, 0)?;
        self.kick_last()
    }

    fn records(&self) -> Result<Vec<ParticleRecord>, DeviceFluidError> {
        Ok(self.all_particles()?)
    }

    fn measure_sums(&self) -> Result<MeasureSums, DeviceFluidError> {
        Ok(self.fluid.measure_sums()?)
    }

    fn measures_of(&self, sums: MeasureSums) -> FluidMeasures {
        self.fluid.measures_of(sums)
    }
}
