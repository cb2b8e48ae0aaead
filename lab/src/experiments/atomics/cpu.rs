//! Atomic additions on the CPU: the same workload with plain additions in one thread, and with
//! Rust's atomics on all cores.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::{AtomicOperation, AtomicWidth, AtomicWorkload};

/// Adds to `numbers` in one thread, without atomics.
pub fn add_in_one_thread(work: &AtomicWorkload, numbers: &mut [u32]) {
    for i in 0..work.operations {
        let number = &mut numbers[work.index(i)];
        *number = number.wrapping_add(value(i));
    }
}

/// Adds to `numbers` on all cores with atomics. Each thread does neighbouring operations.
pub fn add_on_all_cores(work: &AtomicWorkload, numbers: &[AtomicU32]) {
    let parts = rayon::current_num_threads() as u64;
    let start_of = |part: u64| (part * u64::from(work.operations) / parts) as u32;
    (0..parts).into_par_iter().for_each(|part| {
        for i in start_of(part)..start_of(part + 1) {
            numbers[work.index(i)].fetch_add(value(i), Ordering::Relaxed);
        }
    });
}

fn value(i: u32) -> u32 {
    AtomicOperation::Add.value(AtomicWidth::Bits32, i) as u32
}

#[cfg(test)]
mod tests {
    use super::super::{AtomicPattern, final_values};
    use super::*;

    #[test]
    fn sums_are_those_of_the_reference() {
        for (operations, numbers) in [(1, 1), (1000, 1), (1003, 64)] {
            for pattern in [AtomicPattern::InOrder, AtomicPattern::Random] {
                let work = AtomicWorkload { operations, numbers, pattern };
                let expected: Vec<u32> = final_values(AtomicOperation::Add, AtomicWidth::Bits32, &work)
                    .iter()
                    .map(|sum| *sum as u32)
                    .collect();
                let mut plain = vec![0; numbers];
                add_in_one_thread(&work, &mut plain);
                let atomics: Vec<AtomicU32> = (0..numbers).map(|_| AtomicU32::new(0)).collect();
                add_on_all_cores(&work, &atomics);
                let atomics: Vec<u32> = atomics.into_iter().map(AtomicU32::into_inner).collect();
                assert_eq!((&plain, &atomics), (&expected, &expected), "{work:?}");
            }
        }
    }
}
