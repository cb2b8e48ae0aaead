//! Tests of the dialect: every macro in `dialect.cu` gives the same result on every device as the
//! reference here.

use crate::common::{is_cuda, random_number};
use orrery_device::testing::{random_bits, test_devices};
use orrery_device::{Arg, Backend, Device, DeviceKind, Kernel, KernelFile, Math};

// SAFETY: every kernel takes the length of its buffers, and the tests below pass it.
const DIALECT: KernelFile = unsafe { KernelFile::new("dialect.cu", include_str!("dialect.cu")) };
const BLOCK_SIZE: usize = 64;
const LENGTHS: [usize; 6] = [1, 2, 31, 257, 1000, 4099];

fn kernel_with_math(device: &Device, name: &str, math: Math) -> Kernel {
    let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
    let module = device.build(&DIALECT, &definitions, math).unwrap_or_else(|error| panic!("{error}"));
    module.kernel(name).unwrap()
}

fn precise_kernel(device: &Device, name: &str) -> Kernel {
    kernel_with_math(device, name, Math::Precise)
}

fn launch_for(kernel: &Kernel, device: &Device, n: usize, args: &[Arg<'_>]) {
    device.queue().launch(kernel, n.div_ceil(BLOCK_SIZE) as u32, BLOCK_SIZE as u32, args).unwrap();
}

#[test]
fn shared_memory_is_visible_after_a_barrier() {
    for device in test_devices() {
        for n in LENGTHS {
            let data: Vec<f32> = (0..n).map(|i| random_number(i) as f32).collect();
            let buffer = device.upload(&data).unwrap();
            let out = device.zeros::<f32>(n).unwrap();
            let mirror = precise_kernel(&device, "mirror");
            launch_for(&mirror, &device, n, &[(&buffer).into(), (&out).into(), (n as i32).into()]);
            let reference: Vec<f32> = (0..n)
                .map(|i| {
                    let mirrored = i / BLOCK_SIZE * BLOCK_SIZE + BLOCK_SIZE - 1 - i % BLOCK_SIZE;
                    data.get(mirrored).copied().unwrap_or(-1.0)
                })
                .collect();
            assert_eq!(out.to_vec().unwrap(), reference, "n = {n}");
            assert_eq!(mirror.resources().max_block_size, BLOCK_SIZE as u32);
            // PoCL 5.0 does not report arrays that a kernel declares.
            let reported = mirror.resources().shared_bytes;
            let is_unknown = device.properties().backend == Backend::OpenCl && reported == 0;
            assert!(is_unknown || reported >= 4 * BLOCK_SIZE as u32, "{:?}", mirror.resources());
        }
    }
}

#[test]
fn shared_memory_can_have_a_size_that_the_host_sets() {
    for device in test_devices() {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let module = device.build(&DIALECT, &definitions, Math::Precise).unwrap();
        let bytes = 4 * BLOCK_SIZE as u32;
        let mirror = module.kernel_with_shared("mirror_dynamic", bytes).unwrap();
        let mean = module.kernel_with_shared("mean_dynamic", 2 * bytes).unwrap();
        assert!(mirror.resources().shared_bytes >= bytes, "{:?}", mirror.resources());
        for n in LENGTHS {
            let data: Vec<f32> = (0..n).map(|i| random_number(i) as f32).collect();
            let (buffer, out) = (device.upload(&data).unwrap(), device.zeros::<f32>(n).unwrap());
            let args = [Arg::from(&buffer), (&out).into(), (n as i32).into()];
            launch_for(&mirror, &device, n, &args);
            let mirrored = |i| i / BLOCK_SIZE * BLOCK_SIZE + BLOCK_SIZE - 1 - i % BLOCK_SIZE;
            let expected: Vec<f32> = (0..n).map(|i| data.get(mirrored(i)).copied().unwrap_or(-1.0)).collect();
            assert_eq!(out.to_vec().unwrap(), expected, "n = {n}");
            launch_for(&mean, &device, n, &args);
            let means: Vec<f32> = data
                .chunks(BLOCK_SIZE)
                .map(|block| block.iter().fold(0.0, |sum, x| sum + x) / block.len() as f32)
                .collect();
            assert_eq!(out.to_vec().unwrap()[..means.len()], means, "n = {n}");
        }
    }
}

#[test]
fn a_wrong_size_of_dynamic_shared_memory_gives_an_error() {
    for device in test_devices() {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let module = device.build(&DIALECT, &definitions, Math::Precise).unwrap();
        let message = module.kernel("mirror_dynamic").unwrap_err().to_string();
        let expected = "kernel mirror_dynamic: expected a size of its dynamic shared memory";
        assert!(message.ends_with(expected), "{message}");
        assert!(module.kernel_with_shared("mirror_dynamic", 1 << 30).is_err());
        if !is_cuda(&device) {
            let message = module.kernel_with_shared("mirror", 64).unwrap_err().to_string();
            assert!(message.ends_with("kernel mirror: no DYNAMIC_SHARED in its declaration"), "{message}");
        }
    }
}

/// Returns the error in units in the last place of `expected`.
fn error_in_ulps(got: f32, expected: f64) -> f64 {
    (f64::from(got) - expected).abs() / (f64::from(f32::EPSILON) * expected.abs())
}

#[test]
fn f32_functions_are_within_their_error_bounds() {
    for device in test_devices() {
        for (math, limit) in [(Math::Precise, 2.0), (Math::FlushToZero, 2.0), (Math::Fast, 8.0)] {
            let n = 4099;
            let data: Vec<f32> = (0..n).map(|i| random_number(i) as f32).collect();
            let buffer = device.upload(&data).unwrap();
            let four = device.zeros::<[f32; 4]>(2 * n).unwrap();
            let bits = device.zeros::<u32>(n).unwrap();
            let args = [(&buffer).into(), (&four).into(), (&bits).into(), (n as i32).into()];
            // Fewer blocks than the length needs, so each thread has several elements.
            let functions = kernel_with_math(&device, "functions", math);
            device.queue().launch(&functions, 7, BLOCK_SIZE as u32, &args).unwrap();
            let (four, bits) = (four.to_vec().unwrap(), bits.to_vec().unwrap());
            for (i, &x) in data.iter().enumerate() {
                let wide = f64::from(x);
                let [rsqrt, sqrt, fma, weighted] = four[2 * i];
                // Both compilers specify 2 ulp for rsqrt. sqrt is correctly rounded unless fast.
                assert!(error_in_ulps(rsqrt, 1.0 / wide.sqrt()) <= limit, "rsqrt({x}) = {rsqrt}, {math:?}");
                let exact = if math == Math::Fast { limit } else { 0.5 };
                assert!(error_in_ulps(sqrt, wide.sqrt()) <= exact, "sqrt({x}) = {sqrt}, {math:?}");
                assert_eq!(fma, x.mul_add(x, 1.0), "fma of {x}, {math:?}");
                // At most four roundings, in any order.
                assert!(error_in_ulps(weighted, 1.875 * wide) <= 2.0, "weighted({x}) = {weighted}, {math:?}");
                let more = f32::from_bits(x.to_bits() + 1);
                assert_eq!(four[2 * i + 1], [x.min(2.0), x.max(2.0), x.min(2.0) + x.max(2.0), more]);
                assert_eq!(bits[i], x.to_bits());
            }
        }
    }
}

#[test]
fn f64_functions_are_within_their_error_bounds() {
    for device in test_devices().iter().filter(|device| device.properties().has_f64) {
        for n in LENGTHS {
            let data: Vec<f64> = (0..n).map(random_number).collect();
            let buffer = device.upload(&data).unwrap();
            let four = device.zeros::<[f64; 4]>(2 * n).unwrap();
            let args = [(&buffer).into(), (&four).into(), 0.25.into(), (n as i32).into()];
            launch_for(&precise_kernel(device, "functions64"), device, n, &args);
            for (i, four) in four.to_vec().unwrap().chunks(2).enumerate() {
                let x = data[i] + 0.25;
                let [rsqrt, sqrt, fma, same] = four[0];
                let expected = 1.0 / x.sqrt();
                assert!((rsqrt - expected).abs() <= 2.0 * f64::EPSILON * expected, "rsqrt({x}) = {rsqrt}");
                assert_eq!((sqrt, fma, same), (x.sqrt(), x.mul_add(x, 1.0), x));
                let (low, high) = (x.min(2.0), x.max(2.0));
                assert_eq!(four[1], [low, high, low + high, high - low]);
            }
        }
    }
}

#[test]
fn atomics_lose_no_update() {
    for device in test_devices() {
        for n in LENGTHS {
            let data: Vec<u32> = (0..n).map(|i| random_bits(i as u64) as u32).collect();
            let buffer = device.upload(&data).unwrap();
            let cells = device.upload(&[7u32, u32::MAX, 0, 7]).unwrap();
            let args = [(&buffer).into(), (&cells).into(), (n as i32).into()];
            launch_for(&precise_kernel(&device, "atomics"), &device, n, &args);
            let sum = data.iter().fold(7u32, |sum, &value| sum.wrapping_add(value));
            let (smallest, largest) = (*data.iter().min().unwrap(), *data.iter().max().unwrap());
            assert_eq!(cells.to_vec().unwrap(), [sum, smallest, largest, sum], "n = {n}");
        }
    }
}

#[test]
fn fences_order_writes_for_the_whole_device() {
    for device in test_devices() {
        let kernel = precise_kernel(&device, "sum_in_last_block");
        for n in [1usize, 64, 1000, 65_537] {
            let data: Vec<u32> = (0..n).map(|i| random_bits(i as u64) as u32).collect();
            let sum = data.iter().fold(0u32, |sum, &value| sum.wrapping_add(value));
            let buffer = device.upload(&data).unwrap();
            let parts = device.zeros::<u32>(n.div_ceil(BLOCK_SIZE)).unwrap();
            for _ in 0..20 {
                let cells = device.zeros::<u32>(2).unwrap();
                let args = [(&buffer).into(), (&parts).into(), (&cells).into(), (n as i32).into()];
                launch_for(&kernel, &device, n, &args);
                assert_eq!(cells.to_vec().unwrap(), [n.div_ceil(BLOCK_SIZE) as u32, sum], "n = {n}");
            }
        }
    }
}

#[test]
fn scalar_arguments_are_passed_unchanged() {
    for device in test_devices().iter().filter(|device| device.properties().has_f64) {
        let out = device.zeros::<u64>(7).unwrap();
        let big = 0xfedc_ba98_7654_3210u64;
        let args =
            [(&out).into(), (-5i32).into(), u32::MAX.into(), big.into(), 1024.5f32.into(), 1e15.into()];
        launch_for(&precise_kernel(device, "scalars"), device, 1, &args);
        let backend = if is_cuda(device) { 1 } else { 2 };
        let reference =
            [-5i64 as u64, u64::from(u32::MAX), big, 1024, 1_000_000_000_000_000, backend, BLOCK_SIZE as u64];
        assert_eq!(out.to_vec().unwrap(), reference);
    }
}

#[test]
fn indices_have_three_dimensions() {
    for device in test_devices() {
        for [x, y, z] in [[1, 1, 1], [3, 1, 1], [2, 5, 1], [2, 1, 3], [3, 2, 4]] {
            let (width, height, depth) = (4 * x, 2 * y, 3 * z);
            let out = device.zeros::<u32>((width * height * depth) as usize).unwrap();
            let extents = device.zeros::<i32>(3).unwrap();
            let kernel = precise_kernel(&device, "indices");
            let args = [Arg::from(&out), (&extents).into()];
            device.queue().launch(&kernel, [x, y, z], [4, 2, 3], &args).unwrap();
            let expected: Vec<u32> = (0..depth)
                .flat_map(|z| (0..height).map(move |y| (y, z)))
                .flat_map(|(y, z)| (0..width).map(move |x| x + 1000 * y + 1_000_000 * z))
                .collect();
            assert_eq!(out.to_vec().unwrap(), expected, "{x} x {y} x {z} blocks");
            assert_eq!(extents.to_vec().unwrap(), [x as i32, y as i32, z as i32]);
        }
    }
}

#[test]
fn blocks_of_two_dimensions_share_a_tile() {
    for device in test_devices() {
        for (width, height) in [(1, 1), (8, 8), (20, 9), (7, 33)] {
            let matrix: Vec<f32> = (0..width * height).map(|i| random_number(i) as f32).collect();
            let (buffer, out) = (device.upload(&matrix).unwrap(), device.zeros::<f32>(matrix.len()).unwrap());
            let args = [(&buffer).into(), Arg::from(&out), (width as i32).into(), (height as i32).into()];
            let grid = [width.div_ceil(8) as u32, height.div_ceil(8) as u32];
            let kernel = precise_kernel(&device, "transpose_tiles");
            device.queue().launch(&kernel, grid, [8, 8], &args).unwrap();
            let expected: Vec<f32> = (0..width)
                .flat_map(|row| (0..height).map(move |column| (row, column)))
                .map(|(row, column)| matrix[column * width + row])
                .collect();
            assert_eq!(out.to_vec().unwrap(), expected, "{width} x {height}");
        }
    }
}

#[test]
fn votes_and_shuffles_stay_within_their_warp() {
    for device in test_devices() {
        // Warps with random numbers, with none odd, with all odd, and with one odd.
        let numbers: Vec<u32> = (0..8 * 32)
            .map(|i| match i / 32 {
                0..=2 => random_bits(i) as u32,
                3 | 4 => 2 * i as u32,
                5 | 6 => 2 * i as u32 + 1,
                _ => 2 * i as u32 + u32::from(i == 7 * 32 + 31),
            })
            .collect();
        let (buffer, out) =
            (device.upload(&numbers).unwrap(), device.zeros::<u32>(4 * numbers.len()).unwrap());
        let args = [(&buffer).into(), Arg::from(&out)];
        launch_for(&precise_kernel(&device, "votes"), &device, numbers.len(), &args);
        let expected: Vec<u32> = (0..numbers.len())
            .flat_map(|i| {
                let warp = &numbers[i / 32 * 32..][..32];
                let ballot = (0..32).fold(0, |mask, lane| mask | (warp[lane] & 1) << lane);
                let (any, all) = (u32::from(ballot != 0), u32::from(ballot == u32::MAX));
                [any, all, ballot, warp[(i + 1) % 32]]
            })
            .collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    }
}

/// Order in which a thread writes a number and the flag that announces it.
#[derive(Clone, Copy, Debug)]
enum WriteOrder {
    /// The number first, with fences.
    Fenced,
    /// The number first, without fences. A device may show the writes in either order.
    Unfenced,
    /// The flag first, and the reader looks between the two writes.
    Wrong,
}

impl WriteOrder {
    /// Returns the kernel.
    fn kernel_name(self) -> &'static str {
        match self {
            Self::Fenced => "pass_with_fences",
            Self::Unfenced => "pass_without_fences",
            Self::Wrong => "pass_in_wrong_order",
        }
    }
}

