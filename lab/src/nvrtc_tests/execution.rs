//! Compiles the experiments on the execution of instructions: arithmetic and occupancy.

use orrery_device::testing::{compile_only_cuda, ptx_only_cuda};

use super::check_kernels;
use crate::experiments::arithmetic::sums::OrderedSums;
use crate::experiments::arithmetic::{Chains, CodeSize, Shape, all_operations, for_number, one_register_fma};
use crate::experiments::occupancy::loads::{LoadShape, Loads};
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
    let from = device.zeros(5000).unwrap();
    for (width, loads) in [(1, 1), (2, 1), (4, 4)] {
        for block_size in [32, 1024] {
            let shape = LoadShape { width, loads, block_size, dynamic_shared: 1000 };
            let kernel = Loads::new(device, shape, 1).unwrap();
            kernel.launch(device.queue(), &from).unwrap();
            // 64 warps fit on an SM.
            assert!(kernel.resources().0.registers.unwrap() <= if loads == 1 { 32 } else { 64 });
        }
    }
    // Nor do registers limit the warps of one chain of FMAs.
    let shape = Shape::with_chains(device, 1, 1024);
    let chains = Chains::new(device, &one_register_fma(), shape, 1).unwrap();
    assert!(chains.resources().0.registers.unwrap() <= 32);
    check_kernels(&cuda, 9);
}

#[test]
fn arithmetic_compiles_for_hopper() {
    let Some(cuda) = ptx_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let operations = all_operations();
    for any in &operations {
        for_number!(any, operation => {
            let mut shapes = vec![Shape::for_throughput(device, operation.size)];
            // The other ones have the same code with other constants.
            if operation.name.ends_with("FMA") {
                shapes.push(Shape::for_latency(CodeSize::Small));
            }
            for shape in shapes {
                let chains = Chains::new(device, operation, shape, 1).unwrap();
                chains.launch(device.queue(), 1, 1).unwrap();
            }
        });
    }
    OrderedSums::single_on_device(device).unwrap();
    OrderedSums::double_on_device(device).unwrap();
    check_kernels(&cuda, operations.len() + 4);
}
