//! Checks of the kinds of memory: constant, shared, pitched, mapped and managed memory, textures
//! and registers. A device that lacks one of them passes.

use orrery_device::check::Check;
use orrery_device::{
    AddressMode, Arg, Device, DeviceKind, KernelFile, Math, Module, Queue, TextureFilter, TextureSettings,
};

use super::device::{
    BLOCK_SIZE, DeviceCheckResult, LENGTHS, NamedCheck, block_count, check_equal, message_of,
};

// SAFETY: each kernel takes the length of its buffers, and the checks below pass it.
// `sum_registers` reads 64 elements and writes BLOCK_SIZE, which is 64 too.
const MEMORY: KernelFile = unsafe { KernelFile::new("memory.cu", include_str!("memory.cu")) };
// SAFETY: each kernel takes the length of its buffers and textures, and the checks below pass it.
const TEXTURES: KernelFile = unsafe { KernelFile::new("textures.cu", include_str!("textures.cu")) };

/// Returns the checks of this module.
pub fn checks() -> Vec<Check> {
    let list: [NamedCheck; 8] = [
        ("constant memory has the values of the host", check_constants),
        ("dynamic shared memory has its size", check_dynamic_shared),
        ("copies of rows skip their padding", check_pitched),
        ("mapped memory is seen by kernels and host", check_mapped),
        ("managed memory moves to host and device", check_managed),
        ("registers are limited on request", check_registers),
        ("1-D textures are read by index", check_lines),
        ("2-D textures match their definition", check_planes),
    ];
    list.map(|(name, run)| Check { name: format!("device: {name}"), run }).into()
}

fn build(device: &Device, file: &KernelFile<'_>, more: &[(&str, String)]) -> Result<Module, String> {
    let definitions = [&[("BLOCK_SIZE", BLOCK_SIZE.to_string())], more].concat();
    device.build(file, &definitions, Math::Precise).map_err(message_of)
}

fn check_constants(device: &Device) -> DeviceCheckResult {
    let module = build(device, &MEMORY, &[])?;
    let kernel = module.kernel("draw_lines").map_err(message_of)?;
    let lines = module.constant::<[f32; 4]>("lines", 4).map_err(message_of)?;
    let lengths = module.constant::<i32>("lengths", 1).map_err(message_of)?;
    for (round, n) in LENGTHS.into_iter().enumerate() {
        let values = [0, 1, 2, 3].map(|line| [line as f32, (line + round) as f32, 0.0, 0.0]);
        let write = |queue: &Queue| {
            queue.write_constant(&lines, &values)?;
            queue.write_constant(&lengths, &[n as i32])
        };
        write(device.queue()).map_err(message_of)?;
        let out = device.zeros::<f32>(n).map_err(message_of)?;
        let args = [Arg::from(&out), (&lines).into(), (&lengths).into()];
        device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
        // Integers below 2^24, which f32 represents exactly.
        let expected = |i: usize| (i % 4 + (i % 4 + round) * i) as f32;
        check_equal(n, &out.to_vec().map_err(message_of)?, expected)?;
    }
    Ok(())
}

fn check_dynamic_shared(device: &Device) -> DeviceCheckResult {
    let module = build(device, &MEMORY, &[])?;
    let kernel = module.kernel_with_shared("reverse_dynamic", 4 * BLOCK_SIZE).map_err(message_of)?;
    let (n, size) = (20 * BLOCK_SIZE as usize, BLOCK_SIZE as usize);
    let data = device.upload(&(0..n as u32).collect::<Vec<_>>()).map_err(message_of)?;
    let args = [Arg::from(&data), (n as i32).into()];
    device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
    let reversed = |i: usize| (i / size * size + size - 1 - i % size) as u32;
    check_equal(n, &data.to_vec().map_err(message_of)?, reversed)
}

fn check_pitched(device: &Device) -> DeviceCheckResult {
    let kernel = build(device, &MEMORY, &[])?.kernel("add_coordinates").map_err(message_of)?;
    let queue = device.queue();
    for (width, height) in [(1, 1), (127, 3), (128, 5), (129, 2)] {
        let rows = device.pitched::<i32>(width, height).map_err(message_of)?;
        let copy = device.pitched::<i32>(width, height).map_err(message_of)?;
        let pitch = rows.pitch();
        let start: Vec<i32> = (0..(width * height) as i32).collect();
        let [width_arg, height_arg, pitch_arg] = [width, height, pitch].map(|size| Arg::from(size as i32));
        let grid = [pitch.div_ceil(16) as u32, height.div_ceil(4) as u32];
        let mut found = vec![0; start.len()];
        let run = |found: &mut [i32]| {
            queue.write_2d(&rows, &start)?;
            queue.launch(&kernel, grid, [16, 4], &[(&rows).into(), width_arg, height_arg, pitch_arg])?;
            queue.copy_2d(&rows, &copy)?;
            queue.read_2d(&copy, found)
        };
        run(&mut found).map_err(message_of)?;
        check_equal(start.len(), &found, |i| (i + i % width + i / width) as i32)?;
    }
    Ok(())
}

