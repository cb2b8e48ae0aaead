//! Checks of the litmus tests on one device, for `orrery selftest` and the tests. A check fails
//! only if an outcome occurs that the memory model forbids, or if a trial was not run.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::{LitmusAccess, LitmusFence, LitmusPlacement, LitmusTest, LitmusTrials};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: fences {name}"), run };
    vec![check("order what the memory model orders", no_forbidden_outcome)]
}

/// Launches per test: 1.1e6 trials on an H200, 1.3e5 on a CPU.
const LAUNCHES: usize = 16;

/// Returns the accesses and fences that are tested. OpenCL on a CPU compiles slowly and has no
/// fence between devices.
fn variants(device: &Device) -> Vec<(LitmusAccess, LitmusFence)> {
    if device.properties().kind != DeviceKind::Gpu {
        return vec![
            (LitmusAccess::Volatile, LitmusFence::None),
            (LitmusAccess::Atomic, LitmusFence::Device),
        ];
    }
    let fences = |access| LitmusFence::ALL.map(|fence| (access, fence));
    LitmusAccess::ALL.into_iter().flat_map(fences).collect()
}

fn no_forbidden_outcome(device: &Device) -> Result<(), String> {
    for (access, fence) in variants(device) {
        let trials = LitmusTrials::new(device, access, fence).map_err(|error| error.to_string())?;
        for test in LitmusTest::ALL {
            for placement in LitmusPlacement::ALL {
                let wrong = find_wrong_outcome(device, &trials, test, placement);
                if let Some(wrong) = wrong.map_err(|error| error.to_string())? {
                    let [test, place] = [test.name(), placement.name()];
                    let [access, fence] = [access.name(), fence.name()];
                    return Err(format!("{test}, {place}, {access}, {fence}: {wrong}"));
                }
            }
        }
    }
    Ok(())
}

/// Runs trials. Returns a message if an outcome is forbidden, or if a trial was not counted.
fn find_wrong_outcome(
    device: &Device,
    trials: &LitmusTrials,
    test: LitmusTest,
    placement: LitmusPlacement,
) -> Result<Option<String>, DeviceError> {
    let expected = LAUNCHES * trials.trials_per_launch();
    let outcomes = trials.count_outcomes(device.queue(), test, placement, expected)?;
    let is_complete = outcomes.trials() == expected as u64;
    let missing = format!("got {} trials, expected {expected}", outcomes.trials());
    let forbidden = trials.forbidden(test, placement);
    Ok(outcomes.find_forbidden(forbidden).or((!is_complete).then_some(missing)))
}
