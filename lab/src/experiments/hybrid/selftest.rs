//! Checks of the shared sum on one device, for `orrery selftest` and the tests. All divisions are
//! compared with the reference implementation.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError};
use orrery_gravity::solver::reference;
use orrery_measure::workload::Workload;
use orrery_model::Vec3s;

use super::{CopyMode, DeviceAlone, HybridSum};
use crate::experiments::transfer::clock::SpanRecorder;

/// Largest relative error. Coordinates are rounded to 2^-24 of their size, and the softening is a
/// hundredth of it, so near pairs have errors of about 1e-5. It is 2e-4 in the checks of the direct
/// sum too. Missing sources give larger errors.
const LIMIT: f64 = 2e-4;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: hybrid {name}"), run };
    vec![check("by every division", every_division), check("by the device alone", device_alone)]
}

/// Compares all accelerations with the reference.
fn compare(workload: &Workload, found: &Vec3s) -> Result<(), String> {
    let n = workload.problem().mass.len();
    let expected = reference::forces_on(&workload.problem(), &(0..n).collect::<Vec<_>>()).0;
    if found.len() != n {
        return Err(format!("{} accelerations, expected {n}", found.len()));
    }
    for body in 0..n {
        let (found, expected) = (found.get(body), expected.get(body));
        let norm = |vector: [f64; 3]| vector.iter().map(|c| c * c).sum::<f64>().sqrt();
        let error = norm(std::array::from_fn(|axis| found[axis] - expected[axis]));
        if error.is_nan() || error > LIMIT * norm(expected) {
            return Err(format!("acceleration of body {body} is {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

/// Shares of none, one, some and all targets, with several segments, one target per segment and
/// fewer targets than segments. A second run gives the same result.
fn every_division(device: &Device) -> Result<(), String> {
    for (n, shares) in [(1, vec![0, 1]), (257, vec![0, 1, 100, 253, 255, 257])] {
        let workload = Workload::for_direct(n);
        for cpu_targets in shares {
            for copies in [CopyMode::Waiting, CopyMode::Overlapped] {
                let run = || -> Result<[Vec3s; 2], DeviceError> {
                    let mut sum = HybridSum::new(device, workload.problem(), cpu_targets, copies)?;
                    let mut recorder = SpanRecorder::default();
                    sum.run(&mut recorder)?;
                    let first = sum.accelerations();
                    sum.run(&mut recorder)?;
                    Ok([first, sum.accelerations()])
                };
                let context =
                    |message: String| format!("{copies:?}, {cpu_targets} of {n} on the CPU: {message}");
                let [first, second] = run().map_err(|error| context(error.to_string()))?;
                compare(&workload, &first).map_err(context)?;
                if first != second {
                    return Err(context("a second run gives other accelerations".to_owned()));
                }
            }
        }
    }
    Ok(())
}

fn device_alone(device: &Device) -> Result<(), String> {
    for n in [1, 257] {
        let workload = Workload::for_direct(n);
        let run = || -> Result<Vec3s, DeviceError> {
            let mut sum = DeviceAlone::new(device, workload.problem())?;
            sum.run()?;
            Ok(sum.accelerations())
        };
        compare(&workload, &run().map_err(|error| error.to_string())?)?;
    }
    Ok(())
}
