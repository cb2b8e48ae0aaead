//! Compiles the experiments on memory: copies, banks and textures.

use orrery_device::testing::ptx_only_cuda;

use super::{ELEMENTS, check_kernels};
use crate::experiments::banks::{self, BankReads};
use crate::experiments::copy::patterns::{PatternCopy, TextureCopy};
use crate::experiments::copy::{self, BLOCK_SIZES, RungCopy};
use crate::experiments::texture::{self, Gather, Image, Raster, TABLE_SIDE};

#[test]
fn memory_experiments_compile_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
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
    TextureCopy::new(device, &[0.0; ELEMENTS]).unwrap().launch(queue, 0, &to).unwrap();
    for rung in banks::rungs() {
        BankReads::new(device, rung.pattern).unwrap().launch(queue, 1).unwrap();
    }
    let (image, raster) = (Image::random(TABLE_SIDE, TABLE_SIDE), Raster::new(TABLE_SIDE, TABLE_SIDE, 30.0));
    let out = device.zeros(TABLE_SIDE * TABLE_SIDE).unwrap();
    for rung in texture::rungs() {
        Gather::new(device, rung.method, &image).unwrap().launch(queue, &raster, &out).unwrap();
    }
    // Two kernels of copies for five sets of definitions and four block sizes, three with offsets
    // and strides, one for the banks, and six samples of images.
    check_kernels(&cuda, 50);
}
