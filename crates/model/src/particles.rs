//! The bodies: structure of arrays, f64.
//!
//! Invariant: every column of a [`Particles`] has the same length, and index `i` of every column
//! belongs to body `i`. The columns are public for fast reading and in-place change. Code that
//! changes their lengths uses the methods here, such as [`Particles::push`].

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;

use crate::format_count;

/// A column of vectors, one array per component, so that SIMD lanes load from consecutive memory.
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
    /// Returns `n` zero vectors.
    pub fn zeros(n: usize) -> Self {
        Self { x: vec![0.0; n], y: vec![0.0; n], z: vec![0.0; n] }
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.x.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// Returns vector `i`.
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

    /// Iterates over all vectors in order.
    pub fn iter(&self) -> impl Iterator<Item = [f64; 3]> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Adds `v` to every vector.
    pub fn translate(&mut self, v: [f64; 3]) {
        for (column, shift) in [&mut self.x, &mut self.y, &mut self.z].into_iter().zip(v) {
            column.iter_mut().for_each(|c| *c += shift);
        }
    }

    /// Returns true only if all components of the vectors in `range` are finite.
    ///
    /// A sum of values near the end of the f64 range can overflow, and the result is then false for
    /// finite vectors too. [`Vec3s::first_non_finite`] gives the exact answer. This check has no
    /// branch per value and compiles to SIMD, so it is fast enough to run after every step.
    pub fn passes_quick_finite_check(&self, range: Range<usize>) -> bool {
        let (x, y, z) = (&self.x[range.clone()], &self.y[range.clone()], &self.z[range]);
        let mut nonzero_bits = 0;
        for ((x, y), z) in x.iter().zip(y).zip(z) {
            // The sum is finite only if all terms are finite. sum - sum is then 0, with no bit set.
            // For a NaN or infinite sum it is NaN.
            let sum = x + y + z;
            #[expect(clippy::eq_op, reason = "the difference is NaN for a sum that is not finite")]
            let difference = sum - sum;
            nonzero_bits |= difference.to_bits();
        }
        nonzero_bits == 0
    }

    /// Returns the index of the first vector with a NaN or infinite component, and that component
    /// (0 to 2).
    pub fn first_non_finite(&self) -> Option<(usize, usize)> {
        let in_column = |(c, column): (usize, &Vec<f64>)| {
            column.iter().position(|value| !value.is_finite()).map(|i| (i, c))
        };
        [&self.x, &self.y, &self.z].into_iter().enumerate().filter_map(in_column).min()
    }
}

/// Component of a galaxy that a body belongs to. The values are GADGET's particle types, which
/// snapshot files store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Species {
    /// Gas (GADGET type 0). It moves under gravity only.
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
    /// All species in GADGET's order: `ALL[k] as usize == k`.
    pub const ALL: [Self; 6] = [Self::Gas, Self::Halo, Self::Disc, Self::Bulge, Self::Stars, Self::Boundary];

    /// Whether the species emits light. A picture of a galaxy shows its luminous bodies if it has
    /// any.
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
    /// Identity, which sorting, files and restarts do not change.
    pub id: u64,
    /// Component that the body belongs to.
    pub species: Species,
}

/// A system of bodies.
///
/// ```
/// use orrery_model::analysis::{kinetic_energy, potential_energy_direct};
/// use orrery_model::ic::Plummer;
///
/// // A star cluster in N-body units: G = 1, mass 1 and energy -1/4.
/// let bodies = Plummer { n: 2000, ..Plummer::default() }.generate(1.0)?;
/// assert_eq!(bodies.len(), 2000);
/// assert!((bodies.total_mass() - 1.0).abs() < 1e-12);
/// bodies.validate()?;
///
/// let (g, eps) = (1.0, 0.0);
/// let energy = kinetic_energy(&bodies) + potential_energy_direct(&bodies, g, eps);
/// assert!((energy + 0.25).abs() < 0.02);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Component that each body belongs to.
    pub species: Vec<Species>,
}

/// Largest accepted magnitude of a coordinate, velocity or mass. Sums of m v² and m x² over ten
/// million bodies are then still finite.
pub const MAX_MAGNITUDE: f64 = 1e100;

