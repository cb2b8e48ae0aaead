//! Checks of the labels on one device, for `orrery selftest` and the tests. Every strategy is
//! compared with the reference implementation, for masks that are hard for one of them and for
//! shapes around the borders of tiles. Labels are unique, so every pixel must be equal.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::{
    Connectivity, Label, LabelStrategy, MaskShape, RunTiles, Threshold, label_on_cpu, label_reference,
    threshold_reference,
};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: label {name}"), run };
    vec![
        check("by minimum propagation", |device| check_images(device, LabelStrategy::Propagation, 20)),
        check("by wavefronts", |device| check_images(device, LabelStrategy::Wavefront, 40)),
        check("by tiles", |device| check_images(device, LabelStrategy::TileMerge, 40)),
        check("by union-find", |device| check_images(device, LabelStrategy::UnionFind, 40)),
        check("by runs", |device| check_images(device, LabelStrategy::Runs(RunTiles::default()), 80)),
        check("by runs in other tiles", every_candidate),
        check("of large images", large_images),
        check("of volumes", volumes),
        check("of many launches", many_launches),
        check("mask from a threshold", thresholds),
    ]
}

/// A mask with its shape.
pub type ExampleMask = (MaskShape, Vec<u8>);

/// Returns a mask in which a fraction of the pixels is set, chosen at random. Set pixels have
/// different values.
pub fn random_mask(shape: MaskShape, fraction: f64, seed: u64) -> ExampleMask {
    let pixel = |index: u64| {
        let bits = random_bits(index + (seed << 40));
        let is_set = ((bits >> 11) as f64) < fraction * (1u64 << 53) as f64;
        if is_set { (bits as u8).max(1) } else { 0 }
    };
    (shape, (0..shape.pixel_count() as u64).map(pixel).collect())
}

/// Returns an image whose pixels are set where `is_set(row, column)`.
fn image_of(rows: usize, columns: usize, is_set: impl Fn(usize, usize) -> bool) -> ExampleMask {
    let pixels = (0..rows * columns).map(|i| if is_set(i / columns, i % columns) { 255 } else { 0 });
    (MaskShape::image(rows, columns), pixels.collect())
}

/// Returns images with about `side` rows and columns: empty, full, single pixels, lines,
/// checkerboards, stripes, combs and spirals.
pub fn example_masks(side: usize) -> Vec<ExampleMask> {
    let last = side - 1;
    let mut masks = vec![
        image_of(0, 3, |_, _| true),
        image_of(1, 1, |_, _| true),
        image_of(1, 1, |_, _| false),
        image_of(side, side, |_, _| false),
        image_of(side, side + 3, |_, _| true),
        image_of(side, side, |row, column| row == last && column == last),
        image_of(1, 3 * side, |_, column| column % 5 != 0),
        image_of(3 * side, 1, |row, _| row % 7 != 3),
        image_of(side, side + 1, |row, column| (row + column) % 2 == 0),
        image_of(side, side, |row, _| row % 2 == 0),
        image_of(side, side, |_, column| column % 2 == 0),
        // Teeth that meet only in the last row, only in the first one, and on both sides in turn.
        image_of(side, side, |row, column| row == last || column % 2 == 0),
        image_of(side, side, |row, column| row == 0 || column % 2 == 1),
        image_of(side, side, |row, column| row % 2 == 0 || column == if row % 4 == 1 { last } else { 0 }),
        // A diagonal staircase: sides touch below it, corners above.
        image_of(side, side, |row, column| row == column || row == column + 1),
        image_of(side, side, |row, column| row + column == last),
    ];
    masks.extend([spiral(side, side + 7), spiral(side + 2, side)]);
    masks
}

