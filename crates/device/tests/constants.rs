//! Arrays in constant memory, on every device.

use crate::common::is_cuda;
use orrery_device::testing::{compile_only_cuda, test_devices};
use orrery_device::{Arg, Constant, Device, Kernel, KernelFile, Math, Module};

// SAFETY: the kernel reads n sources and COUNT factors, of which the arrays have at least as many,
// and writes BLOCK_SIZE elements per block. The tests launch one block.
const CONSTANTS: KernelFile = unsafe { KernelFile::new("constants.cu", include_str!("constants.cu")) };
const BLOCK_SIZE: usize = 64;
const COUNT: usize = 8;

fn build(device: &Device) -> Module {
    let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string()), ("COUNT", COUNT.to_string())];
    device.build(&CONSTANTS, &definitions, Math::Precise).unwrap_or_else(|error| panic!("{error}"))
}

/// A kernel with its arrays in constant memory.
struct Setup {
    kernel: Kernel,
    sources: Constant<[f32; 4]>,
    factors: Constant<u32>,
}

impl Setup {
    fn new(device: &Device) -> Self {
        let module = build(device);
        let sources = module.constant("sources", 2 * COUNT).unwrap();
        let factors = module.constant("factors", COUNT).unwrap();
        Self { kernel: module.kernel("sum_sources").unwrap(), sources, factors }
    }

    fn write(&self, device: &Device, sources: &[[f32; 4]], factors: &[u32]) {
        device.queue().write_constant(&self.sources, sources).unwrap();
        device.queue().write_constant(&self.factors, factors).unwrap();
    }

    fn sum(&self, device: &Device, n: usize) -> Vec<f32> {
        let out = device.zeros::<f32>(BLOCK_SIZE).unwrap();
        let args = [Arg::from(&self.sources), (&out).into(), (&self.factors).into(), (n as i32).into()];
        device.queue().launch(&self.kernel, 1, BLOCK_SIZE as u32, &args).unwrap();
        out.to_vec().unwrap()
    }
}

/// Returns small integers, whose sums are exact, and the expected result.
fn example(shift: u32, n: usize) -> (Vec<[f32; 4]>, Vec<u32>, Vec<f32>) {
    let source = |i| [i as f32, 1.0, -3.0, (i * i + shift as usize) as f32];
    let sources: Vec<[f32; 4]> = (0..2 * COUNT).map(source).collect();
    let factors: Vec<u32> = (0..COUNT as u32).map(|i| 2 * i + shift).collect();
    let sum: f32 = (0..n).map(|i| sources[i].iter().sum::<f32>() * factors[i % COUNT] as f32).sum();
    let expected = (0..BLOCK_SIZE).map(|thread| sum + thread as f32).collect();
    (sources, factors, expected)
}

#[test]
fn kernels_read_the_values_that_the_host_wrote() {
    for device in test_devices() {
        let setup = Setup::new(&device);
        assert_eq!((setup.sources.len(), setup.factors.is_empty()), (2 * COUNT, false));
        for (shift, n) in [(0, 1), (5, 2 * COUNT), (9, COUNT + 1)] {
            let (sources, factors, expected) = example(shift, n);
            setup.write(&device, &sources, &factors);
            assert_eq!(setup.sum(&device, n), expected, "shift = {shift}, n = {n}");
        }
    }
}

/// Also on CUDA, where the values are variables of a module that other builds do not share.
#[test]
fn two_builds_have_different_values() {
    for device in test_devices() {
        let setups = [Setup::new(&device), Setup::new(&device)];
        let examples = [example(1, COUNT), example(2, COUNT)];
        for (setup, (sources, factors, _)) in setups.iter().zip(&examples) {
            setup.write(&device, sources, factors);
        }
        for _ in 0..2 {
            for (setup, (.., expected)) in setups.iter().zip(&examples) {
                assert_eq!(setup.sum(&device, COUNT), *expected);
            }
        }
    }
}

#[test]
fn a_wrong_constant_gives_an_error() {
    for device in test_devices() {
        let module = build(&device);
        let start = format!("{}: constant: constants.cu: ", device.title());
        let error = module.constant::<u32>("factor", COUNT).unwrap_err().to_string();
        assert_eq!(error, format!("{start}no CONSTANT_ARRAY 'factor'"));
        let declared = format!("{start}'factors' is declared with 8 elements of type uint, got");
        let error = module.constant::<u32>("factors", 7).unwrap_err().to_string();
        assert_eq!(error, format!("{declared} 7 of type uint"));
        let error = module.constant::<f32>("factors", COUNT).unwrap_err().to_string();
        assert_eq!(error, format!("{declared} 8 of type float"));
        // Signed numbers have the same bits.
        let factors = module.constant::<i32>("factors", COUNT).unwrap();
        let error = module.constant::<u32>("factors", COUNT).unwrap_err().to_string();
        assert_eq!(error, format!("{start}'factors' is in use"));
        let error = device.queue().write_constant(&factors, &[1; 7]).unwrap_err().to_string();
        assert!(error.ends_with("expected a buffer of 8 elements, got 7"), "{error}");
        drop(factors);
        module.constant::<u32>("factors", COUNT).unwrap();
        // CUDA does not compile such an array.
        let definitions = [("BLOCK_SIZE", "64".to_owned()), ("COUNT", "3000".to_owned())];
        if let Ok(module) = device.build(&CONSTANTS, &definitions, Math::Precise) {
            assert!(!is_cuda(&device));
            let error = module.constant::<[f32; 4]>("sources", 6000).unwrap_err().to_string();
            assert_eq!(error, format!("{start}'sources' has 93.8 KiB, expected at most 64.0 KiB"));
        }
    }
}

/// The device finds the arrays among the variables in the constant memory of the cubin.
#[test]
fn arrays_are_in_constant_memory_on_cuda() {
    for capability in [(7, 5), (9, 0)] {
        let Some(cuda) = compile_only_cuda(capability) else { return };
        let setup = Setup::new(&cuda.device);
        let (sources, factors, _) = example(0, 1);
        setup.write(&cuda.device, &sources, &factors);
        assert_eq!(setup.sum(&cuda.device, 1), [0.0; BLOCK_SIZE]);
        let buffer = cuda.device.zeros::<f32>(1).unwrap();
        assert!(buffer.address().is_some_and(|address| address != 0));
    }
}

#[test]
fn only_cuda_has_addresses() {
    for device in test_devices() {
        assert_eq!(device.zeros::<f32>(4).unwrap().address().is_some(), is_cuda(&device));
    }
}
