//! Tests of the device without a GPU.

use super::*;
use crate::error::DeviceError;
use crate::kernel::{Kernel, KernelFile, Math};
use crate::testing::{compile_only_cuda, ptx_only_cuda};

const TEXT: &str = "
KERNEL(64) shared_only(GLOBAL float* x, int n)
{
    SHARED float tile[64];
    tile[THREAD] = x[THREAD];
    BARRIER();
    x[THREAD] = tile[63 - THREAD] * (float)n;
}

KERNEL(128) with_local_array(GLOBAL float* x, double factor, ulong count, int n)
{
    float values[SIZE];
    for (int i = 0; i < SIZE; ++i)
        values[i] = x[i];
    for (int i = 0; i < n; ++i)
        values[(i * 7) % SIZE] += values[n % SIZE] * (float)factor;
    x[THREAD] = values[count % SIZE];
}
";

fn build(device: &Device, name: &str) -> Result<Kernel, DeviceError> {
    let definitions = [("SIZE", "50".to_owned()), ("UNUSED", "(1 + 2)".to_owned())];
    // SAFETY: the kernels are never launched.
    let file = unsafe { KernelFile::new("test.cu", TEXT) };
    device.build(&file, &definitions, Math::Precise)?.kernel(name)
}

#[test]
fn resources_and_parameters_are_those_of_the_source() {
    for capability in [(7, 5), (8, 0), (9, 0)] {
        let Some(cuda) = compile_only_cuda(capability) else { return };
        let shared_only = build(&cuda.device, "shared_only").unwrap().resources();
        assert_eq!((shared_only.shared_bytes, shared_only.spill_bytes), (256, Some(0)), "{capability:?}");
        assert_eq!(shared_only.max_block_size, 64);
        assert!((8..=32).contains(&shared_only.registers.unwrap()), "{shared_only:?}");
        let with_local_array = build(&cuda.device, "with_local_array").unwrap();
        let resources = with_local_array.resources();
        assert_eq!((resources.shared_bytes, resources.max_block_size), (0, 128));
        // 50 values of 4 bytes, and the alignment of the stack.
        assert!((200..=208).contains(&resources.spill_bytes.unwrap()), "{resources:?}");
        let (modules, function) = (lock(&cuda.driver.modules), &with_local_array);
        let kernel = modules[0].kernels.iter().find(|kernel| kernel.name == function.name()).unwrap();
        assert_eq!(kernel.parameter_bytes, [8, 8, 8, 4]);
    }
}

/// PTX has the names, block sizes and parameters, but not the registers.
#[test]
fn ptx_has_the_kernels_and_their_parameters() {
    for capability in [(7, 5), (9, 0)] {
        let Some(cuda) = ptx_only_cuda(capability) else { return };
        let kernel = build(&cuda.device, "with_local_array").unwrap();
        let resources = kernel.resources();
        assert_eq!((resources.max_block_size, resources.registers, resources.spill_bytes), (128, None, None));
        let modules = lock(&cuda.driver.modules);
        let names: Vec<_> = modules[0].kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["shared_only", "with_local_array"]);
        assert_eq!(modules[0].kernels[1].parameter_bytes, [8, 8, 8, 4]);
    }
}

/// The second device finds the binary in the cache on disk, if there is one.
#[test]
fn kernels_are_listed_with_their_definitions() {
    for _ in 0..2 {
        let Some(cuda) = compile_only_cuda((9, 0)) else { return };
        build(&cuda.device, "shared_only").unwrap();
        let kernels = cuda.kernels();
        let names: Vec<_> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["shared_only", "with_local_array"]);
        assert_eq!(kernels[0].file, "test.cu");
        assert_eq!(kernels[0].definitions, "SIZE=50 UNUSED=(1 + 2)");
        assert!(build(&cuda.device, "missing").is_err());
        // The device lists what was requested, with its resources.
        let requested = cuda.device.kernels().unwrap();
        assert_eq!(requested.iter().map(Kernel::name).collect::<Vec<_>>(), ["shared_only"]);
        assert_eq!((requested[0].file(), requested[0].definitions()), ("test.cu", "SIZE=50 UNUSED=(1 + 2)"));
        let needs = requested[0].block_needs(64).unwrap();
        assert_eq!((needs.threads, needs.shared_bytes), (64, 256));
        cuda.device.forget_builds();
        assert!(cuda.device.kernels().unwrap().is_empty());
    }
}

