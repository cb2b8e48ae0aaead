//! Checks of the copies on one device, for `orrery selftest` and the tests. A copy must have the
//! bits of its source, and the rest of its target must be unchanged.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, DeviceKind};

use super::patterns::{PatternCopy, TextureCopy, shifted_reference, strided_reference};
use super::{BLOCK_SIZES, CopyMethod, CopyRung, RungCopy, copy_reference};
use crate::ladder::check_rungs;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: copy {name}"), run };
    vec![
        check("by every rung", check_rungs::<CopyRung>),
        check("with offsets", offsets),
        check("with strides", strides),
        check("with offsets through a texture", texture_offsets),
    ]
}

/// Value of target elements that no copy may change.
const UNTOUCHED: f32 = -7.5;

/// Returns floats with random bits, among them NaN: a copy must not change any bit.
fn random_floats(n: usize) -> Vec<f32> {
    (0..n as u64).map(|index| f32::from_bits(random_bits(index) as u32)).collect()
}

/// Compares the bits of a target with those of its reference.
fn compare(found: &Buffer<f32>, expected: &[f32]) -> Result<(), String> {
    let found = found.to_vec().map_err(|error| error.to_string())?;
    if found.len() != expected.len() {
        return Err(format!("got {} elements, expected {}", found.len(), expected.len()));
    }
    let differs = |index: &usize| found[*index].to_bits() != expected[*index].to_bits();
    match (0..found.len()).find(differs) {
        None => Ok(()),
        Some(index) => {
            Err(format!("element {index}: got {:?}, expected {:?}", found[index], expected[index]))
        }
    }
}

/// Returns lengths around the borders of vectors, blocks and tiles, a length of several tiles, and
/// one of more than two rounds of the grid-stride loop.
fn lengths_for(copy: &RungCopy, block_size: usize) -> Vec<usize> {
    let tiles = [4, block_size, 4 * block_size, 16 * block_size];
    let mut lengths: Vec<usize> = tiles.into_iter().flat_map(|tile| [tile - 1, tile, tile + 1]).collect();
    lengths.extend([1, 2, 70 * block_size + 3]);
    lengths.extend(copy.floats_per_round().map(|floats| 2 * floats + 1003));
    lengths
}

/// Compares the copies of a method with the reference.
pub fn check_method(device: &Device, method: CopyMethod) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, one block size represents all.
    let block_sizes = if device.properties().kind == DeviceKind::Gpu { &BLOCK_SIZES[..] } else { &[128] };
    for &block_size in block_sizes.iter().filter(|size| **size <= device.properties().max_block_size) {
        compare_rung(device, method, block_size).map_err(|error| format!("{block_size} threads: {error}"))?;
    }
    Ok(())
}

fn compare_rung(device: &Device, method: CopyMethod, block_size: u32) -> Result<(), String> {
    let copy = RungCopy::new(device, method, block_size).map_err(|error| error.to_string())?;
    for n in lengths_for(&copy, block_size as usize) {
        let source = random_floats(n);
        let mut expected = vec![UNTOUCHED; n + 9];
        let run = || -> Result<Buffer<f32>, DeviceError> {
            let to = device.upload(&expected)?;
            copy.launch(device.queue(), &device.upload(&source)?, &to)?;
            Ok(to)
        };
        let to = run().map_err(|error| error.to_string())?;
        copy_reference(&source, &mut expected);
        compare(&to, &expected).map_err(|error| format!("{n} floats: {error}"))?;
    }
    Ok(())
}

/// Lengths of the copies with offsets and strides: around a block and its parts.
const PATTERN_LENGTHS: [usize; 6] = [1, 31, 33, 256, 257, 5000];

/// Checks copies with offsets, which `launch(source, offset, to)` queues.
fn compare_offsets(
    device: &Device,
    launch: impl Fn(&[f32], usize, &Buffer<f32>) -> Result<(), DeviceError>,
) -> Result<(), String> {
    for (n, offset) in PATTERN_LENGTHS.into_iter().flat_map(|n| [0, 1, 7, 32].map(|offset| (n, offset))) {
        // Normal numbers: a texture unit need not keep the bits of NaN and denormals.
        let source: Vec<f32> = (0..n + offset).map(|index| 1.0 + 0.25 * index as f32).collect();
        let mut expected = vec![UNTOUCHED; n];
        let to = device.upload(&expected).map_err(|error| error.to_string())?;
        launch(&source, offset, &to).map_err(|error| error.to_string())?;
        shifted_reference(&source, offset, &mut expected);
        compare(&to, &expected).map_err(|error| format!("{n} floats, offset {offset}: {error}"))?;
    }
    Ok(())
}

fn offsets(device: &Device) -> Result<(), String> {
    let copy = PatternCopy::new(device).map_err(|error| error.to_string())?;
    compare_offsets(device, |source, offset, to| {
        copy.launch_shifted(device.queue(), &device.upload(source)?, offset, to)
    })
}

/// A device without textures passes.
fn texture_offsets(device: &Device) -> Result<(), String> {
    if !device.properties().has_textures {
        return Ok(());
    }
    compare_offsets(device, |source, offset, to| {
        TextureCopy::new(device, source)?.launch(device.queue(), offset, to)
    })
}

fn strides(device: &Device) -> Result<(), String> {
    let copy = PatternCopy::new(device).map_err(|error| error.to_string())?;
    for (n, stride) in PATTERN_LENGTHS.into_iter().flat_map(|n| [1, 2, 7, 32].map(|stride| (n, stride))) {
        let source = random_floats(n);
        let mut expected = vec![UNTOUCHED; n];
        let run = || -> Result<Buffer<f32>, DeviceError> {
            let to = device.upload(&expected)?;
            copy.launch_strided(device.queue(), &device.upload(&source)?, stride, &to)?;
            Ok(to)
        };
        let to = run().map_err(|error| error.to_string())?;
        strided_reference(&source, stride, &mut expected);
        compare(&to, &expected).map_err(|error| format!("{n} floats, stride {stride}: {error}"))?;
    }
    Ok(())
}
