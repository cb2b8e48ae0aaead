//! Histograms on every device there is against the plain ones.

mod common;

use orrery_primitives::histogram::binned::{self, BinnedHistogram, Bins};
use orrery_primitives::histogram::{Histogram, histogram_on_cpu, histogram_reference, selftest};
use proptest::prelude::*;

use common::{devices, hold};

#[test]
fn the_selftest_holds() {
    hold(&selftest::checks());
}

#[test]
fn a_result_has_every_bin() {
    for device in devices() {
        let from = device.upload(&[1u8, 2, 3]).unwrap();
        let error = Histogram::new(&device).unwrap().queue(&from, &device.zeros(255).unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("a buffer of 256 elements meets one of 255"), "{error}");
    }
}

/// Lengths around powers of two, up to some more than 2^17.
fn length() -> impl Strategy<Value = usize> {
    (0u32..18, 0usize..6).prop_map(|(power, beyond)| ((1usize << power) + beyond).saturating_sub(3))
}

/// That many out of a few.
fn values<T: Copy + std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    (length(), prop::collection::vec(some, 1..200))
        .prop_map(|(n, some)| (0..n).map(|i| some[i * 7 % some.len()]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_agree(data in values(any::<u8>())) {
        let right = histogram_reference(&data);
        assert_eq!(histogram_on_cpu(&data), right);
        for device in devices() {
            let found = Histogram::new(&device).unwrap().count(&device.upload(&data).unwrap()).unwrap();
            assert_eq!(found, right, "{}", device.title());
        }
    }

    /// Any floats at all: the ends are two of them.
    #[test]
    fn floats_agree(data in values(any::<f32>()), ends in any::<[f32; 2]>(), with_ends in any::<bool>()) {
        let [low, high] = if with_ends { ends } else { [-1.0, 1.0] };
        if let Ok(bins) = Bins::new(low.min(high), low.max(high), 1000) {
            let right = binned::binned_reference(&bins, &data);
            assert_eq!(binned::binned_on_cpu(&bins, &data), right);
            for device in devices() {
                let histogram = BinnedHistogram::new(&device, bins).unwrap();
                assert_eq!(histogram.count(&device.upload(&data).unwrap()).unwrap(), right, "{}", device.title());
            }
        }
    }
}
