//! Compares histograms on the CPU and on every device with the reference.

use orrery_device::testing::test_devices;
use proptest::prelude::*;

use super::binned::{self, BinnedHistogram, FloatBins};
use super::{Histogram, histogram_on_cpu, histogram_reference, selftest};
use crate::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&selftest::checks());
}

#[test]
fn result_buffer_must_have_256_elements() {
    for device in test_devices() {
        let from = device.upload(&[1u8, 2, 3]).unwrap();
        let error = Histogram::new(&device)
            .unwrap()
            .launch(device.queue(), &from, &device.zeros(255).unwrap())
            .unwrap_err();
        assert!(error.to_string().ends_with("expected a buffer of 256 elements, got 255"), "{error}");
    }
}

/// Lengths around powers of two, up to a little more than 2^17.
fn length() -> impl Strategy<Value = usize> {
    (0u32..18, 0usize..6).prop_map(|(power, beyond)| ((1usize << power) + beyond).saturating_sub(3))
}

/// Vectors of such a length, with up to 200 distinct values.
fn values<T: Copy + std::fmt::Debug>(distinct: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    (length(), prop::collection::vec(distinct, 1..200))
        .prop_map(|(n, distinct)| (0..n).map(|i| distinct[i * 7 % distinct.len()]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_are_counted_as_by_the_reference(data in values(any::<u8>())) {
        let expected = histogram_reference(&data);
        assert_eq!(histogram_on_cpu(&data), expected);
        for device in test_devices() {
            let found = Histogram::new(&device).unwrap().count(device.queue(), &device.upload(&data).unwrap()).unwrap();
            assert_eq!(found, expected, "{}", device.title());
        }
    }

    /// The data and the ends of the range are arbitrary floats.
    #[test]
    fn floats_are_counted_as_by_the_reference(data in values(any::<f32>()), ends in any::<[f32; 2]>(), with_ends in any::<bool>()) {
        let [low, high] = if with_ends { ends } else { [-1.0, 1.0] };
        if let Ok(bins) = FloatBins::new(low.min(high), low.max(high), 1000) {
            let expected = binned::binned_reference(&bins, &data);
            assert_eq!(binned::binned_on_cpu(&bins, &data), expected);
            for device in test_devices() {
                let histogram = BinnedHistogram::new(&device, bins).unwrap();
                assert_eq!(histogram.count(device.queue(), &device.upload(&data).unwrap()).unwrap(), expected, "{}", device.title());
            }
        }
    }
}
