//! Experiments of ladders that no solver needs: kernels that show one property of the hardware, for
//! example the banks of shared memory, and examples of the course. Each has a plain reference
//! implementation, and its self-test compares the two. The ladder of the same name times them.

pub mod arithmetic;
pub mod atomics;
pub mod banks;
pub mod copy;
pub mod coulomb;
pub mod divergence;
pub mod fences;
pub mod hybrid;
pub mod occupancy;
pub mod saxpy;
pub mod texture;
pub mod transfer;

use orrery_device::check::Check;

/// Returns the checks of all experiments.
pub fn checks() -> Vec<Check> {
    let mut checks = copy::selftest::checks();
    checks.extend(banks::selftest::checks());
    checks.extend(transfer::selftest::checks());
    checks.extend(saxpy::selftest::checks());
    checks.extend(texture::selftest::checks());
    checks.extend(coulomb::selftest::checks());
    checks.extend(fences::selftest::checks());
    checks.extend(atomics::selftest::checks());
    checks.extend(arithmetic::selftest::checks());
    checks.extend(occupancy::selftest::checks());
    checks.extend(hybrid::selftest::checks());
    checks.extend(divergence::selftest::checks());
    checks
}
