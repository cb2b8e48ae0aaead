//! Compiles the rungs of the Lennard-Jones ladder.

use orrery_device::testing::ptx_only_cuda;
use orrery_fluids::sample::{MELT_CUTOFF, displaced_melt};

use super::check_kernels;
use crate::rungs::fluids::{RungFluid, rungs};

#[test]
fn fluid_rungs_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let particles = displaced_melt(1000);
    for rung in rungs() {
        let mut fluid = RungFluid::new(&cuda.device, rung.variant, &particles, MELT_CUTOFF).unwrap();
        fluid.compute_forces().unwrap();
        fluid.forces().unwrap();
    }
    // Six that sum forces, three that sort particles by cell, and those of the scan.
    check_kernels(&cuda, 10);
}
