//! The walk over a tree's cells, a group of neighbours a warp; see `walk.cu`.

use orrery_device::{Arg, Buffer, Device, DeviceError, DeviceKind, Kernel, Math};

use super::{ForceRequest, Order, TreeDeviceStrategy};
use crate::builder::{Builder, has_warp_shuffle};
use crate::settings::{Acceptance, MAX_THETA, Precision};
use crate::solver::direct::device::resident_groups;
use crate::tree::device::{BodyColumns, DeviceOctree, LAYOUT, Plan};

const TEXT: &str = include_str!("walk.cu");
/// Threads of a group: one warp.
pub(super) const BLOCK_SIZE: u32 = 32;
/// What `walk.cu` writes of each warp.
const STATISTICS: usize = 3;
/// Beyond this angle a cell could be accepted by bodies that it holds: they are nearer to its centre of mass than 0.87
/// of its side and the centre's offset together.
const WIDEST: f64 = 1.0 / 0.88;

/// One way to walk.
struct Walker {
    kernel: Kernel,
    /// Warps at once.
    groups: u32,
}

/// Tree and walk together.
pub(super) struct Walk {
    plan: Plan,
    tree: DeviceOctree,
    /// With and without potentials, geometric and relative; built when first needed.
    walkers: [Option<Walker>; 4],
    statistics: Buffer<u64>,
    /// What the last evaluation was walked by.
    last: Option<usize>,
}

pub(super) fn plan(n: usize, strategy: &TreeDeviceStrategy) -> Plan {
    let TreeDeviceStrategy { precision, order, leaf_size, group_size, .. } = *strategy;
    // As on the processor: a group may hold all bodies, and one far away would cost the others their digits.
    let few = precision == Precision::Mixed && n < crate::solver::direct::MIXED_FROM;
    Plan { precision: if few { Precision::Double } else { precision }, order, leaf_size, group_size }
}

/// The angle by which cells are opened, and alpha of the relative acceptance where that applies.
fn angles(evaluation: &ForceRequest) -> (f64, Option<f64>) {
    let (theta, alpha) = match evaluation.acceptance {
        Acceptance::Relative { alpha, .. } if evaluation.previous.is_some() => (MAX_THETA, Some(alpha)),
        Acceptance::Relative { theta, .. } | Acceptance::Geometric { theta } => (theta, None),
    };
    (theta.min(WIDEST), alpha)
}

impl Walk {
    pub fn new(builder: &mut Builder, n: usize, strategy: &TreeDeviceStrategy) -> Result<Self, DeviceError> {
        let plan = plan(n, strategy);
        let tree = DeviceOctree::new(builder, n, plan)?;
        let statistics = builder.device.zeros(0)?;
        Ok(Self { plan, tree, walkers: [const { None }; 4], statistics, last: None })
    }

    fn walker(&mut self, builder: &mut Builder, which: usize) -> Result<&Walker, DeviceError> {
        if self.walkers[which].is_none() {
            let made = self.build_walker(builder, which)?;
            let len = STATISTICS * made.groups as usize;
            if self.statistics.len() < len {
                self.statistics = builder.device.zeros(len)?;
            }
            self.walkers[which] = Some(made);
        }
        Ok(self.walkers[which].as_ref().expect("just built"))
    }

    fn build_walker(&self, builder: &mut Builder, which: usize) -> Result<Walker, DeviceError> {
        let mut definitions = self.plan.layout();
        // Warps on a multiprocessor that the compiler makes room for: what was quickest on an H200.
        let walkers = match (self.plan.precision, self.plan.order) {
            (Precision::Double, _) => 16,
            (_, Order::Octupole) => 20,
            _ => 32,
        };
        let flag = |yes: bool| u32::from(yes).to_string();
        // PoCL takes long to compile what is written out.
        let is_gpu = builder.device.properties().kind == DeviceKind::Gpu;
        let (unroll_bodies, unroll_cells) = if is_gpu { (8, 4) } else { (1, 1) };
        definitions.extend([
            ("WALKERS", walkers.to_string()),
            ("UNROLL_BODIES", unroll_bodies.to_string()),
            ("UNROLL_CELLS", unroll_cells.to_string()),
            ("HAS_LANES", flag(has_warp_shuffle(&builder.device))),
            ("POTENTIAL", flag(which & 1 != 0)),
            ("RELATIVE", flag(which & 2 != 0)),
        ]);
        let math = if self.plan.precision == Precision::Double { Math::Precise } else { Math::FlushToZero };
        let kernel =
            builder.build("walk.cu", &[LAYOUT, TEXT].concat(), &definitions, math)?.kernel("walk")?;
        let groups = resident_groups(&builder.device, &kernel, BLOCK_SIZE) as u32;
        Ok(Walker { kernel, groups })
    }

    /// Queues the tree, without its moments.
    pub fn build(&mut self, evaluation: &ForceRequest, total_mass: f64) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, .. } = *evaluation;
        self.tree.build(&BodyColumns { position, mass, g, eps, total_mass })
    }

    pub fn find_moments(&mut self, evaluation: &ForceRequest) -> Result<(), DeviceError> {
        let (theta, alpha) = angles(evaluation);
        self.tree.find_moments(theta, alpha.is_some())
    }

    pub fn walk(&mut self, builder: &mut Builder, evaluation: &ForceRequest) -> Result<(), DeviceError> {
        let (_, alpha) = angles(evaluation);
        let which = usize::from(evaluation.potential.is_some()) + 2 * usize::from(alpha.is_some());
        let Walker { kernel, groups } = self.walker(builder, which)?;
        let (kernel, groups) = (kernel.clone(), *groups);
        self.last = Some(which);
        let tree = &self.tree;
        let mut args: Vec<Arg> = vec![
            (&tree.counts).into(),
            (&tree.groups).into(),
            (&tree.sizes).into(),
            (&tree.begin).into(),
            (&tree.end).into(),
            (&tree.child).into(),
            (&tree.reach).into(),
            (&tree.records).into(),
            (&tree.relative).into(),
            (&tree.high).into(),
            (&tree.low).into(),
            (&tree.frame).into(),
            (&tree.order).into(),
            alpha.unwrap_or_default().into(),
        ];
        // What is not asked for is not looked at.
        args.extend(evaluation.previous.unwrap_or(evaluation.acceleration).args());
        args.extend(evaluation.acceleration.args());
        args.push(evaluation.potential.unwrap_or(evaluation.acceleration.x).into());
        args.push((&self.statistics).into());
        device_of(evaluation).queue().launch(&kernel, groups, BLOCK_SIZE, &args)
    }

    /// Body terms, cell terms and the most of a body, then cells and groups of the last evaluation; waits for it.
    pub fn counted(&self) -> Result<([u64; 3], (u64, u64)), DeviceError> {
        let mut terms = [0; 3];
        if let Some(walker) = self.last.and_then(|which| self.walkers[which].as_ref()) {
            let said = self.statistics.to_vec()?;
            for warp in said[..STATISTICS * walker.groups as usize].chunks_exact(STATISTICS) {
                terms = [terms[0] + warp[0], terms[1] + warp[1], terms[2].max(warp[2])];
            }
        }
        Ok((terms, self.tree.cells_and_groups()?))
    }

    pub fn main_kernel(&self) -> Option<&Kernel> {
        Some(&self.walkers[self.last?].as_ref()?.kernel)
    }
}

fn device_of<'a>(evaluation: &ForceRequest<'a>) -> &'a Device {
    evaluation.mass.device()
}
