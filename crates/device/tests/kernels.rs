//! Building and launching: what works, and what each mistake says.

mod common;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{devices, source};
use orrery_device::{Arg, Device, DeviceError, Kernel, Math, Origin, Source, ceiling};

const FILL: &str = "KERNEL(BLOCK_SIZE) fill(GLOBAL int* x, int value, int n)\n{\n    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;\n    \
                    if (i < n)\n        x[i] = value + PLUS;\n}\n";

fn fill(device: &Device, block: u32, plus: i32) -> Kernel {
    let definitions = [("BLOCK_SIZE", block.to_string()), ("PLUS", format!("({plus})"))];
    device.build(&source(FILL, &definitions)).unwrap().kernel("fill").unwrap()
}

#[test]
fn a_mistake_in_the_source_is_shown_with_file_and_line() {
    for device in devices() {
        let text = "KERNEL(32) f(GLOBAL int* x)\n{\n    x[0] = 1;\n    x[1] = no_such_thing;\n}\n";
        let definitions = [("BLOCK_SIZE", "256".to_owned()), ("TARGETS", "4".to_owned())];
        let wrong = Source { name: "wrong.cu", text, definitions: &definitions, math: Math::Precise };
        let error = device.build(&wrong).unwrap_err();
        let message = error.to_string();
        let first = format!("{}: wrong.cu with BLOCK_SIZE=256 TARGETS=4 does not compile:", device.title());
        assert_eq!(message.lines().next(), Some(first.as_str()));
        let DeviceError::Build { log, .. } = error else { panic!("{error:?}") };
        assert!(log.contains("wrong.cu:4") || log.contains("wrong.cu(4)"), "{log}");
        assert!(log.contains("no_such_thing"), "{log}");
    }
}

#[test]
fn a_missing_kernel_is_named() {
    for device in devices() {
        let definitions = [("BLOCK_SIZE", "64".to_owned()), ("PLUS", "0".to_owned())];
        let module = device.build(&source(FILL, &definitions)).unwrap();
        for name in ["full", "", "fi\0ll"] {
            let message = module.kernel(name).unwrap_err().to_string();
            assert_eq!(message, format!("{}: some.cu has no kernel {name:?}", device.title()));
        }
    }
}

#[test]
fn a_launch_that_cannot_be_is_refused_with_its_sizes() {
    for device in devices() {
        let kernel = fill(&device, 64, 0);
        let buffer = device.zeros::<i32>(100).unwrap();
        let args = [Arg::from(&buffer), 1.into(), 100.into()];
        let message = |groups, group, args: &[Arg<'_>]| {
            device.queue().launch(&kernel, groups, group, args).unwrap_err().to_string()
        };
        let start = format!("{}: kernel fill, 2 groups of ", device.title());
        assert_eq!(
            message(2, 100_000, &args),
            format!("{start}100000: a group of this kernel has 1 to 64 threads")
        );
        assert_eq!(message(2, 0, &args), format!("{start}0: a group of this kernel has 1 to 64 threads"));
        assert_eq!(message(2, 64, &args[..2]), format!("{start}64: it takes 3 arguments, got 2"));
        assert_eq!(message(2, 64, &[args, args].concat()), format!("{start}64: it takes 3 arguments, got 6"));
        let long = [Arg::from(&buffer), 1.into(), 100u64.into()];
        let refused = message(2, 64, &long);
        assert!(refused.starts_with(&start) && refused.contains("argument 3"), "{refused}");
        // Nothing of this has run, and the queue still works.
        assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
        device.queue().launch(&kernel, 0, 64, &args).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
        device.queue().launch(&kernel, 2, 64, &args).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1; 100]);
    }
}

#[test]
fn definitions_make_another_kernel_and_the_same_come_from_memory() {
    for device in devices() {
        let built = |plus: &str, math| {
            let definitions = [("BLOCK_SIZE", "32".to_owned()), ("PLUS", plus.to_owned())];
            device.build(&Source { name: "some.cu", text: FILL, definitions: &definitions, math }).unwrap()
        };
        let buffer = device.zeros::<i32>(50).unwrap();
        for (plus, sum) in [("1001", 1006), ("1002", 1007)] {
            assert_ne!(built(plus, Math::Precise).origin(), Origin::Memory);
            assert_eq!(built(plus, Math::Precise).origin(), Origin::Memory);
            assert_ne!(built(plus, Math::Fast).origin(), Origin::Memory);
            let kernel = built(plus, Math::Precise).kernel("fill").unwrap();
            device.queue().launch(&kernel, 2, 32, &[(&buffer).into(), 5.into(), 50.into()]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [sum; 50]);
        }
        assert!(built("1001", Math::Precise).build_time() < Duration::from_millis(100));
    }
}