/// Returns an image with a spiral from the first pixel inwards, whose windings are a pixel apart.
fn spiral(rows: usize, columns: usize) -> ExampleMask {
    let mut pixels = vec![0; rows * columns];
    let is_free = |pixels: &[u8], at: [isize; 2]| {
        let is_inside = (0..rows as isize).contains(&at[0]) && (0..columns as isize).contains(&at[1]);
        is_inside.then(|| pixels[at[0] as usize * columns + at[1] as usize] == 0)
    };
    let (mut at, mut step, mut turns) = ([0, 0], [0, 1], 0);
    pixels[0] = 1;
    while turns < 2 {
        let next = [at[0] + step[0], at[1] + step[1]];
        let after = [next[0] + step[0], next[1] + step[1]];
        if is_free(&pixels, next) == Some(true) && is_free(&pixels, after) != Some(false) {
            pixels[next[0] as usize * columns + next[1] as usize] = 1;
            (at, turns) = (next, 0);
        } else {
            (step, turns) = ([step[1], -step[0]], turns + 1);
        }
    }
    (MaskShape::image(rows, columns), pixels)
}

fn message(error: DeviceError) -> String {
    error.to_string()
}

/// Requires the labels and the number of components of the reference from a strategy. The labels
/// contain other numbers before.
fn compare(
    device: &Device,
    strategy: LabelStrategy,
    connectivity: Connectivity,
    (shape, mask): &ExampleMask,
) -> Result<(), String> {
    let mut expected = vec![0; mask.len()];
    let expected_count = match mask.len() {
        // The flood fill of a large mask takes long in a build without optimisation.
        0..100_000 => label_reference(*shape, connectivity, mask, &mut expected),
        _ => label_on_cpu(*shape, connectivity, mask, &mut expected),
    };
    let run = || {
        let mut label = Label::with_strategy(device, *shape, connectivity, strategy)?;
        let (input, labels) = (device.upload(mask)?, device.upload(&vec![77; mask.len()])?);
        let count = label.label(device.queue(), &input, &labels)?;
        Ok((count, labels.to_vec()?))
    };
    let (count, found) = run().map_err(message)?;
    let case = || format!("{strategy:?}, {connectivity:?}, {shape:?}");
    if let Some(i) = (0..found.len()).find(|&i| found[i] != expected[i]) {
        let (row, column) = (i / shape.columns, i % shape.columns);
        let (found, expected) = (found[i], expected[i]);
        return Err(format!("{}: row {row}, column {column} is {found}, expected {expected}", case()));
    }
    if count != expected_count {
        return Err(format!("{}: {count} components, expected {expected_count}", case()));
    }
    Ok(())
}

/// Checks examples of about `side` x `side` pixels, and random images with as many pixels set as at
/// the percolation threshold of each connectivity, around the borders of tiles.
fn check_images(device: &Device, strategy: LabelStrategy, side: usize) -> Result<(), String> {
    let shapes =
        [[1, 1], [2, 2], [1, 70], [70, 1], [31, 33], [32, 32], [64, 64], [65, 129], [130, 48], [7, 100]];
    for (connectivity, fraction) in Connectivity::ALL.into_iter().zip([0.593, 0.407]) {
        let random = (0..)
            .zip(shapes)
            .map(|(seed, [rows, columns])| random_mask(MaskShape::image(rows, columns), fraction, seed));
        for mask in example_masks(side).into_iter().chain(random) {
            compare(device, strategy, connectivity, &mask)?;
        }
    }
    Ok(())
}

fn every_candidate(device: &Device) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, the smallest tiles represent all.
    let candidates = match device.properties().kind {
        DeviceKind::Gpu => &RunTiles::CANDIDATES[..],
        DeviceKind::Cpu | DeviceKind::Other => &RunTiles::CANDIDATES[2..3],
    };
    for &tiles in candidates {
        for [rows, columns] in [[130, 150], [97, 272], [tiles.rows as usize, tiles.columns as usize]] {
            let mask = random_mask(MaskShape::image(rows, columns), 0.593, 5);
            compare(device, LabelStrategy::Runs(tiles), Connectivity::Faces, &mask)?;
        }
    }
    Ok(())
}

