//! What the device layer promises, asked of a device: memory, kernels in the dialect, order and time.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, Element, Kernel, Math, Source};

const KERNELS: &str = include_str!("checks.cu");
/// Threads in a group of the kernels below.
const BLOCK_SIZE: u32 = 64;
/// Lengths that are no multiple of anything, and the ends.
const LENGTHS: [usize; 7] = [1, 2, 31, 63, 64, 65, 4099];

type Checked = Result<(), String>;
type Named = (&'static str, fn(&Device) -> Checked);

/// The list.
pub fn checks() -> Vec<Check> {
    let list: [Named; 9] = [
        ("buffers come back as they went", buffers),
        ("copies keep their order", copies),
        ("groups and threads cover every element", indices),
        ("barriers order local memory", local_memory),
        ("atomics lose nothing", atomics),
        ("float functions agree with the host", floats),
        ("double functions agree with the host", doubles),
        ("vectors keep their parts", vectors),
        ("events are in order and times positive", events),
    ];
    list.map(|(what, run)| Check { name: format!("device: {what}"), run }).into()
}

fn said(error: DeviceError) -> String {
    error.to_string()
}

fn kernel(device: &Device, name: &str) -> Result<Kernel, String> {
    let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
    let source = Source { name: "checks.cu", text: KERNELS, definitions: &definitions, math: Math::Precise };
    device.build(&source).and_then(|module| module.kernel(name)).map_err(said)
}

fn groups(n: usize) -> u32 {
    (n as u32).div_ceil(BLOCK_SIZE)
}

/// `got` against what the host makes of each index.
fn same<T: PartialEq + std::fmt::Debug>(n: usize, got: &[T], expected: impl Fn(usize) -> T) -> Checked {
    if got.len() != n {
        return Err(format!("n = {n}: got {} elements", got.len()));
    }
    match (0..n).find(|&i| got[i] != expected(i)) {
        None => Ok(()),
        Some(i) => Err(format!("n = {n}, element {i}: got {:?}, expected {:?}", got[i], expected(i))),
    }
}

fn near(what: &str, got: f64, expected: f64, tolerance: f64) -> Checked {
    let error = ((got - expected) / expected).abs();
    // A NaN must fail as well.
    if error <= tolerance { Ok(()) } else { Err(format!("{what}: got {got:e}, expected {expected:e}")) }
}

fn buffers(device: &Device) -> Checked {
    for n in LENGTHS.into_iter().chain([0]) {
        let doubles: Vec<f64> = (0..n).map(|i| i as f64 * 0.1 - 7.0).collect();
        let words: Vec<u32> = (0..n).map(|i| (i as u32).wrapping_mul(2_654_435_761)).collect();
        let bytes: Vec<u8> = (0..n).map(|i| (i * 37) as u8).collect();
        let back = device.upload(&doubles).and_then(|buffer| buffer.to_vec()).map_err(said)?;
        same(n, &back, |i| doubles[i])?;
        let back = device.upload(&words).and_then(|buffer| buffer.to_vec()).map_err(said)?;
        same(n, &back, |i| words[i])?;
        let back = device.upload(&bytes).and_then(|buffer| buffer.to_vec()).map_err(said)?;
        same(n, &back, |i| bytes[i])?;
        let fresh = device.zeros::<f32>(n).and_then(|buffer| buffer.to_vec()).map_err(said)?;
        same(n, &fresh, |_| 0.0)?;
    }
    Ok(())
}

fn copies(device: &Device) -> Checked {
    let (n, queue) = (4099, device.queue());
    let first: Vec<u32> = (0..n as u32).collect();
    let second: Vec<u32> = first.iter().map(|x| !x).collect();
    let (from, to) = (device.upload(&first).map_err(said)?, device.zeros::<u32>(n).map_err(said)?);
    let mut host = device.pinned::<u32>(n).map_err(said)?;
    queue.copy(&from, &to).map_err(said)?;
    queue.write(&from, &second).map_err(said)?;
    let event = queue.read_async(&to, &mut host).map_err(said)?;
    queue.copy(&from, &to).map_err(said)?;
    event.wait().map_err(said)?;
    same(n, &host, |i| first[i])?;
    same(n, &to.to_vec().map_err(said)?, |i| second[i])
}

fn indices(device: &Device) -> Checked {
    let kernel = kernel(device, "number")?;
    for n in LENGTHS {
        let out = device.upload(&vec![u32::MAX; n]).map_err(said)?;
        let launch =
            device.queue().launch(&kernel, groups(n), BLOCK_SIZE, &[(n as i32).into(), (&out).into()]);
        launch.map_err(said)?;
        same(n, &out.to_vec().map_err(said)?, |i| (i * i) as u32)?;
    }
    Ok(())
}

fn local_memory(device: &Device) -> Checked {
    let kernel = kernel(device, "reverse_groups")?;
    for count in [1, 3, 20] {
        let n = count * BLOCK_SIZE as usize;
        let input: Vec<u32> = (0..n as u32).collect();
        let buffer = device.upload(&input).map_err(said)?;
        device.queue().launch(&kernel, count as u32, BLOCK_SIZE, &[(&buffer).into()]).map_err(said)?;
        let size = BLOCK_SIZE as usize;
        same(n, &buffer.to_vec().map_err(said)?, |i| (i / size * size + size - 1 - i % size) as u32)?;
    }
    Ok(())
}

fn atomics(device: &Device) -> Checked {
    let kernel = kernel(device, "count")?;
    for n in LENGTHS {
        let out = device.upload(&[0, u32::MAX, 0, 0]).map_err(said)?;
        let launch =
            device.queue().launch(&kernel, groups(n), BLOCK_SIZE, &[(n as i32).into(), (&out).into()]);
        launch.map_err(said)?;
        let expected = [(n * (n + 1) / 2) as u32, 3, n as u32 + 2, 1];
        same(4, &out.to_vec().map_err(said)?, |i| expected[i])?;
    }
    Ok(())
}

/// What a kernel makes of `input`: `each` numbers for every one.
fn results<T: Element>(device: &Device, name: &str, input: &[T], each: usize) -> Result<Vec<T>, String> {
    let n = input.len();
    let (from, out) = (device.upload(input).map_err(said)?, device.zeros::<T>(each * n).map_err(said)?);
    let args = [(n as i32).into(), (&from).into(), (&out).into()];
    device.queue().launch(&kernel(device, name)?, groups(n), BLOCK_SIZE, &args).map_err(said)?;
    out.to_vec().map_err(said)
}

fn floats(device: &Device) -> Checked {
    let input: Vec<f32> = (0..4099).map(|i| 1.0e-3 * 1.005f32.powi(i)).collect();
    let got = results(device, "floats", &input, 4)?;
    for (i, x) in input.iter().enumerate() {
        let [root, inverse, fused, largest] = [0, 1, 2, 3].map(|k| f64::from(got[4 * i + k]));
        let wide = f64::from(*x);
        near(&format!("SQRT({x})"), root, wide.sqrt(), 1.2e-7)?;
        // The fast reciprocal root of either driver is good to two units in the last place.
        near(&format!("RSQRT({x})"), inverse, 1.0 / wide.sqrt(), 4.0e-7)?;
        near(&format!("FMA({x}, {x}, 1)"), fused, f64::from(x.mul_add(*x, 1.0)), 0.0)?;
        near(&format!("MAX({x}, 1)"), largest, wide.max(1.0), 0.0)?;
    }
    Ok(())
}

fn doubles(device: &Device) -> Checked {
    if !device.properties().has_f64 {
        return Ok(());
    }
    let input: Vec<f64> = (0..4099).map(|i| 1.0e-30 * 1.03f64.powi(i)).collect();
    let got = results(device, "doubles", &input, 2)?;
    for (i, x) in input.iter().enumerate() {
        near(&format!("RSQRT64({x:e})"), got[2 * i], 1.0 / x.sqrt(), 5e-16)?;
        near(&format!("FMA64({x:e}, {x:e}, 1)"), got[2 * i + 1], x.mul_add(*x, 1.0), 0.0)?;
    }
    Ok(())
}

fn vectors(device: &Device) -> Checked {
    let n = 65;
    let input: Vec<[f32; 4]> = (0..n).map(|i| [0.0, 1.0, 2.0, 3.0].map(|k| i as f32 + 0.25 * k)).collect();
    let buffer = device.upload(&input).map_err(said)?;
    let launch = device.queue().launch(
        &kernel(device, "turn")?,
        groups(n),
        BLOCK_SIZE,
        &[(n as i32).into(), (&buffer).into()],
    );
    launch.map_err(said)?;
    same(n, &buffer.to_vec().map_err(said)?, |i| {
        let [x, y, z, w] = input[i];
        [y, z, w, x]
    })
}

fn events(device: &Device) -> Checked {
    let (n, queue) = (1 << 16, device.queue());
    let kernel = kernel(device, "number")?;
    let out = device.zeros::<u32>(n).map_err(said)?;
    let first = queue.record().map_err(said)?;
    for _ in 0..10 {
        queue.launch(&kernel, groups(n), BLOCK_SIZE, &[(n as i32).into(), (&out).into()]).map_err(said)?;
    }
    let second = queue.record().map_err(said)?;
    second.wait().map_err(said)?;
    let seconds = second.seconds_since(&first).map_err(said)?;
    if !(first.is_done().map_err(said)? && seconds > 0.0 && seconds < 60.0) {
        return Err(format!("ten launches took {seconds} s, expected more than 0"));
    }
    Ok(())
}
