//! Textures on every device that has them, against their definition.

use crate::common::random_number;
use orrery_device::testing::{SplitMix64, test_devices};
use orrery_device::{
    AddressMode, Arg, Device, DeviceKind, Kernel, KernelFile, Math, Texture, TextureFilter, TextureSettings,
};

// SAFETY: each kernel takes the length of its buffers and textures, and the tests below pass it.
const TEXTURES: KernelFile = unsafe { KernelFile::new("textures.cu", include_str!("textures.cu")) };
const BLOCK_SIZE: usize = 64;

fn devices_with_textures() -> Vec<Device> {
    test_devices().into_iter().filter(|device| device.properties().has_textures).collect()
}

fn build(device: &Device, name: &str) -> Kernel {
    let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
    let module =
        device.build(&TEXTURES, &definitions, Math::Precise).unwrap_or_else(|error| panic!("{error}"));
    module.kernel(name).unwrap()
}

/// Combinations of settings that every device has.
fn all_settings() -> Vec<TextureSettings> {
    let addresses = [(AddressMode::Clamp, false), (AddressMode::Clamp, true), (AddressMode::Wrap, true)];
    let filters = [TextureFilter::Nearest, TextureFilter::Linear];
    let with_filter =
        |filter| addresses.map(|(address, normalised)| TextureSettings { address, filter, normalised });
    filters.into_iter().flat_map(with_filter).collect()
}

#[test]
fn a_1d_texture_is_read_by_index() {
    for device in devices_with_textures() {
        let read_line = build(&device, "read_line");
        for n in [1, 2, 63, 64, 65, 100_003] {
            let texels: Vec<f32> = (0..n).map(|i| random_number(i) as f32).collect();
            let line = device.texture_1d(&texels).unwrap();
            assert_eq!((line.size(), line.dimensions()), ([n, 1], 1));
            let out = device.zeros::<f32>(n).unwrap();
            let args = [Arg::from(&line), (&out).into(), (n as i32).into()];
            device
                .queue()
                .launch(&read_line, n.div_ceil(BLOCK_SIZE) as u32, BLOCK_SIZE as u32, &args)
                .unwrap();
            let reversed: Vec<f32> = texels.iter().rev().copied().collect();
            assert_eq!(out.to_vec().unwrap(), reversed, "n = {n}");
        }
    }
}

/// Returns the indices and weights of the texels that a value along one axis consists of: the
/// definition in the documentation of `Texture`. `u` counts texels.
fn texels_at(u: f64, len: usize, settings: TextureSettings) -> Vec<(usize, f64)> {
    let inside = |index: f64| match settings.address {
        AddressMode::Clamp => index.clamp(0.0, len as f64 - 1.0) as usize,
        AddressMode::Wrap => index.rem_euclid(len as f64) as usize,
    };
    match settings.filter {
        TextureFilter::Nearest => vec![(inside(u.floor()), 1.0)],
        TextureFilter::Linear => {
            let left = (u - 0.5).floor();
            let weight = u - 0.5 - left;
            vec![(inside(left), 1.0 - weight), (inside(left + 1.0), weight)]
        }
    }
}

/// An image on the host.
struct Image {
    size: [usize; 2],
    texels: Vec<f32>,
}

impl Image {
    fn random(size: [usize; 2], seed: u64) -> Self {
        let mut numbers = SplitMix64::new(seed);
        let texels = (0..size[0] * size[1]).map(|_| (numbers.next_bits() >> 40) as f32 / 1e6 - 8.0);
        Self { size, texels: texels.collect() }
    }

    /// Returns the value at a point, whose coordinates count texels.
    fn value_at(&self, point: [f64; 2], settings: TextureSettings) -> f64 {
        let [columns, rows] = [0, 1].map(|axis| texels_at(point[axis], self.size[axis], settings));
        let texel = |column: usize, row: usize| f64::from(self.texels[row * self.size[0] + column]);
        let terms = rows.iter().flat_map(|&(row, row_weight)| {
            columns.iter().map(move |&(column, weight)| row_weight * weight * texel(column, row))
        });
        terms.sum()
    }
}

