//! Where a run computes: on the device that was asked for, if its forces and its bodies can go there.

use std::path::Path;

use orrery_device::{Choice, Device};
use orrery_io::show_bytes;
use orrery_particles::bodies::{Bodies, Place, needed_bytes};
use orrery_particles::settings::{IntegratorChoice, Precision, SolverChoice};
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::direct::device::Strategy;

use crate::case::Case;
use crate::error::EngineError;

/// Knows the quickest strategy of a device for so many bodies, where someone has measured it.
pub type Tuned = fn(&Device, usize, Precision) -> Option<Strategy>;

/// What a run is told of where to compute; the processor, unless anything is said.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The device.
    pub choice: Choice,
    /// What was measured on devices.
    pub tuned: Option<Tuned>,
}

impl Default for Wish {
    fn default() -> Self {
        Self { choice: Choice::Cpu, tuned: None }
    }
}

/// Where forces are computed.
#[derive(Clone, Debug)]
pub struct Spot {
    /// `None` is the processor.
    pub device: Option<Device>,
    /// Why it is not the device that `auto` takes otherwise.
    pub reason: Option<String>,
}

impl Spot {
    fn processor(reason: String) -> Self {
        Self { device: None, reason: Some(reason) }
    }
}

/// In words: "cuda:0, NVIDIA H200" or "cpu (avx512), 8 threads".
impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{}, {}", device.label(), device.properties().name)?,
            None => {
                let (set, threads) = (InstructionSet::best().name(), rayon::current_num_threads());
                write!(f, "cpu ({set}), {threads} threads")?;
            }
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, "; {reason}"))
    }
}

/// The device that `choice` means for a solver: all pairs are summed on a device, trees on the processor only.
pub fn find(choice: Choice, solver: SolverChoice) -> Result<Spot, EngineError> {
    let device = Device::open(choice)?;
    match device {
        Some(device) if solver == SolverChoice::Tree => {
            let device = device.label();
            if choice == Choice::Auto {
                return Ok(Spot::processor(format!("the tree does not run on {device} yet")));
            }
            Err(EngineError::NoTree { device })
        }
        device => Ok(Spot { device, reason: None }),
    }
}

/// Where the run in `folder`, which has left off with `bodies`, can go on.
pub(crate) fn find_again(
    choice: Choice,
    bodies: &Bodies,
    case: &Case,
    folder: &Path,
) -> Result<Spot, EngineError> {
    let solver = if bodies.solver_name() == "tree" { SolverChoice::Tree } else { SolverChoice::Direct };
    let spot = find(choice, solver).map_err(|error| match error {
        EngineError::NoTree { device } => EngineError::NoTreeToResume { path: folder.to_owned(), device },
        other => other,
    })?;
    with_room(spot, choice, bodies.len(), case.gravity.precision, case.time.integrator)
}

/// From so many bodies on the tree on a processor of some cores is quicker than all pairs on the best of GPUs.
const TREE_FROM: usize = 2_000_000;

/// The same spot, unless all was left open and the tree on the processor is quicker.
pub fn if_quicker(spot: Spot, choice: Choice, solver: SolverChoice, n: usize) -> Spot {
    match &spot.device {
        Some(device) if choice == Choice::Auto && solver == SolverChoice::Auto && n >= TREE_FROM => {
            let label = device.label();
            Spot::processor(format!("its tree is quicker than all pairs of {n} bodies on {label}"))
        }
        _ => spot,
    }
}

/// The same spot if it has room for `n` bodies; `auto` goes back to the processor where it has not.
pub fn with_room(
    spot: Spot,
    choice: Choice,
    n: usize,
    precision: Precision,
    integrator: IntegratorChoice,
) -> Result<Spot, EngineError> {
    let Some(device) = &spot.device else { return Ok(spot) };
    let (needed, free) = (needed_bytes(device, n as u64, precision, integrator), device.memory()?.free);
    if needed <= free {
        return Ok(spot);
    }
    let (needed, free) = (show_bytes(needed), show_bytes(free));
    let label = device.label();
    if choice == Choice::Auto {
        return Ok(Spot::processor(format!("{n} bodies need {needed} on {label}, {free} are free")));
    }
    let device = device.title();
    Err(EngineError::DeviceMemory { device, count: n, needed, free })
}

/// Whether someone has found something better for `n` bodies than the default.
pub fn is_tuned(place: &Place, n: usize, precision: Precision) -> bool {
    place.strategy != Strategy::default_for(&place.device, n, precision)
}

impl Wish {
    /// The place for `n` bodies on a spot; `None` is the processor. A strategy that was `recorded` is used again, so that
    /// the bits are the same.
    pub fn place(
        &self,
        spot: &Spot,
        n: usize,
        precision: Precision,
        recorded: Option<Strategy>,
    ) -> Option<Place> {
        let device = spot.device.as_ref()?;
        let tuned = || self.tuned.and_then(|tuned| tuned(device, n, precision));
        Some(match recorded.or_else(tuned) {
            Some(strategy) => Place { device: device.clone(), strategy },
            None => Place::new(device, n, precision),
        })
    }
}
