//! Neighbour lists on the CPU.
//!
//! The list of a particle contains all particles within the largest cutoff plus a skin. It stays
//! complete until a particle has moved by half the skin. Lists are full: each pair is in the lists
//! of both particles, so every thread writes the forces of its particles only.
//!
//! Neighbours are grouped by species, so that a SIMD loop over a group has the same constants in
//! all lanes. Their order within a group does not matter, because forces are sums of integers.

use orrery_simd::{InstructionSet, MAX_LANES, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::cells::CellGrid;

/// Particles whose lists one task builds.
const CHUNK: usize = 256;

/// Lists of consecutive particles.
#[derive(Clone, Debug, Default, PartialEq)]
struct ListChunk {
    neighbours: Vec<u32>,
    /// End of the group of each particle and species in `neighbours`, preceded by 0.
    ends: Vec<u32>,
}

/// Neighbours of all particles, in the sorted order of the particles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NeighbourLists {
    chunks: Vec<ListChunk>,
    species: usize,
}

/// Sorted particles and their cells. Those of other ranks, the ghosts, come behind the others. They
/// are in lists but have none.
#[derive(Clone, Copy, Debug)]
pub struct SortedParticles<'a> {
    /// Upper halves of the fractions, padded by [`MAX_LANES`] numbers.
    pub position: [&'a [i32]; 3],
    /// Species of each particle.
    pub species: &'a [u8],
    /// Number of particles without ghosts.
    pub owned: usize,
    /// First particle of each cell, followed by the number of particles.
    pub cell_starts: &'a [u32],
    /// First ghost of each cell, followed by the number of particles and ghosts. Empty without
    /// ghosts.
    pub ghost_starts: &'a [u32],
    /// The cells.
    pub grid: &'a CellGrid,
}

impl NeighbourLists {
    /// Builds the lists of all pairs nearer than `radius`, in units of length. `scale` converts
    /// differences of positions to lengths. The memory of earlier lists is reused.
    pub fn rebuild(
        &mut self,
        set: InstructionSet,
        particles: &SortedParticles<'_>,
        scale: [f32; 3],
        radius: f64,
        species: usize,
    ) {
        let n = particles.owned;
        self.species = species;
        self.chunks.resize_with(n.div_ceil(CHUNK), ListChunk::default);
        // Rounding errors of f32 must not lose a pair at the radius.
        let radius2 = (radius * radius * (1.0 + 1e-5)) as f32;
        self.chunks.par_iter_mut().enumerate().for_each_init(Scratch::default, |scratch, (index, chunk)| {
            let members = index * CHUNK..((index + 1) * CHUNK).min(n);
            chunk.neighbours.clear();
            chunk.ends.clear();
            chunk.ends.push(0);
            let search = Search { particles, scale, radius2, species, members, scratch, chunk };
            dispatch(set, search);
        });
    }

    /// Returns the number of neighbours of a particle.
    pub fn count(&self, particle: usize) -> usize {
        let chunk = &self.chunks[particle / CHUNK];
        let group = particle % CHUNK * self.species;
        (chunk.ends[group + self.species] - chunk.ends[group]) as usize
    }

    /// Returns the neighbours of a particle that are of one species.
    #[inline(always)]
    pub fn of(&self, particle: usize, species: usize) -> &[u32] {
        let chunk = &self.chunks[particle / CHUNK];
        let group = particle % CHUNK * self.species + species;
        &chunk.neighbours[chunk.ends[group] as usize..chunk.ends[group + 1] as usize]
    }
}

/// Memory that a thread reuses.
#[derive(Default)]
struct Scratch {
    /// Neighbours of one particle, by species.
    by_species: Vec<Vec<u32>>,
    /// Neighbours of one particle, if there is one species. It has room for those of a register
    /// behind the last one.
    found: Vec<u32>,
    /// Ranges of particles in neighbouring cells.
    ranges: Vec<(usize, usize)>,
}

/// Search for the neighbours of the particles `members`.
struct Search<'a> {
    particles: &'a SortedParticles<'a>,
    scale: [f32; 3],
    radius2: f32,
    species: usize,
    members: std::ops::Range<usize>,
    scratch: &'a mut Scratch,
    chunk: &'a mut ListChunk,
}