/// Returns a coordinate in texels, from two widths before the texture to two widths after it. It is
/// at least 1/16 away from the borders of texels, where rounding decides between two neighbours.
fn random_coordinate(numbers: &mut SplitMix64, len: usize) -> f64 {
    let texel = numbers.below(5 * len) as f64 - 2.0 * len as f64;
    texel + (1.0 + numbers.below(8 * 14) as f64 / 8.0) / 16.0
}

/// Returns the largest error of a value.
///
/// A coordinate is rounded to f32 before and after it is scaled by the width. It is below 3 widths,
/// so the position between two texels has an error of up to 2 * 3 * 2^-24 widths. Texture units of
/// GPUs round each of the two weights to 8 fractional bits, with an error of up to 2^-8. An error
/// of a weight counts in proportion to the difference between two texels. Each of the four terms
/// has four roundings of f32: two weights, their product, and the sum.
fn tolerance(device: &Device, image: &Image, settings: TextureSettings) -> f64 {
    if settings.filter == TextureFilter::Nearest {
        return 0.0;
    }
    let largest = image.texels.iter().copied().fold(f32::MIN, f32::max);
    let smallest = image.texels.iter().copied().fold(f32::MAX, f32::min);
    let [width, height] = image.size;
    let rounding = 2f64.powi(-24);
    let weight_error = 6.0 * rounding * (width + height) as f64
        + if device.properties().kind == DeviceKind::Gpu { 2.0 * 2f64.powi(-8) } else { 0.0 };
    weight_error * (f64::from(largest) - f64::from(smallest))
        + 16.0 * rounding * f64::from(largest.abs().max(smallest.abs()))
}

fn read_planes(device: &Device, points: &[[f32; 2]], textures: [&Texture; 2]) -> [Vec<f32>; 2] {
    let n = points.len();
    let [x, y] = [0, 1]
        .map(|axis| device.upload(&points.iter().map(|point| point[axis]).collect::<Vec<_>>()).unwrap());
    let values = [(); 2].map(|()| device.zeros::<f32>(n).unwrap());
    let args = [
        Arg::from(&x),
        (&y).into(),
        textures[0].into(),
        (&values[0]).into(),
        textures[1].into(),
        (&values[1]).into(),
        (n as i32).into(),
    ];
    let kernel = build(device, "read_planes");
    device.queue().launch(&kernel, n.div_ceil(BLOCK_SIZE) as u32, BLOCK_SIZE as u32, &args).unwrap();
    values.map(|values| values.to_vec().unwrap())
}

