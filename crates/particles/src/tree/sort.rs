//! Sorting (key, index) pairs in parallel: one pass distributes them over buckets by the keys' leading bits,
//! then each bucket is sorted by itself.
//!
//! No two pairs are equal, so there is one sorted order, whatever the buckets and threads.

use rayon::prelude::*;

/// Buckets: enough to leave short runs to sort, few enough for the first-level cache while distributing.
const BUCKETS: usize = 1 << 11;
/// Below this many pairs one pass more does not pay.
const SMALL: usize = 1 << 14;

/// A key and the index that it came from.
pub type Pair = (u64, u32);

/// Sorts `pairs` by key, then index. All pairs must differ.
pub fn sort(pairs: Vec<Pair>) -> Vec<Pair> {
    sort_in(pairs, SMALL)
}

fn sort_in(mut pairs: Vec<Pair>, small: usize) -> Vec<Pair> {
    let all = pairs.par_iter().fold(|| (u64::MAX, 0), |(l, h), p| (l.min(p.0), h.max(p.0)));
    let (low, high) = all.reduce(|| (u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    if pairs.len() <= small || low >= high {
        pairs.sort_unstable();
        return pairs;
    }
    // The leading bits of the spread of keys: shared leading bits would leave most buckets empty.
    let shift = (64 - (high - low).leading_zeros()).saturating_sub(BUCKETS.trailing_zeros());
    let bucket = |pair: &Pair| ((pair.0 - low) >> shift) as usize;

    let chunk = pairs.len().div_ceil(rayon::current_num_threads()).max(1);
    let counts: Vec<Vec<usize>> = pairs
        .par_chunks(chunk)
        .map(|chunk| {
            let mut counts = vec![0; BUCKETS];
            chunk.iter().for_each(|pair| counts[bucket(pair)] += 1);
            counts
        })
        .collect();

    // Every chunk gets its own piece of every bucket; pieces of a bucket lie one after the other.
    let mut sorted = vec![(0, 0); pairs.len()];
    let mut pieces: Vec<Vec<&mut [Pair]>> = counts.iter().map(|_| Vec::with_capacity(BUCKETS)).collect();
    let mut rest = sorted.as_mut_slice();
    for b in 0..BUCKETS {
        for (count, pieces) in counts.iter().zip(&mut pieces) {
            let (piece, others) = rest.split_at_mut(count[b]);
            pieces.push(piece);
            rest = others;
        }
    }
    pairs.par_chunks(chunk).zip(pieces).for_each(|(chunk, mut pieces)| {
        let mut filled = vec![0; BUCKETS];
        for pair in chunk {
            let b = bucket(pair);
            pieces[b][filled[b]] = *pair;
            filled[b] += 1;
        }
    });

    let mut buckets = Vec::with_capacity(BUCKETS);
    let mut rest = sorted.as_mut_slice();
    for b in 0..BUCKETS {
        let (whole, others) = rest.split_at_mut(counts.iter().map(|count| count[b]).sum());
        buckets.push(whole);
        rest = others;
    }
    buckets.into_par_iter().for_each(<[Pair]>::sort_unstable);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the standard sort, for keys that are spread, clustered, or all equal.
        #[test]
        fn sorts(keys in prop::collection::vec(any::<u64>(), 0..3000), shift in 0u32..64, threads in 1usize..8) {
            let pairs: Vec<Pair> = keys.iter().enumerate().map(|(i, key)| (key >> shift, i as u32)).collect();
            let mut expected = pairs.clone();
            expected.sort();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(pool.install(|| sort_in(pairs, 4)), expected);
        }
    }

    #[test]
    fn ends_of_the_range_of_keys() {
        let pairs: Vec<Pair> = [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63].into_iter().zip(0..).collect();
        let mut expected = pairs.clone();
        expected.sort();
        assert_eq!(sort_in(pairs, 1), expected);
    }
}
