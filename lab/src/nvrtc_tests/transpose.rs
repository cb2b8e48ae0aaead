//! Compiles the transposes: every element size with and without vectors, in and out of place, all
//! candidates and the rungs of the ladder.

use orrery_device::{Device, Element};

use super::TestResult;
use crate::primitives::transpose::rungs::{RungTranspose, TILES, rungs};
use crate::primitives::transpose::{MatrixShape, Transpose, TransposeInPlace, TransposeStrategy};

/// Sides of a square that allow vectors, and that do not.
const SIDES: [usize; 2] = [64, 63];

/// Compiles the default strategies.
pub fn compile_defaults(device: &Device) -> TestResult {
    compile_element::<u8>(device)?;
    compile_element::<u16>(device)?;
    compile_element::<f32>(device)?;
    compile_element::<f64>(device)?;
    compile_element::<[f32; 4]>(device)
}

fn compile_element<T: Element>(device: &Device) -> TestResult {
    for side in SIDES {
        let (from, to) = (device.zeros::<T>(side * side)?, device.zeros(side * side)?);
        Transpose::new(device, MatrixShape::square(side))?.launch(device.queue(), &from, &to)?;
        TransposeInPlace::new(device, side)?.launch(device.queue(), &from)?;
    }
    Ok(())
}

/// Compiles the candidates for f32 and the rungs.
pub fn compile_candidates_and_rungs(device: &Device) -> TestResult {
    let shape = MatrixShape::square(SIDES[0]);
    let (from, to) = (device.zeros(shape.element_count())?, device.zeros(shape.element_count())?);
    for strategy in TransposeStrategy::CANDIDATES {
        Transpose::with_strategy(device, shape, strategy)?.launch(device.queue(), &from, &to)?;
    }
    for rung in rungs() {
        for tile in TILES {
            RungTranspose::new(device, rung.variant, tile, shape)?.launch(device.queue(), &from, &to)?;
        }
    }
    Ok(())
}
