//! The part of a fluid that one rank computes.
//!
//! The box is divided into slabs along its longest axis ([`borders`]). A rank moves the particles
//! of its slab and computes the forces on them. The particles of other ranks within the radius of
//! its lists, its ghosts, are copies that exert forces. Their number is about the surface of the
//! slab times twice the radius, so slabs should be thicker than that.
//!
//! A step sends the positions of ghosts, 12 bytes each, and reduces a few numbers: whether lists
//! must be built again on any rank, and whether a particle moves too far. When lists are built on
//! all ranks, borders move such that the work is equal, particles change their rank and new ghosts
//! are chosen. Without lists every rank has copies of all particles, and particles stay where they
//! are.
//!
//! Forces, energies and momenta are sums of integers, and random numbers follow from identifiers.
//! So the bits depend neither on the number of ranks nor on the borders.

mod borders;
mod ghosts;

use orrery_cluster::{ClusterError, Transport};
use orrery_model::fluid::FluidParticles;

use super::cells::{CellGrid, sort_by_cell};
use super::host::{Failure, GhostRecord, HostFluid, Motion, ParticleRecord, unpacked_particles};
use super::settings::{FluidSettings, PairPrecision};
use super::steps::{Stepping, take_step};
use super::{DeviceFluidError, Exploded, FluidMeasures};
use borders::Slabs;
use ghosts::{Ghosts, exchange_lists};

/// The particles of one rank and its ghosts. All ranks call each method that communicates, in the
/// same order.
#[derive(Clone, Debug)]
pub(super) struct SlabFluid {
    fluid: HostFluid,
    transport: Transport,
    /// Number of particles of all ranks.
    total: usize,
    ghosts: Ghosts,
    /// True if lists must be built before the next forces, on all ranks.
    must_rebuild: bool,
    /// True if an open box must be doubled before the next forces, on all ranks.
    must_widen: bool,
    /// True if the next positions of ghosts must have all bits, for measures.
    needs_all_bits: bool,
}

impl SlabFluid {
    /// Divides particles of which rank 0 has all `total`, in the user's order, and the other ranks
    /// none. Computes their forces.
    pub(super) fn new(
        transport: &Transport,
        particles: FluidParticles,
        settings: &FluidSettings,
        total: usize,
    ) -> Result<Self, ClusterError> {
        let uses_lists = settings.uses_lists(total, &particles.bounds);
        let mut slab = Self {
            fluid: HostFluid::without_forces(particles, settings, uses_lists),
            transport: transport.clone(),
            total,
            ghosts: Ghosts::default(),
            must_rebuild: true,
            must_widen: false,
            needs_all_bits: true,
        };
        if !uses_lists {
            slab.copy_to_all_ranks()?;
        }
        // Particles of a file may be anywhere in an open box.
        let is_outside = u8::from(slab.fluid.has_left_middle());
        slab.must_widen = slab.transport.all_reduce(&[is_outside], u8::max)?[0] > 0;
        slab.compute_forces()?;
        Ok(slab)
    }

    /// Returns the number of particles of all ranks.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns the fluid of this rank.
    pub(super) fn fluid(&self) -> &HostFluid {
        &self.fluid
    }

