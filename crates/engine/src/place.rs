//! Where a run computes: on the device that was asked for, if it has room for the bodies.

use orrery_device::{Choice, Device};
use orrery_io::show_bytes;
use orrery_particles::bodies::{Place, needed_bytes};
use orrery_particles::settings::{GravitySettings, IntegratorChoice, Precision};
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::device::Strategy;
use orrery_particles::solver::direct;

use crate::error::EngineError;

/// Knows how a device sums all pairs of so many bodies quickest, where someone has measured it.
pub type Tuned = fn(&Device, usize, Precision) -> Option<direct::device::Strategy>;

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

/// What `choice` means on this machine.
pub fn find(choice: Choice) -> Result<Spot, EngineError> {
    Ok(Spot { device: Device::open(choice)?, reason: None })
}

/// The same spot if it has room for `n` bodies; `auto` goes back to the processor where it has not.
pub fn with_room(
    spot: Spot,
    choice: Choice,
    n: usize,
    gravity: &GravitySettings,
    integrator: IntegratorChoice,
) -> Result<Spot, EngineError> {
    let Some(device) = &spot.device else { return Ok(spot) };
    let (needed, free) = (needed_bytes(device, n as u64, gravity, integrator), device.memory()?.free);
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
pub fn is_tuned(place: &Place, n: usize, gravity: &GravitySettings) -> bool {
    place.strategy != Strategy::resolve(&place.device, n, gravity)
}

impl Wish {
    /// The place for `n` bodies on a spot; `None` is the processor. A strategy that was `recorded` is used again, so that
    /// the bits are the same.
    pub fn place(
        &self,
        spot: &Spot,
        n: usize,
        gravity: &GravitySettings,
        recorded: Option<Strategy>,
    ) -> Option<Place> {
        let device = spot.device.as_ref()?;
        let place = Place::new(device, n, gravity);
        let tuned = || match place.strategy {
            Strategy::Direct(_) => self.tuned.and_then(|tuned| tuned(device, n, gravity.precision)),
            Strategy::Tree(_) => None,
        };
        Some(match recorded.or_else(|| tuned().map(Strategy::Direct)) {
            Some(strategy) => Place { strategy, ..place },
            None => place,
        })
    }
}
