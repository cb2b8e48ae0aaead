//! Corrected traces of receivers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::bessel::{LANES, bessel_rows, order_count};
use super::prediction::extend;

/// Traces that read the same kernel row. Their sums fit in registers with AVX-512.
const TRACES: usize = 4;
/// Operations that one thread does in about 10 ms.
const OPERATIONS_OF_A_THREAD: usize = 10_000_000;

/// Samples at [`LANES`] steps of all traces.
type Block = Vec<[f64; LANES]>;

/// Returns traces without the error in time, from samples at the times 0, dt, 2 dt, … of receivers
/// at rest. All have the same number of samples, and the result has as many.
///
/// The last 2.5 N^(1/3) of N samples depend on predicted samples after the end. The cost is N²
/// operations per trace. The sums have the same order for any number of threads.
///
/// The threads are not those of Rayon. A worker of Rayon that steps a run waits for the output of
/// that run, and this function is called by output threads: with Rayon it would wait for the
/// worker.
pub fn corrected_traces(traces: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = traces.first().map_or(0, Vec::len);
    let needed = order_count(count.next_multiple_of(LANES).saturating_sub(1));
    let extended = |trace: &Vec<f64>| {
        let mut extended = trace.clone();
        extend(&mut extended, needed.saturating_sub(count));
        extended
    };
    let extended: Vec<Vec<f64>> = traces.iter().map(extended).collect();
    let block = |first: usize| -> Block {
        let mut weights = bessel_rows(first);
        weights[1..].iter_mut().for_each(|row| row.iter_mut().for_each(|weight| *weight *= 2.0));
        extended.chunks(TRACES).flat_map(|traces| weighted_sums(&weights, traces)).collect()
    };
    let threads = (count.saturating_mul(count).saturating_mul(traces.len()) / OPERATIONS_OF_A_THREAD)
        .min(rayon::current_num_threads());
    let blocks = compute_blocks(count.div_ceil(LANES), threads, |index| block(index * LANES));
    let trace = |receiver: usize| {
        let samples = blocks.iter().flat_map(|block| block[receiver]);
        samples.take(count).collect()
    };
    (0..traces.len()).map(trace).collect()
}

/// Computes the blocks 0 to `count` − 1 with up to `threads` threads.
fn compute_blocks(count: usize, threads: usize, block: impl Fn(usize) -> Block + Sync) -> Vec<Block> {
    let next = AtomicUsize::new(0);
    let work = || {
        let indices = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        indices.take_while(|index| *index < count).map(|index| (index, block(index))).collect::<Vec<_>>()
    };
    let mut found = thread::scope(|scope| {
        // A thread that does not start leaves its blocks to the others.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (1..threads).filter_map(start).collect();
        let mut found = work();
        for helper in helpers {
            found.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        found
    });
    found.sort_unstable_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, block)| block).collect()
}

/// Returns the sums of up to [`TRACES`] traces with the weights of each lane.
fn weighted_sums(weights: &[[f64; LANES]], traces: &[Vec<f64>]) -> Vec<[f64; LANES]> {
    let mut sums = [[0.0; LANES]; TRACES];
    for (n, row) in weights.iter().enumerate() {
        for (sum, trace) in sums.iter_mut().zip(traces) {
            let sample = trace[n];
            (0..LANES).for_each(|lane| sum[lane] += row[lane] * sample);
        }
    }
    sums[..traces.len()].to_vec()
}