    /// Takes `steps` steps of length `dt`. `first` is the number of steps before. All ranks return
    /// the same error if a particle moves too far.
    pub(super) fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), DeviceFluidError> {
        let end = first + steps;
        for step in first..end {
            self.needs_all_bits = step + 1 == end;
            take_step(self, dt, step).map_err(|error| match error {
                DeviceFluidError::Exploded(exploded) => Exploded { step, ..exploded }.into(),
                error => error,
            })?;
        }
        Ok(())
    }

    /// Measures energies, momentum and virial of all particles.
    pub(super) fn measure(&self) -> Result<FluidMeasures, ClusterError> {
        let [potential, virial] = self.fluid.pair_sums();
        let [kinetic, x, y, z] = self.fluid.motion_sums();
        let sums = self.transport.all_reduce(&[potential, virial, kinetic, x, y, z], i64::wrapping_add)?;
        Ok(self.fluid.measures_of([sums[0], sums[1]], [2, 3, 4, 5].map(|k| sums[k])))
    }

    /// Returns the particles of all ranks in the user's order on rank 0, and no particles on the
    /// other ranks.
    pub(super) fn particles(&self) -> Result<FluidParticles, ClusterError> {
        let records = self.transport.gather(0, &self.fluid.particle_records())?;
        Ok(unpacked_particles(*self.fluid.bounds(), &records.unwrap_or_default()))
    }

    /// Computes the forces at the current positions.
    fn compute_forces(&mut self) -> Result<(), ClusterError> {
        let must_widen = std::mem::take(&mut self.must_widen);
        if must_widen {
            self.fluid.widen_box();
        }
        let must_rebuild = std::mem::take(&mut self.must_rebuild) || must_widen;
        if must_rebuild && self.fluid.uses_lists() {
            self.rebuild()?;
        } else {
            self.update_ghosts()?;
        }
        self.fluid.compute_forces();
        Ok(())
    }

    /// Divides the particles among the ranks, chooses ghosts and builds the lists.
    fn rebuild(&mut self) -> Result<(), ClusterError> {
        self.fluid.remove_ghosts();
        let slabs = Slabs::balanced(&self.transport, &self.fluid)?;
        self.migrate(|fluid, k| slabs.owner(fluid.upper_halves(k)[slabs.axis] as u32))?;
        let grid = slabs.grid(self.transport.rank(), &self.fluid);
        let cell_starts = self.fluid.sort_particles(&grid);
        let ghost_starts = self.choose_ghosts(self.particles_for(&slabs), Some(&grid))?;
        self.fluid.build_lists(&grid, &cell_starts, &ghost_starts);
        Ok(())
    }

    /// Divides the particles evenly among the ranks and gives each one copies of all others.
    fn copy_to_all_ranks(&mut self) -> Result<(), ClusterError> {
        let (rank, size, total) = (self.transport.rank(), self.transport.size(), self.total.max(1));
        self.migrate(|fluid, k| fluid.user_index(k) * size / total)?;
        let all: Vec<u32> = (0..self.fluid.len() as u32).collect();
        let selected = |other: usize| if other == rank { Vec::new() } else { all.clone() };
        self.choose_ghosts((0..size).map(selected).collect(), None).map(|_| ())
    }

    /// Sends each particle to the rank `owner_of` it.
    fn migrate(&mut self, owner_of: impl Fn(&HostFluid, usize) -> usize) -> Result<(), ClusterError> {
        let mut leaving = Vec::new();
        let mut outgoing: Vec<Vec<ParticleRecord>> = vec![Vec::new(); self.transport.size()];
        for k in 0..self.fluid.len() {
            let owner = owner_of(&self.fluid, k);
            if owner != self.transport.rank() {
                leaving.push(k as u32);
                outgoing[owner].push(self.fluid.particle_record(k));
            }
        }
        let arriving = exchange_lists(&self.transport, &outgoing)?.concat();
        self.fluid.replace_particles(&leaving, &arriving);
        Ok(())
    }

    /// Returns the particles of this rank in the windows of all others.
    fn particles_for(&self, slabs: &Slabs) -> Vec<Vec<u32>> {
        let (rank, size) = (self.transport.rank(), self.transport.size());
        let particles_of = |other: usize| match slabs.window(other) {
            Some(window) if other != rank && slabs.reaches(&window, rank) => {
                let fraction = |k: u32| self.fluid.upper_halves(k as usize)[slabs.axis] as u32;
                (0..self.fluid.len() as u32).filter(|&k| window.contains(fraction(k))).collect()
            }
            _ => Vec::new(),
        };
        (0..size).map(particles_of).collect()
    }

    /// Makes the particles `selected[r]` of this rank ghosts of each rank r. Returns the first ghost
    /// of each cell, followed by the number of particles and ghosts.
    fn choose_ghosts(
        &mut self,
        selected: Vec<Vec<u32>>,
        grid: Option<&CellGrid>,
    ) -> Result<Vec<u32>, ClusterError> {
        let records_of =
            |list: &Vec<u32>| list.iter().map(|&k| self.fluid.ghost_record(k as usize)).collect();
        let outgoing: Vec<Vec<GhostRecord>> = selected.iter().map(records_of).collect();
        let incoming = exchange_lists(&self.transport, &outgoing)?;
        let numbers: Vec<usize> = incoming.iter().map(Vec::len).collect();
        let records = incoming.concat();
        let (starts, sorted) = match grid {
            Some(grid) => {
                let cells: Vec<u32> =
                    records.iter().map(|&[x, y, z, _]| grid.cell([x, y, z]) as u32).collect();
                sort_by_cell(&cells, grid.len())
            }
            None => (Vec::new(), (0..records.len() as u32).collect()),
        };
        let n = self.fluid.len() as u32;
        self.fluid.add_ghosts(sorted.iter().map(|&k| records[k as usize]));
        let mut slots = vec![0; records.len()];
        for (slot, &k) in sorted.iter().enumerate() {
            slots[k as usize] = n + slot as u32;
        }
        self.ghosts = Ghosts::new(selected, &numbers, slots);
        Ok(starts.into_iter().map(|start| n + start).collect())
    }

    /// Gets the positions of the ghosts from their ranks.
    fn update_ghosts(&mut self) -> Result<(), ClusterError> {
        let Self { fluid, ghosts, transport, needs_all_bits, .. } = self;
        if *needs_all_bits || fluid.settings().precision == PairPrecision::Double {
            let positions = ghosts.exchange(transport, |k| fluid.fractions(k))?;
            ghosts.indices().zip(positions).for_each(|(k, fractions)| fluid.move_ghost(k, fractions));
        } else {
            let positions = ghosts.exchange(transport, |k| fluid.upper_halves(k))?;
            for (k, upper) in ghosts.indices().zip(positions) {
                fluid.move_ghost(k, upper.map(|upper| u64::from(upper as u32) << 32));
            }
        }
        Ok(())
    }
}