impl SimdKernel for Search<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        let Self { particles, scale, radius2, species, members, scratch, chunk } = self;
        let Scratch { by_species, found, ranges } = scratch;
        by_species.resize_with(species, Vec::new);
        let mut known_cell = None;
        for particle in members {
            let at = particles.position.map(|column| column[particle]);
            let cell = [0, 1, 2].map(|axis| particles.grid.axis_cell(axis, at[axis] as u32));
            if known_cell != Some(cell) {
                known_cell = Some(cell);
                ranges.clear();
                particles.grid.for_each_neighbour_range(cell, |first, end| {
                    for starts in [particles.cell_starts, particles.ghost_starts] {
                        if !starts.is_empty() && starts[first] < starts[end] {
                            ranges.push((starts[first] as usize, starts[end] as usize));
                        }
                    }
                });
            }
            if species == 1 {
                let mut count = 0;
                for &range in ranges.iter() {
                    count =
                        find_of_one_species::<S>(particles, scale, radius2, particle, range, found, count);
                }
                chunk.neighbours.extend_from_slice(&found[..count]);
                chunk.ends.push(chunk.neighbours.len() as u32);
                continue;
            }
            for &range in ranges.iter() {
                find_in_range::<S>(particles, scale, radius2, particle, range, by_species);
            }
            for group in by_species.iter_mut() {
                chunk.neighbours.append(group);
                chunk.ends.push(chunk.neighbours.len() as u32);
            }
        }
    }
}

/// Returns the lanes of the register of particles from `start` on that are neighbours of
/// `particle`, as a mask. Particles from `end` on do not count.
#[inline(always)]
fn neighbour_mask<S: SingleVector>(
    particles: &SortedParticles<'_>,
    scale: [f32; 3],
    radius2: f32,
    particle: usize,
    (start, end): (usize, usize),
) -> u32 {
    let [px, py, pz] = particles.position;
    let x = S::difference(px[particle], &px[start..start + MAX_LANES]).mul(S::splat(scale[0]));
    let y = S::difference(py[particle], &py[start..start + MAX_LANES]).mul(S::splat(scale[1]));
    let z = S::difference(pz[particle], &pz[start..start + MAX_LANES]).mul(S::splat(scale[2]));
    let r2 = x.mul_add(x, y.mul_add(y, z.mul(z)));
    let lanes = S::LANES.min(end - start);
    let found = S::splat(radius2).greater_mask(r2) & (u32::MAX >> (32 - lanes));
    match particle.wrapping_sub(start) < lanes {
        true => found & !(1 << (particle - start)),
        false => found,
    }
}

/// Adds the neighbours of `particle` between `first` and `end` to `found` behind the first `count`.
/// Returns the number of all.
#[inline(always)]
fn find_of_one_species<S: SingleVector>(
    particles: &SortedParticles<'_>,
    scale: [f32; 3],
    radius2: f32,
    particle: usize,
    (first, end): (usize, usize),
    found: &mut Vec<u32>,
    mut count: usize,
) -> usize {
    let most = count + (end - first) + MAX_LANES;
    if found.len() < most {
        found.resize(most, 0);
    }
    let mut start = first;
    while start < end {
        let mask = neighbour_mask::<S>(particles, scale, radius2, particle, (start, end));
        if let Some(slots) = found[count..].first_chunk_mut() {
            count += S::store_indices(start as u32, mask, slots);
        }
        start += S::LANES;
    }
    count
}

/// Adds the neighbours of `particle` between `first` and `end` to the lists of their species.
#[inline(always)]
fn find_in_range<S: SingleVector>(
    particles: &SortedParticles<'_>,
    scale: [f32; 3],
    radius2: f32,
    particle: usize,
    (first, end): (usize, usize),
    by_species: &mut [Vec<u32>],
) {
    let mut start = first;
    while start < end {
        let mut found = neighbour_mask::<S>(particles, scale, radius2, particle, (start, end));
        while found != 0 {
            let other = start + found.trailing_zeros() as usize;
            by_species[usize::from(particles.species[other])].push(other as u32);
            found &= found - 1;
        }
        start += S::LANES;
    }
}