fn check_mapped(device: &Device) -> DeviceCheckResult {
    if !device.properties().can_map_host_memory {
        return Ok(());
    }
    let kernel = build(device, &MEMORY, &[])?.kernel("double_elements").map_err(message_of)?;
    for n in LENGTHS {
        let mut data = device.mapped::<u32>(n).map_err(message_of)?;
        for round in 0..3 {
            data.with_host(|data| (round..).zip(data).for_each(|(i, x)| *x = i)).map_err(message_of)?;
            let args = [Arg::from(&data), (n as i32).into()];
            device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
            let found = data.with_host(|data| data.to_vec()).map_err(message_of)?;
            check_equal(n, &found, |i| 2 * (i as u32 + round))?;
        }
    }
    Ok(())
}

fn check_managed(device: &Device) -> DeviceCheckResult {
    if !device.properties().has_managed_memory {
        return Ok(());
    }
    let kernel = build(device, &MEMORY, &[])?.kernel("double_elements").map_err(message_of)?;
    let queue = device.queue();
    for n in LENGTHS.into_iter().chain([1_000_003]) {
        let mut data = device.managed::<u32>(n).map_err(message_of)?;
        data.with_host(|data| (0..).zip(data).for_each(|(i, x)| *x = i)).map_err(message_of)?;
        for factor in [2, 4] {
            queue.prefetch_to_device(&data).map_err(message_of)?;
            let args = [Arg::from(&data), (n as i32).into()];
            queue.launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
            queue.prefetch_to_host(&data).map_err(message_of)?;
            let found = data.with_host(|data| data.to_vec()).map_err(message_of)?;
            check_equal(n, &found, |i| factor * i as u32)?;
        }
    }
    Ok(())
}

/// Registers of the limited kernel. It needs more than twice as many.
const MAX_REGISTERS: u32 = 32;

/// The result of the kernel is the same with and without a limit. The limit holds where the driver
/// reports registers.
fn check_registers(device: &Device) -> DeviceCheckResult {
    let input: Vec<u32> = (0..64).map(|k| k * k + 1).collect();
    let buffer = device.upload(&input).map_err(message_of)?;
    let mut results = Vec::new();
    for limit in [None, Some(MAX_REGISTERS)] {
        let limit: Vec<_> = limit.map(|limit| ("MAX_REGISTERS", limit.to_string())).into_iter().collect();
        let kernel = build(device, &MEMORY, &limit)?.kernel("sum_registers").map_err(message_of)?;
        let registers = kernel.resources().registers;
        if !limit.is_empty()
            && let Some(registers) = registers.filter(|registers| *registers > MAX_REGISTERS)
        {
            return Err(format!("{registers} registers, expected at most {MAX_REGISTERS}"));
        }
        let out = device.zeros::<u32>(BLOCK_SIZE as usize).map_err(message_of)?;
        let args = [Arg::from(&buffer), (&out).into(), 3.into()];
        device.queue().launch(&kernel, 1, BLOCK_SIZE, &args).map_err(message_of)?;
        results.push(out.to_vec().map_err(message_of)?);
    }
    let expected: Vec<u32> = (0..BLOCK_SIZE).map(|thread| sum_registers(&input, thread, 3)).collect();
    for found in &results {
        check_equal(expected.len(), found, |i| expected[i])?;
    }
    Ok(())
}

