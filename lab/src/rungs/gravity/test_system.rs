//! Test systems for the checks of kernels of lectures.

use orrery_device::{Device, DeviceError};
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::device::ForceRequest;
use orrery_gravity::solver::{ForceProblem, reference};
use orrery_model::Vec3s;
use orrery_model::rng::Draws;

use orrery_measure::workload::{TimedSolver, columns_of, read_vectors, upload_vectors, zero_vectors};

/// Bodies at rest, with G = 1.5.
pub(super) struct LectureSystem {
    pub(super) position: Vec3s,
    pub(super) mass: Vec<f64>,
    pub(super) eps: f64,
}

impl LectureSystem {
    fn random(n: usize, draw_position: impl Fn(&mut Draws) -> [f64; 3]) -> Self {
        let mut position = Vec3s::default();
        (0..n as u64).for_each(|i| position.push(draw_position(&mut Draws::new(n as u64, 3, i))));
        Self { position, mass: vec![1.0 / n.max(1) as f64; n], eps: 0.01 }
    }

    /// Returns a cluster that is dense at its centre, with equal masses.
    pub(super) fn cluster(n: usize) -> Self {
        Self::random(n, |draws| {
            let radius = draws.uniform().powi(2) + 1e-3;
            draws.direction().map(|c| c * radius)
        })
    }

    /// Returns bodies with uniform density in a cube away from the origin.
    pub(super) fn cube(n: usize) -> Self {
        Self::random(n, |draws| [0; 3].map(|_| draws.uniform_in(2.0, 3.0)))
    }

    /// Returns the same bodies with body `i` moved from `x` to `new_position(i, x)`.
    pub(super) fn moved(mut self, new_position: impl Fn(usize, [f64; 3]) -> [f64; 3]) -> Self {
        for i in 0..self.mass.len() {
            self.position.set(i, new_position(i, self.position.get(i)));
        }
        self
    }

    /// Returns the same bodies with masses over four decades. Every seventh body is massless.
    pub(super) fn with_unequal_masses(mut self) -> Self {
        let n = self.mass.len();
        for (i, mass) in self.mass.iter_mut().enumerate() {
            let draw = Draws::new(n as u64, 4, i as u64).uniform();
            *mass = if i % 7 == 3 { 0.0 } else { *mass * 10f64.powf(4.0 * draw - 2.0) };
        }
        self
    }

    /// Returns a system whose tree has the most levels: a chain that splits off one body per level
    /// and ends in eight octants.
    pub(super) fn chain() -> Self {
        let mut position = Vec3s::default();
        let mut push =
            |cell: [u32; 3]| position.push(cell.map(|c| (f64::from(c) + 0.5) / f64::from(1 << 21)));
        (0..20).for_each(|level: u32| push([1 << (20 - level); 3]));
        (0..17).for_each(|k: u32| push([k & 1, k >> 1 & 1, k >> 2 & 1]));
        // Bodies at the corners fix the cube, and with it the positions of the cells.
        position.push([0.0; 3]);
        position.push([1.0; 3]);
        let n = position.len();
        Self { position, mass: vec![1.0 / n as f64; n], eps: 0.01 }
    }

    pub(super) fn problem(&self) -> ForceProblem<'_> {
        let Self { position, mass, eps } = self;
        ForceProblem { position, mass, g: 1.5, eps: *eps, with_potential: false }
    }

    /// Returns the accelerations by direct summation in f64.
    pub(super) fn reference_accelerations(&self) -> Vec3s {
        reference::forces_on(&self.problem(), &self.all_bodies()).0
    }

    /// Returns the indices of all bodies.
    pub(super) fn all_bodies(&self) -> Vec<usize> {
        (0..self.mass.len()).collect()
    }

    /// Returns the accelerations that a solver computes, which may have been used before.
    pub(super) fn evaluate(
        &self,
        device: &Device,
        solver: &mut dyn TimedSolver,
        acceptance: Acceptance,
    ) -> Result<Vec3s, DeviceError> {
        let (position, mass) = (upload_vectors(device, &self.position)?, device.upload(&self.mass)?);
        let found = zero_vectors(device, self.mass.len())?;
        let ForceProblem { g, eps, .. } = self.problem();
        solver.queue_forces(&ForceRequest {
            position: columns_of(&position),
            mass: &mass,
            g,
            eps,
            acceptance,
            previous: None,
            acceleration: columns_of(&found),
            potential: None,
        })?;
        read_vectors(&found)
    }
}

/// Checks that bodies without a force have exactly zero acceleration: they have no relative error.
pub(super) fn check_zeros(found: &Vec3s, expected: &Vec3s) -> Result<(), String> {
    for (i, expected) in expected.iter().enumerate() {
        if expected == [0.0; 3] && found.get(i) != [0.0; 3] {
            return Err(format!("acceleration of body {i} is {:?}, expected 0", found.get(i)));
        }
    }
    Ok(())
}

/// Returns copies of `vectors` with one NaN each, in the first, a middle and the last body and in
/// every column. Checks must refuse all of them.
#[cfg(test)]
pub(super) fn with_one_nan(vectors: &Vec3s) -> Vec<Vec3s> {
    let mut copies = Vec::new();
    for i in [0, vectors.len() / 2, vectors.len() - 1] {
        for c in 0..3 {
            // The sign matters to `total_cmp`. 0 / 0 on x86-64 is a NaN with a negative sign.
            for nan in [f64::NAN, -f64::NAN] {
                let (mut copy, mut vector) = (vectors.clone(), vectors.get(i));
                vector[c] = nan;
                copy.set(i, vector);
                copies.push(copy);
            }
        }
    }
    copies
}
