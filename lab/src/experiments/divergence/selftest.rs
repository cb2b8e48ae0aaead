//! Checks of divergent kernels on one device, for `orrery selftest` and the tests. Results have the
//! bits of the reference, because every operation is a fused multiply-add of constants.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::predication::{BODIES, Choices, Conditions, choose_reference};
use super::{DivergencePattern, DivergentWork, StepCounts, ThreadWork, run_reference, rungs};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: divergence {name}"), run };
    vec![
        check("of every pattern", every_pattern),
        check("by short and long bodies", every_body),
        check("leaves the lanes active that the model says", active_lanes),
    ]
}

/// Numbers of threads: around warps and blocks.
const LENGTHS: [usize; 6] = [1, 31, 33, 256, 257, 1000];
/// Mean number of steps.
const STEPS: u32 = 5;

fn message_of(error: DeviceError) -> String {
    error.to_string()
}

/// Returns the patterns of all rungs, and one with paths that no rung has.
fn patterns() -> impl Iterator<Item = DivergencePattern> {
    let others = [DivergencePattern::PathsByLane(7), DivergencePattern::PathsByWarp(5)];
    rungs().into_iter().map(|rung| rung.pattern).chain(others)
}

/// Compares the bits of all results.
fn compare(found: &[f32], expected: &[f32]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("got {} results, expected {}", found.len(), expected.len()));
    }
    match (0..found.len()).find(|thread| found[*thread].to_bits() != expected[*thread].to_bits()) {
        None => Ok(()),
        Some(thread) => {
            Err(format!("thread {thread}: got {:?}, expected {:?}", found[thread], expected[thread]))
        }
    }
}

fn every_pattern(device: &Device) -> Result<(), String> {
    for pattern in patterns() {
        for n in LENGTHS {
            let mut work = pattern.work(n, STEPS);
            // A thread without steps.
            work.lengths[n / 2] = 0;
            compare_work(device, &work).map_err(|error| format!("{pattern:?}, {n} threads: {error}"))?;
        }
    }
    Ok(())
}

fn compare_work(device: &Device, work: &ThreadWork) -> Result<(), String> {
    let run = || -> Result<Vec<f32>, DeviceError> {
        let divergent = DivergentWork::new(device, work)?;
        divergent.launch(device.queue())?;
        divergent.results()
    };
    compare(&run().map_err(message_of)?, &run_reference(work))
}

fn every_body(device: &Device) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, a short and a long body represent all.
    let bodies = if device.properties().kind == DeviceKind::Gpu { &BODIES[..] } else { &[1, 16] };
    for &body in bodies {
        for (conditions, n) in [Conditions::SameInWarp, Conditions::Random]
            .into_iter()
            .flat_map(|kind| LENGTHS.map(|n| (kind, n)))
        {
            let (masks, rounds) = (conditions.masks(n), 40 / body + 1);
            let run = || -> Result<Vec<f32>, DeviceError> {
                let choices = Choices::new(device, body, &masks)?;
                choices.launch(device.queue(), rounds)?;
                choices.results()
            };
            let expected: Vec<f32> = masks.iter().map(|mask| choose_reference(*mask, body, rounds)).collect();
            compare(&run().map_err(message_of)?, &expected)
                .map_err(|error| format!("body of {body}, {conditions:?}, {n} threads: {error}"))?;
        }
    }
    Ok(())
}

/// Every step of a lane is counted once. A warp executes at least the steps of the model, in which
/// all lanes on a path run together. The hardware may separate them, so it may execute more. A
/// device that cannot count passes.
fn active_lanes(device: &Device) -> Result<(), String> {
    for pattern in patterns() {
        for n in LENGTHS {
            let work = pattern.work(n, STEPS);
            let divergent = DivergentWork::new(device, &work).map_err(message_of)?;
            let Some(found) = divergent.count_steps().map_err(message_of)? else { return Ok(()) };
            let model = StepCounts::by_model(&work);
            if found.lane_steps != model.lane_steps || found.warp_steps < model.warp_steps {
                return Err(format!("{pattern:?}, {n} threads: got {found:?}, the model has {model:?}"));
            }
            compare(&divergent.results().map_err(message_of)?, &run_reference(&work))
                .map_err(|error| format!("{pattern:?}, {n} threads, counted: {error}"))?;
        }
    }
    Ok(())
}
