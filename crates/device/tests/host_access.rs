//! Mapped and managed memory, on every device.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{is_cuda, test_file};
use orrery_device::testing::test_devices;
use orrery_device::{Arg, Device, DeviceError, Kernel, Math};

const ADD: &str = "KERNEL(64) add(GLOBAL const int* from, GLOBAL int* to, int n)\n{\n    \
                   int i = BLOCK_INDEX * 64 + THREAD;\n    if (i < n)\n        to[i] += from[i];\n}\n";

fn add_kernel(device: &Device) -> Kernel {
    device.build(&test_file(ADD), &[], Math::Precise).unwrap().kernel("add").unwrap()
}

#[test]
fn kernels_and_host_see_the_same_mapped_memory() {
    for device in test_devices() {
        assert!(device.properties().can_map_host_memory, "every driver with tests has it");
        let add = add_kernel(&device);
        for n in [0usize, 1, 63, 64, 65, 100_003] {
            let mut from = device.mapped::<i32>(n).unwrap();
            let mut to = device.mapped::<i32>(n).unwrap();
            assert_eq!((from.len(), from.is_empty()), (n, n == 0));
            assert!(to.with_host(|to| to.len() == n && to.iter().all(|&x| x == 0)).unwrap());
            from.with_host(|from| (0..).zip(from).for_each(|(i, x)| *x = i)).unwrap();
            let args = [Arg::from(&from), (&to).into(), (n as i32).into()];
            for _ in 0..3 {
                device.queue().launch(&add, n.div_ceil(64) as u32, 64, &args).unwrap();
            }
            // The host waits, changes the memory, and the device sees it.
            to.with_host(|to| to.iter_mut().for_each(|x| *x += 1)).unwrap();
            let buffer = device.zeros::<i32>(n).unwrap();
            let args = [Arg::from(&to), (&buffer).into(), (n as i32).into()];
            device.queue().launch(&add, n.div_ceil(64) as u32, 64, &args).unwrap();
            let expected: Vec<i32> = (0..n as i32).map(|i| 3 * i + 1).collect();
            assert_eq!(buffer.to_vec().unwrap(), expected);
            assert_eq!(to.with_host(|to| to.to_vec()).unwrap(), expected, "{to:?}");
        }
    }
}

/// Launches in several queues are all done when the host gets access, also those of a queue that
/// was dropped.
#[test]
fn host_access_waits_for_all_queues() {
    for device in test_devices() {
        let (add, n) = (add_kernel(&device), 200_000);
        let mut ones = device.mapped::<i32>(n).unwrap();
        ones.with_host(|ones| ones.fill(1)).unwrap();
        let mut sums = [(); 3].map(|()| device.mapped::<i32>(n).unwrap());
        let kept = device.new_queue().unwrap();
        for _ in 0..20 {
            let dropped = device.new_queue().unwrap();
            for (queue, sum) in [device.queue(), &kept, &dropped].into_iter().zip(&sums) {
                let args = [Arg::from(&ones), sum.into(), (n as i32).into()];
                queue.launch(&add, n.div_ceil(64) as u32, 64, &args).unwrap();
            }
        }
        for sum in &mut sums {
            assert!(sum.with_host(|sum| sum.iter().all(|&x| x == 20)).unwrap(), "{sum:?}");
        }
        // Dropped while a launch may be running.
        let args = [Arg::from(&ones), (&sums[0]).into(), (n as i32).into()];
        kept.launch(&add, n.div_ceil(64) as u32, 64, &args).unwrap();
        drop((ones, sums));
    }
}

#[test]
fn a_panic_during_host_access_ends_the_access() {
    for device in test_devices() {
        let mut mapped = device.mapped::<i32>(64).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = mapped.with_host(|elements| {
                elements.fill(7);
                assert_ne!(elements[0], 7, "on purpose");
            });
        }));
        assert!(panicked.is_err());
        let sum = device.zeros::<i32>(64).unwrap();
        let args = [Arg::from(&mapped), (&sum).into(), 64.into()];
        device.queue().launch(&add_kernel(&device), 1, 64, &args).unwrap();
        assert_eq!(sum.to_vec().unwrap(), [7; 64]);
    }
}

#[test]
fn mapped_memory_of_the_wrong_type_or_size_gives_an_error() {
    for device in test_devices() {
        let (floats, to) = (device.mapped::<f32>(4).unwrap(), device.mapped::<i32>(4).unwrap());
        let args = [Arg::from(&floats), (&to).into(), 4.into()];
        let message = device.queue().launch(&add_kernel(&device), 1, 64, &args).unwrap_err().to_string();
        assert!(message.ends_with("expected a buffer of int, got a buffer of float"), "{message}");
        let message = device.mapped::<f64>(usize::MAX).unwrap_err().to_string();
        let expected = "mapped memory of 16.0 EiB: exceeds the address space";
        assert_eq!(message, format!("{}: {expected}", device.title()));
        // More than any host has.
        assert!(device.mapped::<u8>(1 << 52).is_err());
    }
}

#[test]
fn managed_memory_moves_between_host_and_device() {
    for device in test_devices() {
        if !device.properties().has_managed_memory {
            let error = device.managed::<i32>(100).unwrap_err().to_string();
            let expected = "managed memory of 400 bytes: this device has none";
            assert_eq!(error, format!("{}: {expected}", device.title()));
            continue;
        }
        let add = add_kernel(&device);
        for n in [0usize, 1, 65, 1_000_003] {
            let mut from = device.managed::<i32>(n).unwrap();
            let mut to = device.managed::<i32>(n).unwrap();
            assert!(to.with_host(|to| to.len() == n && to.iter().all(|&x| x == 0)).unwrap());
            from.with_host(|from| (0..).zip(from).for_each(|(i, x)| *x = i)).unwrap();
            for round in 1..4 {
                device.queue().prefetch_to_device(&from).unwrap();
                let args = [Arg::from(&from), (&to).into(), (n as i32).into()];
                device.queue().launch(&add, n.div_ceil(64) as u32, 64, &args).unwrap();
                device.queue().prefetch_to_host(&to).unwrap();
                let is_correct = to.with_host(|to| (0..).zip(&*to).all(|(i, &x)| x == round * i)).unwrap();
                assert!(is_correct, "{to:?}, round {round}");
            }
        }
        // A card with less free memory than this refuses it.
        let free = device.memory().unwrap().free;
        let error = device.managed::<u8>(free as usize + 1).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    }
}

#[test]
fn properties_of_host_memory_are_consistent() {
    for device in test_devices() {
        let properties = device.properties();
        assert_eq!(properties.compute_mode.is_some(), is_cuda(&device));
        assert_eq!(properties.copy_engines.is_some(), is_cuda(&device));
        assert!(!properties.has_managed_memory || properties.has_unified_addressing, "{properties:?}");
    }
}
