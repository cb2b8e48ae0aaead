//! A fluid on the CPU: sorted particles, their neighbour lists and forces.
//!
//! Invariant: the forces belong to the current positions. Particles are kept in the order of their
//! cells (`cells`), and `order` has the user's index of each sorted particle. The order changes
//! when lists are built. It affects no result.
//!
//! One rank of several ([`super::slab`]) has a part of the particles. Copies of particles of other
//! ranks, the ghosts, are behind its own ones in `order`, `species`, `position` and `upper`. They
//! exert forces and are not moved here. The other columns end with the own particles.

mod descent;
mod energies;
mod motion;
mod records;

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_simd::{InstructionSet, MAX_LANES};
use rayon::prelude::*;

use super::arithmetic::{EnergyArithmetic, PairArithmetic, force_quantum, upper_half};
use super::cells::{CellGrid, sort_by_cell};
use super::forces::{FluidForceProblem, double_forces, single_forces};
use super::neighbours::{NeighbourLists, SortedParticles};
use super::settings::{FluidSettings, PairPrecision};

pub(super) use motion::{FluidMotion, MotionFailure};
pub(super) use records::{Unpacked, packed_particles, unpacked_particles};

/// Particles that one task moves or measures.
const CHUNK: usize = 1024;

/// A fluid on the CPU.
#[derive(Debug)]
pub struct HostFluid {
    bounds: SimulationBox,
    settings: FluidSettings,
    single: PairArithmetic<f32>,
    energies: EnergyArithmetic,
    set: InstructionSet,
    /// User's index of each sorted particle.
    order: Vec<u32>,
    id: Vec<u64>,
    species: Vec<u8>,
    position: [Vec<u64>; 3],
    image: [Vec<i32>; 3],
    velocity: [Vec<f64>; 3],
    force: [Vec<i64>; 3],
    /// Upper halves of the fractions, padded by [`MAX_LANES`] numbers.
    upper: [Vec<i32>; 3],
    /// Those at the last build of the lists.
    listed: [Vec<i32>; 3],
    lists: Option<NeighbourLists>,
    /// True if a particle has moved by more than half the skin since the lists were built.
    must_rebuild: bool,
    /// Number of builds of the lists.
    rebuilds: u64,
}

impl HostFluid {
    /// Sorts the particles and computes their forces.
    pub fn new(particles: FluidParticles, settings: &FluidSettings) -> Self {
        let uses_lists = settings.uses_lists(particles.len(), &particles.bounds);
        let mut fluid = Self::without_forces(particles, settings, uses_lists);
        fluid.rebuild_lists();
        fluid.update_forces();
        fluid
    }

    /// Returns particles in the user's order, without lists and forces.
    pub(super) fn without_forces(
        particles: FluidParticles,
        settings: &FluidSettings,
        uses_lists: bool,
    ) -> Self {
        let FluidParticles { bounds, position, image, velocity, species, id } = particles;
        let n = id.len();
        let mut fluid = Self {
            bounds,
            settings: settings.clone(),
            single: PairArithmetic::new(&settings.potential, &bounds),
            energies: EnergyArithmetic::new(&settings.potential, &bounds),
            set: InstructionSet::best(),
            order: (0..n as u32).collect(),
            id,
            species,
            position,
            image,
            velocity: [velocity.x, velocity.y, velocity.z],
            force: [(); 3].map(|()| vec![0; n]),
            upper: [(); 3].map(|()| vec![0; n + MAX_LANES]),
            listed: [(); 3].map(|()| vec![0; n]),
            lists: uses_lists.then(NeighbourLists::default),
            must_rebuild: false,
            rebuilds: 0,
        };
        fluid.update_upper();
        fluid
    }