/// Reason why a system of bodies cannot be simulated.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ParticlesError {
    /// The system has no bodies.
    #[error("there are no bodies, expected at least one")]
    Empty,
    /// A column is shorter or longer than the others.
    #[error("{field} has {}, expected {expected}", format_count(*got as u64, "entry", "entries"))]
    LengthMismatch {
        /// Name of the column.
        field: &'static str,
        /// Number of positions.
        expected: usize,
        /// Number of entries found.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("body {id} (number {index}) has {field} = {value}, expected a finite number")]
    NotFinite {
        /// Name of the column.
        field: &'static str,
        /// Index in the arrays.
        index: usize,
        /// Id of the body.
        id: u64,
        /// Value found.
        value: f64,
    },
    /// A value is too large to compute with.
    #[error(
        "body {id} (number {index}) has {field} = {value:e}, expected at most {MAX_MAGNITUDE:e} in size: energies and moments would overflow"
    )]
    TooLarge {
        /// Name of the column.
        field: &'static str,
        /// Index in the arrays.
        index: usize,
        /// Id of the body.
        id: u64,
        /// Value found.
        value: f64,
    },
    /// A mass is below zero.
    #[error("body {id} (number {index}) has mass {value}, expected mass >= 0")]
    NegativeMass {
        /// Index in the arrays.
        index: usize,
        /// Id of the body.
        id: u64,
        /// Value found.
        value: f64,
    },
    /// Two bodies share an id.
    #[error("bodies number {first} and {second} share the id {id}, expected unique ids")]
    DuplicateId {
        /// The shared id.
        id: u64,
        /// Index of the first body.
        first: usize,
        /// Index of the second body.
        second: usize,
    },
    /// Two bodies have the same position. Their mutual force is only defined with softening.
    #[error("bodies {first} and {second} are at the same place ({}, {}, {}); set a softening above 0 or move one",
            position[0], position[1], position[2])]
    Coincident {
        /// Id of the first body.
        first: u64,
        /// Id of the second body.
        second: u64,
        /// Position of both.
        position: [f64; 3],
    },
}

impl Particles {
    /// Returns an empty system with memory for `n` bodies.
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

    /// Number of bodies.
    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// Whether there are no bodies.
    pub fn is_empty(&self) -> bool {
        self.mass.is_empty()
    }

    /// Returns body `i`.
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

    /// Appends all of `other` and keeps its ids.
    pub fn extend(&mut self, other: &Self) {
        self.position.extend(&other.position);
        self.velocity.extend(&other.velocity);
        self.mass.extend_from_slice(&other.mass);
        self.id.extend_from_slice(&other.id);
        self.species.extend_from_slice(&other.species);
    }

    /// Iterates over all bodies in order.
    pub fn iter(&self) -> impl Iterator<Item = Particle> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Sum of the masses.
    pub fn total_mass(&self) -> f64 {
        self.mass.iter().sum()
    }

    /// Returns the bodies that `keep` accepts, in order.
    pub fn filtered(&self, keep: impl Fn(Particle) -> bool) -> Self {
        let mut kept = Self::default();
        self.iter().filter(|&body| keep(body)).for_each(|body| kept.push(body));
        kept
    }

    /// Checks that a simulation can start from these bodies and reports the first violation.
    ///
    /// All columns have the same length, all values are finite and at most [`MAX_MAGNITUDE`] in
    /// size, no mass is negative, and ids are unique. A mass of 0 is allowed and makes a test
    /// particle.
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
            let acceptable = |v: f64| v.abs() <= MAX_MAGNITUDE;
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

    /// Checks that no two bodies have the same position, which an unsoftened force requires.
    pub fn check_distinct_positions(&self) -> Result<(), ParticlesError> {
        let mut seen = HashMap::with_capacity(self.len());
        for (i, position) in self.position.iter().enumerate() {
            // + 0.0 turns -0.0 into 0.0: equal positions must have equal bits.
            let position = position.map(|c| c + 0.0);
            if let Some(first) = seen.insert(position.map(f64::to_bits), i) {
                return Err(ParticlesError::Coincident {
                    first: self.id[first],
                    second: self.id[i],
                    position,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
