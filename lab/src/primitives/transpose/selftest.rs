//! Checks of the transpose on one device, for `orrery selftest` and the tests. Every element size,
//! shapes around the borders of tiles, and every rung are compared with the reference
//! implementation.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, DeviceKind, Element};

use super::rungs::{RungTranspose, TILES, TransposeRung, TransposeVariant};
use super::{MatrixShape, Transpose, TransposeInPlace, TransposeStrategy, transpose_reference};
use crate::ladder::check_rungs;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: transpose {name}"), run };
    vec![
        check("elements of 1 byte", all_shapes::<u8>),
        check("elements of 2 bytes", all_shapes::<u16>),
        check("elements of 4 bytes", all_shapes::<f32>),
        check("elements of 8 bytes", all_shapes::<u64>),
        check("elements of 16 bytes", all_shapes::<[f32; 4]>),
        check("squares in place", squares_in_place),
        check("with every candidate strategy", every_candidate),
        check("by every rung of its ladder", check_rungs::<TransposeRung>),
    ]
}

/// Elements with random bytes.
trait RandomElement: Element {
    fn from_random_bits(bits: u64) -> Self;
}

macro_rules! impl_sample {
    ($($kind:ty: $convert:expr),*) => { $(
        impl RandomElement for $kind {
            fn from_random_bits(bits: u64) -> Self {
                $convert(bits)
            }
        }
    )* };
}

// Floats are whole numbers: NaN would differ from itself.
impl_sample!(u8: |bits| bits as u8, u16: |bits| bits as u16, u64: |bits| bits);
impl_sample!(f32: |bits| (bits >> 40) as f32);
impl_sample!([f32; 4]: |bits: u64| [0, 16, 32, 48].map(|shift| (bits >> shift & 0xffff) as f32));

fn samples<T: RandomElement>(n: usize, seed: u64) -> Vec<T> {
    (0..n as u64).map(|i| T::from_random_bits(random_bits(i + (seed << 32)))).collect()
}

fn message(error: DeviceError) -> String {
    error.to_string()
}

/// Requires the result of [`transpose_reference`] from `transpose`. The output contains other
/// random elements before.
fn compare<T: RandomElement>(
    device: &Device,
    shape: MatrixShape,
    transpose: impl FnOnce(&Buffer<T>, &Buffer<T>) -> Result<(), DeviceError>,
) -> Result<(), String> {
    let from = samples::<T>(shape.element_count(), 1);
    let run = || {
        let (input, output) = (device.upload(&from)?, device.upload(&samples::<T>(from.len(), 2))?);
        transpose(&input, &output)?;
        Ok((input.to_vec()?, output.to_vec()?))
    };
    let (input, found) = run().map_err(message)?;
    if input != from {
        return Err(format!("{shape:?}: the input was changed"));
    }
    let mut expected = from.clone();
    transpose_reference(shape, &from, &mut expected);
    first_difference(shape, &found, &expected)
}

/// Returns an error that names the first element of the result that differs.
fn first_difference<T: RandomElement>(shape: MatrixShape, found: &[T], expected: &[T]) -> Result<(), String> {
    match (0..found.len()).find(|&i| found[i] != expected[i]) {
        None => Ok(()),
        Some(i) => {
            let (row, column) = (i / shape.rows, i % shape.rows);
            let (found, expected) = (found[i], expected[i]);
            Err(format!("{shape:?}: row {row}, column {column} is {found:?}, expected {expected:?}"))
        }
    }
}

/// Returns shapes around the borders of tiles of `tile` x `tile` elements, with and without sides
/// that are multiples of four.
fn shapes(tile: usize) -> Vec<MatrixShape> {
    let sides = [
        [0, 3],
        [1, 1],
        [1, 5],
        [7, 1],
        [2, 2],
        [4, 8],
        [tile - 1, tile + 1],
        [tile, tile],
        [tile + 1, 2 * tile],
        [tile + 4, 2 * tile - 4],
        [3 * tile, 5],
        [8, 3 * tile + 4],
        [2 * tile + 3, 2 * tile + 3],
    ];
    sides.map(|[rows, columns]| MatrixShape { rows, columns }).to_vec()
}

