//! Tests of the fits and of the model with invented times.

use super::model::*;

/// Asserts equality up to rounding.
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "found {found}, expected {expected}");
}

/// Deviations of alternating sign.
fn noisy(points: &[(f64, f64)], relative: f64) -> Vec<(f64, f64)> {
    let sign = |k: usize| if k.is_multiple_of(2) { 1.0 } else { -1.0 };
    points.iter().enumerate().map(|(k, &(x, y))| (x, y * (1.0 + sign(k) * relative))).collect()
}

#[test]
fn lines_and_links_are_recovered_from_their_points() {
    let sizes = [8.0, 4096.0, 65_536.0, 1e6];
    let times: Vec<(f64, f64)> = sizes.iter().map(|&bytes| (bytes, 2e-6 + bytes / 4e9)).collect();
    let link = MessageLink::fit(&times);
    assert_near(link.latency_secs, 2e-6);
    assert_near(link.bytes_per_s, 4e9);
    assert!(link.largest_deviation(&times) < 1e-9);
    // Errors of 5% change neither by much more, although the times differ by a factor of 100.
    let link = MessageLink::fit(&noisy(&times, 0.05));
    assert!((link.latency_secs / 2e-6 - 1.0).abs() < 0.1, "{link:?}");
    assert!((link.bytes_per_s / 4e9 - 1.0).abs() < 0.1, "{link:?}");
    let deviation = link.largest_deviation(&noisy(&times, 0.05));
    assert!(deviation > 0.02 && deviation < 0.1, "{deviation}");
}

#[test]
fn lines_have_no_negative_times() {
    // A convex curve, whose line would start below 0.
    let convex = [(1.0, 1.0), (2.0, 4.0), (4.0, 16.0)];
    let line = StraightLine::fit(&convex);
    assert_eq!(line.fixed, 0.0);
    assert!(line.per_unit > 0.0);
    let falling = StraightLine::fit(&[(1.0, 2.0), (2.0, 1.0)]);
    assert_eq!(falling.per_unit, 0.0);
    assert!(falling.fixed > 1.0 && falling.fixed < 2.0, "{falling:?}");
    // Two sizes that are the same and one size do not define a slope and a value at 0.
    for points in [&[(4.0, 8.0)][..], &[(4.0, 8.0), (4.0, 8.0)]] {
        assert_eq!(StraightLine::fit(points), StraightLine { fixed: 0.0, per_unit: 2.0 });
    }
    assert_eq!(StraightLine::fit(&[]), StraightLine::default());
}

#[test]
fn the_largest_deviation_of_a_time_that_is_no_number_is_none() {
    let line = StraightLine { fixed: 0.0, per_unit: 1.0 };
    assert_near(line.largest_deviation(&[(1.0, 2.0), (1.0, 0.8)]), 0.5);
    assert!(line.largest_deviation(&[(1.0, f64::NAN), (1.0, 1.0)]).is_nan());
}

#[test]
fn the_serial_fraction_of_amdahl_is_recovered() {
    let law = |fraction: f64, ranks: f64| fraction + (1.0 - fraction) / ranks;
    for fraction in [0.0, 0.03, 0.4, 1.0] {
        let points = [2.0, 4.0, 8.0].map(|ranks| (ranks, law(fraction, ranks)));
        assert!((fit_serial_fraction(&points) - fraction).abs() < 1e-12);
    }
    // 4 ranks on 2 cores take as long as 2 ranks.
    assert!((fit_serial_fraction(&[(2.0, 0.55), (2.0, 0.55)]) - 0.1).abs() < 1e-12);
    // Faster than ideal, slower than one rank, and no time of several ranks.
    assert_eq!(fit_serial_fraction(&[(2.0, 0.4)]), 0.0);
    assert_eq!(fit_serial_fraction(&[(2.0, 1.5)]), 1.0);
    assert_eq!(fit_serial_fraction(&[(1.0, 1.0)]), 0.0);
}

/// 0.1 ms and 1 ms per slice, borders of 1 MB, a link of 10 µs and 10 GB/s.
fn slabs(overlaps: bool) -> (StepModel, MessageLink) {
    let messages = Messages::Borders { bytes: 1e6, steps: 1.0, min_slices: 9.0 };
    let divided = StraightLine { fixed: 1e-4, per_unit: 1e-3 };
    let replicated = StraightLine::default();
    let model = StepModel { divided, replicated, is_n_log_n: false, messages, overlaps, staging: None };
    (model, MessageLink { latency_secs: 1e-5, bytes_per_s: 1e10 })
}

