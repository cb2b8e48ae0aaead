//! Arrays with padded rows, on every device.

use crate::common::test_file;
use orrery_device::testing::{random_bits, test_devices};
use orrery_device::{Arg, Device, DeviceError, Element, Math};

fn round_trip<T: Element>(device: &Device, make: fn(u64) -> T) {
    let queue = device.queue();
    for (width, height) in [(0, 3), (3, 0), (1, 1), (5, 7), (128, 4), (129, 3), (1000, 2)] {
        let rows = device.pitched::<T>(width, height).unwrap();
        assert_eq!((rows.width(), rows.height()), (width, height));
        assert!(rows.pitch() >= width && (rows.pitch() * size_of::<T>()).is_multiple_of(512), "{rows:?}");
        let data: Vec<T> = (0..(width * height) as u64).map(|i| make(random_bits(i))).collect();
        let mut host = vec![make(1); data.len()];
        queue.read_2d(&rows, &mut host).unwrap();
        assert_eq!(host, vec![T::default(); data.len()], "{rows:?}");
        queue.write_2d(&rows, &data).unwrap();
        let other = device.pitched::<T>(width, height).unwrap();
        queue.copy_2d(&rows, &other).unwrap();
        queue.copy_2d(&other, &other).unwrap();
        queue.read_2d(&other, &mut host).unwrap();
        assert_eq!(host, data, "{other:?}");
    }
}

#[test]
fn rows_of_every_size_are_copied_unchanged() {
    for device in test_devices() {
        round_trip::<u8>(&device, |bits| bits as u8);
        round_trip::<f32>(&device, |bits| (bits >> 40) as f32);
        round_trip::<u64>(&device, |bits| bits);
        round_trip::<[f64; 4]>(&device, |bits| [bits as f64, 1.0, -2.0, 3.0]);
    }
}

/// A kernel finds element (x, y) at y * pitch + x. A copy to the host skips the padding, which the
/// kernel marks.
#[test]
fn kernels_use_the_pitch() {
    let text = "KERNEL_2D(8, 8) transform(GLOBAL int* rows, int width, int height, int pitch, int marker)\n{\n    \
                int x = BLOCK_INDEX * 8 + THREAD, y = BLOCK_INDEX_Y * 8 + THREAD_Y;\n    \
                if (y < height && x < pitch)\n        \
                rows[y * pitch + x] = x < width ? rows[y * pitch + x] + 1000 * y + x : marker;\n}\n";
    for device in test_devices() {
        let kernel = device.build(&test_file(text), &[], Math::Precise).unwrap().kernel("transform").unwrap();
        let (width, height) = (19, 10);
        let rows = device.pitched::<i32>(width, height).unwrap();
        device.queue().write_2d(&rows, &vec![5; width * height]).unwrap();
        let pitch = rows.pitch();
        let grid = [pitch.div_ceil(8) as u32, height.div_ceil(8) as u32];
        let [width_arg, height_arg, pitch_arg] = [width, height, pitch].map(|size| Arg::from(size as i32));
        let args = [Arg::from(&rows), width_arg, height_arg, pitch_arg, (-1).into()];
        device.queue().launch(&kernel, grid, [8, 8], &args).unwrap();
        let mut host = vec![0; width * height];
        device.queue().read_2d(&rows, &mut host).unwrap();
        let expected: Vec<i32> =
            (0..height).flat_map(|y| (0..width).map(move |x| (5 + 1000 * y + x) as i32)).collect();
        assert_eq!(host, expected);
    }
}

#[test]
fn a_wrong_size_gives_an_error() {
    for device in test_devices() {
        let rows = device.pitched::<f32>(3, 2).unwrap();
        let expected = DeviceError::Length { device: device.title(), expected: 6, got: 5 };
        assert_eq!(device.queue().write_2d(&rows, &[0.0; 5]), Err(expected.clone()));
        assert_eq!(device.queue().read_2d(&rows, &mut [0.0; 5]), Err(expected));
        let other = device.pitched::<f32>(2, 3).unwrap();
        let error = device.queue().copy_2d(&rows, &other).unwrap_err().to_string();
        let expected = "copy_2d: 3 x 2 elements to 2 x 3, expected the same size";
        assert_eq!(error, format!("{}: {expected}", device.title()));
        for (width, height) in [(usize::MAX, 1), (1, usize::MAX), (1 << 40, 1 << 20)] {
            let error = device.pitched::<f32>(width, height).unwrap_err();
            assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
        }
    }
}