#[test]
fn launches_check_arguments_and_leave_memory_unchanged() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let kernel = build(device, "shared_only").unwrap();
    let x = device.upload(&[1.0f32; 64]).unwrap();
    device.queue().launch(&kernel, 1, 64, &[(&x).into(), 3.into()]).unwrap();
    assert_eq!(x.to_vec().unwrap(), [1.0; 64]);
    let with_f64 = device.queue().launch(&kernel, 1, 64, &[(&x).into(), 3.0f64.into()]);
    assert!(matches!(with_f64, Err(DeviceError::Launch { .. })), "{with_f64:?}");
    let with_large_block = device.queue().launch(&kernel, 1, 65, &[(&x).into(), 3.into()]);
    assert!(matches!(with_large_block, Err(DeviceError::Launch { .. })), "{with_large_block:?}");
}

/// The kernel keeps 80 values in registers, if it may.
#[test]
fn registers_are_limited_on_request() {
    let text = "
KERNEL_2D(32, 2) mix(GLOBAL float* x, int n)
{
    float values[80];
    UNROLL_ALL
    for (int i = 0; i < 80; i++)
        values[i] = x[i * n];
    for (int round = 0; round < n; round++) {
        UNROLL_ALL
        for (int i = 0; i < 80; i++)
            values[i] = FMA(values[i], values[(i + 7) % 80], values[(i + 1) % 80]);
    }
    float sum = 0.0f;
    UNROLL_ALL
    for (int i = 0; i < 80; i++)
        sum = FMA(sum, 0.5f, values[i]);
    x[THREAD_Y * 32 + THREAD] = sum;
}
";
    // SAFETY: the kernel is never launched.
    let file = unsafe { KernelFile::new("test.cu", text) };
    for capability in [(7, 5), (8, 0), (9, 0)] {
        let Some(cuda) = compile_only_cuda(capability) else { return };
        let resources = |definitions: &[(&str, String)]| {
            let module = cuda.device.build(&file, definitions, Math::Precise).unwrap();
            module.kernel("mix").unwrap().resources()
        };
        let free = resources(&[]);
        let limited = resources(&[("MAX_REGISTERS", "32".to_owned())]);
        assert!(free.registers.unwrap() > 80 && free.spill_bytes == Some(0), "{free:?}");
        assert!(limited.registers.unwrap() <= 32 && limited.spill_bytes.unwrap() > 0, "{limited:?}");
        assert_eq!((free.max_block_size, limited.max_block_size), (64, 64));
    }
}

/// The device reports 64 MiB of free memory.
#[test]
fn managed_memory_does_not_exceed_free_memory() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let device = &cuda.device;
    let mut first = device.managed::<f32>(10 << 20).unwrap();
    first.with_host(|elements| elements.fill(1.0)).unwrap();
    device.queue().prefetch_to_device(&first).unwrap();
    device.queue().prefetch_to_host(&first).unwrap();
    assert_eq!(first.with_host(|elements| elements.iter().sum::<f32>()).unwrap(), (10 << 20) as f32);
    let error = device.managed::<u8>((24 << 20) + 1).unwrap_err();
    let expected =
        DeviceError::OutOfMemory { device: device.title(), needed: (24 << 20) + 1, free: 24 << 20 };
    assert_eq!(error, expected);
    let second = device.managed::<u8>(24 << 20).unwrap();
    assert_eq!(device.held_bytes(), 64 << 20);
    drop((first, second));
    assert_eq!(device.held_bytes(), 0);
    assert!(device.managed::<u64>(usize::MAX).is_err());
    device.managed::<u8>(64 << 20).unwrap();
}

#[test]
fn a_damaged_cubin_is_rejected_or_read_without_panic() {
    let Some(cuda) = compile_only_cuda((9, 0)) else { return };
    let text = format!("{}#define SIZE 50\n{TEXT}", include_str!("../../../prelude/cuda.h"));
    let options = CompileOptions { math: Math::Precise, max_registers: None };
    let compiled = cuda.driver.compiler.compile("test.cu", &text, options, (9, 0));
    let Ok(compiled) = compiled else { panic!("does not compile") };
    let mut cubin = compiled.code;
    assert_eq!(cubin::read_kernels(&cubin).unwrap().len(), 2);
    assert_eq!(cubin::read_kernels(&cubin[..cubin.len() / 2]), None);
    for position in (0..cubin.len()).step_by(3) {
        cubin[position] ^= 0xff;
        let _ = (cubin::read_kernels(&cubin), cubin::read_constants(&cubin));
        cubin[position] ^= 0xff;
    }
}
