//! Sort on all CPU cores: one pass distributes the pairs over buckets by the leading bits of the
//! keys, then each bucket is sorted on its own. Both steps keep the order of equal keys.

use rayon::prelude::*;

use super::SortKey;

/// Number of buckets: enough that each has few pairs, few enough that their write positions fit in
/// the L1 cache.
const BUCKETS: usize = 1 << 11;
/// Up to this many pairs, a distribution pass costs more than it saves.
const MAX_SINGLE_SORT: usize = 1 << 14;

/// Sorts by the keys on all CPU cores. `values[i]` stays with `keys[i]`. Panics if the lengths
/// differ.
pub fn sort_on_cpu<K: SortKey>(keys: &mut [K], values: &mut [u32]) {
    assert_eq!(keys.len(), values.len(), "one value per key");
    let all = keys.par_iter().copied().zip(values.par_iter().copied()).collect();
    let sorted = sort_pairs_above(all, MAX_SINGLE_SORT);
    keys.par_iter_mut().zip(values).zip(sorted).for_each(|((key, value), pair)| (*key, *value) = pair);
}

/// Sorts pairs. More than `max_single_sort` of them are distributed over buckets first.
fn sort_pairs_above<K: SortKey>(mut pairs: Vec<(K, u32)>, max_single_sort: usize) -> Vec<(K, u32)> {
    // If the values ascend, as indices do, the stable order by key is the order of whole pairs. An
    // unstable sort of whole pairs is 1.5 times as fast.
    let is_ascending = pairs.par_windows(2).all(|two| two[0].1 < two[1].1);
    let sort = |run: &mut [(K, u32)]| match is_ascending {
        true => run.sort_unstable(),
        false => run.sort_by_key(|pair| pair.0),
    };
    let (low, high) = key_range(&pairs);
    if pairs.len() <= max_single_sort || low >= high {
        sort(&mut pairs);
        return pairs;
    }
    // The leading bits of key - low. With those of the key, shared leading bits would leave most
    // buckets empty.
    let shift = (64 - (high - low).leading_zeros()).saturating_sub(BUCKETS.trailing_zeros());
    let bucket_of = |pair: &(K, u32)| ((pair.0.into() - low) >> shift) as usize;

    let (mut sorted, bucket_lens) = distribute(&pairs, bucket_of);
    let mut buckets = Vec::with_capacity(BUCKETS);
    let mut rest = sorted.as_mut_slice();
    for len in bucket_lens {
        let (bucket, others) = rest.split_at_mut(len);
        buckets.push(bucket);
        rest = others;
    }
    buckets.into_par_iter().for_each(sort);
    sorted
}

/// Returns the smallest and the largest key, or `(u64::MAX, 0)` if there are no pairs.
fn key_range<K: SortKey>(pairs: &[(K, u32)]) -> (u64, u64) {
    let key = |pair: &(K, u32)| -> u64 { pair.0.into() };
    let ranges =
        pairs.par_iter().fold(|| (u64::MAX, 0), |(low, high), p| (low.min(key(p)), high.max(key(p))));
    ranges.reduce(|| (u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Distributes the pairs stably over the buckets. Returns them bucket after bucket, with the length
/// of each bucket.
fn distribute<K: SortKey>(
    pairs: &[(K, u32)],
    bucket_of: impl Fn(&(K, u32)) -> usize + Sync,
) -> (Vec<(K, u32)>, Vec<usize>) {
    let chunk_len = pairs.len().div_ceil(rayon::current_num_threads()).max(1);
    let chunk_counts: Vec<Vec<usize>> = pairs
        .par_chunks(chunk_len)
        .map(|chunk| {
            let mut counts = vec![0; BUCKETS];
            chunk.iter().for_each(|pair| counts[bucket_of(pair)] += 1);
            counts
        })
        .collect();

    // Each chunk gets its own piece of every bucket. The pieces of a bucket follow each other in
    // the order of the chunks.
    let mut distributed = vec![(K::default(), 0); pairs.len()];
    let mut chunk_pieces: Vec<Vec<&mut [(K, u32)]>> =
        chunk_counts.iter().map(|_| Vec::with_capacity(BUCKETS)).collect();
    let mut rest = distributed.as_mut_slice();
    for bucket in 0..BUCKETS {
        for (counts, pieces) in chunk_counts.iter().zip(&mut chunk_pieces) {
            let (piece, others) = rest.split_at_mut(counts[bucket]);
            pieces.push(piece);
            rest = others;
        }
    }
    pairs.par_chunks(chunk_len).zip(chunk_pieces).for_each(|(chunk, mut pieces)| {
        let mut filled = vec![0; BUCKETS];
        for pair in chunk {
            let bucket = bucket_of(pair);
            pieces[bucket][filled[bucket]] = *pair;
            filled[bucket] += 1;
        }
    });
    let bucket_lens =
        (0..BUCKETS).map(|bucket| chunk_counts.iter().map(|counts| counts[bucket]).sum()).collect();
    (distributed, bucket_lens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Keys are spread, clustered, or all equal, depending on `shift`.
        #[test]
        fn pairs_are_sorted_as_by_the_standard_sort(keys in prop::collection::vec(any::<u64>(), 0..3000), shift in 0u32..64, threads in 1usize..8) {
            let pairs: Vec<_> = keys.iter().enumerate().map(|(i, key)| (key >> shift, i as u32)).collect();
            let mut expected = pairs.clone();
            expected.sort();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(pool.install(|| sort_pairs_above(pairs, 4)), expected);
        }

        #[test]
        fn equal_keys_keep_their_order_whatever_the_values(pairs in prop::collection::vec((0u32..20, any::<u32>()), 0..3000), threads in 1usize..8) {
            let mut expected = pairs.clone();
            expected.sort_by_key(|pair| pair.0);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(pool.install(|| sort_pairs_above(pairs, 4)), expected);
        }
    }

    #[test]
    fn smallest_and_largest_keys_are_sorted() {
        let pairs: Vec<_> = [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63].into_iter().zip(0..).collect();
        let mut expected = pairs.clone();
        expected.sort();
        assert_eq!(sort_pairs_above(pairs, 1), expected);
    }

    #[test]
    fn keys_and_values_are_sorted_in_place() {
        let (mut keys, mut values) = ([7u32, 3, 7, 1], [0, 1, 2, 3]);
        sort_on_cpu(&mut keys, &mut values);
        assert_eq!((keys, values), ([1, 3, 7, 7], [3, 1, 0, 2]));
    }
}