/// Observations of the readers of all blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PassedNumbers {
    /// Times that a reader looked while its writer was at work.
    looks_at_work: u64,
    /// Times that it saw a flag before the number.
    mistakes: u64,
}

/// Passes the numbers 1 to `rounds` within each of [`PASSING_BLOCKS`] blocks.
fn pass_within_blocks(device: &Device, order: WriteOrder, rounds: u32) -> PassedNumbers {
    let [data, flag] = [(); 2].map(|()| device.zeros::<u32>(PASSING_BLOCKS).unwrap());
    let report = device.upload(&[u32::MAX; 2 * PASSING_BLOCKS]).unwrap();
    let args = [Arg::from(&data), (&flag).into(), (&report).into(), rounds.into()];
    let kernel = precise_kernel(device, order.kernel_name());
    device.queue().launch(&kernel, PASSING_BLOCKS as u32, BLOCK_SIZE as u32, &args).unwrap();
    let report = report.to_vec().unwrap();
    let sum = |k: usize| report.iter().skip(k).step_by(2).map(|&count| u64::from(count)).sum();
    PassedNumbers { looks_at_work: sum(0), mistakes: sum(1) }
}

const PASSING_BLOCKS: usize = 16;

/// A wrong order is found on every device. With fences there is none. A GPU must have looked while
/// the writers were at work. PoCL runs the threads of a block one after another, so there only
/// [`no_fence_is_empty`] notices a missing fence.
#[test]
fn fences_order_writes_within_a_block() {
    for device in test_devices() {
        let wrong = pass_within_blocks(&device, WriteOrder::Wrong, 100);
        assert_eq!(wrong.mistakes, 100 * PASSING_BLOCKS as u64, "{wrong:?}");
        let rounds = 10_000;
        let fenced = pass_within_blocks(&device, WriteOrder::Fenced, rounds);
        let unfenced = pass_within_blocks(&device, WriteOrder::Unfenced, rounds);
        let possible = match fenced.looks_at_work {
            0 => "; its threads run one after another, so it cannot show a wrong order",
            _ => "",
        };
        println!(
            "{}: wrong order without fences in {} of {} looks at work, with fences in {} of {}{possible}",
            device.title(),
            unfenced.mistakes,
            unfenced.looks_at_work,
            fenced.mistakes,
            fenced.looks_at_work,
        );
        assert_eq!(fenced.mistakes, 0, "{fenced:?}");
        let is_gpu = device.properties().kind == DeviceKind::Gpu;
        assert!(fenced.looks_at_work > 0 || !is_gpu, "{fenced:?}");
    }
}

/// Compares the text of the fences, because no result on PoCL depends on them.
#[test]
fn no_fence_is_empty() {
    for device in test_devices() {
        let lengths = device.zeros::<u32>(3).unwrap();
        device.queue().launch(&precise_kernel(&device, "fence_lengths"), 1, 1, &[(&lengths).into()]).unwrap();
        let lengths = lengths.to_vec().unwrap();
        assert!(lengths.iter().all(|&length| length > 0), "BLOCK, DEVICE, SYSTEM: {lengths:?}");
    }
}
