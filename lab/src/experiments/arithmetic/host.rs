//! Chains of operations on the CPU, for comparison with a device.

use rayon::prelude::*;

use orrery_measure::cpu_peak::{LEAST_FMAS, run_fma_chains};

/// Independent numbers of the scalar operations. Eight divisions hide the latency of one.
const CHAINS: usize = 8;
/// Scalar operations of a measurement, at least: about 1 ms.
const LEAST_SCALARS: usize = 1 << 20;
/// Independent SIMD registers of the FMAs.
const FMA_CHAINS: usize = 12;

/// An operation on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct HostOperation {
    /// Name of the rung.
    pub name: &'static str,
    /// Flops per operation, if it has a conventional count.
    pub flops: Option<f64>,
    /// Whether all cores take part.
    pub is_parallel: bool,
    /// Operations per thread of a measurement, at least. Fewer take too little time.
    pub least: usize,
    /// Runs at least n operations per thread and returns the number of operations of all threads.
    pub run: fn(usize) -> f64,
}

/// Returns the operations, in the order of the table.
pub fn operations() -> [HostOperation; 6] {
    let scalar =
        |name, run| HostOperation { name, flops: None, is_parallel: false, least: LEAST_SCALARS, run };
    [
        HostOperation {
            name: "CPU, one thread, f32 FMA",
            flops: Some(2.0),
            is_parallel: false,
            least: LEAST_FMAS,
            run: |n| run_fma_chains(FMA_CHAINS, n),
        },
        HostOperation {
            name: "CPU, all cores, f32 FMA",
            flops: Some(2.0),
            is_parallel: true,
            // The start of all threads takes about 10 µs.
            least: 4 * LEAST_FMAS,
            run: |n| {
                let tasks = (0..rayon::current_num_threads()).into_par_iter();
                tasks.map(|_| run_fma_chains(FMA_CHAINS, n)).sum()
            },
        },
        scalar("CPU, one thread, f32 divide", |n| repeat([1.1f32; CHAINS], n, |x| 1.7 / x)),
        scalar("CPU, one thread, f32 sqrt", |n| repeat([900.0f32; CHAINS], n, f32::sqrt)),
        scalar("CPU, one thread, f32 sin", |n| repeat([0.9f32; CHAINS], n, f32::sin)),
        scalar("CPU, one thread, u32 divide", |n| {
            repeat([0x9e37_79b9u32; CHAINS], n, |x| 0xf000_0000 / (x | 1) + 12_345)
        }),
    ]
}

/// Applies an operation at least n times in total, in independent chains. Returns the number of
/// operations.
fn repeat<T: Copy>(start: [T; CHAINS], n: usize, apply: impl Fn(T) -> T) -> f64 {
    let mut numbers = std::hint::black_box(start);
    let rounds = n.div_ceil(CHAINS);
    for _ in 0..rounds {
        numbers = numbers.map(&apply);
    }
    std::hint::black_box(numbers);
    (rounds * CHAINS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_runs_as_often_as_requested() {
        for operation in operations() {
            let threads = if operation.is_parallel { rayon::current_num_threads() } else { 1 };
            for n in [1, 1000] {
                let count = (operation.run)(n);
                assert!(count >= (n * threads) as f64, "{}: {count}", operation.name);
                assert!(count < ((n + 400) * threads) as f64, "{}: {count}", operation.name);
            }
        }
        let applied = std::cell::Cell::new(0);
        let count = repeat([0u32; CHAINS], 20, |x| {
            applied.set(applied.get() + 1);
            x
        });
        assert_eq!((count, applied.get()), (24.0, 24));
    }
}
