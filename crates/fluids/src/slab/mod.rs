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
mod device_steps;
mod ghosts;
mod host_part;
mod host_steps;
mod lists;
mod part;
mod report;

use orrery_cluster::{ClusterError, Transport};
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::host::{packed_particles, unpacked_particles};
use super::settings::PairPrecision;
use super::sums::{MeasureSums, SumWords, WideSum};
use super::{DeviceFluidError, Exploded, FluidMeasures};
pub(super) use borders::{AxisBins, SlabWindow, Slabs};
pub(super) use ghosts::{GhostBits, GhostCounts};
pub(super) use host_part::HostPart;
use lists::exchange_lists;
pub(super) use part::{GhostRecord, ParticleRecord, SlabPart, WORK_PER_PARTICLE};
pub(super) use report::MotionReport;

/// Gives each rank the same number of particles. Rank 0 has all of them. Returns those of this
/// rank. All ranks must call it.
pub(super) fn share_particles(
    transport: &Transport,
    particles: Option<&FluidParticles>,
) -> Result<Vec<ParticleRecord>, ClusterError> {
    let size = transport.size();
    let records = particles.map_or_else(Vec::new, packed_particles);
    let border = |rank: usize| records.len() * rank / size;
    let outgoing: Vec<_> = (0..size).map(|to| records[border(to)..border(to + 1)].to_vec()).collect();
    let mut incoming = exchange_lists(transport, &outgoing)?;
    Ok(incoming.swap_remove(0))
}

/// Returns the sum of two ranks.
fn added_words(a: SumWords, b: SumWords) -> SumWords {
    WideSum::from(a).plus(b.into()).into()
}

/// The particles of one rank and its ghosts. All ranks call each method that communicates, in the
/// same order.
#[derive(Debug)]
pub(super) struct SlabFluid<P> {
    part: P,
    transport: Transport,
    /// Number of particles of all ranks.
    total: usize,
    counts: GhostCounts,
    /// True if lists must be built before the next forces, on all ranks.
    must_rebuild: bool,
    /// True if an open box must be doubled before the next forces, on all ranks.
    must_widen: bool,
    /// Bits of the next positions of ghosts.
    bits: GhostBits,
}

impl<P: SlabPart> SlabFluid<P> {
    /// Takes the particles of this rank, which are any of the `total` particles, and computes their
    /// forces.
    pub(super) fn new(transport: &Transport, part: P, total: usize) -> Result<Self, DeviceFluidError> {
        let mut slab = Self {
            part,
            transport: transport.clone(),
            total,
            counts: GhostCounts::default(),
            must_rebuild: true,
            must_widen: false,
            bits: GhostBits::All,
        };
        slab.part.connect(transport)?;
        slab.must_widen = slab.is_outside_middle()?;
        if !slab.part.uses_lists() {
            let is_other = |rank: usize| (rank != transport.rank()).then_some(SlabWindow::WHOLE);
            let windows: Vec<_> = (0..transport.size()).map(is_other).collect();
            slab.counts = slab.part.renew_ghosts(transport, 0, &windows)?;
        }
        slab.update_surroundings()?;
        slab.part.compute_forces()?;
        Ok(slab)
    }

    /// Returns whether a particle of any rank is outside the middle half of an open box.
    fn is_outside_middle(&mut self) -> Result<bool, DeviceFluidError> {
        let bounds = *self.part.bounds();
        if bounds.sides == BoxSides::Periodic {
            return Ok(false);
        }
        let (low, high) = self.part.extent()?;
        let is_inside = |upper: u32| SimulationBox::is_in_middle(u64::from(upper) << 32);
        let is_outside =
            self.part.len() > 0 && !(0..bounds.dimensions).all(|k| is_inside(low[k]) && is_inside(high[k]));
        Ok(self.transport.all_reduce(&[u8::from(is_outside)], u8::max)?[0] > 0)
    }

