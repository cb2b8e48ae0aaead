//! Builds and launches of several threads.

use std::sync::{Barrier, OnceLock};
use std::thread;

use orrery_device::testing::test_devices;
use orrery_device::{Device, Kernel, Math, Module, ModuleOrigin, Queue};

use crate::common::test_file;

/// Threads along one axis of the widest launch are `64 << MAX_WIDTH`.
const MAX_WIDTH: usize = 6;

/// Adds a sum that takes a while to compile to every element.
const TEXT: &str = "KERNEL(64) f(GLOBAL int* x, int amount)
{
    const int i = BLOCK_INDEX * 64 + THREAD;
    SHARED int values[64];
    values[THREAD] = x[i];
    BARRIER();
    int sum = amount + OFFSET;
    UNROLL(8)
    for (int k = 1; k < 64; k++)
        sum += values[(THREAD + k) % 64] - values[THREAD];
    x[i] = values[THREAD] + sum;
}
";

/// Builds the kernel of this number, which no other test and no earlier process has built.
fn build(device: &Device, number: usize) -> Module {
    let offset = (1000 * std::process::id() as usize % 1_000_000 + number).to_string();
    device.build(&test_file(TEXT), &[("OFFSET", format!("({offset} - {offset})"))], Math::Precise).unwrap()
}

/// Launches the kernel on `64 << width` equal elements, whose differences are 0.
fn launch(queue: &Queue, kernel: &Kernel, width: usize, amount: i32) {
    let buffer = queue.device().upload(&vec![7; 64 << width]).unwrap();
    queue.launch(kernel, 1 << width, 64, &[(&buffer).into(), amount.into()]).unwrap();
    let mut found = vec![0; 64 << width];
    queue.read(&buffer, &mut found).unwrap();
    assert_eq!(found, vec![7 + amount; 64 << width]);
}

#[test]
fn threads_that_need_the_same_kernel_build_it_once() {
    const THREADS: usize = 4;
    for device in &test_devices() {
        let start = Barrier::new(THREADS);
        let build_together = || {
            start.wait();
            build(device, 0).origin()
        };
        let origins: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(build_together)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let built = origins.iter().filter(|&&origin| origin != ModuleOrigin::Memory).count();
        assert_eq!(built, 1, "{}: {origins:?}", device.title());
    }
}

/// Threads use all kernels, each in another order. The first that needs a kernel builds it, and all
/// launch it with several widths in their queues. Every process has other kernels, so all are
/// compiled.
#[test]
#[ignore = "takes a minute; run it a hundred times after a change of a lock of this crate"]
fn threads_build_and_launch_many_kernels() {
    const THREADS: usize = 8;
    const KERNELS: usize = 24;
    for device in &test_devices() {
        let kernels = [const { OnceLock::new() }; KERNELS];
        let use_all_kernels = |first: usize| {
            let queue = device.new_queue().unwrap();
            for k in 0..KERNELS {
                let number = (k + first * KERNELS / THREADS) % KERNELS;
                let kernel = kernels[number].get_or_init(|| build(device, 1 + number).kernel("f").unwrap());
                for round in 0..2 * MAX_WIDTH {
                    launch(&queue, kernel, (round * 5 + first) % (MAX_WIDTH + 1), (k + round) as i32);
                }
            }
        };
        thread::scope(|scope| {
            for first in 0..THREADS {
                let use_all_kernels = &use_all_kernels;
                scope.spawn(move || use_all_kernels(first));
            }
        });
    }
}
