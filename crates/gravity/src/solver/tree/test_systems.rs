//! Test systems for the checks of trees, including degenerate ones, and their forces on a device.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_model::rng::Draws;
use orrery_model::{Precision, Vec3s};

use super::device::{DeviceTree, ForceRequest, Order, TreeDeviceStrategy};
use crate::accuracy::ErrorBounds;
use crate::settings::Acceptance;
use crate::solver::direct::device::Columns;
use crate::solver::{ForceProblem, Forces, reference};

/// Bodies at rest, with G = 1.5.
pub(crate) struct TestSystem {
    pub position: Vec3s,
    pub mass: Vec<f64>,
    pub eps: f64,
}

/// Returns the bound of the error of accepted cells, as a fraction of the sum Σ |a_ij| of all pair
/// forces on a body (see `ErrorBounds`).
///
/// The first neglected moment of a cell of side l at distance r gives a relative error of order
/// (l / r)² without a quadrupole and (l / r)³ with one, and l / r is below theta. The moments of
/// cells are smaller than their largest possible values, and errors of cells average out. The
/// largest errors of all self-tests were 0.12 theta² and 0.014 theta³ (PoCL 5.0, few bodies and
/// bodies on a line), and 0.005 theta³ in the tests of the CPU. The constants are about 3 times as
/// large.
pub(crate) fn truncation_error(order: Order, theta: f64) -> f64 {
    match order {
        Order::Monopole => 0.4 * theta.powi(2),
        // Octupoles only reduce the error.
        Order::Quadrupole | Order::Octupole => 0.05 * theta.powi(3),
    }
}

/// Returns the columns of three buffers.
pub(crate) fn columns(vectors: &[Buffer<f64>; 3]) -> Columns<'_> {
    let [x, y, z] = vectors;
    Columns { x, y, z }
}

impl TestSystem {
    fn random(n: usize, draw_position: impl Fn(&mut Draws) -> [f64; 3]) -> Self {
        let mut position = Vec3s::default();
        (0..n as u64).for_each(|i| position.push(draw_position(&mut Draws::new(n as u64, 3, i))));
        Self { position, mass: vec![1.0 / n.max(1) as f64; n], eps: 0.01 }
    }

    /// Returns a cluster that is dense at its centre, with equal masses.
    pub fn cluster(n: usize) -> Self {
        Self::random(n, |draws| {
            let radius = draws.uniform().powi(2) + 1e-3;
            draws.direction().map(|c| c * radius)
        })
    }

    /// Returns bodies with uniform density in a cube away from the origin.
    pub fn cube(n: usize) -> Self {
        Self::random(n, |draws| [0; 3].map(|_| draws.uniform_in(2.0, 3.0)))
    }

    /// Returns the same bodies with body `i` moved from `x` to `new_position(i, x)`.
    pub fn moved(mut self, new_position: impl Fn(usize, [f64; 3]) -> [f64; 3]) -> Self {
        for i in 0..self.mass.len() {
            self.position.set(i, new_position(i, self.position.get(i)));
        }
        self
    }

    /// Returns the same bodies with masses over four decades. Every seventh body is massless.
    pub fn with_unequal_masses(mut self) -> Self {
        for (i, mass) in self.mass.iter_mut().enumerate() {
            let draw = Draws::new(7, 2, i as u64).uniform();
            *mass = if i % 7 == 3 { 0.0 } else { *mass * 10f64.powf(4.0 * draw - 2.0) };
        }
        self
    }

