//! Order of the bodies along the Morton curve: a sample sort of pairs (key, index) on all threads.
//!
//! 1. The keys of a sample of bodies, sorted, give splitters. They divide the bodies into buckets
//!    of similar size, also where most bodies are in a small part of the cube.
//! 2. Each chunk of bodies computes its keys, finds their buckets and counts them.
//! 3. Prefix sums over the counts give each chunk a range in each bucket. The chunk copies its
//!    pairs there.
//! 4. Each bucket is sorted, and the positions and masses of its bodies are gathered.
//!
//! Pairs are distinct, because indices are. There is exactly one sorted order, so chunks, splitters
//! and threads do not affect it.
//!
//! The ranges of step 3 are interleaved between chunks, and no two chunks write to the same entry.
//! The entries are atomic, which makes this safe. A relaxed store compiles to a plain store.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use orrery_model::Vec3s;

use super::build::Octree;
use super::morton::Cube;

/// Mean number of bodies in a bucket for few bodies. Sorting a bucket takes a few microseconds.
const BUCKET_BODIES: usize = 160;

/// Largest number of buckets. The counters of a chunk then fit in the L1 cache.
const MAX_BUCKETS: usize = 1024;

/// Sampled keys per bucket. The largest bucket is then rarely longer than three mean ones.
const SAMPLES_PER_BUCKET: usize = 4;

/// A bucket with more bodies, for example with many equal keys, is sorted by several threads.
const MAX_SERIAL_BUCKET: usize = 1 << 14;

/// Smallest number of bodies in a chunk. Counting a chunk takes longer than starting a task.
const MIN_CHUNK: usize = 1024;

/// Memory of the sort, reused from sort to sort.
#[derive(Debug, Default)]
pub struct CurveBuffers {
    /// Key of each body, in the user's order.
    keys: Vec<u64>,
    /// Bucket of each body, in the user's order.
    buckets: Vec<u16>,
    /// Keys in the order of the buckets.
    bucket_keys: Vec<AtomicU64>,
    /// Indices of the bodies in the order of the buckets.
    bucket_bodies: Vec<AtomicU32>,
    /// Bodies per chunk and bucket, chunk after chunk. Then the next free entry of each.
    counts: Vec<u32>,
}

impl CurveBuffers {
    /// Returns the memory in bytes.
    pub fn bytes(&self) -> usize {
        self.keys.len() * (8 + 2 + 8 + 4) + self.counts.len() * 4
    }
}

/// Keys that divide the curve into buckets: a binary search tree in level order.
///
/// The children of node j are 2j and 2j + 1, and the root is node 1. The search has no branches
/// that depend on the key.
struct Splitters {
    nodes: Vec<u64>,
}

impl Splitters {
    /// Chooses splitters for about equal buckets from a sample of the bodies.
    fn sample(cube: &Cube, position: &Vec3s) -> Self {
        let n = position.len();
        let buckets = (n / BUCKET_BODIES).next_power_of_two().min(MAX_BUCKETS);
        let samples = (buckets * SAMPLES_PER_BUCKET).min(n);
        let mut keys: Vec<u64> = (0..samples).map(|k| cube.key(position.get(k * n / samples))).collect();
        keys.sort_unstable();
        let splitter = |k: usize| keys[k * samples / buckets];
        let mut nodes = vec![0; buckets];
        let depth = buckets.trailing_zeros();
        for level in 0..depth {
            for k in 0..1 << level {
                nodes[(1 << level) + k] = splitter((2 * k + 1) << (depth - 1 - level));
            }
        }
        Self { nodes }
    }

    fn bucket_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the bucket of a key. Larger keys have equal or larger buckets.
    fn bucket(&self, key: u64) -> usize {
        let mut node = 1;
        while node < self.nodes.len() {
            node = 2 * node + usize::from(key > self.nodes[node]);
        }
        node - self.nodes.len()
    }
}

/// Sorted columns of a bucket.
struct SortedBucket<'a> {
    /// Index of the first body in the sorted order.
    first: usize,
    keys: &'a mut [u64],
    order: &'a mut [u32],
    position: [&'a mut [f64]; 3],
    mass: &'a mut [f64],
}

