//! Parallel building blocks that no run uses: histogram, transpose, matrix product and labels of
//! connected components. Each module has a definition, a sequential reference implementation, a
//! version for all CPU cores, kernels for devices (for example
//! [`histogram::histogram_reference`], [`histogram::histogram_on_cpu`] and
//! [`histogram::Histogram`]), and the rungs of its ladder. All give the same bits in every run.

pub mod bench;
pub mod histogram;
pub mod label;
pub mod matmul;
pub mod transpose;

use orrery_device::check::Check;

/// Returns 0 to 3, and the powers of two up to 2^17 with their neighbours: lengths for self-tests.
pub(crate) fn edge_lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 2, 3];
    lengths.extend((2..=17).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Returns the checks of all primitives of this module.
pub fn checks() -> Vec<Check> {
    let mut checks = histogram::selftest::checks();
    checks.extend(transpose::selftest::checks());
    checks.extend(matmul::selftest::checks());
    checks.extend(label::selftest::checks());
    checks
}
