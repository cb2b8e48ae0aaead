//! Checks of the device layer: memory, kernels in the dialect, queue order and event times.

use orrery_device::check::Check;
use orrery_device::{Backend, Device, DeviceError, Element, Kernel, KernelFile, Math};

// SAFETY: each kernel takes the length of its buffers, and the checks below pass it.
const CHECKS: KernelFile = unsafe { KernelFile::new("checks.cu", include_str!("checks.cu")) };
/// Threads per block.
pub(super) const BLOCK_SIZE: u32 = 64;
/// Array lengths around multiples of the block size, and a long one that is not a multiple.
pub(super) const LENGTHS: [usize; 7] = [1, 2, 31, 63, 64, 65, 4099];

pub(super) type DeviceCheckResult = Result<(), String>;
pub(super) type NamedCheck = (&'static str, fn(&Device) -> DeviceCheckResult);

/// Returns the checks of this module.
pub fn checks() -> Vec<Check> {
    let list: [NamedCheck; 10] = [
        ("buffers round-trip unchanged", check_buffers),
        ("copies run in queue order", check_copy_order),
        ("blocks and threads cover every element", check_indices),
        ("barriers order shared memory", check_shared_memory),
        ("atomics lose no update", check_atomics),
        ("float functions match the host", check_float_functions),
        ("double functions match the host", check_double_functions),
        ("kernels have the arithmetic of their flags", check_arithmetic_flags),
        ("vector components keep their order", check_vectors),
        ("events are ordered and times are positive", check_events),
    ];
    list.map(|(name, run)| Check { name: format!("device: {name}"), run }).into()
}

pub(super) fn message_of(error: DeviceError) -> String {
    error.to_string()
}

fn build_kernel(device: &Device, name: &str) -> Result<Kernel, String> {
    build_kernel_with(device, name, Math::Precise)
}

fn build_kernel_with(device: &Device, name: &str, math: Math) -> Result<Kernel, String> {
    let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
    device.build(&CHECKS, &definitions, math).and_then(|module| module.kernel(name)).map_err(message_of)
}

pub(super) fn block_count(n: usize) -> u32 {
    (n as u32).div_ceil(BLOCK_SIZE)
}

/// Checks that `actual` has `n` elements and that each equals `expected(index)`.
pub(super) fn check_equal<T: PartialEq + std::fmt::Debug>(
    n: usize,
    actual: &[T],
    expected: impl Fn(usize) -> T,
) -> DeviceCheckResult {
    if actual.len() != n {
        return Err(format!("got {} elements, expected {n}", actual.len()));
    }
    match (0..n).find(|&i| actual[i] != expected(i)) {
        None => Ok(()),
        Some(i) => Err(format!("n = {n}, element {i}: got {:?}, expected {:?}", actual[i], expected(i))),
    }
}

/// Checks that the relative error is at most `tolerance`. A NaN fails.
fn check_close(name: &str, actual: f64, expected: f64, tolerance: f64) -> DeviceCheckResult {
    let error = ((actual - expected) / expected).abs();
    if error <= tolerance { Ok(()) } else { Err(format!("{name}: got {actual:e}, expected {expected:e}")) }
}

fn check_buffers(device: &Device) -> DeviceCheckResult {
    for n in LENGTHS.into_iter().chain([0]) {
        let doubles: Vec<f64> = (0..n).map(|i| i as f64 * 0.1 - 7.0).collect();
        let words: Vec<u32> = (0..n).map(|i| (i as u32).wrapping_mul(2_654_435_761)).collect();
        let bytes: Vec<u8> = (0..n).map(|i| (i * 37) as u8).collect();
        let downloaded = device.upload(&doubles).and_then(|buffer| buffer.to_vec()).map_err(message_of)?;
        check_equal(n, &downloaded, |i| doubles[i])?;
        let downloaded = device.upload(&words).and_then(|buffer| buffer.to_vec()).map_err(message_of)?;
        check_equal(n, &downloaded, |i| words[i])?;
        let downloaded = device.upload(&bytes).and_then(|buffer| buffer.to_vec()).map_err(message_of)?;
        check_equal(n, &downloaded, |i| bytes[i])?;
        let zeros = device.zeros::<f32>(n).and_then(|buffer| buffer.to_vec()).map_err(message_of)?;
        check_equal(n, &zeros, |_| 0.0)?;
    }
    Ok(())
}

fn check_copy_order(device: &Device) -> DeviceCheckResult {
    let (n, queue) = (4099, device.queue());
    let first: Vec<u32> = (0..n as u32).collect();
    let second: Vec<u32> = first.iter().map(|x| !x).collect();
    let source = device.upload(&first).map_err(message_of)?;
    let target = device.zeros::<u32>(n).map_err(message_of)?;
    let mut host = device.pinned::<u32>(n).map_err(message_of)?;
    queue.copy(&source, &target).map_err(message_of)?;
    queue.write(&source, &second).map_err(message_of)?;
    let event = queue.read_async(&target, &mut host).map_err(message_of)?;
    queue.copy(&source, &target).map_err(message_of)?;
    event.wait().map_err(message_of)?;
    check_equal(n, &host, |i| first[i])?;
    check_equal(n, &target.to_vec().map_err(message_of)?, |i| second[i])
}

fn check_indices(device: &Device) -> DeviceCheckResult {
    let kernel = build_kernel(device, "square_indices")?;
    for n in LENGTHS {
        let out = device.upload(&vec![u32::MAX; n]).map_err(message_of)?;
        let args = [(n as i32).into(), (&out).into()];
        device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
        check_equal(n, &out.to_vec().map_err(message_of)?, |i| (i * i) as u32)?;
    }
    Ok(())
}

fn check_shared_memory(device: &Device) -> DeviceCheckResult {
    let kernel = build_kernel(device, "reverse_blocks")?;
    for blocks in [1, 3, 20] {
        let n = blocks * BLOCK_SIZE as usize;
        let input: Vec<u32> = (0..n as u32).collect();
        let buffer = device.upload(&input).map_err(message_of)?;
        device.queue().launch(&kernel, blocks as u32, BLOCK_SIZE, &[(&buffer).into()]).map_err(message_of)?;
        let size = BLOCK_SIZE as usize;
        let reversed = |i: usize| (i / size * size + size - 1 - i % size) as u32;
        check_equal(n, &buffer.to_vec().map_err(message_of)?, reversed)?;
    }
    Ok(())
}

fn check_atomics(device: &Device) -> DeviceCheckResult {
    let kernel = build_kernel(device, "update_atomics")?;
    for n in LENGTHS {
        let out = device.upload(&[0, u32::MAX, 0, 0]).map_err(message_of)?;
        let args = [(n as i32).into(), (&out).into()];
        device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
        let expected = [(n * (n + 1) / 2) as u32, 3, n as u32 + 2, 1];
        check_equal(4, &out.to_vec().map_err(message_of)?, |i| expected[i])?;
    }
    Ok(())
}

/// Runs a kernel that writes `values_per_element` values for each element of `input`.
fn map_elements<T: Element>(
    device: &Device,
    kernel_name: &str,
    input: &[T],
    values_per_element: usize,
) -> Result<Vec<T>, String> {
    let n = input.len();
    let buffer = device.upload(input).map_err(message_of)?;
    let out = device.zeros::<T>(values_per_element * n).map_err(message_of)?;
    let args = [(n as i32).into(), (&buffer).into(), (&out).into()];
    let kernel = build_kernel(device, kernel_name)?;
    device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
    out.to_vec().map_err(message_of)
}

fn check_float_functions(device: &Device) -> DeviceCheckResult {
    let input: Vec<f32> = (0..4099).map(|i| 1.0e-3 * 1.005f32.powi(i)).collect();
    let results = map_elements(device, "float_functions", &input, 4)?;
    for (i, x) in input.iter().enumerate() {
        let [sqrt, rsqrt, fma, max] = [0, 1, 2, 3].map(|k| f64::from(results[4 * i + k]));
        let wide = f64::from(*x);
        check_close(&format!("SQRT({x})"), sqrt, wide.sqrt(), 1.2e-7)?;
        // The fast reciprocal square root of both drivers is accurate to two units in the last
        // place.
        check_close(&format!("RSQRT({x})"), rsqrt, 1.0 / wide.sqrt(), 4.0e-7)?;
        check_close(&format!("FMA({x}, {x}, 1)"), fma, f64::from(x.mul_add(*x, 1.0)), 0.0)?;
        check_close(&format!("MAX({x}, 1)"), max, wide.max(1.0), 0.0)?;
    }
    Ok(())
}

fn check_double_functions(device: &Device) -> DeviceCheckResult {
    if !device.properties().has_f64 {
        return Ok(());
    }
    let input: Vec<f64> = (0..4099).map(|i| 1.0e-30 * 1.03f64.powi(i)).collect();
    let results = map_elements(device, "double_functions", &input, 2)?;
    for (i, x) in input.iter().enumerate() {
        check_close(&format!("RSQRT64({x:e})"), results[2 * i], 1.0 / x.sqrt(), 5e-16)?;
        check_close(&format!("FMA64({x:e}, {x:e}, 1)"), results[2 * i + 1], x.mul_add(*x, 1.0), 0.0)?;
    }
    Ok(())
}

/// Compiles the same text with and without the flag: a cache that mixes them up would show. OpenCL
/// may ignore the flag or always flush.
fn check_arithmetic_flags(device: &Device) -> DeviceCheckResult {
    let (smallest, denormal) = (f32::MIN_POSITIVE, 0.5 * f32::MIN_POSITIVE);
    let may_differ = device.properties().backend == Backend::OpenCl;
    for (math, expected) in [(Math::Precise, denormal), (Math::FlushToZero, 0.0), (Math::Precise, denormal)] {
        let kernel = build_kernel_with(device, "halve", math)?;
        let number = device.upload(&[smallest]).map_err(message_of)?;
        device
            .queue()
            .launch(&kernel, 1, BLOCK_SIZE, &[1i32.into(), (&number).into()])
            .map_err(message_of)?;
        let found = number.to_vec().map_err(message_of)?[0];
        if found != expected && !(may_differ && [0.0, denormal].contains(&found)) {
            return Err(format!("{math:?}: half of {smallest:e} is {found:e}, expected {expected:e}"));
        }
    }
    Ok(())
}

fn check_vectors(device: &Device) -> DeviceCheckResult {
    let n = 65;
    let input: Vec<[f32; 4]> = (0..n).map(|i| [0.0, 1.0, 2.0, 3.0].map(|k| i as f32 + 0.25 * k)).collect();
    let buffer = device.upload(&input).map_err(message_of)?;
    let kernel = build_kernel(device, "rotate_components")?;
    let args = [(n as i32).into(), (&buffer).into()];
    device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
    check_equal(n, &buffer.to_vec().map_err(message_of)?, |i| {
        let [x, y, z, w] = input[i];
        [y, z, w, x]
    })
}

fn check_events(device: &Device) -> DeviceCheckResult {
    let (n, queue) = (1 << 16, device.queue());
    let kernel = build_kernel(device, "square_indices")?;
    let out = device.zeros::<u32>(n).map_err(message_of)?;
    let args = [(n as i32).into(), (&out).into()];
    let start = queue.record().map_err(message_of)?;
    for _ in 0..10 {
        queue.launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
    }
    let end = queue.record().map_err(message_of)?;
    end.wait().map_err(message_of)?;
    let seconds = end.seconds_since(&start).map_err(message_of)?;
    if !start.is_done().map_err(message_of)? {
        return Err("the first event is not done after the second".to_owned());
    }
    if !(seconds > 0.0 && seconds < 60.0) {
        return Err(format!("ten launches took {seconds} s, expected between 0 and 60 s"));
    }
    Ok(())
}
