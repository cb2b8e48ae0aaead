//! Compares prefix sums on the CPU and on every device with the reference: the checks of the
//! self-test, and random numbers.

use orrery_device::testing::test_devices;
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::scan::selftest::SHORT_TILES;
use orrery_primitives::scan::{self, Scan, ScanKind, ScanStrategy};
use proptest::prelude::*;

use crate::common::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&scan::selftest::checks());
}

fn reference_sums<T: PrimitiveNumber>(kind: ScanKind, numbers: &[T]) -> Vec<T> {
    let mut sums = numbers.to_vec();
    scan::scan_reference(kind, &mut sums);
    sums
}

/// Scans on the CPU and on every device with each strategy, and passes the sums to `expect`.
fn for_each_implementation<T: PrimitiveNumber>(
    kind: ScanKind,
    numbers: &[T],
    strategies: &[ScanStrategy],
    expect: impl Fn(&[T], &str),
) {
    let mut sums = numbers.to_vec();
    scan::scan_on_cpu(kind, &mut sums);
    expect(&sums, "on the CPU");
    for device in test_devices() {
        for &strategy in strategies {
            let (from, to) = (device.upload(numbers).unwrap(), device.zeros(numbers.len()).unwrap());
            Scan::with_strategy(&device, kind, strategy).unwrap().launch(device.queue(), &from, &to).unwrap();
            expect(&to.to_vec().unwrap(), &format!("{strategy:?} on {}", device.title()));
            assert!(from.to_vec().unwrap() == numbers, "the input was changed");
        }
    }
}

fn require_equal<T: PrimitiveNumber>(kind: ScanKind, numbers: &[T], strategies: &[ScanStrategy]) {
    let expected = reference_sums(kind, numbers);
    for_each_implementation(kind, numbers, strategies, |got, what| {
        assert!(got == expected, "{kind:?} of {} {}, {what}", numbers.len(), T::NAME)
    });
}

fn any_kind() -> impl Strategy<Value = ScanKind> {
    prop::sample::select(ScanKind::ALL.to_vec())
}

/// Lengths around powers of two, up to a little more than 2^17.
fn length() -> impl Strategy<Value = usize> {
    (0u32..18, 0usize..6).prop_map(|(power, beyond)| ((1usize << power) + beyond).saturating_sub(3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Integer sums wrap, so they are the same in any order.
    #[test]
    fn integer_sums_equal_the_reference(kind in any_kind(), n in length(), seed in any::<u64>()) {
        let bits = |i: usize| (i as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        require_equal(kind, &(0..n).map(|i| bits(i) as u32).collect::<Vec<_>>(), &[ScanStrategy::default()]);
        require_equal(kind, &(0..n).map(|i| bits(i) as i32).collect::<Vec<_>>(), &[ScanStrategy::default()]);
        require_equal(kind, &(0..n).map(bits).collect::<Vec<_>>(), &[ScanStrategy::default(), SHORT_TILES]);
    }

    /// Finite floats of any sign and magnitude. A sum takes at most n additions. Each rounds by at
    /// most half of EPSILON Σ|x|, here and in the reference.
    #[test]
    fn float_sums_are_within_rounding_of_the_reference(kind in any_kind(), numbers in prop::collection::vec(-1e30f32..1e30, 0..5000), power in -60i32..20) {
        let numbers: Vec<f32> =
            numbers.iter().enumerate().map(|(i, x)| if i % 3 == 0 { x * 2f32.powi(power) } else { *x }).collect();
        let expected = reference_sums(kind, &numbers);
        for_each_implementation(kind, &numbers, &[ScanStrategy::default(), SHORT_TILES], |got, what| {
            let mut abs_sum = 0.0;
            for (i, number) in numbers.iter().enumerate() {
                abs_sum += f64::from(number.abs());
                let error = f64::from(got[i] - expected[i]).abs();
                let limit = (i + 1) as f64 * f64::from(f32::EPSILON) * abs_sum;
                assert!(error <= limit, "{kind:?}, {what}: sum {i} has an error of {error:e}, expected at most {limit:e}");
            }
        });
    }
}

#[test]
fn different_lengths_give_an_error() {
    for device in test_devices() {
        let mut scan = Scan::<u32>::new(&device, ScanKind::Exclusive).unwrap();
        let (ten, eleven) = (device.zeros(10).unwrap(), device.zeros(11).unwrap());
        let message = scan.launch(device.queue(), &ten, &eleven).unwrap_err().to_string();
        assert!(message.ends_with("expected a buffer of 10 elements, got 11"), "{message}");
    }
}