/// Sorts the bodies by their keys in `tree.cube`, then by index, and sets the columns of sorted
/// bodies of `tree`.
pub fn sort_bodies(tree: &mut Octree, buffers: &mut CurveBuffers, position: &Vec3s, mass: &[f64]) {
    let n = mass.len();
    let CurveBuffers { keys, buckets, bucket_keys, bucket_bodies, counts } = buffers;
    let cube = &tree.cube;
    let splitters = Splitters::sample(cube, position);
    let bucket_count = splitters.bucket_count();
    let chunk_len = n.div_ceil(rayon::current_num_threads()).max(MIN_CHUNK);
    keys.resize(n, 0);
    buckets.resize(n, 0);
    bucket_keys.resize_with(n, AtomicU64::default);
    bucket_bodies.resize_with(n, AtomicU32::default);
    counts.resize(n.div_ceil(chunk_len) * bucket_count, 0);

    let chunks = keys.par_chunks_mut(chunk_len).zip(buckets.par_chunks_mut(chunk_len));
    let chunks = chunks.zip(counts.par_chunks_mut(bucket_count)).enumerate();
    chunks.for_each(|(chunk, ((keys, buckets), counts))| {
        counts.fill(0);
        for (k, (key, bucket)) in keys.iter_mut().zip(buckets).enumerate() {
            *key = cube.key(position.get(chunk * chunk_len + k));
            let found = splitters.bucket(*key);
            *bucket = found as u16;
            counts[found] += 1;
        }
    });

    let bucket_starts = place_chunks(counts, bucket_count);

    let chunks = keys.par_chunks(chunk_len).zip(buckets.par_chunks(chunk_len));
    let chunks = chunks.zip(counts.par_chunks_mut(bucket_count)).enumerate();
    chunks.for_each(|(chunk, ((keys, buckets), next))| {
        for (k, (&key, &bucket)) in keys.iter().zip(buckets).enumerate() {
            let to = next[usize::from(bucket)] as usize;
            next[usize::from(bucket)] += 1;
            bucket_keys[to].store(key, Relaxed);
            bucket_bodies[to].store((chunk * chunk_len + k) as u32, Relaxed);
        }
    });

    tree.rank.resize_with(n, AtomicU32::default);
    let rank = &tree.rank;
    let sorted =
        split_buckets(n, &bucket_starts, &mut tree.keys, &mut tree.order, &mut tree.position, &mut tree.mass);
    sorted.into_par_iter().for_each_init(Vec::new, |pairs, bucket| {
        // Key and index in one number: one comparison instead of two.
        let range = bucket.first..bucket.first + bucket.keys.len();
        let entries = bucket_keys[range.clone()].iter().zip(&bucket_bodies[range]);
        pairs.clear();
        pairs.extend(
            entries.map(|(key, body)| {
                u128::from(key.load(Relaxed)) << u32::BITS | u128::from(body.load(Relaxed))
            }),
        );
        if pairs.len() > MAX_SERIAL_BUCKET {
            pairs.par_sort_unstable();
        } else {
            pairs.sort_unstable();
        }
        let SortedBucket { first, keys, order, position: [x, y, z], mass: sorted_mass } = bucket;
        for (k, &pair) in pairs.iter().enumerate() {
            let body = pair as u32;
            keys[k] = (pair >> u32::BITS) as u64;
            order[k] = body;
            rank[body as usize].store((first + k) as u32, Relaxed);
            let body = body as usize;
            (x[k], y[k], z[k]) = (position.x[body], position.y[body], position.z[body]);
            sorted_mass[k] = mass[body];
        }
    });
}

/// Turns the counts of each chunk and bucket into the first entry of each, bucket after bucket and
/// chunk after chunk. Returns the first entry of each bucket.
fn place_chunks(counts: &mut [u32], bucket_count: usize) -> Vec<usize> {
    let mut next = 0;
    let mut starts = Vec::with_capacity(bucket_count);
    for bucket in 0..bucket_count {
        starts.push(next as usize);
        for count in counts[bucket..].iter_mut().step_by(bucket_count) {
            next += std::mem::replace(count, next);
        }
    }
    starts
}

/// Resizes the columns to `n` bodies and splits them at the buckets.
fn split_buckets<'a>(
    n: usize,
    starts: &[usize],
    keys: &'a mut Vec<u64>,
    order: &'a mut Vec<u32>,
    position: &'a mut Vec3s,
    mass: &'a mut Vec<f64>,
) -> Vec<SortedBucket<'a>> {
    fn split_off<'a, T>(rest: &mut &'a mut [T], len: usize) -> &'a mut [T] {
        rest.split_off_mut(..len).expect("buckets cover all bodies")
    }
    keys.resize(n, 0);
    order.resize(n, 0);
    let Vec3s { x, y, z } = position;
    [&mut *x, &mut *y, &mut *z, &mut *mass].into_iter().for_each(|column| column.resize(n, 0.0));
    let (mut keys, mut order) = (keys.as_mut_slice(), order.as_mut_slice());
    let (mut x, mut y, mut z, mut mass) =
        (x.as_mut_slice(), y.as_mut_slice(), z.as_mut_slice(), mass.as_mut_slice());
    let ends = starts[1..].iter().copied().chain([n]);
    starts
        .iter()
        .zip(ends)
        .map(|(&first, end)| {
            let len = end - first;
            SortedBucket {
                first,
                keys: split_off(&mut keys, len),
                order: split_off(&mut order, len),
                position: [split_off(&mut x, len), split_off(&mut y, len), split_off(&mut z, len)],
                mass: split_off(&mut mass, len),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_the_bucket_between_its_splitters() {
        // 1000 bodies have 8 buckets. Their splitters are sampled keys, which ascend with x.
        let position =
            Vec3s { x: (0..1000).map(f64::from).collect(), y: vec![0.0; 1000], z: vec![0.0; 1000] };
        let cube = Cube::around(&position);
        let splitters = Splitters::sample(&cube, &position);
        assert_eq!(splitters.bucket_count(), 8);
        let buckets: Vec<_> = position.iter().map(|x| splitters.bucket(cube.key(x))).collect();
        assert!(buckets.is_sorted());
        for bucket in 0..8 {
            let bodies = buckets.iter().filter(|&&b| b == bucket).count();
            assert!((60..=190).contains(&bodies), "{bodies} bodies in bucket {bucket}");
        }
    }

    #[test]
    fn ranges_of_chunks_follow_each_other_in_each_bucket() {
        // Two chunks, three buckets.
        let mut counts = [1, 0, 4, 2, 3, 0];
        assert_eq!(place_chunks(&mut counts, 3), [0, 3, 6]);
        assert_eq!(counts, [0, 3, 6, 1, 3, 10]);
    }
}
