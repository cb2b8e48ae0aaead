//! Check of the rungs of Lennard-Jones fluids on one device, for `orrery selftest` and the tests:
//! every rung is compared with brute force in f64.

use orrery_device::Device;
use orrery_device::check::Check;
use orrery_fluids::brute_force::{check_forces, forces_with_bounds};
use orrery_fluids::sample::{MELT_CUTOFF, displaced_melt, melt_settings};

use super::{FluidRung, FluidVariant, RungFluid};
use crate::ladder::check_rungs;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    vec![Check {
        name: "lj: every rung of the ladder equals brute force".to_owned(),
        run: check_rungs::<FluidRung>,
    }]
}

/// Numbers of particles: boxes of two and of three cells along an axis, and more blocks of threads.
const SIZES: [usize; 3] = [256, 1000, 2048];

/// Computes the forces of a rung twice, because later calls must not depend on earlier ones.
pub fn check_variant(device: &Device, variant: FluidVariant) -> Result<(), String> {
    for n in SIZES {
        let particles = displaced_melt(n);
        let sample: Vec<usize> = (0..particles.len()).collect();
        let potential = melt_settings().potential.damped(variant.damping());
        let expected = forces_with_bounds(&particles, &potential, &sample);
        let run = || {
            let mut fluid = RungFluid::new(device, variant, &particles, MELT_CUTOFF)?;
            fluid.compute_forces()?;
            fluid.compute_forces()?;
            fluid.forces()
        };
        let found = run().map_err(|error| error.to_string())?;
        check_forces(&found, &sample, &expected).map_err(|message| format!("{n} particles: {message}"))?;
    }
    Ok(())
}
