//! Compiles the kernels of Lennard-Jones fluids.

use orrery_cluster::{Team, threads};
use orrery_device::Device;
use orrery_fluids::ensemble::Ensemble;
use orrery_fluids::potential::{Potential, Truncation};
use orrery_fluids::settings::{FluidSettings, PairPrecision, PairSearch};
use orrery_fluids::{DeviceFluid, DeviceFluidError, Fluid, FluidStrategy, FluidTeam, follow};
use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::Lattice;
use orrery_model::simulation_box::SimulationBox;

use super::ListResult;

/// A fluid whose kernels are compiled.
#[derive(Clone, Copy)]
struct Variant {
    dimensions: usize,
    species: usize,
    truncation: Truncation,
    is_open: bool,
    lanes: u32,
    build_lanes: u32,
}

const VARIANTS: [Variant; 4] = [
    Variant {
        dimensions: 3,
        species: 1,
        truncation: Truncation::Truncated,
        is_open: false,
        lanes: 2,
        build_lanes: 1,
    },
    Variant {
        dimensions: 3,
        species: 2,
        truncation: Truncation::Switched { start: 0.8 },
        is_open: false,
        lanes: 32,
        build_lanes: 32,
    },
    // All pairs, because there is no cutoff.
    Variant {
        dimensions: 2,
        species: 1,
        truncation: Truncation::None,
        is_open: true,
        lanes: 8,
        build_lanes: 1,
    },
    Variant {
        dimensions: 3,
        species: 1,
        truncation: Truncation::Shifted,
        is_open: true,
        lanes: 1,
        build_lanes: 32,
    },
];

const ENSEMBLES: [Ensemble; 3] = [
    Ensemble::Nve,
    Ensemble::Langevin { kt: 1.0, friction: 1.0, seed: 1 },
    Ensemble::Rescaling { kt: 1.0, time: 1.0, seed: 1 },
];

/// Returns particles, settings and strategy of a variant in an ensemble.
fn fluid_of(variant: Variant, ensemble: Ensemble) -> (FluidParticles, FluidSettings, FluidStrategy) {
    let Variant { dimensions, species, truncation, is_open, lanes, build_lanes } = variant;
    let mut particles = match dimensions {
        2 => Lattice::Square.fill([18, 16, 1], 0.75),
        _ => Lattice::Fcc.fill([5, 5, 5], 0.75),
    };
    if is_open {
        let bounds = SimulationBox::open([0.0; 3], particles.bounds.lengths, dimensions);
        particles = FluidParticles::at_rest(bounds, &particles.coordinates());
    }
    let settings = FluidSettings {
        potential: Potential::mixed(&[(1.0, 1.0), (0.9, 0.7)][..species], 2.5, truncation),
        mass: vec![1.0; species],
        precision: PairPrecision::Mixed,
        search: PairSearch::Lists,
        skin: 0.3,
        ensemble,
        largest_kinetic: 0.0,
    };
    let strategy = FluidStrategy { lanes, build_lanes, block_size: 128, steps_per_launch: 64, skin: 0.3 };
    (particles, settings, strategy)
}

/// Checks that a fluid finds that nothing has happened, because the kernels do not run.
fn expect_stalled<T: std::fmt::Debug>(result: Result<T, DeviceFluidError>) {
    match result {
        Err(DeviceFluidError::Stalled { .. }) => {}
        other => panic!("expected a stalled fluid, got {other:?}"),
    }
}

/// Compiles the kernels of a variant in an ensemble.
fn compile_variant(device: &Device, variant: Variant, ensemble: Ensemble) {
    let (particles, settings, strategy) = fluid_of(variant, ensemble);
    expect_stalled(DeviceFluid::with_strategy(device, &particles, &settings, &strategy));
}

/// Compiles the kernels of a variant in an ensemble for one rank of several.
fn compile_part(device: &Device, variant: Variant, ensemble: Ensemble) {
    let (particles, settings, strategy) = fluid_of(variant, ensemble);
    expect_stalled(threads::run(2, |transport| {
        let team = Team::new(transport);
        if !team.is_leader() {
            return follow(&team, Some(device));
        }
        let (team, placement) = (FluidTeam::lead(&team), Some((device, &strategy)));
        Fluid::new_on_team(&team, particles.clone(), &settings, placement).map(|_| ())
    }));
}

/// Compiles the variants in every ensemble: eight kernels for each, and the scan.
pub fn compile_variants(device: &Device) -> ListResult {
    for ensemble in ENSEMBLES {
        for variant in VARIANTS {
            compile_variant(device, variant, ensemble);
        }
    }
    Ok(())
}

/// Compiles the variants for one rank of several: eight kernels, those of ghosts, of which all
/// pairs need two less, and the scan.
pub fn compile_parts(device: &Device) -> ListResult {
    for (variant, ensemble) in VARIANTS.into_iter().zip(ENSEMBLES.into_iter().cycle()) {
        compile_part(device, variant, ensemble);
    }
    Ok(())
}
