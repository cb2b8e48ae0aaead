//! Reductions on every device there is against the plain one.

mod common;

use orrery_primitives::Number;
use orrery_primitives::reduce::{Operation, Reduce, reduce_on_cpu, reduce_reference, selftest};
use proptest::prelude::*;

use common::{devices, hold};

#[test]
fn the_selftest_holds() {
    hold(&selftest::checks());
}

#[test]
fn a_result_is_one_element() {
    for device in devices() {
        let reduce = Reduce::<u32>::new(&device, Operation::Sum).unwrap();
        let from = device.upload(&[1u32, 2, 3]).unwrap();
        let error = reduce.queue(&from, &device.zeros(2).unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("a buffer of 1 elements meets one of 2"), "{error}");
    }
}

/// Whole numbers have one right answer in any order.
fn all_agree<T: Number>(data: &[T]) {
    for operation in Operation::ALL {
        let right = reduce_reference(operation, data);
        assert_eq!(reduce_on_cpu(operation, data), right, "{operation:?} of {} on the processor", data.len());
        for device in devices() {
            let reduce = Reduce::new(&device, operation).unwrap();
            let found = reduce.reduce(&device.upload(data).unwrap()).unwrap();
            assert_eq!(found, right, "{operation:?} of {} on {}", data.len(), device.title());
        }
    }
}

/// Lengths around powers of two, up to some more than 2^17.
fn length() -> impl Strategy<Value = usize> {
    (0u32..18, 0usize..6).prop_map(|(power, beyond)| ((1usize << power) + beyond).saturating_sub(3))
}

/// That many numbers out of a few, anywhere in the type.
fn numbers<T: Number + Arbitrary>() -> impl Strategy<Value = Vec<T>> {
    (length(), prop::collection::vec(any::<T>(), 1..200))
        .prop_map(|(n, some)| (0..n).map(|i| some[i * 7 % some.len()]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn u32s_agree(data in numbers::<u32>()) {
        all_agree(&data);
    }

    #[test]
    fn u64s_agree(data in numbers::<u64>()) {
        all_agree(&data);
    }

    #[test]
    fn i32s_agree(data in numbers::<i32>()) {
        all_agree(&data);
    }

    /// Small whole numbers in f32 add up exactly, so that the order does not show.
    #[test]
    fn exact_floats_agree(data in (length(), 0u32..64).prop_map(|(n, seed)|
        (0..n).map(|i| ((i as u32 ^ seed) % 32) as f32).collect::<Vec<f32>>()))
    {
        all_agree(&data);
    }
}
