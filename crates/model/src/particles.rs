//! The bodies: structure of arrays, f64.
//!
//! Invariant: every column of a [`Particles`] has the same length. The columns are public for fast
//! reading and in-place change; code that changes their lengths goes through the methods here.

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;

/// A column of vectors, one array a component, so that lanes of x load from consecutive memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vec3s {
    /// First components.
    pub x: Vec<f64>,
    /// Second components.
    pub y: Vec<f64>,
    /// Third components.
    pub z: Vec<f64>,
}

impl Vec3s {
    /// `n` zero vectors.
    pub fn zeros(n: usize) -> Self {
        Self { x: vec![0.0; n], y: vec![0.0; n], z: vec![0.0; n] }
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        self.x.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// Vector `i`.
    pub fn get(&self, i: usize) -> [f64; 3] {
        [self.x[i], self.y[i], self.z[i]]
    }

    /// Overwrites vector `i`.
    pub fn set(&mut self, i: usize, v: [f64; 3]) {
        [self.x[i], self.y[i], self.z[i]] = v;
    }

    /// Appends a vector.
    pub fn push(&mut self, v: [f64; 3]) {
        self.x.push(v[0]);
        self.y.push(v[1]);
        self.z.push(v[2]);
    }

    /// Appends all of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.x.extend_from_slice(&other.x);
        self.y.extend_from_slice(&other.y);
        self.z.extend_from_slice(&other.z);
    }

    /// All vectors in order.
    pub fn iter(&self) -> impl Iterator<Item = [f64; 3]> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Adds `v` to every vector.
    pub fn translate(&mut self, v: [f64; 3]) {
        for (column, shift) in [&mut self.x, &mut self.y, &mut self.z].into_iter().zip(v) {
            column.iter_mut().for_each(|c| *c += shift);
        }
    }

    /// True only if no component of the vectors in `range` is NaN or infinite; where it is false, as it also is where
    /// numbers near f64's end overflow in a sum, [`Vec3s::first_non_finite`] tells. Quick enough to be asked after
    /// every step: no branch for a number, so that it compiles to SIMD.
    pub fn passes_quick_finite_check(&self, range: Range<usize>) -> bool {
        let (x, y, z) = (&self.x[range.clone()], &self.y[range.clone()], &self.z[range]);
        let mut marks = 0;
        for ((x, y), z) in x.iter().zip(y).zip(z) {
            // A sum is finite only if all terms are; less itself it is then 0, with no bit set, and else NaN.
            let sum = x + y + z;
            #[expect(clippy::eq_op, reason = "the difference is not 0 for all numbers")]
            let mark = sum - sum;
            marks |= mark.to_bits();
        }
        marks == 0
    }

    /// The first vector with a component that is NaN or infinite, and which component that is.
    pub fn first_non_finite(&self) -> Option<(usize, usize)> {
        let in_column = |(c, column): (usize, &Vec<f64>)| {
            column.iter().position(|value| !value.is_finite()).map(|i| (i, c))
        };
        [&self.x, &self.y, &self.z].into_iter().enumerate().filter_map(in_column).min()
    }
}

/// What a body stands for. The numbers are GADGET's particle types, so files keep them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Species {
    /// Gas (GADGET type 0); moves under gravity only.
    Gas = 0,
    /// Dark matter, or a body of no particular kind.
    #[default]
    Halo = 1,
    /// Disc stars.
    Disc = 2,
    /// Bulge stars.
    Bulge = 3,
    /// Other stars.
    Stars = 4,
    /// Boundary or tracer bodies.
    Boundary = 5,
}

impl Species {
    /// Every species, in GADGET's order: `ALL[k] as usize == k`.
    pub const ALL: [Self; 6] = [Self::Gas, Self::Halo, Self::Disc, Self::Bulge, Self::Stars, Self::Boundary];

    /// Whether it shines: what a picture of a galaxy shows when it has any.
    pub fn is_luminous(self) -> bool {
        matches!(self, Self::Disc | Self::Bulge | Self::Stars)
    }
}

/// One body, for building and reading small systems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Particle {
    /// Position.
    pub position: [f64; 3],
    /// Velocity.
    pub velocity: [f64; 3],
    /// Mass.
    pub mass: f64,
    /// Identity: kept through sorting, files and restarts.
    pub id: u64,
    /// What it stands for.
    pub species: Species,
}

/// A system of bodies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Particles {
    /// Positions.
    pub position: Vec3s,
    /// Velocities.
    pub velocity: Vec3s,
    /// Masses.
    pub mass: Vec<f64>,
    /// Identities, unique.
    pub id: Vec<u64>,
    /// What each body stands for.
    pub species: Vec<Species>,
}

/// The largest coordinate, velocity or mass: sums of m v² and m x² over ten million bodies are still finite.
pub const LARGEST: f64 = 1e100;

