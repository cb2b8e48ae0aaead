//! The problems whose steps are timed.

use orrery_cluster::Team;
use orrery_device::Device;
use orrery_fields::FieldColumn;
use orrery_fields::heat::{self, Conductivity, HeatDeviceSetup, HeatField, HeatProblem};
use orrery_fields::wave::{self, SpaceOrder, Velocity, WaveDeviceSetup, WaveField, WaveProblem};
use orrery_fluids::sample::{MELT_DENSITY, MELT_DT, melt, melt_settings};
use orrery_fluids::{self, Fluid, FluidTeam};
use orrery_gravity::bodies::{self, Bodies, BodiesTeam, DeviceSetup};
use orrery_gravity::integrator::leapfrog_step;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_gravity::solver::tree::device::{DeviceTree, TreeDeviceStrategy};
use orrery_gravity::solver::{CpuMemory, Forces, tree};
use orrery_model::grid::{Boundaries, Boundary, Grid};
use orrery_model::ic::Plummer;
use orrery_model::wave::{SideCondition, Sides, WaveGrid};
use orrery_model::{Particles, Precision};
use orrery_simd::InstructionSet;

use super::MeasuredPhysics;
use super::model::Messages;
use crate::MeasureError;
use crate::bench::fluid::{BYTES_PER_PARTICLE, production_strategy};
use crate::sample::Shape;
use crate::workload::{DeviceWorkload, Workload};

/// Radius of the stencil of order 8.
const WAVE_RADIUS: usize = 4;
/// Fewest planes of a slab: a border on both sides and one plane between them.
const MIN_PLANES: usize = 2 * WAVE_RADIUS + 1;
/// Bytes of memory per body: state, tree and results.
const BYTES_PER_BODY: u64 = 400;
/// Bytes of memory per node of a field in f32: two times, results, and a copy for the start.
const BYTES_PER_NODE: u64 = 16;
/// Step of gravity, short enough for any number of bodies.
const GRAVITY_DT: f64 = 1e-4;
const THETA: f64 = 0.6;

/// A problem of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScalingProblem {
    pub physics: MeasuredPhysics,
    /// Nodes along the other sides of a field. Not used for particles.
    pub side: usize,
    /// Planes, rows, bodies or particles.
    pub amount: usize,
}

/// Steps of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Untimed steps.
    pub warm_up: u64,
    /// Fewest timed steps. Timed steps are a multiple of them.
    pub unit: u64,
}

/// A problem that takes steps.
pub(super) trait ScalingSystem {
    /// Takes `steps` steps and waits for them.
    fn advance(&mut self, steps: u64) -> Result<(), MeasureError>;

    /// Returns the number of steps from one exchange of borders to the next.
    fn steps_per_exchange(&self) -> u64 {
        1
    }
}

impl ScalingProblem {
    pub fn pace(&self) -> Pace {
        match self.physics {
            MeasuredPhysics::Wave => Pace { warm_up: 4, unit: 8 },
            MeasuredPhysics::Heat => Pace { warm_up: 16, unit: 16 },
            // The borders of the parts follow the measured times of the first steps.
            MeasuredPhysics::Gravity => Pace { warm_up: 4, unit: 2 },
            // The lattice melts. Lists are built every 10 to 20 steps.
            MeasuredPhysics::LennardJones => Pace { warm_up: 60, unit: 40 },
        }
    }

    /// Returns the bytes that one of `ranks` ranks needs.
    pub fn bytes_per_rank(&self, ranks: usize) -> u64 {
        let amount = self.amount as u64;
        let part = amount.div_ceil(ranks as u64);
        let side = self.side as u64;
        match self.physics {
            MeasuredPhysics::Wave => part * side * side * BYTES_PER_NODE,
            MeasuredPhysics::Heat => part * side * BYTES_PER_NODE,
            MeasuredPhysics::Gravity => amount * BYTES_PER_BODY,
            // Rank 0 has all particles at the start.
            MeasuredPhysics::LennardJones => amount * BYTES_PER_PARTICLE,
        }
    }

    /// Returns the messages of a step on several ranks.
    pub fn messages(&self, steps_per_exchange: u64, is_on_device: bool) -> Messages {
        let steps = steps_per_exchange as f64;
        match self.physics {
            MeasuredPhysics::Wave => Messages::Borders {
                bytes: (4 * WAVE_RADIUS * self.side * self.side) as f64,
                steps: 1.0,
                min_slices: MIN_PLANES as f64,
            },
            MeasuredPhysics::Heat => {
                Messages::Borders { bytes: 4.0 * steps * self.side as f64, steps, min_slices: 2.0 * steps }
            }
            // The CPU always sends potentials too.
            MeasuredPhysics::Gravity => Messages::AllGather { bytes: if is_on_device { 24.0 } else { 32.0 } },
            MeasuredPhysics::LennardJones => {
                Messages::Ghosts { bytes: 12.0, density: MELT_DENSITY, radius: melt_settings().list_radius() }
            }
        }
    }

