//! Builds and launches of kernels, and the messages of their errors.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{self, test_file};
use orrery_device::testing::test_devices;
use orrery_device::{
    Arg, Backend, Device, DeviceError, Kernel, KernelFile, Math, MathFlags, ModuleOrigin, ceiling,
};

const FILL: &str = "KERNEL(BLOCK_SIZE) fill(GLOBAL int* x, int value, int n)\n{\n    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;\n    \
                    if (i < n)\n        x[i] = value + OFFSET;\n}\n";

fn fill_kernel(device: &Device, block_size: u32, offset: i32) -> Kernel {
    let definitions = [("BLOCK_SIZE", block_size.to_string()), ("OFFSET", format!("({offset})"))];
    device.build(&test_file(FILL), &definitions, Math::Precise).unwrap().kernel("fill").unwrap()
}

/// A launch on PoCL that is wider than all before of its kernel starts when all others have ended,
/// because PoCL 3.1 can abort the process otherwise. Other launches overlap.
#[test]
fn the_widest_launch_on_pocl_runs_alone() {
    common::run_child("kernels::child_overlaps_launches", &[]);
}

/// In a child process, where no other test launches kernels.
#[test]
#[ignore = "run by `the_widest_launch_on_pocl_runs_alone`"]
fn child_overlaps_launches() {
    let text = "KERNEL(32) count(GLOBAL int* x, int rounds)
{
    const int i = BLOCK_INDEX * 32 + THREAD;
    for (int round = 0; round < rounds; round++)
        x[i] = (x[i] * 5 + 1) & 0xffff;
}
";
    for device in test_devices().iter().filter(|device| device.properties().version.contains("PoCL")) {
        let kernel = device.build(&test_file(text), &[], Math::Precise).unwrap().kernel("count").unwrap();
        let (long, short) = (device.new_queue().unwrap(), device.new_queue().unwrap());
        let values = [1, 2].map(|_| device.zeros::<i32>(32 * 16).unwrap());
        short.launch(&kernel, 4, 32, &[(&values[1]).into(), 1.into()]).unwrap();
        for (blocks, is_widest) in [(3, false), (5, true), (5, false), (16, true)] {
            long.launch(&kernel, 1, 32, &[(&values[0]).into(), 20_000_000.into()]).unwrap();
            let end = long.record().unwrap();
            assert!(!end.is_done().unwrap());
            short.launch(&kernel, blocks, 32, &[(&values[1]).into(), 1.into()]).unwrap();
            assert_eq!(end.is_done().unwrap(), is_widest, "{blocks} blocks");
            long.finish().unwrap();
        }
        short.finish().unwrap();
        let found = values[1].to_vec().unwrap();
        // 0, 1, 6, 31, ... after 0, 1, 2, 3, ... launches.
        let launches = |k: usize| [4, 3, 5, 5, 16].iter().filter(|blocks| k < 32 * **blocks).count();
        assert!(found.iter().enumerate().all(|(k, value)| *value == [0, 1, 6, 31, 156, 781][launches(k)]));
    }
}

#[test]
fn an_error_in_the_source_names_file_and_line() {
    for device in test_devices() {
        let text = "KERNEL(32) f(GLOBAL int* x)\n{\n    x[0] = 1;\n    x[1] = no_such_thing;\n}\n";
        let definitions = [("BLOCK_SIZE", "256".to_owned()), ("TARGETS", "4".to_owned())];
        // SAFETY: the text does not compile.
        let wrong = unsafe { KernelFile::new("wrong.cu", text) };
        let error = device.build(&wrong, &definitions, Math::Precise).unwrap_err();
        let message = error.to_string();
        let first = format!("{}: wrong.cu with BLOCK_SIZE=256 TARGETS=4 does not compile:", device.title());
        assert_eq!(message.lines().next(), Some(first.as_str()));
        let DeviceError::Build { log, .. } = error else { panic!("{error:?}") };
        assert!(log.contains("wrong.cu:4") || log.contains("wrong.cu(4)"), "{log}");
        assert!(log.contains("no_such_thing"), "{log}");
    }
}

