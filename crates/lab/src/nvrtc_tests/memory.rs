//! Compiles the experiments on memory: copies, banks and textures.

use orrery_device::testing::compile_only_cuda;

use super::{ELEMENTS, check_kernels};
use crate::experiments::banks::{self, BankReads};
use crate::experiments::copy::patterns::PatternCopy;
use crate::experiments::copy::{self, BLOCK_SIZES, RungCopy};

#[test]
fn memory_experiments_compile_for_hopper() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let (device, queue) = (&cuda.device, cuda.device.queue());
    let (from, to) = (device.zeros(ELEMENTS).unwrap(), device.zeros(ELEMENTS).unwrap());
    for rung in copy::rungs() {
        for block_size in BLOCK_SIZES {
            RungCopy::new(device, rung.method, block_size).unwrap().launch(queue, &from, &to).unwrap();
        }
    }
    let patterns = PatternCopy::new(device).unwrap();
    patterns.launch_shifted(queue, &from, 0, &to).unwrap();
    patterns.launch_strided(queue, &from, 3, &to).unwrap();
    for rung in banks::rungs() {
        BankReads::new(device, rung.pattern).unwrap().launch(queue, 1).unwrap();
    }
    // Two kernels of copies for five sets of definitions and four block sizes, two patterns, the
    // banks.
    check_kernels(&cuda, 43);
}
