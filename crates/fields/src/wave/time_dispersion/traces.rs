//! Corrected traces of receivers.

use rayon::prelude::*;

use super::bessel::{LANES, bessel_rows, order_count};
use super::prediction::extend;

/// Traces that read the same kernel row. Their sums fit in registers with AVX-512.
const TRACES: usize = 4;

/// Returns traces without the error in time, from samples at the times 0, dt, 2 dt, … of receivers
/// at rest. All have the same number of samples, and the result has as many.
///
/// The last 2.5 N^(1/3) of N samples depend on predicted samples after the end. The cost is N²
/// operations per trace. The sums have the same order for any number of threads.
pub fn corrected_traces(traces: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = traces.first().map_or(0, Vec::len);
    let needed = order_count(count.next_multiple_of(LANES).saturating_sub(1));
    let extended = |trace: &Vec<f64>| {
        let mut extended = trace.clone();
        extend(&mut extended, needed.saturating_sub(count));
        extended
    };
    let extended: Vec<Vec<f64>> = traces.par_iter().map(extended).collect();
    let block = |first: usize| -> Vec<[f64; LANES]> {
        let mut weights = bessel_rows(first);
        weights[1..].iter_mut().for_each(|row| row.iter_mut().for_each(|weight| *weight *= 2.0));
        extended.chunks(TRACES).flat_map(|traces| weighted_sums(&weights, traces)).collect()
    };
    let firsts: Vec<usize> = (0..count).step_by(LANES).collect();
    let blocks: Vec<Vec<[f64; LANES]>> = firsts.into_par_iter().map(block).collect();
    let trace = |receiver: usize| {
        let samples = blocks.iter().flat_map(|block| block[receiver]);
        samples.take(count).collect()
    };
    (0..traces.len()).map(trace).collect()
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
