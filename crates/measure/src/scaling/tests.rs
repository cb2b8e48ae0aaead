//! Tests of the measurement on threads, and of its report.

use std::time::Duration;

use orrery_cluster::{MessagePath, RankTimes, threads};

use super::model::{Messages, StepModel, StraightLine};
use super::report::largest_deviation;
use super::study::shares_of;
use super::*;

const SETTINGS: ScalingSettings = ScalingSettings { threads: 1, repeats: 1, run_secs: 0.0, memory: None };

fn measured(ranks: usize, per_rank: usize, model_secs: f64, measured_secs: f64) -> RankMeasurement {
    RankMeasurement {
        ranks,
        slots: ranks,
        per_rank,
        computation_secs: model_secs,
        communication_secs: 1e-5,
        model_secs,
        measured_secs,
        shares: [0.8, 0.15, 0.05],
        imbalance: 1.02,
    }
}

fn example() -> ScalingStudy {
    ScalingStudy {
        physics: MeasuredPhysics::Wave,
        n: 256,
        is_on_device: false,
        model: StepModel {
            divided: StraightLine { fixed: 1e-5, per_unit: 1e-4 },
            replicated: StraightLine::default(),
            is_n_log_n: false,
            messages: Messages::Borders { bytes: 1e6, steps: 1.0, min_slices: 9.0 },
            overlaps: false,
            staging: None,
        },
        one_rank: vec![(128.0, 0.0128), (256.0, 0.0256)],
        one_rank_deviation: 0.01,
        links: vec![LinkTimes {
            ranks: 2,
            paths: vec![MessagePath::Shared],
            times: vec![(8.0, 2e-6), (1e6, 2e-4)],
            link: DEFAULT_LINK,
            of_steps: Some(StraightLine { fixed: 1e-5, per_unit: 1e-9 }),
        }],
        steps: vec![
            measured(1, 256, 0.0256, 0.0256),
            measured(2, 128, 0.0129, 0.0134),
            measured(2, 256, 0.0257, 0.0199),
        ],
        serial_fraction: Some(0.03),
        too_large: vec![(4, 256)],
    }
}

#[test]
fn tables_fit_into_80_columns_and_report_the_largest_deviation() {
    let mut ideal = example();
    ideal.serial_fraction = Some(0.0);
    ideal.steps.push(measured(2, 512, 3.1, 0.0001));
    let lines = physics_lines(&example(), &DEFAULT_LINK);
    for line in lines.iter().chain(&physics_lines(&ideal, &DEFAULT_LINK)) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let text = lines.join("\n");
    // 25.7 ms instead of 19.9 ms.
    assert!(text.contains("largest deviation of strong and weak scaling 29%, NOT within 15%"), "{text}");
    assert!(text.contains("serial fraction 3%, speedup at most 33.3"), "{text}");
    assert!(text.contains("not measured, too large for the memory: 4 ranks x 256 planes"), "{text}");
    // 96% of the ideal speed: 25.6 / (2 x 13.4).
    assert!(lines.iter().any(|line| line.starts_with("      2     2       128") && line.ends_with("96%")));
    // Slabs of 9 planes: 28 ranks.
    let row = |ranks: &str| lines.iter().find(|line| line.trim_start().starts_with(ranks)).unwrap();
    assert!(row("32 ").contains(" - "), "{}", row("32 "));
}

#[test]
fn a_time_that_is_no_number_is_a_deviation_that_is_none() {
    assert!((largest_deviation(&example()) - (0.0257 / 0.0199 - 1.0)).abs() < 1e-12);
    let mut study = example();
    study.steps.push(measured(2, 128, f64::NAN, 0.01));
    assert!(largest_deviation(&study).is_nan());
}

#[test]
fn a_fit_without_a_bandwidth_is_printed_without_a_rate() {
    let LinkTimes { paths, times, of_steps, .. } = example().links.remove(0);
    let link = MessageLink { latency_secs: 2.5e-5, bytes_per_s: f64::INFINITY };
    let lines = link_lines(&[LinkTimes { ranks: 2, paths, times, link, of_steps }]);
    assert!(lines.iter().any(|line| line.contains("fit: 25 µs for any size, deviation")), "{lines:?}");
}

#[test]
fn plots_show_computation_communication_and_efficiency() {
    let study = example();
    let svg = plot(&study, "two cores").to_svg();
    for text in ["computation", "communication", "step of 2 ranks, measured", "planes per rank"] {
        assert!(svg.contains(&format!(">{text}<")), "{text}");
    }
    let svg = efficiency_plot(&[study], &DEFAULT_LINK, "two cores").to_svg();
    assert!(svg.contains(">wave, strong<") && svg.contains(">wave, weak<") && !svg.contains("NaN"));
}

#[test]
fn json_has_measured_times_and_predictions() {
    let value = to_json(&example(), &DEFAULT_LINK);
    assert_eq!(value["physics"], "wave");
    assert_eq!(value["steps"][1]["measured_secs"], 0.0134);
    assert_eq!(value["prediction"]["ranks"][0]["ranks"], 8);
    assert!(value["prediction"]["ranks"][0]["strong"]["efficiency"].as_f64().unwrap() > 0.8);
    assert!(value["prediction"]["ranks"][5]["strong"].is_null());
}