/// (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24, which f32 rounds to 1 + 2^-11. Without contraction, the
/// difference to 1 + 2^-11 is therefore 0. Products of 2^-130 are denormal.
#[test]
fn flags_change_the_arithmetic() {
    let text = "KERNEL(1) f(GLOBAL float* out, float x, float y, float small)
{
    out[0] = x * x - y;
    out[1] = FMA(x, x, -y);
    out[2] = small * 0.5f;
}
";
    let (x, y, small) = (1.0 + 2.0f32.powi(-12), 1.0 + 2.0f32.powi(-11), 2.0f32.powi(-126));
    for device in test_devices() {
        let run = |flags: MathFlags| {
            let kernel =
                device.build(&test_file(text), &[], Math::Flags(flags)).unwrap().kernel("f").unwrap();
            let out = device.zeros::<f32>(3).unwrap();
            let args = [Arg::from(&out), x.into(), y.into(), small.into()];
            device.queue().launch(&kernel, 1, 1, &args).unwrap();
            out.to_vec().unwrap()
        };
        let precise = run(MathFlags::default());
        assert!([0.0, 2.0f32.powi(-24)].contains(&precise[0]), "{precise:?}");
        assert_eq!(precise[1..], [2.0f32.powi(-24), 2.0f32.powi(-127)]);
        let separate = run(MathFlags { no_contraction: true, ..MathFlags::default() });
        assert_eq!(separate, [0.0, 2.0f32.powi(-24), 2.0f32.powi(-127)]);
        // OpenCL may keep denormals in spite of the flag, and CUDA may not.
        let flushed = run(MathFlags { flush_to_zero: true, ..MathFlags::default() });
        let may_keep = device.properties().backend == Backend::OpenCl;
        assert!(flushed[2] == 0.0 || may_keep && flushed[2] == small * 0.5, "{flushed:?}");
    }
}

#[test]
fn a_missing_kernel_gives_an_error_with_its_name() {
    for device in test_devices() {
        let definitions = [("BLOCK_SIZE", "64".to_owned()), ("OFFSET", "0".to_owned())];
        let module = device.build(&test_file(FILL), &definitions, Math::Precise).unwrap();
        for name in ["full", "", "fi\0ll"] {
            let message = module.kernel(name).unwrap_err().to_string();
            assert_eq!(message, format!("{}: test.cu has no kernel '{name}'", device.title()));
        }
    }
}

#[test]
fn an_invalid_launch_gives_an_error_with_its_sizes() {
    for device in test_devices() {
        let kernel = fill_kernel(&device, 64, 0);
        let buffer = device.zeros::<i32>(100).unwrap();
        let args = [Arg::from(&buffer), 1.into(), 100.into()];
        let message = |block_count, block_size, args: &[Arg<'_>]| {
            device.queue().launch(&kernel, block_count, block_size, args).unwrap_err().to_string()
        };
        let start = format!("{}: kernel fill, 2 blocks of ", device.title());
        assert_eq!(
            message(2, 100_000, &args),
            format!("{start}100000 threads: expected 1 to 64 threads per block")
        );
        assert_eq!(message(2, 0, &args), format!("{start}0 threads: expected 1 to 64 threads per block"));
        assert_eq!(message(2, 64, &args[..2]), format!("{start}64 threads: expected 3 arguments, got 2"));
        assert_eq!(
            message(2, 64, &[args, args].concat()),
            format!("{start}64 threads: expected 3 arguments, got 6")
        );
        let floats = device.zeros::<f32>(100).unwrap();
        let wrong_types: [([Arg<'_>; 3], &str); 5] = [
            ([args[0], args[1], 100u64.into()], "argument 3 (n): expected int, got ulong"),
            ([args[0], 1.0f32.into(), args[2]], "argument 2 (value): expected int, got float"),
            // On OpenCL, this number would be the address of a memory object.
            ([0u64.into(), args[1], args[2]], "argument 1 (x): expected a buffer of int, got ulong"),
            ([args[0], (&buffer).into(), args[2]], "argument 2 (value): expected int, got a buffer of int"),
            (
                [(&floats).into(), args[1], args[2]],
                "argument 1 (x): expected a buffer of int, got a buffer of float",
            ),
        ];
        for (wrong, expected) in wrong_types {
            assert_eq!(message(2, 64, &wrong), format!("{start}64 threads: {expected}"));
        }
        // None of these launches has run, and the queue still works.
        assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
        device.queue().launch(&kernel, 0, 64, &args).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
        device.queue().launch(&kernel, 2, 64, &args).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1; 100]);
    }
}

