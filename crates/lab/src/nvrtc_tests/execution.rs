//! Compiles the experiments on the execution of instructions: occupancy.

use orrery_device::testing::compile_only_cuda;

use super::check_kernels;
use crate::experiments::occupancy::pressure::{Pressure, VALUES};

#[test]
fn occupancy_experiments_compile_for_hopper() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let resources = [None, Some(32)].map(|max_registers| {
        let pressure = Pressure::new(device, max_registers, 1).unwrap();
        pressure.launch(device.queue(), 1).unwrap();
        pressure.resources().0
    });
    let [free, limited] = resources.map(|resources| (resources.registers.unwrap(), resources.spill_bytes));
    // All numbers of a thread are in registers, or those that the limit allows.
    assert!((VALUES as u32..=144).contains(&free.0) && free.1 == Some(0), "{free:?}");
    assert!(limited.0 <= 32 && limited.1 >= Some(4 * (VALUES as u32 - 32)), "{limited:?}");
    check_kernels(&cuda, 2);
}