    /// Returns the number of particles of all ranks.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of degrees of freedom of all particles.
    fn degrees_of_freedom(&self) -> f64 {
        let ensemble = &self.part.settings().ensemble;
        ensemble.degrees_of_freedom(self.total, self.part.bounds().dimensions)
    }

    /// Returns the kinetic energy of all particles, of which those here have the sum `here`.
    fn total_kinetic_energy(&self, here: WideSum) -> Result<f64, DeviceFluidError> {
        let all = self.transport.all_reduce(&[here.into()], added_words)?;
        Ok(self.part.settings().kinetic_energy(all[0].into()))
    }

    /// Returns the part of this rank.
    pub(super) fn part(&self) -> &P {
        &self.part
    }

    /// Measures energies, momentum and virial of all particles.
    pub(super) fn measure(&self) -> Result<FluidMeasures, DeviceFluidError> {
        let mut words = self.part.measure_sums()?.to_words();
        let all = self.transport.all_reduce(&words, added_words)?;
        words.copy_from_slice(&all);
        Ok(self.part.measures_of(MeasureSums::from_words(words)))
    }

    /// Returns the particles of all ranks in the user's order on rank 0, and no particles on the
    /// other ranks.
    pub(super) fn particles(&self) -> Result<FluidParticles, DeviceFluidError> {
        let records = self.transport.gather(0, &self.part.records()?)?;
        Ok(unpacked_particles(*self.part.bounds(), &records.unwrap_or_default()))
    }

    /// Returns a copy.
    pub(super) fn try_clone(&self) -> Result<Self, DeviceFluidError> {
        Self::new(&self.transport, self.part.copy()?, self.total)
    }

    /// Sets the bits of the positions of ghosts for the next forces. Measures after the last step
    /// need all of them.
    fn choose_bits(&mut self, is_last: bool) {
        let needs_all = is_last || self.part.settings().precision == PairPrecision::Double;
        self.bits = if needs_all { GhostBits::All } else { GhostBits::Upper };
    }

    /// Combines the reports of all ranks about a motion. Returns the error of the first failure.
    fn agree(&mut self, report: MotionReport) -> Result<(), DeviceFluidError> {
        let all = self.transport.all_reduce(&[report.to_words()], MotionReport::combined)?;
        let all = MotionReport::from_words(all[0]);
        self.must_rebuild |= all.must_rebuild;
        self.must_widen |= all.must_widen;
        all.failure.map_or(Ok(()), |failure| Err(Exploded::from(failure).into()))
    }

    /// Prepares forces at the current positions: widens the box, builds lists or moves the ghosts.
    fn update_surroundings(&mut self) -> Result<(), DeviceFluidError> {
        let must_widen = std::mem::take(&mut self.must_widen);
        if must_widen {
            self.part.widen_box()?;
        }
        let must_rebuild = std::mem::take(&mut self.must_rebuild) || must_widen;
        match must_rebuild && self.part.uses_lists() {
            true => self.rebuild(),
            false => self.part.update_ghosts(&self.transport, &self.counts, self.bits),
        }
    }

    /// Divides the particles among the ranks, chooses ghosts and builds the lists.
    fn rebuild(&mut self) -> Result<(), DeviceFluidError> {
        let rank = self.transport.rank();
        let slabs = Slabs::balanced(&self.transport, &mut self.part)?;
        let leaving = self.part.take_outside(slabs.axis, slabs.slab(rank))?;
        let mut outgoing: Vec<Vec<ParticleRecord>> = vec![Vec::new(); self.transport.size()];
        for record in leaving {
            outgoing[slabs.owner((record[slabs.axis] >> 32) as u32)].push(record);
        }
        let arriving = exchange_lists(&self.transport, &outgoing)?.concat();
        self.part.add_particles(&arriving)?;
        self.part.sort_particles(&slabs, rank)?;
        let windows = slabs.windows_over(rank);
        self.counts = self.part.renew_ghosts(&self.transport, slabs.axis, &windows)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