#[test]
fn other_definitions_are_compiled_and_the_same_come_from_memory() {
    for device in test_devices() {
        let build = |offset: &str, math| {
            let definitions = [("BLOCK_SIZE", "32".to_owned()), ("OFFSET", offset.to_owned())];
            device.build(&test_file(FILL), &definitions, math).unwrap()
        };
        let buffer = device.zeros::<i32>(50).unwrap();
        for (offset, sum) in [("1001", 1006), ("1002", 1007)] {
            assert_ne!(build(offset, Math::Precise).origin(), ModuleOrigin::Memory);
            assert_eq!(build(offset, Math::Precise).origin(), ModuleOrigin::Memory);
            assert_ne!(build(offset, Math::Fast).origin(), ModuleOrigin::Memory);
            let kernel = build(offset, Math::Precise).kernel("fill").unwrap();
            device.queue().launch(&kernel, 2, 32, &[(&buffer).into(), 5.into(), 50.into()]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [sum; 50]);
        }
    }
}

/// Bandwidth in bytes/s that no memory reaches.
const IMPOSSIBLE_BANDWIDTH: f64 = 1e14;

/// The time between two events is at least that of the copies between them at an impossible
/// bandwidth, and at most the time that passed on the host, up to the resolution of both clocks.
#[test]
fn time_between_events_is_that_of_the_work() {
    const RESOLUTION_SECS: f64 = 1e-5;
    const LEN: usize = 1 << 20;
    for device in test_devices() {
        let queue = device.queue();
        let (from, to) = (device.zeros::<u64>(LEN).unwrap(), device.zeros::<u64>(LEN).unwrap());
        let record_after_copies = |count: usize| {
            (0..count).for_each(|_| queue.copy(&from, &to).unwrap());
            queue.record().unwrap()
        };
        let host_start = Instant::now();
        let events = [0, 2, 40].map(record_after_copies);
        let seconds = |later: usize, earlier: usize| events[later].seconds_since(&events[earlier]).unwrap();
        let (few, many, all) = (seconds(1, 0), seconds(2, 1), seconds(2, 0));
        let host_secs = host_start.elapsed().as_secs_f64();
        assert!(events.iter().all(|event| event.is_done().unwrap()));
        let label = format!("{}: {few} s and {many} s, together {all} s", device.title());
        for (copies, secs) in [(2, few), (40, many)] {
            assert!(secs > f64::from(copies) * (2 * 8 * LEN) as f64 / IMPOSSIBLE_BANDWIDTH, "{label}");
        }
        assert!((few + many - all).abs() < RESOLUTION_SECS, "{label}");
        // Two clocks may differ by some parts per million.
        assert!(all < 1.001 * host_secs + RESOLUTION_SECS, "{label}; {host_secs} s on the host");
    }
}

/// One queue fills a buffer, another copies it after an event. The host waits only at the end.
#[test]
fn queues_wait_for_events() {
    for device in test_devices() {
        let kernel = fill_kernel(&device, 64, 0);
        let n = 300_000;
        let (first, second) = (device.zeros::<i32>(n).unwrap(), device.zeros::<i32>(n).unwrap());
        let other = device.new_queue().unwrap();
        for value in 1..20 {
            let args = [Arg::from(&first), value.into(), (n as i32).into()];
            device.queue().launch(&kernel, n.div_ceil(64) as u32, 64, &args).unwrap();
            let filled = device.queue().record().unwrap();
            other.wait_for(&filled).unwrap();
            other.copy(&first, &second).unwrap();
            let copied = other.record().unwrap();
            device.queue().wait_for(&copied).unwrap();
            let mut host = vec![0; n];
            other.read(&second, &mut host).unwrap();
            assert!(host.iter().all(|&x| x == value), "{value}");
        }
        let event = device.queue().record().unwrap();
        for _ in 0..1000 {
            if event.is_done().unwrap() {
                break;
            }
            sleep(Duration::from_millis(5));
        }
        assert!(event.is_done().unwrap(), "an event is done after some time, even if no thread waits for it");
        device.queue().finish().unwrap();
    }
}

/// Kernel and buffer are dropped while their launch may still be queued.
#[test]
fn a_queued_launch_runs_after_its_kernel_and_buffer_are_dropped() {
    for device in test_devices() {
        let out = device.zeros::<i32>(1000).unwrap();
        {
            let kernel = fill_kernel(&device, 64, 7);
            let scratch = device.zeros::<i32>(1000).unwrap();
            let args = |buffer| [Arg::from(buffer), 1.into(), 1000.into()];
            device.queue().launch(&kernel, 16, 64, &args(&scratch)).unwrap();
            device.queue().copy(&scratch, &out).unwrap();
        }
        assert_eq!(out.to_vec().unwrap(), [8; 1000]);
    }
}

