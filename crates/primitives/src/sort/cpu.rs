//! Sorting in parallel on the processor: one pass distributes the pairs over buckets by the keys' leading bits, then
//! each bucket is sorted by itself. Both steps keep the order of equal keys.

use rayon::prelude::*;

use super::Key;

/// Buckets: enough to leave short runs to sort, few enough for the first-level cache while distributing.
const BUCKETS: usize = 1 << 11;
/// Below this many pairs one pass more does not pay.
const SMALL: usize = 1 << 14;

/// [`super::sort_reference`] in parallel.
pub fn sort_on_cpu<K: Key>(keys: &mut [K], values: &mut [u32]) {
    assert_eq!(keys.len(), values.len(), "a value for each key");
    let all = keys.par_iter().copied().zip(values.par_iter().copied()).collect();
    let sorted = sort_pairs_on_cpu(all);
    keys.par_iter_mut().zip(values).zip(sorted).for_each(|((key, value), pair)| (*key, *value) = pair);
}

/// The same for keys and values that lie together.
pub fn sort_pairs_on_cpu<K: Key>(pairs: Vec<(K, u32)>) -> Vec<(K, u32)> {
    sort_pairs_above(pairs, SMALL)
}

fn sort_pairs_above<K: Key>(mut pairs: Vec<(K, u32)>, small: usize) -> Vec<(K, u32)> {
    let key = |pair: &(K, u32)| -> u64 { pair.0.into() };
    let all = pairs.par_iter().fold(|| (u64::MAX, 0), |(l, h), p| (l.min(key(p)), h.max(key(p))));
    let (low, high) = all.reduce(|| (u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    // Values that ascend, as indices do, make the stable order that of whole pairs, which is found half again as fast.
    let is_ascending = pairs.par_windows(2).all(|two| two[0].1 < two[1].1);
    let sort = |run: &mut [(K, u32)]| match is_ascending {
        true => run.sort_unstable(),
        false => run.sort_by_key(|pair| pair.0),
    };
    if pairs.len() <= small || low >= high {
        sort(&mut pairs);
        return pairs;
    }
    // The leading bits of the spread of keys: shared leading bits would leave most buckets empty.
    let shift = (64 - (high - low).leading_zeros()).saturating_sub(BUCKETS.trailing_zeros());
    let bucket = |pair: &(K, u32)| ((key(pair) - low) >> shift) as usize;

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
    let mut sorted = vec![(K::default(), 0); pairs.len()];
    let mut pieces: Vec<Vec<&mut [(K, u32)]>> = counts.iter().map(|_| Vec::with_capacity(BUCKETS)).collect();
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
    buckets.into_par_iter().for_each(sort);
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
            let pairs: Vec<_> = keys.iter().enumerate().map(|(i, key)| (key >> shift, i as u32)).collect();
            let mut expected = pairs.clone();
            expected.sort();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(pool.install(|| sort_pairs_above(pairs, 4)), expected);
        }

        /// The values play no part: equal keys keep their order whatever goes with them.
        #[test]
        fn is_stable(pairs in prop::collection::vec((0u32..20, any::<u32>()), 0..3000), threads in 1usize..8) {
            let mut expected = pairs.clone();
            expected.sort_by_key(|pair| pair.0);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(pool.install(|| sort_pairs_above(pairs, 4)), expected);
        }
    }

    #[test]
    fn ends_of_the_range_of_keys() {
        let pairs: Vec<_> = [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63].into_iter().zip(0..).collect();
        let mut expected = pairs.clone();
        expected.sort();
        assert_eq!(sort_pairs_above(pairs, 1), expected);
    }

    #[test]
    fn columns_are_sorted_in_place() {
        let (mut keys, mut values) = ([7u32, 3, 7, 1], [0, 1, 2, 3]);
        sort_on_cpu(&mut keys, &mut values);
        assert_eq!((keys, values), ([1, 3, 7, 7], [3, 1, 0, 2]));
    }
}
