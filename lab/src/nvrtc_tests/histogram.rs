//! Compiles the rungs of the ladder of histograms: letters, 16-bit values and bytes.

use orrery_device::Device;

use super::{ELEMENTS, TestResult};
use crate::primitives::histogram::letters::{self, LETTER_BINS, LetterHistogram};
use crate::primitives::histogram::wide::{self, WIDE_BINS, WideHistogram};
use crate::primitives::histogram::{BYTE_BINS, rungs};

/// Compiles all rungs.
pub fn compile_rungs(device: &Device) -> TestResult {
    let (bytes, queue) = (device.zeros(ELEMENTS)?, device.queue());
    let counts = device.zeros(BYTE_BINS)?;
    for rung in rungs::rungs() {
        rungs::RungHistogram::new(device, rung.variant)?.launch(queue, &bytes, &counts)?;
    }
    let counts = device.zeros(LETTER_BINS)?;
    for rung in letters::rungs() {
        LetterHistogram::new(device, rung.partition, rung.counting)?.launch(queue, &bytes, &counts)?;
    }
    let (values, counts) = (device.zeros(ELEMENTS)?, device.zeros(WIDE_BINS)?);
    for rung in wide::rungs() {
        WideHistogram::new(device, rung.private_bins)?.launch(queue, &values, &counts)?;
    }
    Ok(())
}
