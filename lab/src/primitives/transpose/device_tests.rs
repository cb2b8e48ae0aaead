//! Compares transposes on the CPU and on every device with the reference: the checks of the
//! self-test, and random shapes.

use orrery_device::Element;
use orrery_device::testing::test_devices;
use proptest::prelude::*;

use super::{MatrixShape, Transpose, TransposeInPlace, selftest, transpose_on_cpu, transpose_reference};
use crate::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&selftest::checks());
}

fn require_equal<T: Element>(shape: MatrixShape, from: &[T]) {
    let (mut expected, mut found) = (from.to_vec(), from.to_vec());
    transpose_reference(shape, from, &mut expected);
    transpose_on_cpu(shape, from, &mut found);
    assert!(found == expected, "{shape:?} on the CPU");
    for device in test_devices() {
        let (input, output) = (device.upload(from).unwrap(), device.zeros(from.len()).unwrap());
        let transpose = Transpose::new(&device, shape).unwrap();
        transpose.launch(device.queue(), &input, &output).unwrap();
        assert!(output.to_vec().unwrap() == expected, "{shape:?} on {}", device.title());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn results_equal_the_reference(rows in 0usize..200, columns in 0usize..200, has_vectors in any::<bool>()) {
        let unit = if has_vectors { 4 } else { 1 };
        let shape = MatrixShape { rows: rows / unit * unit, columns: columns / unit * unit };
        let n = shape.element_count();
        require_equal(shape, &(0..n).map(|i| i as f32).collect::<Vec<_>>());
        require_equal(shape, &(0..n).map(|i| (i * 37 + i / 251) as u8).collect::<Vec<_>>());
    }
}

#[test]
fn buffers_must_have_the_length_of_the_shape() {
    for device in test_devices() {
        let (six, seven) = (device.zeros::<f32>(6).unwrap(), device.zeros(7).unwrap());
        let transpose = Transpose::new(&device, MatrixShape { rows: 2, columns: 3 }).unwrap();
        for (from, to) in [(&six, &seven), (&seven, &six)] {
            let error = transpose.launch(device.queue(), from, to).unwrap_err().to_string();
            assert!(error.ends_with("expected a buffer of 6 elements, got 7"), "{error}");
        }
        let in_place = TransposeInPlace::new(&device, 3).unwrap();
        let error = in_place.launch(device.queue(), &seven).unwrap_err().to_string();
        assert!(error.ends_with("expected a buffer of 9 elements, got 7"), "{error}");
    }
}

#[test]
fn input_and_output_must_be_two_buffers() {
    for device in test_devices() {
        let square = device.zeros::<f32>(9).unwrap();
        let transpose = Transpose::new(&device, MatrixShape::square(3)).unwrap();
        let error = transpose.launch(device.queue(), &square, &square).unwrap_err().to_string();
        assert!(error.ends_with("input and output are the same buffer, expected two"), "{error}");
    }
}
