//! Commands of rank 0 to its followers, and columns of bodies as messages.

use orrery_cluster::{ClusterError, Transport};
use orrery_device::Device;
use orrery_model::{Particles, Species, Vec3s};
use serde::{Deserialize, Serialize};

use super::{BodyField, CheckStamp, DeviceSetup, Term};
use crate::settings::GravitySettings;
use crate::solver::device::DeviceStrategy;

/// Message to the followers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum BodiesCommand {
    /// Repeat an operation on bodies with this number.
    Repeat {
        /// Number of the bodies.
        bodies: u64,
        /// The operation.
        operation: BodiesOperation,
    },
    /// There are no more commands.
    End,
}

/// Operation on bodies that every rank executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum BodiesOperation {
    /// Create bodies on the host. Their columns follow.
    Restore {
        settings: GravitySettings,
        /// Name of the instruction set of rank 0.
        instruction_set: String,
        /// Whether accelerations and jerks are sent.
        has: SentVectors,
    },
    /// Compute the first forces, on a device if there is one.
    Start {
        device: Option<DeviceCommand>,
    },
    /// Move the bodies to the device.
    MoveTo {
        device: DeviceCommand,
    },
    /// Copy the bodies.
    CopyTo {
        /// Number of the copy.
        copy: u64,
    },
    Drop,
    Kick {
        dt: Bits,
    },
    Drift {
        dt: Bits,
    },
    KickAndDrift {
        kick_dt: Bits,
        drift_dt: Bits,
    },
    UpdateForces,
    RequestPotential {
        evaluation: u32,
    },
    UpdateForcesAndJerks,
    MarkStart,
    SetFromStart {
        field: BodyField,
        terms: Vec<(Bits, Term)>,
    },
    /// Replace positions and velocities, which follow.
    SetPhaseSpace,
    PotentialEnergy,
    ShortestPairTime,
    CheckStep {
        step: u64,
        time: Bits,
    },
}

impl BodiesOperation {
    /// Returns whether the operation computes forces.
    pub fn evaluates(&self) -> bool {
        matches!(
            self,
            Self::Start { .. } | Self::UpdateForces | Self::UpdateForcesAndJerks | Self::PotentialEnergy
        )
    }
}

/// A number as its bits. JSON has no NaN and no infinity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bits(u64);

impl From<f64> for Bits {
    fn from(number: f64) -> Self {
        Self(number.to_bits())
    }
}

impl From<Bits> for f64 {
    fn from(Bits(bits): Bits) -> Self {
        Self::from_bits(bits)
    }
}

impl From<CheckStamp> for BodiesOperation {
    fn from(CheckStamp { step, time }: CheckStamp) -> Self {
        Self::CheckStep { step, time: time.into() }
    }
}

/// Vectors besides positions and velocities that a message contains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SentVectors {
    pub acceleration: bool,
    pub jerk: bool,
}

/// Device of rank 0 and the strategy on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DeviceCommand {
    pub strategy: DeviceStrategy,
    /// See [`hardware_text`].
    pub hardware: String,
}

impl DeviceCommand {
    pub fn new(setup: &DeviceSetup) -> Self {
        Self { strategy: setup.strategy, hardware: hardware_text(&setup.device) }
    }
}

/// Describes everything of a device on which the bits of results depend. The number of SMs and the
/// memory determine how sums are divided.
pub(super) fn hardware_text(device: &Device) -> String {
    let properties = device.properties();
    format!("{} ({} SMs, {} bytes)", properties.name, properties.sm_count, properties.memory)
}

/// Bodies as rank 0 sends them. On rank 0 the columns are those to send, on followers they are
/// ignored.
pub(super) fn broadcast_state(
    transport: &Transport,
    has: SentVectors,
    particles: &Particles,
    acceleration: &Vec3s,
    jerk: Option<&Vec3s>,
) -> Result<(Particles, Vec3s, Option<Vec3s>), ClusterError> {
    let Particles { position, velocity, mass, id, species } = particles;
    let species: Vec<u8> = species.iter().map(|&species| species as u8).collect();
    let particles = Particles {
        position: broadcast_vectors(transport, position)?,
        velocity: broadcast_vectors(transport, velocity)?,
        mass: transport.broadcast(0, mass.clone())?,
        id: transport.broadcast(0, id.clone())?,
        species: transport
            .broadcast(0, species)?
            .into_iter()
            .map(|species| Species::ALL[usize::from(species)])
            .collect(),
    };
    let acceleration = if has.acceleration {
        broadcast_vectors(transport, acceleration)?
    } else {
        Vec3s::zeros(particles.len())
    };
    let none = Vec3s::default();
    let jerk = has.jerk.then(|| broadcast_vectors(transport, jerk.unwrap_or(&none))).transpose()?;
    Ok((particles, acceleration, jerk))
}

/// Returns the vectors of rank 0 on all ranks.
pub(super) fn broadcast_vectors(
    transport: &Transport,
    Vec3s { x, y, z }: &Vec3s,
) -> Result<Vec3s, ClusterError> {
    let broadcast = |column: &Vec<f64>| transport.broadcast(0, column.clone());
    Ok(Vec3s { x: broadcast(x)?, y: broadcast(y)?, z: broadcast(z)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_commands_keep_their_bits() {
        for number in [0.1 + 0.2, -0.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN] {
            let operation = BodiesOperation::SetFromStart {
                field: BodyField::Velocity,
                terms: vec![
                    (number.into(), Term::Start(BodyField::Jerk)),
                    (2.0.into(), Term::Now(BodyField::Position)),
                ],
            };
            let command = BodiesCommand::Repeat { bodies: 7, operation };
            let text = serde_json::to_vec(&command).unwrap();
            let read: BodiesCommand = serde_json::from_slice(&text).unwrap();
            assert_eq!(read, command);
            let BodiesCommand::Repeat { operation: BodiesOperation::SetFromStart { terms, .. }, .. } = read
            else {
                panic!("another command");
            };
            assert_eq!(f64::from(terms[0].0).to_bits(), number.to_bits());
        }
    }
}