/// Components that cross many tiles, with races of many blocks on a GPU.
fn large_images(device: &Device) -> Result<(), String> {
    let side = if device.properties().kind == DeviceKind::Gpu { 2000 } else { 500 };
    for strategy in
        [LabelStrategy::Runs(RunTiles::default()), LabelStrategy::TileMerge, LabelStrategy::UnionFind]
    {
        for fraction in [0.593, 0.61] {
            let mask = random_mask(MaskShape::image(side, side + 12), fraction, 6);
            compare(device, strategy, Connectivity::Faces, &mask)?;
        }
    }
    let runs = LabelStrategy::Runs(RunTiles::default());
    compare(device, runs, Connectivity::Faces, &spiral(side, side + 12))?;
    compare(device, runs, Connectivity::Corners, &random_mask(MaskShape::image(side, side + 12), 0.407, 7))
}

/// Volumes at the percolation thresholds of their connectivities.
fn volumes(device: &Device) -> Result<(), String> {
    let shapes = [[1, 1, 1], [2, 1, 1], [40, 1, 3], [5, 1, 70], [9, 10, 11], [20, 33, 17]];
    for (connectivity, fraction) in Connectivity::ALL.into_iter().zip([0.312, 0.097]) {
        for (seed, [planes, rows, columns]) in (10..).zip(shapes) {
            for strategy in [LabelStrategy::UnionFind, LabelStrategy::Propagation] {
                let shape = MaskShape { planes, rows, columns };
                compare(device, strategy, connectivity, &random_mask(shape, fraction, seed))?;
                compare(device, strategy, connectivity, &(shape, vec![1; shape.pixel_count()]))?;
            }
        }
    }
    Ok(())
}

/// One `Label` for several masks: nothing of an earlier launch may remain.
fn many_launches(device: &Device) -> Result<(), String> {
    let (shape, connectivity) = (MaskShape::image(100, 144), Connectivity::Faces);
    let mut label = Label::new(device, shape, connectivity).map_err(message)?;
    let labels = device.zeros(shape.pixel_count()).map_err(message)?;
    for (seed, fraction) in (20..).zip([0.5, 1.0, 0.1, 0.593, 0.0, 0.9]) {
        let (_, mask) = random_mask(shape, fraction, seed);
        let mut expected = vec![0; mask.len()];
        let expected_count = label_reference(shape, connectivity, &mask, &mut expected);
        let input = device.upload(&mask).map_err(message)?;
        let count = label.label(device.queue(), &input, &labels).map_err(message)?;
        if count != expected_count || labels.to_vec().map_err(message)? != expected {
            return Err(format!("fraction {fraction}: {count} components, expected {expected_count}"));
        }
    }
    Ok(())
}

fn thresholds(device: &Device) -> Result<(), String> {
    let threshold = Threshold::new(device).map_err(message)?;
    for n in [0, 1, 3, 4, 5, 1023, 1024, 1025, 3000] {
        let special = [0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5 + f32::EPSILON, -0.0];
        let pixel = |i: u64| match i % 9 {
            k @ 0..6 => special[k as usize],
            _ => (random_bits(i) >> 40) as f32 / (1 << 24) as f32,
        };
        let image: Vec<f32> = (0..n as u64).map(pixel).collect();
        let mut expected = vec![0; n];
        threshold_reference(&image, 0.5, &mut expected);
        let run = || {
            let (input, mask) = (device.upload(&image)?, device.upload(&vec![9u8; n])?);
            threshold.launch(device.queue(), &input, 0.5, &mask)?;
            mask.to_vec()
        };
        let found = run().map_err(message)?;
        if let Some(i) = (0..n).find(|&i| found[i] != expected[i]) {
            return Err(format!("{n} pixels: pixel {i} is {}, expected {}", found[i], expected[i]));
        }
    }
    Ok(())
}