impl Stepping for SlabFluid {
    type Error = DeviceFluidError;

    fn settings(&self) -> &FluidSettings {
        self.fluid.settings()
    }

    fn degrees_of_freedom(&self) -> f64 {
        self.settings().ensemble.degrees_of_freedom(self.total, self.fluid.bounds().dimensions)
    }

    fn apply(&mut self, motions: &[Motion]) -> Result<(), DeviceFluidError> {
        let failure = self.fluid.move_particles(motions);
        // Only drifts may fail and invalidate lists.
        if !motions.iter().any(|motion| matches!(motion, Motion::Drift(_))) {
            return Ok(());
        }
        let report = MotionReport {
            must_rebuild: self.fluid.take_must_rebuild(),
            must_widen: self.fluid.has_left_middle(),
            failure,
        };
        let all = self.transport.all_reduce(&[report.to_words()], MotionReport::combined)?;
        let all = MotionReport::from_words(all[0]);
        self.must_rebuild |= all.must_rebuild;
        self.must_widen |= all.must_widen;
        all.failure.map_or(Ok(()), |failure| Err(Exploded::from(failure).into()))
    }

    fn update_forces(&mut self) -> Result<(), DeviceFluidError> {
        Ok(self.compute_forces()?)
    }

    fn kinetic_energy(&self) -> Result<f64, DeviceFluidError> {
        let [kinetic, ..] = self.fluid.motion_sums();
        let all = self.transport.all_reduce(&[kinetic], i64::wrapping_add)?;
        Ok(self.fluid.motion_of([all[0], 0, 0, 0]).0)
    }
}

/// Result of a motion on one rank, or on all.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MotionReport {
    must_rebuild: bool,
    must_widen: bool,
    failure: Option<Failure>,
}

/// A report as a message: flags, user's index of the failure or [`NO_FAILURE`], its identifier,
/// axis and velocity as bits.
type ReportWords = [u64; 5];

/// No particle moves too far. The number is larger than all indices.
const NO_FAILURE: u64 = u64::MAX;

impl MotionReport {
    fn to_words(self) -> ReportWords {
        let flags = u64::from(self.must_rebuild) | u64::from(self.must_widen) << 1;
        match self.failure {
            None => [flags, NO_FAILURE, 0, 0, 0],
            Some(Failure { user, id, axis, velocity }) => {
                [flags, user.into(), id, axis as u64, velocity.to_bits()]
            }
        }
    }

    fn from_words([flags, user, id, axis, velocity]: ReportWords) -> Self {
        let failure = (user != NO_FAILURE).then(|| Failure {
            user: user as u32,
            id,
            axis: axis as usize,
            velocity: f64::from_bits(velocity),
        });
        Self { must_rebuild: flags & 1 > 0, must_widen: flags & 2 > 0, failure }
    }

    /// Returns the report of two ranks: the flags of both, and the first failure in the user's
    /// order.
    fn combined(a: ReportWords, b: ReportWords) -> ReportWords {
        let first = if b[1] < a[1] { b } else { a };
        let [_, user, id, axis, velocity] = first;
        [a[0] | b[0], user, id, axis, velocity]
    }
}

#[cfg(test)]
mod tests;
