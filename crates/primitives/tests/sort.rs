//! Compares the sort on the CPU and on every device with the reference: the checks of the
//! self-test, and random keys.

use orrery_device::Device;
use orrery_device::testing::test_devices;
use orrery_primitives::sort::{self, Sort, SortKey, SortStrategy};
use proptest::prelude::*;

use crate::common::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&sort::selftest::checks());
}

fn sort_on_device<K: SortKey>(
    sort: &mut Sort<K>,
    device: &Device,
    keys: &[K],
    values: &[u32],
) -> (Vec<K>, Vec<u32>) {
    let (device_keys, device_values) = (device.upload(keys).unwrap(), device.upload(values).unwrap());
    sort.launch(device.queue(), &device_keys, &device_values).unwrap();
    (device_keys.to_vec().unwrap(), device_values.to_vec().unwrap())
}

fn require_equal<K: SortKey>(pairs: &[(K, u32)]) {
    let (keys, values): (Vec<K>, Vec<u32>) = pairs.iter().copied().unzip();
    let (mut expected_keys, mut expected_values) = (keys.clone(), values.clone());
    sort::sort_reference(&mut expected_keys, &mut expected_values);
    let (mut cpu_keys, mut cpu_values) = (keys.clone(), values.clone());
    sort::sort_on_cpu(&mut cpu_keys, &mut cpu_values);
    assert!((&cpu_keys, &cpu_values) == (&expected_keys, &expected_values), "on the CPU");
    for device in test_devices() {
        for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
            let mut sort = Sort::with_strategy(&device, keys.len(), strategy).unwrap();
            let got = sort_on_device(&mut sort, &device, &keys, &values);
            assert!(
                (&got.0, &got.1) == (&expected_keys, &expected_values),
                "{strategy:?} on {}",
                device.title()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Values are random, so they cannot restore a wrong order. Shifted keys are few or clustered.
    #[test]
    fn random_pairs_are_sorted_as_by_the_reference(
        pairs in prop::collection::vec((any::<u64>(), any::<u32>()), 0..6000),
        shift in 0u32..64,
    ) {
        require_equal(&pairs.iter().map(|&(key, value)| (key >> shift, value)).collect::<Vec<_>>());
        require_equal(&pairs.iter().map(|&(key, value)| ((key >> 32 >> (shift / 2)) as u32, value)).collect::<Vec<_>>());
    }

    #[test]
    fn lengths_around_powers_of_two_are_sorted_as_by_the_reference(power in 0u32..15, off in 0usize..5, seed in any::<u64>()) {
        let n = ((1usize << power) + off).saturating_sub(2);
        let keys = (0..n as u64).map(|i| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        require_equal(&keys.zip(0..).collect::<Vec<_>>());
    }
}

#[test]
fn different_lengths_and_too_many_pairs_give_an_error() {
    for device in test_devices() {
        let mut sort = Sort::<u32>::new(&device, 10).unwrap();
        let (ten, eleven) = (device.zeros(10).unwrap(), device.zeros(11).unwrap());
        let mut message = |keys, values| sort.launch(device.queue(), keys, values).unwrap_err().to_string();
        assert!(message(&ten, &eleven).ends_with("expected a buffer of 10 elements, got 11"));
        assert!(message(&eleven, &eleven).ends_with("expected a buffer of 10 elements, got 11"));
    }
}
