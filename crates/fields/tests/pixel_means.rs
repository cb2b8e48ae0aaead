//! Means over pixels on devices: division into blocks, and memory.

use orrery_device::testing::test_devices_with_f64;
use orrery_fields::pixels::{BlocksOfRow, DeviceMeans, StridedNodes, pixel_mean_bytes};
use orrery_model::grid::{Boundaries, Boundary, Grid, PixelMeans, PixelWeights};

/// The last block is not empty, so that the kernel finds its first pixel.
#[test]
fn blocks_have_all_pixels_and_their_nodes_fit() {
    for (nx, width) in
        [(3, 1), (3, 4096), (1000, 640), (16_384, 613), (16_384, 1), (1 << 20, 64), (1 << 30, 4096)]
    {
        let BlocksOfRow { pixels_per_block, count } = BlocksOfRow::new(nx, width);
        assert!((1..=256).contains(&pixels_per_block), "{nx} {width}");
        assert!((count - 1) * pixels_per_block < width && count * pixels_per_block >= width);
        let nodes = pixels_per_block as f64 * nx as f64 / width as f64 + 3.0;
        assert!(pixels_per_block == 1 || nodes <= 1024.0, "{nx} {width}: {nodes}");
    }
}

/// The means of 2^36 pixels have 512 GiB.
#[test]
fn means_that_do_not_fit_are_left_to_the_host() {
    let grid = Grid { nx: 3, ny: 3, hx: 1.0, hy: 1.0 };
    let weights = |pixels| PixelWeights::new(&grid, &Boundaries::uniform(Boundary::INSULATED), pixels);
    for device in test_devices_with_f64() {
        let means = DeviceMeans::<f32>::new(&device).unwrap();
        let field = device.upload(&[1.0; 9]).unwrap();
        let nodes = StridedNodes { buffer: &field, first: 0, strides: [1, 3] };
        let compute = |pixels| means.compute(device.queue(), nodes, &weights(pixels)).unwrap();
        assert_eq!(compute((1 << 18, 1 << 18)), None, "{}", device.title());
        let found = compute((2, 1)).unwrap();
        assert_eq!(found, PixelMeans { means: vec![1.0; 2], min: 1.0, max: 1.0 });
    }
}

/// In f64. The largest and smallest values have half as many bytes in f32.
#[test]
fn needed_bytes_are_those_of_the_buffers() {
    let boundaries = Boundaries::uniform(Boundary::Periodic);
    for device in test_devices_with_f64() {
        for (nx, pixels) in [(3, (5, 4)), (5000, (640, 480)), (100_000, (7, 300))] {
            let grid = Grid { nx, ny: 3, hx: 1.0, hy: 1.0 };
            let weights = PixelWeights::new(&grid, &boundaries, pixels);
            let field = device.zeros::<f64>(3 * nx).unwrap();
            let means = DeviceMeans::<f64>::new(&device).unwrap();
            let nodes = StridedNodes { buffer: &field, first: 0, strides: [1, nx] };
            means.compute(device.queue(), nodes, &weights).unwrap().unwrap();
            assert_eq!(means.buffer_bytes(), pixel_mean_bytes(nx, (pixels.0 as u32, pixels.1 as u32)));
        }
    }
}
