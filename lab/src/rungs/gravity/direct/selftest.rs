//! Checks of the rungs of the direct ladder against the reference implementation.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceKind};
use orrery_gravity::accuracy::ForceErrors;
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::device::{DeviceSolver, DeviceStrategy};
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_measure::workload::TimedSolver;
use orrery_model::{Precision, Vec3s};

use super::course::CourseProgram;
use super::course::selftest::check_steps;
use super::rungs;
use crate::rungs::gravity::GravityRungKind;
use crate::rungs::gravity::test_system::{LectureSystem, check_zeros};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("direct: {name}"), run };
    vec![
        check("the ladder's rungs", check_ladder),
        check("steps with parameters as arguments", |device| check_steps(device, CourseProgram::Arguments)),
        check("steps with parameters in constant memory", |device| {
            check_steps(device, CourseProgram::ConstantMemory)
        }),
        check("steps with the last kernel of the course", |device| check_steps(device, CourseProgram::Final)),
    ]
}

fn check_ladder(device: &Device) -> Result<(), String> {
    let sizes = if device.properties().kind == DeviceKind::Gpu { [1, 257, 4099] } else { [1, 33, 500] };
    for rung in rungs(Some(device)) {
        let new_solver = |n: usize| -> Result<Option<Box<dyn TimedSolver>>, _> {
            let strategy: DeviceStrategy = match rung.kind {
                // `check_steps` checks the steps.
                GravityRungKind::Cpu(..)
                | GravityRungKind::PlainCpu
                | GravityRungKind::CourseStep
                | GravityRungKind::InsertionStep(_) => return Ok(None),
                GravityRungKind::Lecture(strategy) => return strategy.new_solver(device, n).map(Some),
                GravityRungKind::Device(strategy) => strategy,
                GravityRungKind::Default => {
                    DirectDeviceStrategy::default_for(device, 1000, rung.precision).into()
                }
            };
            Ok(Some(Box::new(DeviceSolver::new(device, n, &strategy)?)))
        };
        for n in sizes {
            let system = LectureSystem::cluster(n);
            let found = new_solver(n).and_then(|solver| {
                solver
                    .map(|mut solver| system.evaluate(device, &mut *solver, Acceptance::default()))
                    .transpose()
            });
            let Some(found) = found.map_err(|error| format!("{}: {error}", rung.name))? else { continue };
            compare(&system, &found, RungErrorLimits::for_precision(rung.precision))
                .map_err(|message| format!("{}, n = {n}: {message}", rung.name))?;
        }
    }
    Ok(())
}

/// Upper limits of the relative force errors.
#[derive(Clone, Copy)]
struct RungErrorLimits {
    median: f64,
    max: f64,
}

impl RungErrorLimits {
    /// Returns the limits of a precision.
    ///
    /// Single: coordinates are rounded to 2^-24 of their size, and the softening is a hundredth of
    /// it. The error of a near pair is therefore about 1e-5. The reciprocal square root is within 2
    /// ulp. Mixed: errors of products and reciprocal square roots only. Double: errors of summation
    /// order.
    fn for_precision(precision: Precision) -> Self {
        match precision {
            Precision::Single => Self { median: 2e-6, max: 2e-4 },
            Precision::Mixed => Self { median: 5e-7, max: 1e-5 },
            Precision::Double => Self { median: 1e-14, max: 1e-11 },
        }
    }
}

/// Compares accelerations with the reference implementation.
fn compare(system: &LectureSystem, found: &Vec3s, limits: RungErrorLimits) -> Result<(), String> {
    let expected = system.reference_accelerations();
    check_zeros(found, &expected)?;
    let ForceErrors { median, max, .. } = ForceErrors::measure(found, &system.all_bodies(), &expected);
    if median <= limits.median && max <= limits.max {
        return Ok(());
    }
    let RungErrorLimits { median: median_limit, max: max_limit } = limits;
    Err(format!(
        "relative error {median:.1e} (median) and {max:.1e} (largest), expected at most {median_limit:.1e} and \
         {max_limit:.1e}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rungs::gravity::test_system::with_one_nan;

    #[test]
    fn a_nan_in_any_column_fails_the_check() {
        let limits = RungErrorLimits { median: f64::MAX, max: f64::MAX };
        // The acceleration of a single body is 0, which has no relative error.
        for n in [1, 33] {
            let system = LectureSystem::cluster(n);
            let expected = system.reference_accelerations();
            assert_eq!(compare(&system, &expected, limits), Ok(()));
            for with_nan in with_one_nan(&expected) {
                compare(&system, &with_nan, limits).unwrap_err();
            }
        }
    }
}
