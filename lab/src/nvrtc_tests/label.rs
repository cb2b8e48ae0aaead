//! Compiles the labels of connected components: every strategy and connectivity, images with and
//! without vector loads, volumes, all candidates, and the threshold.

use orrery_device::Device;

use super::TestResult;
use crate::primitives::label::rungs::rungs;
use crate::primitives::label::{Connectivity, Label, LabelStrategy, MaskShape, RunTiles, Threshold};

/// Compiles the default strategies.
pub fn compile_defaults(device: &Device) -> TestResult {
    for shape in
        [MaskShape::image(64, 64), MaskShape::image(3, 5), MaskShape { planes: 2, rows: 3, columns: 4 }]
    {
        for connectivity in Connectivity::ALL {
            compile(device, shape, connectivity, LabelStrategy::default_for(shape))?;
        }
    }
    let (image, mask) = (device.zeros(10)?, device.zeros(10)?);
    Threshold::new(device)?.launch(device.queue(), &image, 0.5, &mask)
}

/// Compiles the candidates and the other strategies.
pub fn compile_candidates_and_rungs(device: &Device) -> TestResult {
    let image = MaskShape::image(64, 64);
    for tiles in RunTiles::CANDIDATES {
        compile(device, image, Connectivity::Faces, LabelStrategy::Runs(tiles))?;
    }
    for connectivity in Connectivity::ALL {
        for rung in rungs(RunTiles::default()) {
            compile(device, image, connectivity, rung.strategy)?;
        }
    }
    Ok(())
}

fn compile(
    device: &Device,
    shape: MaskShape,
    connectivity: Connectivity,
    strategy: LabelStrategy,
) -> TestResult {
    let (mask, labels) = (device.zeros(shape.pixel_count())?, device.zeros(shape.pixel_count())?);
    Label::with_strategy(device, shape, connectivity, strategy)?.launch(
        device.queue(),
        &mask,
        &labels,
        &device.zeros(1)?,
    )
}
