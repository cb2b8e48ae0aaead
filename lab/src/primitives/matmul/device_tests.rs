//! Compares matrix products on every device with the reference.

use orrery_device::testing::test_devices;

use super::{Matmul, MatmulStrategy, Product, selftest};
use crate::run_checks;

#[test]
fn selftest_passes_on_every_device() {
    run_checks(&selftest::checks());
}

#[test]
fn buffers_must_have_the_lengths_of_their_matrices() {
    for device in test_devices() {
        let matmul = Matmul::new(&device, &Product::<f32>::new(2, 3, 4)).unwrap();
        let buffer = |len| device.zeros(len).unwrap();
        let error = matmul.launch(device.queue(), &buffer(8), &buffer(11), &buffer(6)).unwrap_err();
        assert!(error.to_string().ends_with("expected a buffer of 12 elements, got 11"), "{error}");
    }
}

#[test]
fn tiles_that_do_not_fit_together_are_refused() {
    for device in test_devices() {
        let product = Product::<f32>::new(2, 2, 2);
        // 128 vectors of A per tile for 256 threads.
        let strategy =
            MatmulStrategy { tile_m: 64, tile_n: 64, tile_k: 8, rows: 4, columns: 4, min_blocks: 1 };
        let error = Matmul::with_strategy(&device, &product, strategy).unwrap_err();
        assert!(error.to_string().contains("do not fit together"), "{error}");
    }
}