    /// Creates the problem on the ranks of a team and calls `body` on its leader. The others follow
    /// until `body` has returned, and return `None`.
    pub fn run<T>(
        &self,
        team: &Team,
        device: Option<&Device>,
        body: impl FnOnce(&mut dyn ScalingSystem) -> Result<T, MeasureError>,
    ) -> Result<Option<T>, MeasureError> {
        match self.physics {
            MeasuredPhysics::Wave => self.run_wave(team, self.amount, device, body),
            MeasuredPhysics::Heat => self.run_heat(team, self.amount, device, body),
            MeasuredPhysics::Gravity => self.run_gravity(team, device, body),
            MeasuredPhysics::LennardJones => self.run_fluid(team, self.amount, device, body),
        }
    }

    /// Creates the part of one of `ranks` ranks, with the strategy of the whole problem and without
    /// the other ranks, and calls `body`. For gravity, the part is an equal number of targets of
    /// all bodies. Otherwise it is a smaller problem.
    pub fn run_part<T>(
        &self,
        (rank, ranks): (usize, usize),
        device: Option<&Device>,
        body: impl FnOnce(&mut dyn ScalingSystem) -> Result<T, MeasureError>,
    ) -> Result<T, MeasureError> {
        let (team, amount) = (Team::alone(), self.amount / ranks);
        let result = match self.physics {
            MeasuredPhysics::Wave => self.run_wave(&team, amount, device, body),
            MeasuredPhysics::Heat => self.run_heat(&team, amount, device, body),
            MeasuredPhysics::Gravity => {
                let (particles, settings, setup) = self.plummer(device);
                let part = (rank, ranks);
                let bodies = Bodies::new_part(particles, &settings, setup.as_ref(), part)?;
                return body(&mut GravitySystem { bodies });
            }
            MeasuredPhysics::LennardJones => self.run_fluid(&team, amount, device, body),
        };
        result.map(|result| result.expect("a rank alone leads"))
    }

    fn wave_problem(&self, planes: usize) -> Result<WaveProblem, MeasureError> {
        let grid = WaveGrid::volume([self.side, self.side, planes], [1.0; 3]);
        let sides = Sides::uniform(SideCondition::Free);
        let (order, precision) = (SpaceOrder::Eighth, Precision::Single);
        let velocity = Velocity::Uniform(1.0);
        Ok(WaveProblem::new(grid, sides, order, velocity, vec![], vec![], precision)?)
    }

    fn run_wave<T>(
        &self,
        team: &Team,
        planes: usize,
        device: Option<&Device>,
        body: impl FnOnce(&mut dyn ScalingSystem) -> Result<T, MeasureError>,
    ) -> Result<Option<T>, MeasureError> {
        let (whole, problem) = (self.wave_problem(self.amount)?, self.wave_problem(planes)?);
        let setup = device.map(|device| WaveDeviceSetup::new(device, &whole));
        if !team.is_leader() {
            wave::follow(team, &problem, setup.as_ref())?;
            return Ok(None);
        }
        let dt = 0.9 * problem.max_stable_step();
        let field = WaveField::new_in_team(team, &problem, dt, setup.as_ref())?;
        body(&mut WaveSystem { field, dt }).map(Some)
    }

    fn heat_problem(&self, rows: usize) -> Result<HeatProblem, MeasureError> {
        let grid = Grid { nx: self.side, ny: rows, hx: 1.0, hy: 1.0 };
        let edges = Boundaries::uniform(Boundary::fixed(0.0));
        let conductivity = Conductivity::Uniform(1.0);
        Ok(HeatProblem::new(grid, edges, conductivity, None, Precision::Single)?)
    }

    fn run_heat<T>(
        &self,
        team: &Team,
        rows: usize,
        device: Option<&Device>,
        body: impl FnOnce(&mut dyn ScalingSystem) -> Result<T, MeasureError>,
    ) -> Result<Option<T>, MeasureError> {
        let (whole, problem) = (self.heat_problem(self.amount)?, self.heat_problem(rows)?);
        let setup = device.map(|device| HeatDeviceSetup::new(device, &whole));
        if !team.is_leader() {
            heat::follow(team, &problem, setup.as_ref())?;
            return Ok(None);
        }
        let column = FieldColumn::Single(vec![1.0; problem.grid().len()]);
        let field = HeatField::restore_in_team(team, &problem, column, setup.as_ref())?;
        let dt = problem.max_stable_step();
        body(&mut HeatSystem { field, dt }).map(Some)
    }

    fn plummer(&self, device: Option<&Device>) -> (Particles, GravitySettings, Option<DeviceSetup>) {
        let settings = gravity_settings();
        let particles = Plummer { n: self.amount, seed: 1, ..Plummer::default() }.generate(1.0);
        let setup = device.map(|device| DeviceSetup::new(device, self.amount, &settings));
        (particles.expect("a valid model"), settings, setup)
    }

