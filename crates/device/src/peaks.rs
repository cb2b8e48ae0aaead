//! Theoretical rates: FMAs per clock and SM × SMs × clock × 2, because an FMA is two flops.
//!
//! FMAs per clock are from the table "Throughput of Native Arithmetic Instructions" in NVIDIA's
//! CUDA C++ Programming Guide. An architecture that is not listed has no theoretical rate.

/// Returns the FMAs per clock and SM in f32 and f64, without tensor cores.
fn fmas_per_clock((major, minor): (u32, u32)) -> Option<(u32, u32)> {
    match (major, minor) {
        (5, 0 | 2 | 3) => Some((128, 4)),
        (6, 0) => Some((64, 32)),
        (6, 1 | 2) => Some((128, 4)),
        (7, 0 | 2) => Some((64, 32)),
        (7, 5) => Some((64, 2)),
        (8, 0) => Some((64, 32)),
        (8, 6 | 7 | 9) => Some((128, 2)),
        (9, 0) => Some((128, 64)),
        (10, 0) => Some((128, 64)),
        (12, 0) => Some((128, 2)),
        _ => None,
    }
}

/// Returns the f32 and f64 rates in flop/s.
pub(crate) fn peak_rates(
    capability: Option<(u32, u32)>,
    sm_count: u32,
    clock_hz: f64,
) -> (Option<f64>, Option<f64>) {
    let rate = |fmas: u32| f64::from(fmas) * f64::from(sm_count) * clock_hz * 2.0;
    match capability.and_then(fmas_per_clock) {
        Some((f32_fmas, f64_fmas)) if clock_hz > 0.0 => (Some(rate(f32_fmas)), Some(rate(f64_fmas))),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVIDIA's data sheets: H200 SXM 67 and 34 TFLOP/s, A100 19.5 and 9.7.
    #[test]
    fn rates_are_those_of_the_data_sheets() {
        let (single, double) = peak_rates(Some((9, 0)), 132, 1.980e9);
        assert!((single.unwrap() / 66.9e12 - 1.0).abs() < 0.005);
        assert!((double.unwrap() / 33.5e12 - 1.0).abs() < 0.005);
        let (single, double) = peak_rates(Some((8, 0)), 108, 1.410e9);
        assert!((single.unwrap() / 19.5e12 - 1.0).abs() < 0.005);
        assert!((double.unwrap() / 9.7e12 - 1.0).abs() < 0.005);
        assert_eq!(peak_rates(Some((99, 0)), 132, 1e9), (None, None));
        assert_eq!(peak_rates(None, 132, 1e9), (None, None));
    }
}
