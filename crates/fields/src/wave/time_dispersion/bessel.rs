//! Bessel functions of even order, by Miller's backward recurrence.
//!
//! J_(k−1)(x) = (2 k/x) J_k(x) − J_(k+1)(x) is stable for decreasing k. The values are scaled by
//! J_0 + 2 Σ J_2k = 1.

/// Arguments that are computed together.
pub const LANES: usize = 8;

/// The recurrence starts with this value far beyond the largest values. In the lane of the smallest
/// argument they are larger by up to 10^120.
const START: f64 = 1e-200;

/// Returns the order at which the recurrence for the argument 2 m starts. It is even, and
/// J_order(2 m) is below 1e-14.
fn start_order(m: usize) -> usize {
    let x = 2.0 * m as f64;
    (x + 10.0 * libm::cbrt(x)) as usize / 2 * 2 + 16
}

/// Returns the number of n for which J_2n(2 m) is not negligible.
pub fn order_count(m: usize) -> usize {
    start_order(m) / 2 + 1
}

/// Returns J_2n(2 m) for m = first … first + 7 as row n. `first` is a multiple of [`LANES`].
pub fn bessel_rows(first: usize) -> Vec<[f64; LANES]> {
    debug_assert!(first.is_multiple_of(LANES));
    let start = start_order(first + LANES - 1);
    let reciprocal: [f64; LANES] = std::array::from_fn(|lane| match first + lane {
        0 => 0.0,
        m => 1.0 / m as f64,
    });
    let mut rows = vec![[0.0; LANES]; start / 2 + 1];
    let (mut above, mut current, mut sum) = ([0.0; LANES], [START; LANES], [0.0; LANES]);
    for order in (1..=start).rev() {
        if order % 2 == 0 {
            rows[order / 2] = current;
            (0..LANES).for_each(|lane| sum[lane] += 2.0 * current[lane]);
        }
        for lane in 0..LANES {
            let below = order as f64 * reciprocal[lane] * current[lane] - above[lane];
            (above[lane], current[lane]) = (current[lane], below);
        }
    }
    rows[0] = current;
    let scale: [f64; LANES] = std::array::from_fn(|lane| 1.0 / (sum[lane] + current[lane]));
    rows.iter_mut().for_each(|row| (0..LANES).for_each(|lane| row[lane] *= scale[lane]));
    if first == 0 {
        rows.iter_mut().enumerate().for_each(|(n, row)| row[0] = if n == 0 { 1.0 } else { 0.0 });
    }
    rows
}