/// Reference of the kernel with the same name, for one thread.
fn sum_registers(input: &[u32], thread: u32, rounds: usize) -> u32 {
    let mut values: Vec<u32> = input.iter().map(|value| value + thread).collect();
    for _ in 0..rounds {
        for k in 0..64 {
            values[k] = values[k].wrapping_add(values[(k + 1) % 64] ^ values[(k + 5) % 64]);
        }
    }
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

fn check_lines(device: &Device) -> DeviceCheckResult {
    if !device.properties().has_textures {
        return Ok(());
    }
    let kernel = build(device, &TEXTURES, &[])?.kernel("reverse_line").map_err(message_of)?;
    for n in LENGTHS {
        let texels: Vec<f32> = (0..n).map(|i| i as f32 * 0.25 - 3.0).collect();
        let line = device.texture_1d(&texels).map_err(message_of)?;
        let out = device.zeros::<f32>(n).map_err(message_of)?;
        let args = [Arg::from(&line), (&out).into(), (n as i32).into()];
        device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
        check_equal(n, &out.to_vec().map_err(message_of)?, |i| texels[n - 1 - i])?;
    }
    Ok(())
}

/// Width and height of the texture in the check. Powers of two, so that normalised coordinates are
/// exact.
const SIZE: [usize; 2] = [16, 8];
/// Upper limit of the texels, which are integers from 0 on.
const MAX_TEXEL: usize = 128;

/// Returns the largest error of a value. Texture units of GPUs round each of the two weights to 8
/// fractional bits, up or down. Other devices compute four terms with four roundings of f32 each.
fn texture_tolerance(device: &Device, filter: TextureFilter) -> f64 {
    match (filter, device.properties().kind) {
        (TextureFilter::Nearest, _) => 0.0,
        (TextureFilter::Linear, DeviceKind::Gpu) => 2.0 * MAX_TEXEL as f64 / 256.0,
        (TextureFilter::Linear, _) => 16.0 * MAX_TEXEL as f64 / (1 << 24) as f64,
    }
}

/// Reads points inside and outside a texture, with all settings. Points are multiples of 1/8 texel
/// plus 1/16, and thus never at the border between two texels.
fn check_planes(device: &Device) -> DeviceCheckResult {
    if !device.properties().has_textures {
        return Ok(());
    }
    let kernel = build(device, &TEXTURES, &[])?.kernel("read_plane").map_err(message_of)?;
    let texels: Vec<f32> = (0..SIZE[0] * SIZE[1]).map(|i| (i * 37 % MAX_TEXEL) as f32).collect();
    let coordinate = |step: usize, len: usize| step as f64 / 8.0 + 1.0 / 16.0 - 2.0 * len as f64;
    let points: Vec<[f64; 2]> = (0..5 * 8 * SIZE[0])
        .map(|step| [coordinate(step, SIZE[0]), coordinate(step * 13 % (5 * 8 * SIZE[1]), SIZE[1])])
        .collect();
    for filter in [TextureFilter::Nearest, TextureFilter::Linear] {
        for (address, normalised) in
            [(AddressMode::Clamp, false), (AddressMode::Clamp, true), (AddressMode::Wrap, true)]
        {
            let settings = TextureSettings { address, filter, normalised };
            let plane = device.texture_2d(SIZE, &texels, settings).map_err(message_of)?;
            let [x, y] = [0, 1].map(|axis| {
                let scale = if normalised { SIZE[axis] as f64 } else { 1.0 };
                device.upload(&points.iter().map(|point| (point[axis] / scale) as f32).collect::<Vec<_>>())
            });
            let (x, y) = (x.map_err(message_of)?, y.map_err(message_of)?);
            let (n, out) = (points.len(), device.zeros::<f32>(points.len()).map_err(message_of)?);
            let args = [Arg::from(&plane), (&x).into(), (&y).into(), (&out).into(), (n as i32).into()];
            device.queue().launch(&kernel, block_count(n), BLOCK_SIZE, &args).map_err(message_of)?;
            let tolerance = texture_tolerance(device, filter);
            for (point, found) in points.iter().zip(out.to_vec().map_err(message_of)?) {
                let expected = value_at(&texels, *point, settings);
                let is_close = (f64::from(found) - expected).abs() <= tolerance;
                if !is_close {
                    return Err(format!("{settings:?} at {point:?}: got {found}, expected {expected}"));
                }
            }
        }
    }
    Ok(())
}

/// Returns the value of the texture by its definition. Coordinates count texels.
fn value_at(texels: &[f32], point: [f64; 2], settings: TextureSettings) -> f64 {
    let [columns, rows] = [0, 1].map(|axis| texels_at(point[axis], SIZE[axis], settings));
    let mut value = 0.0;
    for (row, row_weight) in rows {
        for (column, weight) in columns {
            value += row_weight * weight * f64::from(texels[row * SIZE[0] + column]);
        }
    }
    value
}

/// Returns indices and weights of two texels along one axis.
fn texels_at(u: f64, len: usize, settings: TextureSettings) -> [(usize, f64); 2] {
    let inside = |index: f64| match settings.address {
        AddressMode::Clamp => index.clamp(0.0, len as f64 - 1.0) as usize,
        AddressMode::Wrap => index.rem_euclid(len as f64) as usize,
    };
    match settings.filter {
        TextureFilter::Nearest => [(inside(u.floor()), 1.0), (0, 0.0)],
        TextureFilter::Linear => {
            let left = (u - 0.5).floor();
            let weight = u - 0.5 - left;
            [(inside(left), 1.0 - weight), (inside(left + 1.0), weight)]
        }
    }
}
