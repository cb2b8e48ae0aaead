//! The sort against the plain one: every check of the self-test, and keys that no one thought of.

mod common;

use orrery_device::Device;
use orrery_primitives::sort::{self, Key, Sort, SortStrategy};
use proptest::prelude::*;

use common::{devices, hold};

#[test]
fn checks_of_the_self_test() {
    hold(&sort::selftest::checks());
}

fn on<K: Key>(sort: &mut Sort<K>, device: &Device, keys: &[K], values: &[u32]) -> (Vec<K>, Vec<u32>) {
    let (on_keys, on_values) = (device.upload(keys).unwrap(), device.upload(values).unwrap());
    sort.queue(&on_keys, &on_values).unwrap();
    (on_keys.to_vec().unwrap(), on_values.to_vec().unwrap())
}

fn same<K: Key>(pairs: &[(K, u32)]) {
    let (keys, values): (Vec<K>, Vec<u32>) = pairs.iter().copied().unzip();
    let (mut right_keys, mut right_values) = (keys.clone(), values.clone());
    sort::sort_reference(&mut right_keys, &mut right_values);
    let (mut cpu_keys, mut cpu_values) = (keys.clone(), values.clone());
    sort::sort_on_cpu(&mut cpu_keys, &mut cpu_values);
    assert!((&cpu_keys, &cpu_values) == (&right_keys, &right_values), "on the processor");
    for device in devices() {
        for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
            let mut sort = Sort::with_strategy(&device, keys.len(), strategy).unwrap();
            let got = on(&mut sort, &device, &keys, &values);
            assert!((&got.0, &got.1) == (&right_keys, &right_values), "{strategy:?} on {}", device.title());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Values are free, so that they cannot help the order; shifted keys are few or clustered.
    #[test]
    fn sorts_like_the_plain_one(
        pairs in prop::collection::vec((any::<u64>(), any::<u32>()), 0..6000),
        shift in 0u32..64,
    ) {
        same(&pairs.iter().map(|&(key, value)| (key >> shift, value)).collect::<Vec<_>>());
        same(&pairs.iter().map(|&(key, value)| ((key >> 32 >> (shift / 2)) as u32, value)).collect::<Vec<_>>());
    }

    #[test]
    fn lengths_around_powers_of_two(power in 0u32..15, off in 0usize..5, seed in any::<u64>()) {
        let n = ((1usize << power) + off).saturating_sub(2);
        let keys = (0..n as u64).map(|i| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        same(&keys.zip(0..).collect::<Vec<_>>());
    }
}

/// Lengths that do not meet are told, not sorted.
#[test]
fn says_what_does_not_fit() {
    for device in devices() {
        let mut sort = Sort::<u32>::new(&device, 10).unwrap();
        let (ten, eleven) = (device.zeros(10).unwrap(), device.zeros(11).unwrap());
        let mut told = |keys, values| sort.queue(keys, values).unwrap_err().to_string();
        assert!(told(&ten, &eleven).ends_with("a buffer of 10 elements meets one of 11"));
        assert!(told(&eleven, &eleven).ends_with("a buffer of 10 elements meets one of 11"));
    }
}