#[test]
fn ranks_double_and_end_with_all() {
    assert_eq!(rank_counts(1), [1]);
    assert_eq!(rank_counts(2), [1, 2]);
    assert_eq!(rank_counts(6), [1, 2, 4, 6]);
    assert_eq!(rank_counts(8), [1, 2, 4, 8]);
}

#[test]
fn ranks_that_share_processors_compute_one_after_the_other() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    // Four ranks on two cores of one computer, and two on another.
    let cores = Processors { names: names(&["a", "a", "a", "a", "b", "b"]), capacity: 2 };
    assert_eq!([1, 2, 4, 5, 6].map(|ranks| cores.slots(ranks)), [1, 2, 2, 3, 4]);
    // Three ranks on two devices.
    let devices = Processors { names: names(&["cuda:0", "cuda:1", "cuda:0"]), capacity: 1 };
    assert_eq!([1, 2, 3].map(|ranks| devices.slots(ranks)), [1, 2, 2]);
}

#[test]
fn shares_are_those_of_all_ranks() {
    let times = |computation, communication, waiting| RankTimes {
        computation: Duration::from_millis(computation),
        communication: Duration::from_millis(communication),
        waiting: Duration::from_millis(waiting),
        ..RankTimes::default()
    };
    let (shares, imbalance) = shares_of(&[times(60, 20, 20), times(20, 20, 60)]);
    assert!(shares.iter().zip([0.4, 0.2, 0.4]).all(|(share, expected)| (share - expected).abs() < 1e-12));
    assert!((imbalance - 1.5).abs() < 1e-12);
    assert_eq!(shares_of(&[]), ([1.0, 0.0, 0.0], 1.0));
}

/// Every rank measures the same sequence, on the CPU and on a device.
#[test]
fn ranks_measure_all_physics_together() {
    let device = crate::test_device();
    let sizes = [
        (MeasuredPhysics::Wave, 32),
        (MeasuredPhysics::Heat, 64),
        (MeasuredPhysics::Gravity, 512),
        (MeasuredPhysics::LennardJones, 2048),
    ];
    for (physics, n) in sizes {
        // Compiling the kernels of other physics takes too long for this test.
        let devices = [None, device.as_ref().filter(|_| physics == MeasuredPhysics::Wave)];
        for device in devices.into_iter().take(if physics == MeasuredPhysics::Wave { 2 } else { 1 }) {
            let studies = threads::run(2, |transport| {
                let rank = MeasuredRank { transport, device, settings: SETTINGS };
                let processors = Processors::find(&rank)?;
                measure(&rank, &processors, physics, n, &mut |_| {})
            });
            let mut studies = studies.unwrap();
            assert!(studies.pop().unwrap().is_none());
            let study = studies.pop().unwrap().unwrap();
            assert_eq!(study.links.len(), 1);
            // Threads copy from device to device.
            let path = if device.is_some() { MessagePath::Direct } else { MessagePath::Messages };
            assert_eq!(study.links[0].paths, [path]);
            let strong: Vec<usize> = study.strong().map(|step| step.ranks).collect();
            assert_eq!(strong, [1, 2], "{physics:?}");
            assert_eq!(study.weak().count(), 2);
            for step in &study.steps {
                assert!(step.measured_secs > 0.0 && step.model_secs > 0.0, "{step:?}");
                match (step.ranks, physics) {
                    (1, _) => assert_eq!(step.communication_secs, 0.0, "{step:?}"),
                    // Noise can make the fit of a fluid zero.
                    (_, MeasuredPhysics::LennardJones) => assert!(step.communication_secs >= 0.0, "{step:?}"),
                    _ => assert!(step.communication_secs > 0.0, "{step:?}"),
                }
            }
            assert!(physics_lines(&study, &DEFAULT_LINK).iter().all(|line| line.chars().count() <= 80));
        }
    }
}

/// Steps of other sizes take 2 µs and 1 ns per sent byte more than their computation, and the
/// predicted ones 10 µs more.
#[test]
fn communication_of_a_fluid_is_fitted_to_other_sizes() {
    let messages = Messages::AllGather { bytes: 24.0 };
    let mut study = example();
    (study.n, study.model.messages) = (4096, messages);
    let step = |per_rank: usize| {
        let sent = messages.sent_bytes(2.0 * per_rank as f64, 2);
        let more = if [2048, 4096].contains(&per_rank) { 1e-5 } else { 0.0 };
        let secs = 1e-3;
        RankMeasurement {
            computation_secs: 1e-3,
            ..measured(2, per_rank, secs, secs + 2e-6 + 1e-9 * sent + more)
        }
    };
    study.steps = [256, 512, 1024, 2048, 4096].map(step).to_vec();
    study.fit_communication(0);
    let fitted = study.links[0].of_steps.unwrap();
    assert!((fitted.fixed - 2e-6).abs() < 1e-9, "{fitted:?}");
    assert!((fitted.per_unit - 1e-9).abs() < 1e-13, "{fitted:?}");
    for step in &study.steps {
        let more = if step.per_rank < 2048 { 0.0 } else { 1e-5 };
        assert!((step.model_secs + more - step.measured_secs).abs() < 1e-9, "{step:?}");
    }
}

#[test]
fn communication_is_not_fitted_without_other_sizes() {
    let mut study = example();
    study.links[0].of_steps = None;
    let before = study.clone();
    study.fit_communication(1);
    assert_eq!(study, before);
}
