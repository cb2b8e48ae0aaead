//! Compiles the primitives for the elements, shapes and strategies that no rung has.

use orrery_device::testing::ptx_only_cuda;
use orrery_device::{Device, DeviceError, Element};

use super::{ELEMENTS, ListResult};
use crate::primitives::histogram::binned::{BinnedHistogram, FloatBins, MAX_BINS};
use crate::primitives::histogram::{Histogram, HistogramStrategy};
use crate::primitives::label::rungs::rungs as label_rungs;
use crate::primitives::label::{Connectivity, Label, LabelStrategy, MaskShape, RunTiles, Threshold};
use crate::primitives::matmul::{Matmul, MatmulStrategy, MatrixNumber, Product, TensorMatmul};
use crate::primitives::transpose::{MatrixShape, Transpose, TransposeInPlace, TransposeStrategy};
use crate::rungs::reduce::{RungSum, rungs as reduction_rungs};

/// Compiles the default strategies of transposes, labels and histograms.
pub fn compile_defaults(device: &Device) -> ListResult {
    compile_transposes_of::<u8>(device)?;
    compile_transposes_of::<u16>(device)?;
    compile_transposes_of::<f32>(device)?;
    compile_transposes_of::<f64>(device)?;
    compile_transposes_of::<[f32; 4]>(device)?;
    for shape in
        [MaskShape::image(64, 64), MaskShape::image(3, 5), MaskShape { planes: 2, rows: 3, columns: 4 }]
    {
        for connectivity in Connectivity::ALL {
            compile_label(device, shape, connectivity, LabelStrategy::default_for(shape))?;
        }
    }
    let (image, mask) = (device.zeros(10)?, device.zeros(10)?);
    Threshold::new(device)?.launch(device.queue(), &image, 0.5, &mask)?;
    Histogram::new(device)?.count(device.queue(), &device.zeros(ELEMENTS)?)?;
    for count in [1, 100, MAX_BINS] {
        let bins = FloatBins::new(0.0, 1.0, count).expect("valid bins");
        BinnedHistogram::new(device, bins)?.count(device.queue(), &device.zeros(ELEMENTS)?)?;
    }
    Ok(())
}

/// Compiles transposes with and without vectors, in and out of place.
fn compile_transposes_of<T: Element>(device: &Device) -> Result<(), DeviceError> {
    for side in [64, 63] {
        let (from, to) = (device.zeros::<T>(side * side)?, device.zeros(side * side)?);
        Transpose::new(device, MatrixShape::square(side))?.launch(device.queue(), &from, &to)?;
        TransposeInPlace::new(device, side)?.launch(device.queue(), &from)?;
    }
    Ok(())
}

/// Compiles the candidates of transposes of f32, and of histograms.
pub fn compile_candidates(device: &Device) -> ListResult {
    for strategy in HistogramStrategy::CANDIDATES {
        Histogram::with_strategy(device, strategy)?;
    }
    let shape = MatrixShape::square(64);
    let (from, to) = (device.zeros(shape.element_count())?, device.zeros(shape.element_count())?);
    for strategy in TransposeStrategy::CANDIDATES {
        Transpose::<f32>::with_strategy(device, shape, strategy)?.launch(device.queue(), &from, &to)?;
    }
    Ok(())
}

/// Compiles the candidates, and the rungs for pixels that share a corner.
pub fn compile_labels(device: &Device) -> ListResult {
    let image = MaskShape::image(64, 64);
    for tiles in RunTiles::CANDIDATES {
        compile_label(device, image, Connectivity::Faces, LabelStrategy::Runs(tiles))?;
    }
    for rung in label_rungs(RunTiles::default()) {
        compile_label(device, image, Connectivity::Corners, rung.strategy)?;
    }
    Ok(())
}

fn compile_label(
    device: &Device,
    shape: MaskShape,
    connectivity: Connectivity,
    strategy: LabelStrategy,
) -> Result<(), DeviceError> {
    let (mask, labels) = (device.zeros(shape.pixel_count())?, device.zeros(shape.pixel_count())?);
    Label::with_strategy(device, shape, connectivity, strategy)?.launch(
        device.queue(),
        &mask,
        &labels,
        &device.zeros(1)?,
    )
}

/// Compiles products of few tiles and many, aligned or not, with every combination of
/// transpositions, the candidates, and f64 on tensor cores.
pub fn compile_products(device: &Device) -> ListResult {
    for n in [64, 63, 2048, 2049] {
        for (transposed_a, transposed_b) in [(false, false), (true, false), (false, true), (true, true)] {
            let product = Product { transposed_a, transposed_b, ..Product::new(n, n, 16) };
            compile_product::<f32>(device, &product)?;
        }
        compile_product::<f64>(device, &Product::new(n, n, 16))?;
    }
    for strategy in MatmulStrategy::CANDIDATES {
        Matmul::with_strategy(device, &Product::<f32>::new(256, 256, 16), strategy)?;
    }
    let [a, b, c] = [device.zeros(256 * 256)?, device.zeros(256 * 256)?, device.zeros(256 * 256)?];
    let product = Product::new(256, 256, 256);
    Ok(TensorMatmul::<f64>::new(device)?.launch(device.queue(), &product, [&a, &b, &c])?)
}

fn compile_product<T: MatrixNumber>(device: &Device, product: &Product<T>) -> Result<(), DeviceError> {
    let [a, b, c] = product.lengths();
    let [a, b, c] = [device.zeros(a)?, device.zeros(b)?, device.zeros(c)?];
    Matmul::new(device, product)?.launch(device.queue(), &a, &b, &c)
}

#[test]
fn tf32_compiles_for_ampere() {
    let Some(cuda) = ptx_only_cuda((8, 0)) else { return };
    assert!(TensorMatmul::<f32>::is_supported(&cuda.device));
    assert!(!TensorMatmul::<f64>::is_supported(&cuda.device));
    TensorMatmul::<f32>::new(&cuda.device).unwrap();
}

/// Compiles the sums of integers for one block size.
pub fn compile_integer_sums(device: &Device) -> ListResult {
    let (numbers, sum) = (device.zeros::<i32>(ELEMENTS)?, device.zeros(1)?);
    for rung in reduction_rungs() {
        RungSum::<i32>::new(device, rung.variant, 256)?.launch(device.queue(), &numbers, &sum)?;
    }
    Ok(())
}
