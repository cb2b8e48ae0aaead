//! Checks of SAXPY on one device, for `orrery selftest` and the tests. All versions are compared
//! with the reference. The numbers are small integers, so every version is exact.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError};

use super::{
    CopyRegion, DeviceLoops, FACTORS, NestedLoops, Saxpy, SaxpyShape, SaxpyVectors, fused_saxpy_on_cpu,
    saxpy_on_cpu, saxpy_reference,
};

/// Threads per block.
const BLOCK_SIZE: u32 = 64;
/// Lengths around vectors of four and around blocks. Not longer, because PoCL compiles a kernel
/// again for 2^16 threads or more.
const LENGTHS: [usize; 10] = [1, 2, 3, 4, 5, 63, 64, 65, 257, 4099];
/// Rows and columns of the nested loops.
const SHAPES: [[usize; 2]; 6] = [[1, 1], [1, 200], [200, 1], [64, 64], [65, 63], [5, 129]];

type CpuVersion = fn([f32; 2], &[f32], &mut [f32]);

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: saxpy {name}"), run };
    vec![
        check("with copies around the loops", compare_copies),
        check("on arrays of the device", compare_loops),
        check("with any number of gangs", compare_gangs),
        check("in nested loops", compare_nested),
    ]
}

fn message_of(error: DeviceError) -> String {
    error.to_string()
}

/// Returns x, y and y after the updates with `factors`. No x is 0, so a missing update is noticed.
fn example(n: usize, factors: [f32; 2]) -> [Vec<f32>; 3] {
    let x: Vec<f32> = (0..n as u64).map(|i| (1 + random_bits(i) % 15) as f32).collect();
    let y: Vec<f32> = (0..n as u64).map(|i| (random_bits(i + (1 << 32)) % 31) as f32 - 15.0).collect();
    let mut updated = y.clone();
    saxpy_reference(factors, &x, &mut updated);
    [x, y, updated]
}

fn compare(name: &str, found: &[f32], expected: &[f32]) -> Result<(), String> {
    match (0..expected.len()).find(|&i| found.get(i) != Some(&expected[i])) {
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!("{name}: {} elements, expected {}", found.len(), expected.len())),
        Some(i) => Err(format!(
            "{name}, n = {}, element {i}: found {:?}, expected {}",
            expected.len(),
            found.get(i),
            expected[i]
        )),
    }
}

fn compare_copies(device: &Device) -> Result<(), String> {
    let saxpy = Saxpy::new(device, BLOCK_SIZE).map_err(message_of)?;
    for n in LENGTHS {
        let [x, y, expected] = example(n, FACTORS);
        let [on_x, on_y] = [(); 2].map(|()| device.zeros::<f32>(n));
        let (on_x, on_y) = (on_x.map_err(message_of)?, on_y.map_err(message_of)?);
        let on_device = SaxpyVectors { x: &on_x, y: &on_y };
        for region in [CopyRegion::EachLoop, CopyRegion::BothLoops] {
            let mut found = y.clone();
            saxpy
                .run_with_copies(device.queue(), region, FACTORS, (&x, &mut found), on_device)
                .map_err(message_of)?;
            compare(&format!("{region:?}"), &found, &expected)?;
            let mut pinned = device.pinned::<f32>(n).map_err(message_of)?;
            pinned.copy_from_slice(&y);
            saxpy
                .run_with_copies(device.queue(), region, FACTORS, (&x, &mut pinned), on_device)
                .map_err(message_of)?;
            compare(&format!("{region:?}, page-locked"), &pinned, &expected)?;
        }
    }
    Ok(())
}

fn compare_loops(device: &Device) -> Result<(), String> {
    let saxpy = Saxpy::new(device, BLOCK_SIZE).map_err(message_of)?;
    for n in LENGTHS {
        let [x, y, expected] = example(n, FACTORS);
        let on_x = device.upload(&x).map_err(message_of)?;
        for loops in [DeviceLoops::Separate, DeviceLoops::Fused, DeviceLoops::FusedVectors] {
            let on_y = device.upload(&y).map_err(message_of)?;
            let on_device = SaxpyVectors { x: &on_x, y: &on_y };
            saxpy.launch(device.queue(), loops, FACTORS, on_device).map_err(message_of)?;
            compare(&format!("{loops:?}"), &on_y.to_vec().map_err(message_of)?, &expected)?;
        }
        let on_cpu: [(&str, CpuVersion); 2] = [("all cores", saxpy_on_cpu), ("fused", fused_saxpy_on_cpu)];
        for (name, on_cpu) in on_cpu {
            let mut found = y.clone();
            on_cpu(FACTORS, &x, &mut found);
            compare(name, &found, &expected)?;
        }
    }
    Ok(())
}

fn compare_gangs(device: &Device) -> Result<(), String> {
    let saxpy = Saxpy::new(device, BLOCK_SIZE).map_err(message_of)?;
    let [a, _] = FACTORS;
    for n in LENGTHS {
        let [x, y, expected] = example(n, [a, 0.0]);
        let on_x = device.upload(&x).map_err(message_of)?;
        for blocks in [1, 3, 16, 100] {
            let on_y = device.upload(&y).map_err(message_of)?;
            let on_device = SaxpyVectors { x: &on_x, y: &on_y };
            saxpy.launch_update(device.queue(), blocks, a, on_device).map_err(message_of)?;
            compare(&format!("{blocks} gangs"), &on_y.to_vec().map_err(message_of)?, &expected)?;
        }
    }
    Ok(())
}

fn compare_nested(device: &Device) -> Result<(), String> {
    let saxpy = Saxpy::new(device, BLOCK_SIZE).map_err(message_of)?;
    let [a, _] = FACTORS;
    for [rows, columns] in SHAPES {
        let [x, y, expected] = example(rows * columns, [a, 0.0]);
        let on_x = device.upload(&x).map_err(message_of)?;
        for nested in [NestedLoops::ThreadPerRow, NestedLoops::BlockPerRow] {
            for gangs in [None, Some(2)] {
                let on_y = device.upload(&y).map_err(message_of)?;
                let (on_device, shape) = (SaxpyVectors { x: &on_x, y: &on_y }, SaxpyShape { rows, columns });
                saxpy
                    .launch_nested(device.queue(), nested, gangs, shape, a, on_device)
                    .map_err(message_of)?;
                let name = format!("{nested:?}, {rows} x {columns}, gangs {gangs:?}");
                compare(&name, &on_y.to_vec().map_err(message_of)?, &expected)?;
            }
        }
    }
    Ok(())
}
