//! A fluid on the CPU: sorted particles, their neighbour lists and forces.
//!
//! Invariant: the forces belong to the current positions. Particles are kept in the order of their
//! cells (`cells`), and `order` has the user's index of each sorted particle. The order changes
//! when lists are built. It affects no result.

mod energies;
mod motion;

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_simd::{InstructionSet, MAX_LANES};
use rayon::prelude::*;

use super::arithmetic::{EnergyArithmetic, PairArithmetic, PairReal, upper_half};
use super::cells::{CellGrid, sort_by_cell};
use super::forces::{ForceProblem, double_forces, single_forces};
use super::minimise::ForceSums;
use super::neighbours::{NeighbourLists, SortedParticles};
use super::settings::{FluidSettings, PairPrecision};

pub(super) use motion::Motion;

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
            lists: settings.uses_lists(n, &bounds).then(NeighbourLists::default),
            must_rebuild: false,
            rebuilds: 0,
        };
        fluid.update_upper();
        fluid.rebuild_lists();
        fluid.update_forces();
        fluid
    }

    /// Returns the number of particles.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Returns true if there are no particles.
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
        for (rank, &user) in self.order.iter().enumerate() {
            ranks[user as usize] = rank as u32;
        }
        ranks
    }

    /// Returns the force of one integer unit, in the units of the case.
    fn force_unit(&self) -> f64 {
        let bits = match self.settings.precision {
            PairPrecision::Mixed => f32::FORCE_BITS,
            PairPrecision::Double => f64::FORCE_BITS,
        };
        let potential = &self.settings.potential;
        potential.energy_unit() / potential.length_unit() * 2f64.powi(-bits)
    }

    fn update_upper(&mut self) {
        for (upper, position) in self.upper.iter_mut().zip(&self.position) {
            upper.par_iter_mut().zip(position).with_min_len(CHUNK).for_each(|(upper, &fraction)| {
                *upper = upper_half(fraction);
            });
        }
    }

    /// Radius of the lists, in units of length of the pair arithmetic.
    fn list_radius(&self) -> f64 {
        let cutoff = self.settings.potential.largest_cutoff().unwrap_or_default();
        (cutoff + self.settings.skin) / self.settings.potential.length_unit()
    }

    /// Sorts the particles by cell and builds the lists, if there are any.
    fn rebuild_lists(&mut self) {
        let Some(mut lists) = self.lists.take() else { return };
        let n = self.len();
        let bound = |axis: usize, pick: fn(u32, u32) -> u32, start: u32| {
            self.upper[axis][..n].iter().fold(start, |found, &x| pick(found, x as u32))
        };
        let low = [0, 1, 2].map(|axis| bound(axis, u32::min, u32::MAX));
        let high = [0, 1, 2].map(|axis| bound(axis, u32::max, 0));
        let radius = self.list_radius() * self.settings.potential.length_unit();
        let grid = CellGrid::new(&self.bounds, radius, low, high, n);
        let cells: Vec<u32> = (0..n)
            .into_par_iter()
            .with_min_len(CHUNK)
            .map(|k| grid.cell([0, 1, 2].map(|axis| self.position[axis][k])) as u32)
            .collect();
        let (cell_starts, moved) = sort_by_cell(&cells, grid.len());
        self.reorder(&moved);
        let particles = SortedParticles {
            position: self.upper.each_ref().map(Vec::as_slice),
            species: &self.species,
            cell_starts: &cell_starts,
            grid: &grid,
        };
        lists.rebuild(self.set, &particles, self.single.scale, self.list_radius(), self.single.species);
        for (listed, upper) in self.listed.iter_mut().zip(&self.upper) {
            listed.copy_from_slice(&upper[..n]);
        }
        self.lists = Some(lists);
        self.rebuilds += 1;
    }

    /// Moves particle `moved[k]` to index k.
    fn reorder(&mut self, moved: &[u32]) {
        self.order = gathered(&self.order, moved);
        self.id = gathered(&self.id, moved);
        self.species = gathered(&self.species, moved);
        for axis in 0..3 {
            self.position[axis] = gathered(&self.position[axis], moved);
            self.image[axis] = gathered(&self.image[axis], moved);
            self.velocity[axis] = gathered(&self.velocity[axis], moved);
            self.force[axis] = gathered(&self.force[axis], moved);
        }
        self.update_upper();
    }

    /// Computes the forces at the current positions.
    pub fn update_forces(&mut self) {
        self.widen_open_box();
        if std::mem::take(&mut self.must_rebuild) {
            self.rebuild_lists();
        }
        let problem = ForceProblem {
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

    /// Doubles an open box until all particles are in its middle half.
    fn widen_open_box(&mut self) {
        if self.bounds.sides != BoxSides::Open {
            return;
        }
        let dimensions = self.bounds.dimensions;
        while !self.position[..dimensions].iter().flatten().all(|&x| SimulationBox::is_in_middle(x)) {
            self.bounds = self.bounds.doubled();
            self.position[..dimensions]
                .iter_mut()
                .flatten()
                .for_each(|fraction| *fraction = SimulationBox::halved(*fraction));
            self.single = PairArithmetic::new(&self.settings.potential, &self.bounds);
            self.energies = EnergyArithmetic::new(&self.settings.potential, &self.bounds);
            self.update_upper();
            self.rebuild_lists();
        }
    }

    /// Returns sums over the forces, one particle after another.
    pub(super) fn force_sums(&self) -> ForceSums {
        let unit = self.force_unit();
        let mut sums = ForceSums { largest: 0.0, power: 0.0, force2: 0.0, velocity2: 0.0 };
        for (force, velocity) in self.force.iter().zip(&self.velocity) {
            for (&force, &v) in force.iter().zip(velocity) {
                let f = force as f64 * unit;
                sums.largest = sums.largest.max(f.abs());
                sums.power += f * v;
                sums.force2 += f * f;
                sums.velocity2 += v * v;
            }
        }
        sums
    }

    /// Changes velocities: v ← `keep` v + `towards` f.
    pub(super) fn mix_velocities(&mut self, keep: f64, towards: f64) {
        let factor = towards * self.force_unit();
        for (velocity, force) in self.velocity.iter_mut().zip(&self.force) {
            velocity.par_iter_mut().zip(force).with_min_len(CHUNK).for_each(|(v, &force)| {
                *v = keep * *v + factor * force as f64;
            });
        }
    }

    /// Limits the components of all velocities.
    pub(super) fn limit_velocities(&mut self, largest: f64) {
        for velocity in &mut self.velocity {
            velocity.par_iter_mut().with_min_len(CHUNK).for_each(|v| *v = v.clamp(-largest, largest));
        }
    }
}

/// Returns `values[indices[k]]` for all k.
fn gathered<T: Copy + Send + Sync>(values: &[T], indices: &[u32]) -> Vec<T> {
    indices.par_iter().with_min_len(CHUNK).map(|&index| values[index as usize]).collect()
}