    fn run_gravity<T>(
        &self,
        team: &Team,
        device: Option<&Device>,
        body: impl FnOnce(&mut dyn ScalingSystem) -> Result<T, MeasureError>,
    ) -> Result<Option<T>, MeasureError> {
        if !team.is_leader() {
            bodies::follow(team, device)?;
            return Ok(None);
        }
        let (particles, settings, setup) = self.plummer(device);
        let bodies = Bodies::new_on_team(&BodiesTeam::lead(team), particles, &settings, setup.as_ref())?;
        body(&mut GravitySystem { bodies }).map(Some)
    }

    fn run_fluid<T>(
        &self,
        team: &Team,
        count: usize,
        device: Option<&Device>,
        body: impl FnOnce(&mut dyn ScalingSystem) -> Result<T, MeasureError>,
    ) -> Result<Option<T>, MeasureError> {
        if !team.is_leader() {
            orrery_fluids::follow(team, device)?;
            return Ok(None);
        }
        let particles = melt(count);
        let strategy = device.map(|device| production_strategy(device, None, self.amount));
        let device = device.zip(strategy.as_ref());
        let fluid = Fluid::new_on_team(&FluidTeam::lead(team), particles, &melt_settings(), device)?;
        body(&mut FluidSystem { fluid, steps: 0 }).map(Some)
    }

    /// Returns the seconds of the walk of one force evaluation on one rank, which ranks divide.
    pub fn walk_secs(&self, device: Option<&Device>, evaluations: usize) -> Result<f64, MeasureError> {
        let mut fastest = f64::INFINITY;
        let mut evaluate: Box<dyn FnMut() -> Result<f64, MeasureError>> = match device {
            Some(device) => {
                let workload = DeviceWorkload::for_tree(device, Shape::Plummer, self.amount, THETA)?;
                let strategy = TreeDeviceStrategy::default_for(device, Precision::Mixed);
                let mut tree = DeviceTree::new(device, self.amount, &strategy)?;
                Box::new(move || Ok(tree.time_stages(&workload.force_request())?.walk))
            }
            None => {
                let workload = Workload::for_tree(Shape::Plummer, self.amount, THETA);
                let strategy = tree::TreeCpuStrategy {
                    acceptance: Acceptance::Geometric { theta: THETA },
                    ..tree::TreeCpuStrategy::new(Precision::Mixed, InstructionSet::best())
                };
                let (mut memory, mut forces) = (CpuMemory::default(), Forces::default());
                Box::new(move || {
                    let problem = workload.problem();
                    Ok(tree::forces_into(&problem, &strategy, None, &mut memory, &mut forces).walk_secs)
                })
            }
        };
        evaluate()?;
        for _ in 0..evaluations.max(1) {
            fastest = fastest.min(evaluate()?);
        }
        Ok(fastest)
    }
}

fn gravity_settings() -> GravitySettings {
    GravitySettings {
        g: 1.0,
        eps: 1e-3,
        solver: SolverChoice::Tree,
        acceptance: Acceptance::Geometric { theta: THETA },
        precision: Precision::Mixed,
    }
}

struct WaveSystem {
    field: WaveField,
    dt: f64,
}

impl ScalingSystem for WaveSystem {
    fn advance(&mut self, steps: u64) -> Result<(), MeasureError> {
        self.field.advance(self.dt, steps)?;
        Ok(self.field.wait()?)
    }
}

struct HeatSystem {
    field: HeatField,
    dt: f64,
}

impl ScalingSystem for HeatSystem {
    fn advance(&mut self, steps: u64) -> Result<(), MeasureError> {
        self.field.advance(self.dt, steps)?;
        Ok(self.field.wait()?)
    }

    fn steps_per_exchange(&self) -> u64 {
        self.field.steps_per_pass()
    }
}

struct GravitySystem {
    bodies: Bodies,
}

impl ScalingSystem for GravitySystem {
    fn advance(&mut self, steps: u64) -> Result<(), MeasureError> {
        for _ in 0..steps {
            leapfrog_step(&mut self.bodies, GRAVITY_DT)?;
        }
        wait_for_device(self.bodies.device())
    }
}

struct FluidSystem {
    fluid: Fluid,
    steps: u64,
}

impl ScalingSystem for FluidSystem {
    fn advance(&mut self, steps: u64) -> Result<(), MeasureError> {
        self.fluid.advance(MELT_DT, self.steps, steps)?;
        self.steps += steps;
        wait_for_device(self.fluid.device())
    }
}

fn wait_for_device(device: Option<&Device>) -> Result<(), MeasureError> {
    device.map_or(Ok(()), |device| Ok(device.queue().finish()?))
}