    /// Returns the systems with the most cells: `count` chains that split off one body per level
    /// and end in eight octants. Each chain is in another cell of one level, so `count` must be a
    /// power of eight.
    pub fn chains(count: u32) -> Self {
        let (depth, mut position) = (count.ilog2() / 3, Vec3s::default());
        let mut push =
            |cell: [u32; 3]| position.push(cell.map(|c| (f64::from(c) + 0.5) / f64::from(1 << 21)));
        for chain in 0..count {
            let bit = |level: u32, axis: u32| (chain >> (3 * level + axis) & 1) << (20 - level);
            let base = [0, 1, 2].map(|axis| (0..depth).map(|level| bit(level, axis)).sum::<u32>());
            (depth..20).for_each(|level| push(base.map(|c| c | 1 << (20 - level))));
            (0..17).for_each(|k: u32| push([base[0] | k & 1, base[1] | k >> 1 & 1, base[2] | k >> 2 & 1]));
        }
        // Bodies at the corners fix the cube, and with it the positions of the cells.
        position.push([0.0; 3]);
        position.push([1.0; 3]);
        let n = position.len();
        Self { position, mass: vec![1.0 / n as f64; n], eps: 0.01 }
    }

    /// Returns systems that are difficult for trees.
    pub fn degenerate(n: usize) -> Vec<(&'static str, Self)> {
        vec![
            ("in a plane", Self::cluster(n).moved(|_, [x, y, _]| [x, y, 0.5])),
            ("on a line", Self::cluster(n).moved(|_, [x, _, _]| [x, 2.0 * x, -x])),
            ("at one point", Self::cluster(n).moved(|_, _| [1.0, 2.0, 3.0])),
            ("at two points", Self::cluster(n).moved(|i, _| [if i % 2 == 0 { 0.0 } else { 1.0 }, 0.0, 0.0])),
            ("one far away", Self::cluster(n).moved(|i, x| if i == n / 2 { [1e6, -1e6, 3e5] } else { x })),
            (
                "keys that coincide",
                Self::cube(n).moved(|i, x| if i % 3 == 0 { x.map(|c| 2.5 + 1e-9 * c) } else { x }),
            ),
        ]
    }

    pub fn problem(&self) -> ForceProblem<'_> {
        let Self { position, mass, eps } = self;
        ForceProblem { position, mass, g: 1.5, eps: *eps, with_potential: true }
    }

    /// Returns the forces by direct summation.
    pub fn reference_forces(&self) -> Forces {
        let (acceleration, potential) =
            reference::forces_on(&self.problem(), &(0..self.mass.len()).collect::<Vec<_>>());
        Forces { acceleration, potential: Some(potential) }
    }

    /// Returns bounds of the errors of a walk with this opening angle. With `theta` 0 every cell is
    /// opened and only rounding remains.
    pub fn error_bounds(&self, order: Order, precision: Precision, theta: f64) -> ErrorBounds {
        ErrorBounds::new(&self.problem(), precision, truncation_error(order, theta))
    }

    /// Returns the forces computed on a device, with potentials if requested, and the tree that
    /// computed them.
    pub fn forces_on(
        &self,
        device: &Device,
        strategy: &TreeDeviceStrategy,
        acceptance: Acceptance,
        with_potential: bool,
        previous: Option<&Vec3s>,
    ) -> Result<(Forces, DeviceTree), DeviceError> {
        let n = self.mass.len();
        let upload = |Vec3s { x, y, z }: &Vec3s| {
            Ok::<_, DeviceError>([device.upload(x)?, device.upload(y)?, device.upload(z)?])
        };
        let (position, previous) = (upload(&self.position)?, previous.map(upload).transpose()?);
        let found = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
        let (mass, potential) = (device.upload(&self.mass)?, device.zeros(n)?);
        let mut tree = DeviceTree::new(device, n, strategy)?;
        let ForceProblem { g, eps, .. } = self.problem();
        tree.forces(&ForceRequest {
            position: columns(&position),
            mass: &mass,
            g,
            eps,
            acceptance,
            previous: previous.as_ref().map(columns),
            acceleration: columns(&found),
            potential: with_potential.then_some(&potential),
        })?;
        let acceleration = Vec3s { x: found[0].to_vec()?, y: found[1].to_vec()?, z: found[2].to_vec()? };
        let potential = if with_potential { Some(potential.to_vec()?) } else { None };
        Ok((Forces { acceleration, potential }, tree))
    }
}
