//! Checks of atomics and votes on one device, for `orrery selftest` and the tests. All results are
//! exact: integers, and sums of small integers in floats.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind, Element};

use super::device::{
    AtomicScope, AtomicSupport, AtomicWord, RealAddition, RealAtomics, Returns, ScopedAdditions, WordAtomics,
};
use super::shared::{SharedAddition, SharedAdditions, SharedPattern};
use super::votes::{Vote, Votes};
use super::{
    AtomicOperation, AtomicPattern, AtomicWorkload, check_exchanges, check_swaps, final_values, real_sums,
};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: atomics {name}"), run };
    vec![
        check("of 32 bits", every_operation::<u32>),
        check("of 64 bits", operations_of_64_bits),
        check("add f32", |device| real_additions::<f32>(device, f64::from)),
        check("add f64", additions_of_f64),
        check("of every scope", every_scope),
        check("in shared memory", shared_additions),
        check("and votes of warps", every_vote),
    ]
}

fn message_of(error: DeviceError) -> String {
    error.to_string()
}

fn support(device: &Device) -> Result<AtomicSupport, String> {
    AtomicSupport::of_device(device).map_err(message_of)
}

/// Returns workloads from one operation to several per thread, on one to many numbers.
fn workloads() -> Vec<AtomicWorkload> {
    let sizes = [(1, 1), (255, 1), (5000, 1), (257, 64), (40_000, 4), (40_000, 1 << 12)];
    let with = |pattern| sizes.map(|(operations, numbers)| AtomicWorkload { operations, numbers, pattern });
    [with(AtomicPattern::InOrder), with(AtomicPattern::Random)].concat()
}

/// Largest numbers of numbers and operations of [`workloads`].
const MAX_NUMBERS: usize = 1 << 12;
const MAX_OPERATIONS: u32 = 40_000;

fn every_operation<T: AtomicWord>(device: &Device) -> Result<(), String> {
    // Without old values, a GPU uses other instructions. OpenCL on a CPU compiles slowly and does
    // not.
    let uses = match device.properties().kind {
        DeviceKind::Gpu => &[Returns::Unused, Returns::Stored][..],
        DeviceKind::Cpu | DeviceKind::Other => &[Returns::Stored],
    };
    for &returns in uses {
        let atomics =
            WordAtomics::<T>::new(device, returns, MAX_NUMBERS, MAX_OPERATIONS).map_err(message_of)?;
        let operations = AtomicOperation::ALL.into_iter().filter(|operation| operation.has_width(T::WIDTH));
        for operation in operations.filter(|operation| *operation != AtomicOperation::RacingAdd) {
            for work in workloads() {
                check_operation(device, &atomics, returns, operation, &work)
                    .map_err(|error| format!("{}, {work:?}: {error}", operation.name()))?;
            }
        }
    }
    Ok(())
}

fn check_operation<T: AtomicWord>(
    device: &Device,
    atomics: &WordAtomics<T>,
    returns: Returns,
    operation: AtomicOperation,
    work: &AtomicWorkload,
) -> Result<(), String> {
    let run = || -> Result<(Vec<u64>, Vec<u64>), DeviceError> {
        atomics.reset(device.queue(), operation)?;
        atomics.launch(device.queue(), operation, work)?;
        Ok((atomics.numbers(work.numbers)?, atomics.old_values()?))
    };
    let (numbers, old_values) = run().map_err(message_of)?;
    match operation {
        AtomicOperation::Exchange if returns == Returns::Stored => {
            check_exchanges(work, &old_values, &numbers)
        }
        AtomicOperation::CompareAndSwap if returns == Returns::Stored => {
            check_swaps(work, &old_values, &numbers)
        }
        operation if operation.has_fixed_result() => {
            compare(&numbers, &final_values(operation, T::WIDTH, work))
        }
        _ => Ok(()),
    }
}