#[test]
fn borders_of_slabs_have_one_or_two_neighbours() {
    let (model, link) = slabs(false);
    assert_eq!(model.communication_secs(256.0, 1, &link), 0.0);
    assert_near(model.communication_secs(256.0, 2, &link), 1.1e-4);
    for ranks in [3, 4, 100] {
        assert_near(model.communication_secs(256.0, ranks, &link), 2.1e-4);
    }
    assert_near(model.predict_strong(256.0, 4, &link).unwrap().step_secs, 1e-4 + 0.064 + 2.1e-4);
    // Copies between device and host on both ends, with 20 µs each.
    let staging = Some(MessageLink { latency_secs: 2e-5, bytes_per_s: f64::INFINITY });
    let staged = StepModel { staging, ..model };
    assert_near(staged.communication_secs(256.0, 2, &link), 1.5e-4);
    // An exchange for every 8 steps.
    let messages = Messages::Borders { bytes: 1e6, steps: 8.0, min_slices: 9.0 };
    assert_near(StepModel { messages, ..model }.communication_secs(256.0, 2, &link), 1.1e-4 / 8.0);
}

#[test]
fn overlapping_communication_counts_only_where_it_takes_longer() {
    let (model, link) = slabs(true);
    let thick = model.predict_strong(256.0, 4, &link).unwrap();
    assert_eq!(thick.step_secs, thick.computation_secs);
    let slow = MessageLink { bytes_per_s: 1e7, ..link };
    let step = model.predict_strong(256.0, 4, &slow).unwrap();
    assert_eq!(step.step_secs, step.communication_secs);
    assert!(step.efficiency < 0.5 * thick.efficiency);
}

#[test]
fn an_all_gather_has_a_message_per_other_rank() {
    let model = StepModel {
        divided: StraightLine { fixed: 0.0, per_unit: 1e-8 },
        replicated: StraightLine { fixed: 1e-3, per_unit: 1e-8 },
        is_n_log_n: true,
        messages: Messages::AllGather { bytes: 24.0 },
        overlaps: false,
        staging: None,
    };
    let link = MessageLink { latency_secs: 1e-5, bytes_per_s: 1e9 };
    let n = (1 << 20) as f64;
    // Walk 1e-8 n 20 / 4, build 1e-3 + 1e-8 n.
    assert_near(model.computation_secs(n, 4), 1e-8 * n * 5.0 + 1e-3 + 1e-8 * n);
    // 3 messages of n / 4 results, and 2 short ones.
    assert_near(model.communication_secs(n, 4, &link), 3.0 * (1e-5 + 24.0 * n / 4.0 / 1e9) + 2e-5);
    assert_near(model.messages.sent_bytes(n, 4), 18.0 * n);
    // The repeated build grows with the number of ranks: weak scaling ends.
    let weak = [8, 64].map(|ranks| model.predict_weak(n, ranks, &link).unwrap().efficiency);
    assert!(weak[0] < 0.8 && weak[1] < 0.4 * weak[0], "{weak:?}");
    assert_eq!(model.crossover_slices(&link), None);
}

#[test]
fn ghosts_are_particles_near_two_sides_of_a_cube() {
    let messages = Messages::Ghosts { bytes: 12.0, density: 0.8, radius: 2.8 };
    // A cube of length 100 has 2 x 0.8 x 2.8 x 100² ghosts.
    assert_near(messages.sent_bytes(0.8e6, 2), 12.0 * 2.0 * 0.8 * 2.8 * 1e4);
    assert!(messages.can_divide(0.8e6, 35) && !messages.can_divide(0.8e6, 36));
}

#[test]
fn communication_equals_computation_at_the_crossover() {
    let (model, link) = slabs(false);
    let slices = model.crossover_slices(&link).unwrap();
    assert_near(model.divided.at(slices), model.communication_secs(256.0, 3, &link));
    assert!(model.crossover_ranks(256.0, 10_000, &link).is_none(), "slabs have 9 slices at least");
    let slow = MessageLink { bytes_per_s: 1e8, ..link };
    // 20 ms and 10 µs are the time of 19.91 slices.
    assert_eq!(model.crossover_ranks(256.0, 10_000, &slow), Some(13));
    assert_eq!(model.crossover_ranks(256.0, 12, &slow), None);
    let fast = MessageLink { latency_secs: 0.0, bytes_per_s: 1e12 };
    assert_eq!(model.crossover_slices(&fast), None);
}

#[test]
fn predictions_end_where_slabs_are_thinner_than_their_borders() {
    let (model, link) = slabs(false);
    assert!(model.predict_strong(256.0, 28, &link).is_some());
    assert!(model.predict_strong(256.0, 29, &link).is_none());
    let weak = model.predict_weak(256.0, 10_000, &link).unwrap();
    assert_near(weak.step_secs, 0.2561 + 2.1e-4);
    assert_near(weak.efficiency, 0.2561 / (0.2561 + 2.1e-4));
}