/// Prints two observations per device. First, whether another queue, which does not wait for the
/// launches, reads the result of each launch as soon as `launch` returns. Second, whether some
/// launch was still running when `launch` returned.
#[test]
#[ignore = "run by `debug_mode_waits_for_each_launch`"]
fn child_observes_launches() {
    let text = "KERNEL(32) spin(GLOBAL int* x, int n, float a, int value)\n{\n    float y = a;\n    \
                for (int i = 0; i < n; i++)\n        y = FMA(y, a, 0.25f);\n    \
                x[THREAD] = y < 1.0f ? value : 0;\n}\n";
    for device in test_devices() {
        let kernel = device.build(&test_file(text), &[], Math::Precise).unwrap().kernel("spin").unwrap();
        let buffer = device.zeros::<i32>(32).unwrap();
        let launch = |rounds: i32, value: i32| {
            let args = [Arg::from(&buffer), rounds.into(), 0.5f32.into(), value.into()];
            device.queue().launch(&kernel, 1, 32, &args).unwrap();
        };
        let other = device.new_queue().unwrap();
        let are_all_visible = (1..=20).all(|value| {
            launch(100_000, value);
            let mut found = [0; 32];
            other.read(&buffer, &mut found).unwrap();
            found == [value; 32]
        });
        // The operating system may suspend this thread for longer than a launch takes. Each attempt
        // is three times as long as the one before.
        let is_any_running = (0..7).any(|attempt| {
            launch(100_000 * 3i32.pow(attempt), 1);
            let is_running = !device.queue().record().unwrap().is_done().unwrap();
            device.queue().finish().unwrap();
            is_running
        });
        println!("child: {are_all_visible} {is_any_running}");
    }
}

#[test]
fn debug_mode_waits_for_each_launch() {
    let observe = |debug| {
        let variables = [("ORRERY_DEBUG", debug)];
        let lines = common::child_lines(&common::run_child("kernels::child_observes_launches", &variables));
        assert_eq!(lines.len(), test_devices().len());
        lines
    };
    for (device, line) in test_devices().iter().zip(observe("1")) {
        assert!(line.starts_with("true"), "{}: {line}", device.title());
    }
    for (device, line) in test_devices().iter().zip(observe("0")) {
        // With PoCL 5 every launch waits, because that driver would abort otherwise.
        let is_pocl_5 =
            device.properties().version.contains("PoCL") && device.properties().driver.starts_with("5.");
        assert!(line.ends_with("true") || is_pocl_5, "{}: {line}", device.title());
    }
}

#[test]
fn occupancy_is_between_0_and_1() {
    for device in test_devices() {
        let kernel = fill_kernel(&device, 64, 0);
        assert_eq!(kernel.occupancy(64).is_some(), common::is_cuda(&device));
        if let Some(occupancy) = kernel.occupancy(64) {
            assert!(occupancy > 0.0 && occupancy <= 1.0, "{occupancy}");
            assert!(kernel.blocks_per_sm(64).unwrap() > 0);
            assert!(kernel.resources().registers.unwrap() > 0);
        }
    }
}

/// A measured ceiling is below the theoretical rate, with 5% tolerance for clocks that boost. The
/// lower limits are those of machines of the year 2000, because this one may be busy.
#[test]
fn measured_ceilings_are_below_the_theoretical_rates() {
    for device in test_devices() {
        let ceilings = ceiling::measure(&device).unwrap();
        let properties = device.properties();
        println!("{}: {ceilings:?}", device.title());
        assert!(ceilings.copy_bytes_per_s > 1e8 && ceilings.copy_bytes_per_s < IMPOSSIBLE_BANDWIDTH);
        assert!(ceilings.f32_flops > 1e8 && ceilings.f32_flops < 1e16);
        assert_eq!(ceilings.f64_flops.is_some(), properties.has_f64);
        for (measured, peak) in [
            (Some(ceilings.copy_bytes_per_s), properties.peak_bandwidth),
            (Some(ceilings.f32_flops), properties.peak_f32),
            (ceilings.f64_flops, properties.peak_f64),
        ] {
            if let (Some(measured), Some(peak)) = (measured, peak) {
                assert!(measured < 1.05 * peak, "{measured:e} of {peak:e}");
            }
        }
    }
}
