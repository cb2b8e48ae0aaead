//! Compares labels on the CPU and on every device with the reference: the checks of the self-test,
//! and random masks.

use orrery_device::testing::test_devices;
use proptest::prelude::*;

use super::{
    Connectivity, Label, LabelStrategy, MaskShape, RunTiles, label_on_cpu, label_reference, selftest,
    threshold_on_cpu, threshold_reference,
};
use crate::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&selftest::checks());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_images_are_labelled_as_by_the_reference(
        rows in 0usize..150,
        columns in 0usize..150,
        fraction in 0.0f64..1.0,
        seed in 0u64..1000,
    ) {
        let shape = MaskShape::image(rows, columns);
        let (_, mask) = selftest::random_mask(shape, fraction, seed);
        let (mut expected, mut found) = (vec![0; mask.len()], vec![5; mask.len()]);
        let count = label_reference(shape, Connectivity::Faces, &mask, &mut expected);
        assert_eq!(label_on_cpu(shape, Connectivity::Faces, &mask, &mut found), count);
        assert!(found == expected, "{shape:?} on the CPU");
        for device in test_devices() {
            let (input, labels) = (device.upload(&mask).unwrap(), device.zeros(mask.len()).unwrap());
            let mut label = Label::new(&device, shape, Connectivity::Faces).unwrap();
            assert_eq!(label.label(device.queue(), &input, &labels).unwrap(), count);
            assert!(labels.to_vec().unwrap() == expected, "{shape:?} on {}", device.title());
        }
    }
}

#[test]
fn threshold_on_the_cpu_equals_the_reference() {
    for n in [0, 1, 70_000, 200_001] {
        let image: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
        let (mut expected, mut found) = (vec![3; n], vec![4; n]);
        threshold_reference(&image, 0.25, &mut expected);
        threshold_on_cpu(&image, 0.25, &mut found);
        assert!(found == expected && (n < 2 || found.contains(&1)));
    }
}

#[test]
fn buffers_must_have_the_lengths_of_the_shape() {
    for device in test_devices() {
        let mut label = Label::new(&device, MaskShape::image(2, 3), Connectivity::Faces).unwrap();
        let [mask, short_mask] = [6, 5].map(|n| device.zeros::<u8>(n).unwrap());
        let [labels, long_labels, count, counts] = [6, 7, 1, 2].map(|n| device.zeros::<u32>(n).unwrap());
        for (mask, labels, count, expected) in [
            (&short_mask, &labels, &count, "expected a buffer of 6 elements, got 5"),
            (&mask, &long_labels, &count, "expected a buffer of 6 elements, got 7"),
            (&mask, &labels, &counts, "expected a buffer of 1 elements, got 2"),
        ] {
            let error = label.launch(device.queue(), mask, labels, count).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }
}

#[test]
fn strategies_for_images_refuse_volumes() {
    let volume = MaskShape { planes: 2, rows: 3, columns: 4 };
    assert_eq!(LabelStrategy::default_for(volume), LabelStrategy::UnionFind);
    let runs = LabelStrategy::Runs(RunTiles::default());
    assert_eq!(LabelStrategy::default_for(MaskShape::image(3, 4)), runs);
    for device in test_devices() {
        for strategy in [LabelStrategy::Wavefront, LabelStrategy::TileMerge, runs] {
            let label = Label::with_strategy(&device, volume, Connectivity::Faces, strategy);
            let error = label.unwrap_err().to_string();
            assert!(
                error.contains("does not support MaskShape { planes: 2, rows: 3, columns: 4 }"),
                "{error}"
            );
        }
    }
}
