//! The particles and ghosts of one rank on the CPU.

use orrery_cluster::Transport;
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;

use super::borders::{AxisBins, SlabWindow, Slabs};
use super::ghosts::{GhostBits, GhostCounts};
use super::lists::exchange_lists;
use super::part::{GhostRecord, ParticleRecord, SlabPart};
use super::report::MotionReport;
use crate::cells::{CellGrid, sort_by_cell};
use crate::host::{FluidMotion, HostFluid};
use crate::settings::FluidSettings;
use crate::sums::{MeasureSums, WideSum};
use crate::{DeviceFluidError, FluidMeasures};

/// Particles and ghosts on the CPU.
#[derive(Debug)]
pub(crate) struct HostPart {
    pub(super) fluid: HostFluid,
    /// Cells of the last sort, and the first particle of each.
    cells: Option<(CellGrid, Vec<u32>)>,
    /// Particles that are ghosts of other ranks, in the order of the ranks.
    sent: Vec<u32>,
    /// Index behind the particles of each ghost here, in the order of the ranks.
    slots: Vec<u32>,
    outgoing: Vec<u32>,
    incoming: Vec<u32>,
}

impl HostPart {
    /// Takes particles. `uses_lists` tells whether the fluid with those of all ranks uses lists.
    pub(crate) fn new(
        records: &[ParticleRecord],
        bounds: SimulationBox,
        settings: &FluidSettings,
        uses_lists: bool,
    ) -> Self {
        let none = FluidParticles::at_rest(bounds, &Vec3s::default());
        let mut fluid = HostFluid::without_forces(none, settings, uses_lists);
        fluid.add_particles(records);
        let (outgoing, incoming) = (Vec::new(), Vec::new());
        Self { fluid, cells: None, sent: Vec::new(), slots: Vec::new(), outgoing, incoming }
    }

    /// Applies operations to the particles, in this order. Returns the result of drifts.
    pub(super) fn move_particles(&mut self, motions: &[FluidMotion]) -> Option<MotionReport> {
        let failure = self.fluid.move_particles(motions);
        let has_drift = motions.iter().any(|motion| matches!(motion, FluidMotion::Drift(_)));
        has_drift.then(|| MotionReport {
            must_rebuild: self.fluid.take_must_rebuild(),
            must_widen: self.fluid.has_left_middle(),
            failure,
        })
    }

    /// Returns the sum of the kinetic energy of the particles.
    pub(super) fn kinetic_sum(&self) -> WideSum {
        self.fluid.motion_sums().0
    }

    /// Returns the indices of the ghosts.
    #[cfg(test)]
    pub(super) fn ghosts(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().map(|&slot| slot as usize)
    }

    fn fraction(&self, axis: usize, k: usize) -> u32 {
        self.fluid.upper_halves(k)[axis] as u32
    }

    /// Returns the indices of the particles in a window.
    fn particles_in(&self, axis: usize, window: SlabWindow) -> Vec<u32> {
        let is_inside = |&k: &u32| window.contains(self.fraction(axis, k as usize));
        (0..self.fluid.len() as u32).filter(is_inside).collect()
    }

    /// Adds ghosts, sorted by cell if there are lists, and builds the lists.
    fn place_ghosts(&mut self, ghosts: &[GhostRecord]) {
        let n = self.fluid.len() as u32;
        let Some((grid, cell_starts)) = &self.cells else {
            self.fluid.add_ghosts(ghosts.iter().copied());
            self.slots = (n..n + ghosts.len() as u32).collect();
            return;
        };
        let cells: Vec<u32> = ghosts.iter().map(|&[x, y, z, _]| grid.cell([x, y, z]) as u32).collect();
        let (mut ghost_starts, sorted) = sort_by_cell(&cells, grid.len());
        self.fluid.add_ghosts(sorted.iter().map(|&k| ghosts[k as usize]));
        ghost_starts.iter_mut().for_each(|start| *start += n);
        self.slots = vec![0; ghosts.len()];
        for (slot, &k) in sorted.iter().enumerate() {
            self.slots[k as usize] = n + slot as u32;
        }
        self.fluid.build_lists(grid, cell_starts, &ghost_starts);
    }

    /// Writes the positions of the ghosts of other ranks to `outgoing`.
    fn pack_positions(&mut self, bits: GhostBits) {
        let Self { fluid, sent, outgoing, .. } = self;
        outgoing.clear();
        match bits {
            GhostBits::Upper => {
                let words = |&k: &u32| fluid.upper_halves(k as usize).map(|upper| upper as u32);
                outgoing.extend(sent.iter().flat_map(words));
            }
            GhostBits::All => {
                let words = |fraction: u64| [fraction as u32, (fraction >> 32) as u32];
                let fractions = |&k: &u32| fluid.fractions(k as usize);
                outgoing.extend(sent.iter().flat_map(fractions).flat_map(words));
            }
        }
    }

