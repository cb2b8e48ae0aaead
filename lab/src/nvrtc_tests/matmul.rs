//! Compiles the matrix products.

use orrery_device::testing::ptx_only_cuda;
use orrery_device::{Device, DeviceError};

use super::check_kernels;
use crate::primitives::matmul::rungs::{RungMatmul, rungs};
use crate::primitives::matmul::{Matmul, MatmulStrategy, MatrixNumber, Product, TensorMatmul};

/// Compiles and launches a product with the default strategy.
fn compile<T: MatrixNumber>(device: &Device, product: &Product<T>) -> Result<(), DeviceError> {
    let [a, b, c] = product.lengths();
    let [a, b, c] = [device.zeros(a)?, device.zeros(b)?, device.zeros(c)?];
    Matmul::new(device, product)?.launch(device.queue(), &a, &b, &c)
}

#[test]
fn matrix_products_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    // Few tiles and many, aligned or not, with every combination of transpositions.
    for n in [64, 63, 2048, 2049] {
        for (transposed_a, transposed_b) in [(false, false), (true, false), (false, true), (true, true)] {
            compile::<f32>(device, &Product { transposed_a, transposed_b, ..Product::new(n, n, 16) })
                .unwrap();
        }
        compile::<f64>(device, &Product::new(n, n, 16)).unwrap();
    }
    for strategy in MatmulStrategy::CANDIDATES {
        Matmul::with_strategy(device, &Product::<f32>::new(256, 256, 16), strategy).unwrap();
    }
    for n in [32, 256] {
        let product = Product::new(n, n, n);
        let [a, b, c] = [(); 3].map(|()| device.zeros(n * n).unwrap());
        for rung in rungs() {
            if let Some(matmul) = RungMatmul::new(device, rung.variant, product).unwrap() {
                matmul.launch(device.queue(), &a, &b, &c).unwrap();
            }
        }
    }
    assert!(TensorMatmul::<f64>::is_supported(device));
    let [a, b, c] = [(); 3].map(|()| device.zeros::<f64>(256 * 256).unwrap());
    let product = Product::new(256, 256, 256);
    TensorMatmul::new(device).unwrap().launch(device.queue(), &product, [&a, &b, &c]).unwrap();
    check_kernels(&cuda, 20);
}

#[test]
fn tf32_compiles_for_ampere() {
    let Some(cuda) = ptx_only_cuda((8, 0)) else { return };
    assert!(
        TensorMatmul::<f32>::is_supported(&cuda.device) && !TensorMatmul::<f64>::is_supported(&cuda.device)
    );
    TensorMatmul::<f32>::new(&cuda.device).unwrap();
    check_kernels(&cuda, 1);
}