/// Two textures are read by one kernel with the same settings, inside and outside.
#[test]
fn a_2d_texture_gives_the_values_of_its_definition() {
    let mut numbers = SplitMix64::new(7);
    for device in devices_with_textures() {
        for size in [[1, 1], [5, 3], [2, 64], [100, 1], [33, 17]] {
            for settings in all_settings() {
                let images = [1, 2].map(|seed| Image::random(size, seed));
                let textures =
                    images.each_ref().map(|image| device.texture_2d(size, &image.texels, settings).unwrap());
                assert_eq!((textures[0].size(), textures[0].dimensions()), (size, 2));
                let scale = if settings.normalised { size.map(|len| len as f64) } else { [1.0; 2] };
                let points: Vec<[f32; 2]> = (0..500)
                    .map(|_| {
                        [0, 1].map(|axis| (random_coordinate(&mut numbers, size[axis]) / scale[axis]) as f32)
                    })
                    .collect();
                let found = read_planes(&device, &points, textures.each_ref());
                for (image, found) in images.iter().zip(&found) {
                    let limit = tolerance(&device, image, settings);
                    for (point, &found) in points.iter().zip(found) {
                        let position = [0, 1].map(|axis| f64::from(point[axis]) * scale[axis]);
                        let expected = image.value_at(position, settings);
                        let error = (f64::from(found) - expected).abs();
                        assert!(
                            error <= limit,
                            "{size:?}, {settings:?}, {position:?}: got {found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_invalid_texture_gives_an_error() {
    let clamped =
        TextureSettings { address: AddressMode::Clamp, filter: TextureFilter::Linear, normalised: false };
    for device in devices_with_textures() {
        let message = |size, texels: &[f32], settings| {
            device.texture_2d(size, texels, settings).unwrap_err().to_string()
        };
        let start = format!("{}: texture_2d of 24 bytes: ", device.title());
        let wrapped = TextureSettings { address: AddressMode::Wrap, ..clamped };
        assert_eq!(
            message([2, 3], &[0.0; 6], wrapped),
            format!("{start}AddressMode::Wrap needs normalised coordinates")
        );
        assert_eq!(message([2, 2], &[0.0; 6], clamped), format!("{start}2 x 2 texels need 4 values, got 6"));
        for size in [[0, 6], [6, 0], [1 << 40, 1], [1, 1 << 40], [usize::MAX, usize::MAX]] {
            let text = message(size, &[0.0; 6], clamped);
            let end = format!("texels on this device, got {} x {}", size[0], size[1]);
            assert!(
                text.starts_with(&format!("{start}expected 1 x 1 to ")) && text.ends_with(&end),
                "{text}"
            );
        }
        let text = device.texture_1d(&[]).unwrap_err().to_string();
        let start = format!("{}: texture_1d of 0 bytes: expected 1 to ", device.title());
        assert!(text.starts_with(&start) && text.ends_with(" texels on this device, got 0"), "{text}");
    }
}

#[test]
fn a_launch_checks_the_dimensions_of_a_texture() {
    let settings =
        TextureSettings { address: AddressMode::Clamp, filter: TextureFilter::Nearest, normalised: false };
    for device in devices_with_textures() {
        let read_line = build(&device, "read_line");
        let (plane, out) =
            (device.texture_2d([1, 1], &[1.0], settings).unwrap(), device.zeros::<f32>(1).unwrap());
        let launch = |first: Arg<'_>| {
            let args = [first, (&out).into(), 1.into()];
            device.queue().launch(&read_line, 1, BLOCK_SIZE as u32, &args).unwrap_err().to_string()
        };
        let start =
            format!("{}: kernel read_line, 1 block of 64 threads: argument 1 (line): ", device.title());
        assert_eq!(launch((&plane).into()), format!("{start}expected a 1-D texture, got a 2-D texture"));
        assert_eq!(launch((&out).into()), format!("{start}expected a 1-D texture, got a buffer of float"));
        assert_eq!(launch(0u64.into()), format!("{start}expected a 1-D texture, got ulong"));
        assert_eq!(out.to_vec().unwrap(), [0.0]);
    }
}

/// Textures are dropped while their launch may still be queued.
#[test]
fn a_queued_launch_reads_textures_that_were_dropped() {
    let settings =
        TextureSettings { address: AddressMode::Clamp, filter: TextureFilter::Nearest, normalised: false };
    for device in devices_with_textures() {
        let kernel = build(&device, "read_planes");
        let n = 10_000;
        let coordinate = device.upload(&vec![0.5f32; n]).unwrap();
        let values = [(); 2].map(|()| device.zeros::<f32>(n).unwrap());
        for round in 1..10 {
            let textures =
                [round, -round].map(|value| device.texture_2d([1, 1], &[value as f32], settings).unwrap());
            let args = [
                Arg::from(&coordinate),
                (&coordinate).into(),
                (&textures[0]).into(),
                (&values[0]).into(),
                (&textures[1]).into(),
                (&values[1]).into(),
                (n as i32).into(),
            ];
            device.queue().launch(&kernel, n.div_ceil(BLOCK_SIZE) as u32, BLOCK_SIZE as u32, &args).unwrap();
            drop(textures);
            assert_eq!(values[0].to_vec().unwrap(), vec![round as f32; n]);
            assert_eq!(values[1].to_vec().unwrap(), vec![-round as f32; n]);
        }
    }
}