    /// Moves the ghosts to the positions of `incoming`.
    fn place_positions(&mut self, bits: GhostBits) {
        for (&slot, words) in self.slots.iter().zip(self.incoming.chunks_exact(bits.words())) {
            let fraction = |axis: usize| match bits {
                GhostBits::Upper => u64::from(words[axis]) << 32,
                GhostBits::All => u64::from(words[2 * axis]) | u64::from(words[2 * axis + 1]) << 32,
            };
            self.fluid.move_ghost(slot as usize, [0, 1, 2].map(fraction));
        }
    }
}

impl SlabPart for HostPart {
    fn connect(&mut self, _transport: &Transport) -> Result<(), DeviceFluidError> {
        Ok(())
    }

    fn copy(&self) -> Result<Self, DeviceFluidError> {
        let fluid = &self.fluid;
        Ok(Self::new(&self.records()?, *fluid.bounds(), fluid.settings(), fluid.uses_lists()))
    }

    fn settings(&self) -> &FluidSettings {
        self.fluid.settings()
    }

    fn bounds(&self) -> &SimulationBox {
        self.fluid.bounds()
    }

    fn len(&self) -> usize {
        self.fluid.len()
    }

    fn uses_lists(&self) -> bool {
        self.fluid.uses_lists()
    }

    fn widen_box(&mut self) -> Result<(), DeviceFluidError> {
        self.fluid.widen_box();
        Ok(())
    }

    fn extent(&mut self) -> Result<([u32; 3], [u32; 3]), DeviceFluidError> {
        Ok(self.fluid.extent())
    }

    fn work_in(&mut self, bins: &AxisBins) -> Result<Vec<u64>, DeviceFluidError> {
        let mut work = vec![0; bins.count];
        for k in 0..self.fluid.len() {
            work[bins.bin(self.fraction(bins.axis, k))] += self.fluid.work(k);
        }
        Ok(work)
    }

    fn take_outside(
        &mut self,
        axis: usize,
        slab: Option<SlabWindow>,
    ) -> Result<Vec<ParticleRecord>, DeviceFluidError> {
        self.fluid.remove_ghosts();
        let is_inside = |k: usize| slab.is_some_and(|slab| slab.contains(self.fraction(axis, k)));
        let leaving: Vec<usize> = (0..self.fluid.len()).filter(|&k| !is_inside(k)).collect();
        let records = leaving.iter().map(|&k| self.fluid.record(k)).collect();
        self.fluid.remove_particles(&leaving);
        Ok(records)
    }

    fn add_particles(&mut self, arriving: &[ParticleRecord]) -> Result<(), DeviceFluidError> {
        self.fluid.add_particles(arriving);
        Ok(())
    }

    fn sort_particles(&mut self, slabs: &Slabs, rank: usize) -> Result<(), DeviceFluidError> {
        let (bounds, settings) = (self.fluid.bounds(), self.fluid.settings());
        let grid = slabs.grid(rank, bounds, settings.list_radius(), self.fluid.len());
        let starts = self.fluid.sort_particles(&grid);
        self.cells = Some((grid, starts));
        Ok(())
    }

    fn renew_ghosts(
        &mut self,
        transport: &Transport,
        axis: usize,
        windows: &[Option<SlabWindow>],
    ) -> Result<GhostCounts, DeviceFluidError> {
        self.sent.clear();
        let mut outgoing: Vec<Vec<GhostRecord>> = Vec::new();
        for window in windows {
            let chosen = window.map_or_else(Vec::new, |window| self.particles_in(axis, window));
            outgoing.push(chosen.iter().map(|&k| self.fluid.ghost_record(k as usize)).collect());
            self.sent.extend(chosen);
        }
        let incoming = exchange_lists(transport, &outgoing)?;
        self.place_ghosts(&incoming.concat());
        let [sent, received] = [&outgoing, &incoming].map(|lists| lists.iter().map(Vec::len).collect());
        Ok(GhostCounts { sent, received })
    }

    fn update_ghosts(
        &mut self,
        transport: &Transport,
        counts: &GhostCounts,
        bits: GhostBits,
    ) -> Result<(), DeviceFluidError> {
        self.pack_positions(bits);
        self.incoming.resize(self.slots.len() * bits.words(), 0);
        counts.exchange(transport, bits.words(), (&self.outgoing, &mut self.incoming))?;
        self.place_positions(bits);
        Ok(())
    }

    fn compute_forces(&mut self) -> Result<(), DeviceFluidError> {
        self.fluid.compute_forces();
        Ok(())
    }

    fn records(&self) -> Result<Vec<ParticleRecord>, DeviceFluidError> {
        Ok((0..self.fluid.len()).map(|k| self.fluid.record(k)).collect())
    }

    fn measure_sums(&self) -> Result<MeasureSums, DeviceFluidError> {
        Ok(self.fluid.measure_sums())
    }

    fn measures_of(&self, sums: MeasureSums) -> FluidMeasures {
        self.fluid.settings().measures_of(sums)
    }
}