fn all_shapes<T: RandomElement>(device: &Device) -> Result<(), String> {
    let strategy = TransposeStrategy::default_for(MatrixShape::square(64), size_of::<T>());
    for shape in shapes(strategy.tile as usize) {
        let transpose = Transpose::<T>::new(device, shape).map_err(message)?;
        compare(device, shape, |from, to| transpose.launch(device.queue(), from, to))?;
    }
    Ok(())
}

fn squares_in_place(device: &Device) -> Result<(), String> {
    // Even and odd numbers of tiles of 64 x 64, and of 128 x 128 for bytes.
    let with_vectors = [4, 60, 64, 68, 128, 192, 256];
    let without_vectors = [1, 2, 3, 63, 65, 129, 193];
    for side in with_vectors.into_iter().chain(without_vectors) {
        compare_in_place::<f32>(device, side)?;
    }
    for side in with_vectors {
        compare_in_place::<u8>(device, side)?;
        compare_in_place::<[f32; 4]>(device, side + 1)?;
    }
    Ok(())
}

fn compare_in_place<T: RandomElement>(device: &Device, side: usize) -> Result<(), String> {
    let shape = MatrixShape::square(side);
    let from = samples::<T>(shape.element_count(), 3);
    let run = || {
        let matrix = device.upload(&from)?;
        TransposeInPlace::new(device, side)?.launch(device.queue(), &matrix)?;
        matrix.to_vec()
    };
    let found = run().map_err(message)?;
    let mut expected = from.clone();
    transpose_reference(shape, &from, &mut expected);
    first_difference(shape, &found, &expected).map_err(|error| format!("in place: {error}"))
}

/// A matrix with several strips of tiles, whose last one has fewer rows of tiles.
fn every_candidate(device: &Device) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, the smallest tiles represent all.
    let candidates = match device.properties().kind {
        DeviceKind::Gpu => &TransposeStrategy::CANDIDATES[..],
        DeviceKind::Cpu | DeviceKind::Other => &TransposeStrategy::CANDIDATES[5..],
    };
    for &strategy in candidates {
        let tile = strategy.tile as usize;
        for [rows, columns] in [[tile, tile], [34 * tile + 4, 2 * tile + 8], [tile - 4, 3 * tile]] {
            let shape = MatrixShape { rows, columns };
            let transpose = Transpose::<f32>::with_strategy(device, shape, strategy).map_err(message)?;
            compare(device, shape, |from, to| transpose.launch(device.queue(), from, to))
                .map_err(|error| format!("{}: {error}", strategy.name()))?;
        }
    }
    Ok(())
}

/// Compares the results of an algorithm with the reference.
pub fn check_variant(device: &Device, variant: TransposeVariant) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, one tile represents both.
    let tiles = if device.properties().kind == DeviceKind::Gpu { &TILES[..] } else { &TILES[..1] };
    for &tile in tiles.iter().filter(|tile| *tile * *tile <= device.properties().max_block_size) {
        for shape in shapes(tile as usize) {
            compare_rung(device, variant, tile, shape).map_err(|error| format!("tile {tile}: {error}"))?;
        }
    }
    Ok(())
}

fn compare_rung(
    device: &Device,
    variant: TransposeVariant,
    tile: u32,
    shape: MatrixShape,
) -> Result<(), String> {
    let rung = RungTranspose::new(device, variant, tile, shape).map_err(message)?;
    if variant != TransposeVariant::Copy {
        return compare(device, shape, |from: &Buffer<f32>, to| rung.launch(device.queue(), from, to));
    }
    let from = samples::<f32>(shape.element_count(), 4);
    let run = || {
        let (input, output) = (device.upload(&from)?, device.zeros(from.len())?);
        rung.launch(device.queue(), &input, &output)?;
        output.to_vec()
    };
    let found = run().map_err(message)?;
    // A copy has the rows of the input. The transpose of the transposed shape has them, too.
    let transposed = MatrixShape { rows: shape.columns, columns: shape.rows };
    first_difference(transposed, &found, &from)
}
