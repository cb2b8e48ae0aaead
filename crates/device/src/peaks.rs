//! Theoretical rates: lanes of a multiprocessor × multiprocessors × clock × 2, an FMA being two flops.
//! Lanes are those of the table "Throughput of Native Arithmetic Instructions" in NVIDIA's CUDA C++
//! Programming Guide; an architecture that is not listed has no theoretical rate.

/// FMA results a clock and multiprocessor in f32 and f64, without tensor cores.
fn lanes((major, minor): (u32, u32)) -> Option<(u32, u32)> {
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

/// f32 and f64 rates in flop/s.
pub(crate) fn rates(
    capability: Option<(u32, u32)>,
    sm_count: u32,
    clock_hz: f64,
) -> (Option<f64>, Option<f64>) {
    let rate = |lanes: u32| f64::from(lanes) * f64::from(sm_count) * clock_hz * 2.0;
    match capability.and_then(lanes) {
        Some((f32_lanes, f64_lanes)) if clock_hz > 0.0 => (Some(rate(f32_lanes)), Some(rate(f64_lanes))),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVIDIA's data sheets: H200 SXM 67 and 34 TFLOP/s, A100 19.5 and 9.7.
    #[test]
    fn rates_are_those_of_the_data_sheets() {
        let (single, double) = rates(Some((9, 0)), 132, 1.980e9);
        assert!((single.unwrap() / 66.9e12 - 1.0).abs() < 0.005);
        assert!((double.unwrap() / 33.5e12 - 1.0).abs() < 0.005);
        let (single, double) = rates(Some((8, 0)), 108, 1.410e9);
        assert!((single.unwrap() / 19.5e12 - 1.0).abs() < 0.005);
        assert!((double.unwrap() / 9.7e12 - 1.0).abs() < 0.005);
        assert_eq!(rates(Some((99, 0)), 132, 1e9), (None, None));
        assert_eq!(rates(None, 132, 1e9), (None, None));
    }
}
