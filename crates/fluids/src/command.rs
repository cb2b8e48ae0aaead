//! Commands of rank 0 to its followers.

use serde::{Deserialize, Serialize};

use super::rank::SharedFluid;

/// Message to the followers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FluidCommand {
    /// Take part in an operation on the fluid with this number.
    TakePart {
        /// Number of the fluid.
        fluid: u64,
        /// The operation.
        operation: FluidOperation,
    },
    /// There are no more commands.
    End,
}

/// Operation on a fluid that all ranks execute together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FluidOperation {
    /// Create a fluid from particles of rank 0.
    Create(Box<SharedFluid>),
    /// Copy the fluid.
    CopyTo {
        /// Number of the copy.
        copy: u64,
    },
    Drop,
    Advance {
        dt: f64,
        /// Number of steps before.
        first: u64,
        steps: u64,
    },
    Measure,
    /// Send the particles to rank 0.
    SendParticles,
}

#[cfg(test)]
mod tests {
    use orrery_model::simulation_box::SimulationBox;

    use super::super::FluidStrategy;
    use super::super::ensemble::Ensemble;
    use super::super::potential::{Potential, Truncation};
    use super::super::settings::{FluidSettings, PairPrecision, PairSearch};
    use super::*;

    /// Followers must have the settings of rank 0 to the last bit.
    #[test]
    fn settings_and_boxes_keep_their_bits() {
        let mixture = [(0.1 + 0.2, 1.65e-21), (1.0 / 3.0, 1e100)];
        for truncation in [Truncation::None, Truncation::Shifted, Truncation::Switched { start: 0.7 }] {
            for ensemble in [
                Ensemble::Nve,
                Ensemble::Langevin { kt: 0.1, friction: 1.0 / 7.0, seed: u64::MAX },
                Ensemble::Rescaling { kt: 1e-300, time: 0.3, seed: 1 },
            ] {
                let settings = FluidSettings {
                    potential: Potential::mixed(&mixture, 2.5, truncation).damped(0.07),
                    mass: vec![6.6e-26, 1.0],
                    precision: PairPrecision::Double,
                    search: PairSearch::Lists,
                    skin: 0.3,
                    ensemble,
                    largest_kinetic: 1e30,
                };
                let bounds = SimulationBox::open([-0.1; 3], [0.7; 3], 2);
                let strategy = (ensemble == Ensemble::Nve).then_some(FluidStrategy {
                    lanes: 2,
                    build_lanes: 1,
                    block_size: 128,
                    steps_per_launch: 1,
                    skin: 0.1 + 0.7,
                });
                let shared = SharedFluid { settings, bounds, total: 12, strategy };
                let command =
                    FluidCommand::TakePart { fluid: 3, operation: FluidOperation::Create(Box::new(shared)) };
                let text = serde_json::to_vec(&command).unwrap();
                assert_eq!(serde_json::from_slice::<FluidCommand>(&text).unwrap(), command);
            }
        }
    }
}
