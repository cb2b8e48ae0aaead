//! Compares reductions on the CPU and on every device with the reference.

use orrery_device::testing::test_devices;
use orrery_primitives::PrimitiveNumber;
use orrery_primitives::reduce::{Reduce, ReduceOperation, reduce_on_cpu, reduce_reference, selftest};
use proptest::prelude::*;

use crate::common::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&selftest::checks());
}

#[test]
fn result_buffer_must_have_one_element() {
    for device in test_devices() {
        let reduce = Reduce::<u32>::new(&device, ReduceOperation::Sum).unwrap();
        let from = device.upload(&[1u32, 2, 3]).unwrap();
        let error = reduce.launch(device.queue(), &from, &device.zeros(2).unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("expected a buffer of 1 elements, got 2"), "{error}");
    }
}

/// Requires equal results. Integers have one correct result in any order.
fn compare_all<T: PrimitiveNumber>(data: &[T]) {
    for operation in ReduceOperation::ALL {
        let expected = reduce_reference(operation, data);
        assert_eq!(reduce_on_cpu(operation, data), expected, "{operation:?} of {} on the CPU", data.len());
        for device in test_devices() {
            let reduce = Reduce::new(&device, operation).unwrap();
            let found = reduce.reduce(device.queue(), &device.upload(data).unwrap()).unwrap();
            assert_eq!(found, expected, "{operation:?} of {} on {}", data.len(), device.title());
        }
    }
}

/// Lengths around powers of two, up to a little more than 2^17.
fn length() -> impl Strategy<Value = usize> {
    (0u32..18, 0usize..6).prop_map(|(power, beyond)| ((1usize << power) + beyond).saturating_sub(3))
}

/// Vectors of such a length, with up to 200 distinct numbers from the whole range of the type.
fn numbers<T: PrimitiveNumber + Arbitrary>() -> impl Strategy<Value = Vec<T>> {
    (length(), prop::collection::vec(any::<T>(), 1..200))
        .prop_map(|(n, distinct)| (0..n).map(|i| distinct[i * 7 % distinct.len()]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn u32_results_equal_the_reference(data in numbers::<u32>()) {
        compare_all(&data);
    }

    #[test]
    fn u64_results_equal_the_reference(data in numbers::<u64>()) {
        compare_all(&data);
    }

    #[test]
    fn i32_results_equal_the_reference(data in numbers::<i32>()) {
        compare_all(&data);
    }

    /// Sums of small integers are exact in f32, so the order does not matter.
    #[test]
    fn exact_f32_results_equal_the_reference(data in (length(), 0u32..64).prop_map(|(n, seed)|
        (0..n).map(|i| ((i as u32 ^ seed) % 32) as f32).collect::<Vec<f32>>()))
    {
        compare_all(&data);
    }
}