/// Compares all numbers.
fn compare<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("got {} numbers, expected {}", found.len(), expected.len()));
    }
    match (0..found.len()).find(|index| found[*index] != expected[*index]) {
        None => Ok(()),
        Some(index) => Err(format!("number {index}: got {:?}, expected {:?}", found[index], expected[index])),
    }
}

/// A device without 64-bit atomics passes.
fn operations_of_64_bits(device: &Device) -> Result<(), String> {
    if support(device)?.has_u64 { every_operation::<u64>(device) } else { Ok(()) }
}

/// A device without 64-bit atomics or f64 passes.
fn additions_of_f64(device: &Device) -> Result<(), String> {
    let is_possible = support(device)?.has_u64 && device.properties().has_f64;
    if is_possible { real_additions::<f64>(device, |sum| sum) } else { Ok(()) }
}

fn real_additions<T: Element>(device: &Device, to_f64: fn(T) -> f64) -> Result<(), String> {
    for method in [RealAddition::Hardware, RealAddition::CompareAndSwap] {
        for work in workloads() {
            let run = || -> Result<Vec<T>, DeviceError> {
                let atomics = RealAtomics::<T>::new(device, work.numbers)?;
                atomics.launch(device.queue(), method, &work)?;
                atomics.numbers()
            };
            let found: Vec<f64> = run().map_err(message_of)?.into_iter().map(to_f64).collect();
            compare(&found, &real_sums(&work)).map_err(|error| format!("{method:?}, {work:?}: {error}"))?;
        }
    }
    Ok(())
}

fn every_scope(device: &Device) -> Result<(), String> {
    for scope in AtomicScope::ALL {
        for operations in [1, 255, 5000, MAX_OPERATIONS] {
            let run = || -> Result<(Vec<u32>, Vec<u32>), DeviceError> {
                let additions = ScopedAdditions::new(device, operations)?;
                additions.launch(device.queue(), scope, operations)?;
                Ok((additions.numbers()?, additions.expected_numbers(operations)))
            };
            let (found, expected) = run().map_err(message_of)?;
            compare(&found, &expected)
                .map_err(|error| format!("scope {}, {operations} operations: {error}", scope.name()))?;
        }
    }
    Ok(())
}

fn shared_additions(device: &Device) -> Result<(), String> {
    let has_u64 = support(device)?.has_u64;
    for pattern in [1, 2, 32].map(SharedPattern::Numbers).into_iter().chain([SharedPattern::OneBank]) {
        let additions = SharedAdditions::new(device, pattern).map_err(message_of)?;
        for addition in [SharedAddition::U32, SharedAddition::F32, SharedAddition::U64] {
            if addition == SharedAddition::U64 && !has_u64 {
                continue;
            }
            for rounds in [0, 1, 9, 50] {
                let launched = additions.launch(device.queue(), addition, rounds);
                let found = launched.and_then(|()| additions.totals()).map_err(message_of)?;
                compare(&found, &additions.expected_totals(rounds))
                    .map_err(|error| format!("{addition:?}, {pattern:?}, {rounds} rounds: {error}"))?;
            }
        }
    }
    Ok(())
}

fn every_vote(device: &Device) -> Result<(), String> {
    let votes = Votes::new(device, 5).map_err(message_of)?;
    for vote in Vote::ALL {
        for rounds in [0, 1, 20] {
            let launched = votes.launch(device.queue(), vote, rounds as i32);
            let found = launched.and_then(|()| votes.sums()).map_err(message_of)?;
            compare(&found, &votes.expected_sums(vote, rounds))
                .map_err(|error| format!("{}, {rounds} rounds: {error}", vote.name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_fit_the_buffers_and_sums_of_floats_are_exact() {
        for work in workloads() {
            assert!(work.operations <= MAX_OPERATIONS && work.numbers <= MAX_NUMBERS);
            assert!(real_sums(&work).iter().all(|sum| *sum < f64::from(1 << 24)), "{work:?}");
        }
    }
}
