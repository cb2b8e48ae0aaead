//! Bodies on a device and the buffers for their accelerations. Ladders, benchmarks and the tuner
//! time force evaluations with them.

use orrery_device::{Buffer, Device, DeviceError, Kernel};
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::ForceProblem;
use orrery_gravity::solver::device::{DeviceSolver, DeviceStrategy, ForceRequest};
use orrery_gravity::solver::direct::device::Columns;
use orrery_model::Vec3s;

use crate::sample::Shape;
use crate::timing::{self, Times};

const G: f64 = 1.0;

/// Three buffers with one vector per body.
pub type VectorBuffers = [Buffer<f64>; 3];

/// Uploads one vector per body.
pub fn upload_vectors(device: &Device, Vec3s { x, y, z }: &Vec3s) -> Result<VectorBuffers, DeviceError> {
    Ok([device.upload(x)?, device.upload(y)?, device.upload(z)?])
}

/// Allocates `n` vectors of zeros.
pub fn zero_vectors(device: &Device, n: usize) -> Result<VectorBuffers, DeviceError> {
    Ok([device.zeros(n)?, device.zeros(n)?, device.zeros(n)?])
}

/// Returns the buffers as columns.
pub fn columns_of([x, y, z]: &VectorBuffers) -> Columns<'_> {
    Columns { x, y, z }
}

/// Waits for the default queue and returns the vectors.
pub fn read_vectors([x, y, z]: &VectorBuffers) -> Result<Vec3s, DeviceError> {
    Ok(Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? })
}

/// Force solver on a device whose evaluations are timed.
pub trait TimedSolver {
    /// Queues one force evaluation.
    fn queue_forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError>;
    /// Waits for the last evaluation, of `n` bodies, and returns its numbers of body-body and
    /// cell-body terms.
    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError>;
    /// Returns the kernel that takes most of the time and its block size, once it is built.
    fn main_kernel(&self) -> Option<(&Kernel, u32)>;
}

impl TimedSolver for DeviceSolver {
    fn queue_forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        self.forces(request)
    }

    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError> {
        match self {
            Self::Direct(_) => Ok(all_pairs(n)),
            Self::Tree(tree) => tree.report().map(|report| [report.body_terms, report.cell_terms]),
        }
    }

    fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Self::main_kernel(self)
    }
}

/// Returns the numbers of body-body and cell-body terms of a direct sum.
pub fn all_pairs(n: usize) -> [u64; 2] {
    [(n as u64).pow(2), 0]
}

/// Bodies on the host, with the settings of a force evaluation.
pub struct Workload {
    position: Vec3s,
    mass: Vec<f64>,
    eps: f64,
    acceptance: Acceptance,
}

impl Workload {
    /// Creates a Plummer sphere of `n` bodies for the direct solver.
    pub fn for_direct(n: usize) -> Self {
        let (position, mass) = Shape::Plummer.bodies(n);
        Self { position, mass, eps: 0.01, acceptance: Acceptance::default() }
    }

    /// Creates `n` bodies for the tree, with a small softening length.
    pub fn for_tree(shape: Shape, n: usize, theta: f64) -> Self {
        let (position, mass) = shape.bodies(n);
        Self { position, mass, eps: 0.001, acceptance: Acceptance::Geometric { theta } }
    }

    /// Returns the problem that a force evaluation solves.
    pub fn problem(&self) -> ForceProblem<'_> {
        let Self { position, mass, eps, .. } = self;
        ForceProblem { position, mass, g: G, eps: *eps, with_potential: false }
    }
}

/// Bodies on the host and on a device.
pub struct DeviceWorkload {
    device: Device,
    host: Workload,
    position_buffers: VectorBuffers,
    mass_buffer: Buffer<f64>,
    acceleration: VectorBuffers,
}

impl DeviceWorkload {
    /// Uploads a Plummer sphere of `n` bodies for the direct solver.
    pub fn for_direct(device: &Device, n: usize) -> Result<Self, DeviceError> {
        Self::upload(device, Workload::for_direct(n))
    }

    /// Uploads `n` bodies for the tree, with a small softening length.
    pub fn for_tree(device: &Device, shape: Shape, n: usize, theta: f64) -> Result<Self, DeviceError> {
        Self::upload(device, Workload::for_tree(shape, n, theta))
    }

    /// Uploads the bodies of `host`.
    pub fn upload(device: &Device, host: Workload) -> Result<Self, DeviceError> {
        let position_buffers = upload_vectors(device, &host.position)?;
        let mass_buffer = device.upload(&host.mass)?;
        let acceleration = zero_vectors(device, host.mass.len())?;
        Ok(Self { device: device.clone(), host, position_buffers, mass_buffer, acceleration })
    }

    /// Returns the number of bodies.
    pub fn body_count(&self) -> usize {
        self.host.mass.len()
    }

    /// Returns the problem that a force evaluation solves.
    pub fn problem(&self) -> ForceProblem<'_> {
        self.host.problem()
    }

    /// Creates a solver for these bodies.
    pub fn new_solver(&self, strategy: impl Into<DeviceStrategy>) -> Result<DeviceSolver, DeviceError> {
        DeviceSolver::new(&self.device, self.body_count(), &strategy.into())
    }

    /// Returns the request for one force evaluation.
    pub fn force_request(&self) -> ForceRequest<'_> {
        ForceRequest {
            position: columns_of(&self.position_buffers),
            mass: &self.mass_buffer,
            g: G,
            eps: self.host.eps,
            acceptance: self.host.acceptance,
            previous: None,
            acceleration: columns_of(&self.acceleration),
            potential: None,
        }
    }

    /// Queues one force evaluation.
    pub fn queue_forces(&self, solver: &mut dyn TimedSolver) -> Result<(), DeviceError> {
        solver.queue_forces(&self.force_request())
    }

    /// Measures one force evaluation, after one untimed evaluation.
    pub fn time_once(&self, solver: &mut dyn TimedSolver) -> Result<f64, DeviceError> {
        timing::time_once(&self.device, || self.queue_forces(solver))
    }

    /// Measures `repeats` force evaluations, each of about `expected_seconds`.
    pub fn time_repeats(
        &self,
        solver: &mut dyn TimedSolver,
        repeats: usize,
        expected_seconds: f64,
    ) -> Result<Times, DeviceError> {
        timing::time_on_device(&self.device, repeats, expected_seconds, || self.queue_forces(solver))
    }

    /// Returns the median time of `repeats` force evaluations with a strategy, after an untimed
    /// one.
    pub fn time_strategy(
        &self,
        strategy: impl Into<DeviceStrategy>,
        repeats: usize,
    ) -> Result<f64, DeviceError> {
        let mut solver = self.new_solver(strategy)?;
        let seconds = self.time_once(&mut solver)?;
        if repeats <= 1 {
            return Ok(seconds);
        }
        Ok(self.time_repeats(&mut solver, repeats, seconds)?.median())
    }

    /// Downloads the accelerations of the latest evaluation.
    pub fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        read_vectors(&self.acceleration)
    }
}