/// What makes a system of bodies impossible to simulate.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ParticlesError {
    /// There are no bodies.
    #[error("there are no bodies, expected at least one")]
    Empty,
    /// A column is shorter or longer than the others.
    #[error("{field} has {got} entries, expected {expected}")]
    LengthMismatch {
        /// Which column.
        field: &'static str,
        /// The number of positions.
        expected: usize,
        /// What was found.
        got: usize,
    },
    /// A NaN or an infinity.
    #[error("body {id} (number {index}) has {field} = {value}, expected a finite number")]
    NotFinite {
        /// Which column.
        field: &'static str,
        /// Position in the arrays.
        index: usize,
        /// The body's id.
        id: u64,
        /// What was found.
        value: f64,
    },
    /// A number too large to compute with.
    #[error(
        "body {id} (number {index}) has {field} = {value:e}, expected at most {LARGEST:e} in size: energies and moments must be numbers too"
    )]
    TooLarge {
        /// Which column.
        field: &'static str,
        /// Position in the arrays.
        index: usize,
        /// The body's id.
        id: u64,
        /// What was found.
        value: f64,
    },
    /// A mass below zero.
    #[error("body {id} (number {index}) has mass {value}, expected mass >= 0")]
    NegativeMass {
        /// Position in the arrays.
        index: usize,
        /// The body's id.
        id: u64,
        /// What was found.
        value: f64,
    },
    /// Two bodies share an id.
    #[error("bodies number {first} and {second} share the id {id}, expected unique ids")]
    DuplicateId {
        /// The shared id.
        id: u64,
        /// The first of the two.
        first: usize,
        /// The second.
        second: usize,
    },
    /// Two bodies at one place, which only a softened force can bear.
    #[error("bodies {first} and {second} are at the same place ({}, {}, {}); set a softening above 0 or move one",
            place[0], place[1], place[2])]
    Coincident {
        /// Id of the first.
        first: u64,
        /// Id of the second.
        second: u64,
        /// Where.
        place: [f64; 3],
    },
}

impl Particles {
    /// Room for `n` bodies, none yet.
    pub fn with_capacity(n: usize) -> Self {
        let column =
            || Vec3s { x: Vec::with_capacity(n), y: Vec::with_capacity(n), z: Vec::with_capacity(n) };
        Self {
            position: column(),
            velocity: column(),
            mass: Vec::with_capacity(n),
            id: Vec::with_capacity(n),
            species: Vec::with_capacity(n),
        }
    }

    /// How many bodies there are.
    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.mass.is_empty()
    }

    /// Body `i`.
    pub fn get(&self, i: usize) -> Particle {
        Particle {
            position: self.position.get(i),
            velocity: self.velocity.get(i),
            mass: self.mass[i],
            id: self.id[i],
            species: self.species[i],
        }
    }

    /// Appends a body.
    pub fn push(&mut self, body: Particle) {
        self.position.push(body.position);
        self.velocity.push(body.velocity);
        self.mass.push(body.mass);
        self.id.push(body.id);
        self.species.push(body.species);
    }

    /// Appends all of `other`, ids as they are.
    pub fn extend(&mut self, other: &Self) {
        self.position.extend(&other.position);
        self.velocity.extend(&other.velocity);
        self.mass.extend_from_slice(&other.mass);
        self.id.extend_from_slice(&other.id);
        self.species.extend_from_slice(&other.species);
    }

    /// All bodies in order.
    pub fn iter(&self) -> impl Iterator<Item = Particle> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The sum of the masses.
    pub fn total_mass(&self) -> f64 {
        self.mass.iter().sum()
    }

    /// The bodies that `keep` accepts, in order.
    pub fn filtered(&self, keep: impl Fn(Particle) -> bool) -> Self {
        let mut kept = Self::default();
        self.iter().filter(|&body| keep(body)).for_each(|body| kept.push(body));
        kept
    }

    /// Checks that a simulation can start from these bodies: columns of one length, finite numbers
    /// that can be squared, masses not negative (a body of none is a test particle), ids unique. The first
    /// offence is reported.
    pub fn validate(&self) -> Result<(), ParticlesError> {
        let n = self.position.x.len();
        if n == 0 {
            return Err(ParticlesError::Empty);
        }
        let columns: [(&'static str, &[f64]); 7] = [
            ("position x", &self.position.x),
            ("position y", &self.position.y),
            ("position z", &self.position.z),
            ("velocity x", &self.velocity.x),
            ("velocity y", &self.velocity.y),
            ("velocity z", &self.velocity.z),
            ("mass", &self.mass),
        ];
        let lengths = columns.map(|(field, column)| (field, column.len()));
        for (field, got) in
            lengths.into_iter().chain([("id", self.id.len()), ("species", self.species.len())])
        {
            if got != n {
                return Err(ParticlesError::LengthMismatch { field, expected: n, got });
            }
        }
        for (field, column) in columns {
            let acceptable = |v: f64| v.abs() <= LARGEST;
            if let Some(index) = column.iter().position(|&v| !acceptable(v)) {
                let (id, value) = (self.id[index], column[index]);
                return Err(if value.is_finite() {
                    ParticlesError::TooLarge { field, index, id, value }
                } else {
                    ParticlesError::NotFinite { field, index, id, value }
                });
            }
        }
        if let Some(index) = self.mass.iter().position(|&m| m < 0.0) {
            return Err(ParticlesError::NegativeMass { index, id: self.id[index], value: self.mass[index] });
        }
        let mut seen = HashMap::with_capacity(n);
        for (second, &id) in self.id.iter().enumerate() {
            if let Some(first) = seen.insert(id, second) {
                return Err(ParticlesError::DuplicateId { id, first, second });
            }
        }
        Ok(())
    }

    /// Checks that no two bodies are at one place, as an unsoftened force needs.
    pub fn check_distinct_positions(&self) -> Result<(), ParticlesError> {
        let mut seen = HashMap::with_capacity(self.len());
        for (i, place) in self.position.iter().enumerate() {
            // + 0.0 turns -0.0 into 0.0, which is the same place.
            let place = place.map(|c| c + 0.0);
            if let Some(first) = seen.insert(place.map(f64::to_bits), i) {
                return Err(ParticlesError::Coincident { first: self.id[first], second: self.id[i], place });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
