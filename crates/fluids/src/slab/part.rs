//! Operations on the particles and ghosts of one rank, on the CPU or on a device.

use orrery_cluster::Transport;
use orrery_model::simulation_box::SimulationBox;

use super::borders::{AxisBins, SlabWindow, Slabs};
use super::ghosts::{GhostBits, GhostCounts};
use crate::settings::FluidSettings;
use crate::sums::MeasureSums;
use crate::{DeviceFluidError, FluidMeasures};

/// A particle as a message: fractions, velocities as bits, identifier, images of x and y, image of
/// z with the user's index, species.
pub(crate) type ParticleRecord = [u64; 10];

/// A ghost as a message: fractions, user's index with the species.
pub(crate) type GhostRecord = [u64; 4];

/// Work of moving a particle, in units of the work of one neighbour. Only the balance of the ranks
/// depends on it.
pub(crate) const WORK_PER_PARTICLE: u32 = 16;

/// Particles of one rank and its ghosts.
///
/// A build of the lists calls, in this order, `take_outside`, `add_particles`, `sort_particles` and
/// `renew_ghosts`. The state between these calls is incomplete.
pub(crate) trait SlabPart: Sized {
    /// Connects the part with those of the other ranks. All ranks must call it first.
    fn connect(&mut self, transport: &Transport) -> Result<(), DeviceFluidError>;

    /// Returns the same particles, without ghosts, lists and forces.
    fn copy(&self) -> Result<Self, DeviceFluidError>;

    /// Returns the settings.
    fn settings(&self) -> &FluidSettings;

    /// Returns the box.
    fn bounds(&self) -> &SimulationBox;

    /// Returns the number of particles, without ghosts.
    fn len(&self) -> usize;

    /// Returns true if neighbour lists are used.
    fn uses_lists(&self) -> bool;

    /// Doubles an open box. Lists must be built again.
    fn widen_box(&mut self) -> Result<(), DeviceFluidError>;

    /// Returns the lowest and the highest fractions of the particles, in 32 bits. Without particles
    /// the lowest is above the highest.
    fn extent(&mut self) -> Result<([u32; 3], [u32; 3]), DeviceFluidError>;

    /// Returns the work of the particles in each bin.
    fn work_in(&mut self, bins: &AxisBins) -> Result<Vec<u64>, DeviceFluidError>;

    /// Removes ghosts, and particles outside a slab along an axis. Returns the latter. `None` is a
    /// slab without particles.
    fn take_outside(
        &mut self,
        axis: usize,
        slab: Option<SlabWindow>,
    ) -> Result<Vec<ParticleRecord>, DeviceFluidError>;

    /// Adds particles.
    fn add_particles(&mut self, arriving: &[ParticleRecord]) -> Result<(), DeviceFluidError>;

    /// Sorts the particles by cell, on this rank of `slabs`.
    fn sort_particles(&mut self, slabs: &Slabs, rank: usize) -> Result<(), DeviceFluidError>;

    /// Makes the particles in the window of each rank along an axis ghosts of that rank, adds the
    /// ghosts from other ranks, and builds the lists, if there are any. `None` is a rank without
    /// ghosts from here. All ranks must call it.
    fn renew_ghosts(
        &mut self,
        transport: &Transport,
        axis: usize,
        windows: &[Option<SlabWindow>],
    ) -> Result<GhostCounts, DeviceFluidError>;

    /// Moves the ghosts to the positions on their ranks. All ranks must call it.
    fn update_ghosts(
        &mut self,
        transport: &Transport,
        counts: &GhostCounts,
        bits: GhostBits,
    ) -> Result<(), DeviceFluidError>;

    /// Computes the forces of the lists, or of all pairs, without moving particles.
    fn compute_forces(&mut self) -> Result<(), DeviceFluidError>;

    /// Returns the particles as messages.
    fn records(&self) -> Result<Vec<ParticleRecord>, DeviceFluidError>;

    /// Returns sums over the particles, whose sum over all ranks gives the measures.
    fn measure_sums(&self) -> Result<MeasureSums, DeviceFluidError>;

    /// Returns the measures of the sums over all ranks.
    fn measures_of(&self, sums: MeasureSums) -> FluidMeasures;
}
