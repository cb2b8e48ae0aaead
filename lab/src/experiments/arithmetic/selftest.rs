//! Checks of the arithmetic on one device, for `orrery selftest` and the tests.

use orrery_device::check::Check;
use orrery_device::{Backend, Device, DeviceKind};

use super::sums::OrderedSums;
use super::{AnyOperation, ArithmeticOperation, ChainNumber, ChainShape, Chains, all_operations};
use crate::ladder::CheckedRung;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: arithmetic {name}"), run };
    vec![
        check("of f32", |device| check_all(device, |any| matches!(any, AnyOperation::Single(_)))),
        check("of f64", |device| check_all(device, |any| matches!(any, AnyOperation::Double(_)))),
        check("of integers and f16", |device| {
            check_all(device, |any| !matches!(any, AnyOperation::Single(_) | AnyOperation::Double(_)))
        }),
        check("in different orders", ordered_sums),
    ]
}

/// Steps of a short round.
const SHORT_ROUND: usize = 3;

fn check_all(device: &Device, is_selected: fn(&AnyOperation) -> bool) -> Result<(), String> {
    all_operations().iter().filter(|any| is_selected(any)).try_for_each(|any| any.check(device))
}

/// Compares chains of several lengths with the reference implementation, and single results with
/// the limit of the error. Many chains converge, such as that of √x to 1. Their short rounds on a
/// GPU end before that, so a missing step shows in all of them.
pub fn check_operation<T: ChainNumber>(
    device: &Device,
    operation: &ArithmeticOperation<T>,
) -> Result<(), String> {
    if !operation.is_supported(device.properties()) {
        return Ok(());
    }
    let mut shapes = vec![ChainShape::for_throughput(device, operation.size)];
    if device.properties().kind == DeviceKind::Gpu {
        shapes.push(ChainShape { steps: SHORT_ROUND, ..ChainShape::for_latency(operation.size) });
    }
    for shape in shapes {
        let chains = Chains::new(device, operation, shape, 2).map_err(|error| error.to_string())?;
        for (rounds, tail) in [(0, 0), (0, 1), (1, 0), (2, 1)] {
            check_chains(device, operation, &chains, rounds, tail)?;
        }
        check_single_results(device, operation, &chains)?;
    }
    Ok(())
}

fn check_chains<T: ChainNumber>(
    device: &Device,
    operation: &ArithmeticOperation<T>,
    chains: &Chains<T>,
    rounds: i32,
    tail: i32,
) -> Result<(), String> {
    let run = || {
        chains.launch(device.queue(), rounds, tail)?;
        chains.results()
    };
    let found = run().map_err(|error| error.to_string())?;
    // Each step adds its error and the rounding of the reference, and amplifies no earlier error.
    let limit = operation.limit(device.properties().backend);
    let of_step = if limit > 0.0 { limit + 0.5 } else { 0.0 };
    let limit = chains.steps(rounds, tail) as f64 * of_step;
    for (index, (found, expected)) in found.iter().zip(chains.expected_results(rounds, tail)).enumerate() {
        if found.differs(expected, limit) {
            return Err(format!(
                "{}, {rounds} rounds and {tail} steps, number {index}: got {found:?}, expected {expected:?} within \
                 {limit} ulp",
                operation.name
            ));
        }
    }
    Ok(())
}

/// Operations with a small absolute error. Near a zero of the function it is many ulp.
const SMALL_ABSOLUTE_ERRORS: [&str; 2] = ["fast sin", "fast log"];

fn check_single_results<T: ChainNumber>(
    device: &Device,
    operation: &ArithmeticOperation<T>,
    chains: &Chains<T>,
) -> Result<(), String> {
    let limit = operation.limit(device.properties().backend);
    let is_limited = !SMALL_ABSOLUTE_ERRORS.contains(&operation.name);
    let all = chains.evaluate(device, 0, operation.arguments).map_err(|error| error.to_string())?;
    for ([x, b, c], found) in all.into_iter().filter(|_| is_limited) {
        let expected = (operation.apply)(x, b, c);
        let wrong = match operation.error {
            // A limit of 0 means that the result is rounded correctly.
            Some(error) => {
                let error = error([x, b, c], found);
                error.is_nan() || error > limit.max(0.5 + 1e-6)
            }
            None => found.differs(expected, limit),
        };
        if wrong {
            return Err(format!(
                "{}, x = {x:?}, b = {b:?}, c = {c:?}: got {found:?}, expected {expected:?} within {limit} ulp",
                operation.name
            ));
        }
    }
    Ok(())
}

/// With correctly rounded divisions, device and CPU round in the same way. OpenCL may divide f32
/// with an error of 2.5 ulp.
fn ordered_sums(device: &Device) -> Result<(), String> {
    let compare = |found: OrderedSums, expected: OrderedSums, limit: f64| {
        let differs =
            |found: f64, expected: f64| found.is_nan() || (found - expected).abs() > limit * expected.abs();
        let is_wrong = (found.left_first, found.right_first) != (1.0, 0.0)
            || differs(found.forward, expected.forward)
            || differs(found.backward, expected.backward);
        if is_wrong { Err(format!("got {found:?}, expected {expected:?}")) } else { Ok(()) }
    };
    let is_exact = device.properties().backend == Backend::Cuda;
    let single = OrderedSums::single_on_device(device).map_err(|error| error.to_string())?;
    compare(single, OrderedSums::single_on_cpu(), if is_exact { 0.0 } else { 1e-5 })?;
    if !device.properties().has_f64 {
        return Ok(());
    }
    let double = OrderedSums::double_on_device(device).map_err(|error| error.to_string())?;
    compare(double, OrderedSums::double_on_cpu(), 0.0)
}