#[test]
fn events_have_times_in_order() {
    for device in devices() {
        let queue = device.queue();
        let from = device.zeros::<u64>(1 << 20).unwrap();
        let to = device.zeros::<u64>(1 << 20).unwrap();
        let copies = |count| {
            let before = queue.record().unwrap();
            for _ in 0..count {
                queue.copy(&from, &to).unwrap();
            }
            let after = queue.record().unwrap();
            let seconds = after.seconds_since(&before).unwrap();
            assert!(before.is_done().unwrap() && after.is_done().unwrap());
            seconds
        };
        copies(1);
        let least = |count| (0..5).map(|_| copies(count)).fold(f64::INFINITY, f64::min);
        let (few, many) = (least(2), least(40));
        assert!(few > 0.0 && many > 3.0 * few, "2 copies {few} s, 40 copies {many} s");
    }
}

/// One queue fills, another copies once an event says so; the host only waits at the end.
#[test]
fn queues_wait_for_events() {
    for device in devices() {
        let kernel = fill(&device, 64, 0);
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
        assert!(event.is_done().unwrap(), "an event is done some time without anybody waiting");
        device.queue().finish().unwrap();
    }
}

/// A kernel outlives its module and what else was built; a buffer outlives nothing it needs.
#[test]
fn what_is_dropped_early_still_runs() {
    for device in devices() {
        let out = device.zeros::<i32>(1000).unwrap();
        {
            let kernel = fill(&device, 64, 7);
            let scratch = device.zeros::<i32>(1000).unwrap();
            let args = |buffer| [Arg::from(buffer), 1.into(), 1000.into()];
            device.queue().launch(&kernel, 16, 64, &args(&scratch)).unwrap();
            device.queue().copy(&scratch, &out).unwrap();
        }
        assert_eq!(out.to_vec().unwrap(), [8; 1000]);
    }
}

/// Says what share of a long launch the host spent in the call itself.
#[test]
#[ignore = "run by `debug_mode_waits_for_each_launch`"]
fn child_launches() {
    let text = "KERNEL(32) spin(GLOBAL float* x, int n, float a)\n{\n    float y = x[THREAD];\n    \
                for (int i = 0; i < n; i++)\n        y = FMA(y, a, 0.25f);\n    x[THREAD] = y;\n}\n";
    for device in devices() {
        let kernel = device.build(&source(text, &[])).unwrap().kernel("spin").unwrap();
        let buffer = device.zeros::<f32>(32).unwrap();
        let launch = || {
            let args = [Arg::from(&buffer), 3_000_000.into(), 0.5f32.into()];
            device.queue().launch(&kernel, 1, 32, &args).unwrap();
        };
        launch();
        device.queue().finish().unwrap();
        let start = Instant::now();
        launch();
        let launched = start.elapsed();
        device.queue().finish().unwrap();
        println!("said: {}", launched.as_secs_f64() / start.elapsed().as_secs_f64());
    }
}

#[test]
fn debug_mode_waits_for_each_launch() {
    let shares = |debug| -> Vec<f64> {
        let said = common::said(&common::child("child_launches", &[("ORRERY_DEBUG", debug)]));
        said.iter().map(|share| share.parse().unwrap()).collect()
    };
    let (debug, plain) = (shares("1"), shares("0"));
    assert_eq!((debug.len(), plain.len()), (devices().len(), devices().len()));
    assert!(debug.iter().all(|&share| share > 0.5), "{debug:?}");
    for (device, share) in devices().iter().zip(plain) {
        // There the driver waits always, lest it abort.
        let is_pocl_5 =
            device.properties().version.contains("PoCL") && device.properties().driver.starts_with("5.");
        assert!(share < 0.5 || is_pocl_5, "{}: {share}", device.title());
    }
}

#[test]
fn occupancy_is_a_share() {
    for device in devices() {
        let kernel = fill(&device, 64, 0);
        assert_eq!(kernel.occupancy(64).is_some(), common::is_cuda(&device));
        if let Some(share) = kernel.occupancy(64) {
            assert!(share > 0.0 && share <= 1.0, "{share}");
            assert!(kernel.blocks_per_sm(64).unwrap() > 0);
            assert!(kernel.resources().registers.unwrap() > 0);
        }
    }
}

/// A roof that is measured lies under the theoretical one (5% for clocks that boost).
#[test]
fn ceilings_are_plausible() {
    for device in devices() {
        let ceilings = ceiling::measure(&device).unwrap();
        let properties = device.properties();
        println!("{}: {ceilings:?}", device.title());
        assert!(ceilings.copy_bytes_per_s > 1e8 && ceilings.copy_bytes_per_s < 1e14);
        assert!(ceilings.f32_flops > 1e8 && ceilings.f32_flops < 1e16);
        assert_eq!(ceilings.f64_flops.is_some(), properties.has_f64);
        for (measured, peak) in [
            (Some(ceilings.copy_bytes_per_s), properties.peak_bandwidth),
            (Some(ceilings.f32_flops), properties.peak_f32),
            (ceilings.f64_flops, properties.peak_f64),
        ] {
            if let (Some(measured), Some(peak)) = (measured, peak) {
                assert!(measured < 1.05 * peak && measured > 0.3 * peak, "{measured:e} of {peak:e}");
            }
        }
    }
}