    /// Returns the number of particles, without ghosts.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Returns true if there are no particles, apart from ghosts.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &FluidSettings {
        &self.settings
    }

    /// Returns the box.
    pub fn bounds(&self) -> &SimulationBox {
        &self.bounds
    }

    #[cfg(test)]
    pub(super) fn set_instruction_set(&mut self, set: InstructionSet) {
        self.set = set;
    }

    /// Returns the number of builds of the neighbour lists.
    pub fn rebuilds(&self) -> u64 {
        self.rebuilds
    }

    /// Returns the particles in the user's order.
    pub fn particles(&self) -> FluidParticles {
        let restored = self.ranks();
        let mut velocity = Vec3s::zeros(self.len());
        for (k, &rank) in restored.iter().enumerate() {
            velocity.set(k, [0, 1, 2].map(|axis| self.velocity[axis][rank as usize]));
        }
        FluidParticles {
            bounds: self.bounds,
            position: [0, 1, 2].map(|axis| gathered(&self.position[axis], &restored)),
            image: [0, 1, 2].map(|axis| gathered(&self.image[axis], &restored)),
            velocity,
            species: gathered(&self.species, &restored),
            id: gathered(&self.id, &restored),
        }
    }

    /// Returns the forces in the user's order, in the units of the case.
    pub fn forces(&self) -> Vec3s {
        let (restored, unit) = (self.ranks(), self.force_unit());
        let column =
            |axis: usize| restored.iter().map(|&k| self.force[axis][k as usize] as f64 * unit).collect();
        Vec3s { x: column(0), y: column(1), z: column(2) }
    }

    /// Returns the sorted index of each particle, in the user's order.
    fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.len()];
        for (rank, &user) in self.order[..self.len()].iter().enumerate() {
            ranks[user as usize] = rank as u32;
        }
        ranks
    }

    /// Returns the force of one integer unit, in the units of the case.
    fn force_unit(&self) -> f64 {
        match self.settings.precision {
            PairPrecision::Mixed => force_quantum::<f32>(&self.settings.potential),
            PairPrecision::Double => force_quantum::<f64>(&self.settings.potential),
        }
    }

    pub(super) fn update_upper(&mut self) {
        for (upper, position) in self.upper.iter_mut().zip(&self.position) {
            upper.par_iter_mut().zip(position).with_min_len(CHUNK).for_each(|(upper, &fraction)| {
                *upper = upper_half(fraction);
            });
        }
    }

    /// Sorts the particles by cell and builds the lists, if there are any.
    fn rebuild_lists(&mut self) {
        if self.lists.is_none() {
            return;
        }
        let n = self.len();
        let (low, high) = self.extent();
        let grid = CellGrid::new(&self.bounds, self.settings.list_radius(), low, high, n);
        let cell_starts = self.sort_particles(&grid);
        self.build_lists(&grid, &cell_starts, &[]);
    }

    /// Returns the lowest and the highest fractions of the particles, in 32 bits.
    pub(super) fn extent(&self) -> ([u32; 3], [u32; 3]) {
        let bound = |axis: usize, pick: fn(u32, u32) -> u32, start: u32| {
            self.upper[axis][..self.len()].iter().fold(start, |found, &x| pick(found, x as u32))
        };
        let low = [0, 1, 2].map(|axis| bound(axis, u32::min, u32::MAX));
        (low, [0, 1, 2].map(|axis| bound(axis, u32::max, 0)))
    }

    /// Sorts the particles by cell. Returns the first particle of each cell, followed by the number
    /// of particles. There must be no ghosts.
    pub(super) fn sort_particles(&mut self, grid: &CellGrid) -> Vec<u32> {
        let cell_of = |k: usize| grid.cell([0, 1, 2].map(|axis| self.position[axis][k])) as u32;
        let cells: Vec<u32> = (0..self.len()).into_par_iter().with_min_len(CHUNK).map(cell_of).collect();
        let (cell_starts, moved) = sort_by_cell(&cells, grid.len());
        self.reorder(&moved);
        cell_starts
    }

    /// Builds the lists of sorted particles. The starts are those of [`SortedParticles`].
    pub(super) fn build_lists(&mut self, grid: &CellGrid, cell_starts: &[u32], ghost_starts: &[u32]) {
        let n = self.len();
        let radius = self.settings.list_radius() / self.settings.potential.length_unit();
        let Some(lists) = &mut self.lists else { return };
        let particles = SortedParticles {
            position: self.upper.each_ref().map(Vec::as_slice),
            species: &self.species,
            owned: n,
            cell_starts,
            ghost_starts,
            grid,
        };
        lists.rebuild(self.set, &particles, self.single.scale, radius, self.single.species);
        for (listed, upper) in self.listed.iter_mut().zip(&self.upper) {
            listed.clear();
            listed.extend_from_slice(&upper[..n]);
        }
        self.rebuilds += 1;
    }

    /// Moves particle `moved[k]` to index k. Forces are lost.
    fn reorder(&mut self, moved: &[u32]) {
        self.order = gathered(&self.order, moved);
        self.id = gathered(&self.id, moved);
        self.species = gathered(&self.species, moved);
        for axis in 0..3 {
            self.position[axis] = gathered(&self.position[axis], moved);
            self.image[axis] = gathered(&self.image[axis], moved);
            self.velocity[axis] = gathered(&self.velocity[axis], moved);
        }
        self.update_upper();
    }

    /// Computes the forces at the current positions.
    pub fn update_forces(&mut self) {
        if self.has_left_middle() {
            self.widen_box();
            self.must_rebuild = true;
        }
        if std::mem::take(&mut self.must_rebuild) {
            self.rebuild_lists();
        }
        self.compute_forces();
    }

    /// Computes the forces of the lists, or of all pairs.
    pub(super) fn compute_forces(&mut self) {
        let problem = FluidForceProblem {
            position: self.position.each_ref().map(Vec::as_slice),
            upper: self.upper.each_ref().map(Vec::as_slice),
            species: &self.species,
            lists: self.lists.as_ref(),
        };
        match self.settings.precision {
            PairPrecision::Mixed => single_forces(self.set, &problem, &self.single, &mut self.force),
            PairPrecision::Double => {
                double_forces(self.set, &problem, &self.energies.forces, &mut self.force)
            }
        }
    }

    /// Returns true if a particle is outside the middle half of an open box.
    pub(super) fn has_left_middle(&self) -> bool {
        let n = self.len();
        let is_in_middle = |column: &Vec<u64>| column[..n].iter().all(|&x| SimulationBox::is_in_middle(x));
        self.bounds.sides == BoxSides::Open
            && !self.position[..self.bounds.dimensions].iter().all(is_in_middle)
    }

    /// Doubles the box. Then all particles are in its middle half. Lists must be built again.
    pub(super) fn widen_box(&mut self) {
        self.bounds = self.bounds.doubled();
        let fractions = self.position[..self.bounds.dimensions].iter_mut().flatten();
        fractions.for_each(|fraction| *fraction = SimulationBox::halved(*fraction));
        self.single = PairArithmetic::new(&self.settings.potential, &self.bounds);
        self.energies = EnergyArithmetic::new(&self.settings.potential, &self.bounds);
        self.update_upper();
    }
}

/// Returns `values[indices[k]]` for all k.
fn gathered<T: Copy + Send + Sync>(values: &[T], indices: &[u32]) -> Vec<T> {
    indices.par_iter().with_min_len(CHUNK).map(|&index| values[index as usize]).collect()
}
