//! Measured peak of the CPU: multiply-adds on registers, without memory access.

use std::time::Instant;

use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_simd::{InstructionSet, MAX_LANES, Real, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

/// Independent chains of multiply-adds. 12 exceed latency times ports of all cores known to us.
const CHAINS: usize = 12;

struct FmaChains {
    rounds: usize,
    is_double: bool,
}

impl SimdKernel for FmaChains {
    /// Number of operations, and a result that prevents the compiler from removing them.
    type Output = (f64, f64);

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> (f64, f64) {
        if self.is_double { run_chains::<D>(self.rounds) } else { run_chains::<S>(self.rounds) }
    }
}

#[inline(always)]
fn run_chains<V: Vector>(rounds: usize) -> (f64, f64) {
    let near_one = V::splat(V::Scalar::from_f64(std::hint::black_box(0.999_99)));
    let small = V::splat(V::Scalar::from_f64(std::hint::black_box(1e-5)));
    let mut x = [near_one; CHAINS];
    for _ in 0..rounds {
        for k in 0..CHAINS {
            x[k] = x[k].mul_add(near_one, small);
        }
    }
    let mut lanes = [0.0; MAX_LANES];
    for k in 0..CHAINS {
        x[k].add_to_lane_sums(&mut lanes, 1.0);
    }
    ((2 * rounds * CHAINS * V::LANES) as f64, lanes[0])
}

/// Independent chains of f32 multiply-adds in one thread.
struct CountedChains {
    chains: usize,
    operations: usize,
}

impl SimdKernel for CountedChains {
    /// Number of multiply-adds.
    type Output = f64;

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> f64 {
        let rounds = self.operations.div_ceil(self.chains * S::LANES);
        match self.chains {
            1 => run_counted::<S, 1>(rounds),
            2 => run_counted::<S, 2>(rounds),
            4 => run_counted::<S, 4>(rounds),
            8 => run_counted::<S, 8>(rounds),
            12 => run_counted::<S, 12>(rounds),
            _ => run_counted::<S, 16>(rounds),
        }
        (rounds * self.chains * S::LANES) as f64
    }
}

#[inline(always)]
fn run_counted<V: Vector, const N: usize>(rounds: usize) {
    let near_one = V::splat(V::Scalar::from_f64(std::hint::black_box(0.999_99)));
    let small = V::splat(V::Scalar::from_f64(std::hint::black_box(1e-5)));
    let mut x = [near_one; N];
    for _ in 0..rounds {
        for k in 0..N {
            x[k] = x[k].mul_add(near_one, small);
        }
    }
    let mut lanes = [0.0; MAX_LANES];
    for k in 0..N {
        x[k].add_to_lane_sums(&mut lanes, 1.0);
    }
    std::hint::black_box(lanes);
}

/// Multiply-adds of a measurement of [`run_fma_chains`], at least: about 50 µs of a fast core.
pub const LEAST_FMAS: usize = 1 << 22;

/// Runs at least `operations` f32 multiply-adds in this thread, in 1, 2, 4, 8, 12 or 16 independent
/// chains of SIMD registers. Returns the number of multiply-adds, each lane counted.
pub fn run_fma_chains(chains: usize, operations: usize) -> f64 {
    assert!([1, 2, 4, 8, 12, 16].contains(&chains), "{chains} chains");
    dispatch(InstructionSet::best(), CountedChains { chains, operations })
}

/// Multiply-adds per chain of the first, short measurement.
const FIRST_ROUNDS: usize = 50_000;
/// Multiply-adds per chain of the longest measurement. They take about 10 ms.
const MAX_ROUNDS: usize = 3_000_000;
/// Approximate time of one measurement. Unoptimised builds, which are slower by two orders of
/// magnitude, do fewer rounds.
const MEASUREMENT_SECONDS: f64 = 0.01;

/// Measures the floating-point operations per second of all threads together, in f64 for `Double`
/// and in f32 otherwise. Returns the best of five measurements.
pub fn flops_per_second(set: InstructionSet, precision: Precision) -> f64 {
    let is_double = precision == Precision::Double;
    let threads = rayon::current_num_threads();
    // Returns the operations and the time.
    let measure_once = |rounds: usize| {
        let start = Instant::now();
        let done: f64 = (0..threads)
            .into_par_iter()
            .map(|_| {
                let (operations, value) = dispatch(set, FmaChains { rounds, is_double });
                std::hint::black_box(value);
                operations
            })
            .sum();
        (done, start.elapsed().as_secs_f64())
    };
    let (_, first_seconds) = measure_once(FIRST_ROUNDS);
    let factor = MEASUREMENT_SECONDS / first_seconds;
    let rounds = ((FIRST_ROUNDS as f64 * factor) as usize).clamp(FIRST_ROUNDS, MAX_ROUNDS);
    (0..5)
        .map(|_| {
            let (done, seconds) = measure_once(rounds);
            done / seconds
        })
        .fold(0.0, max_or_nan)
}
