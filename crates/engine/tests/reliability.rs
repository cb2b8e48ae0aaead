//! Keys for reliability: `[checkpoint]`, `[limits]` and `output.on_error`. Also the case that a
//! resumed run reads.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use orrery_device::testing::SplitMix64;
use orrery_engine::case::{
    Case, CaseError, CaseSource, CheckpointEvery, Every, LimitSettings, OnDrift, OnError,
};

const CASE: &str = "bodies.model = \"plummer\"\ntime = { step = 0.5, end = 20 }\n";

fn load(text: &str, sets: &[String]) -> Result<Case, CaseError> {
    let source = CaseSource::Text { label: "case.toml".into(), text: text.into(), folder: PathBuf::new() };
    Case::load_within(&source, sets, Some(16 << 30))
}

fn case_with(sets: &[&str]) -> Case {
    let sets: Vec<_> = sets.iter().map(|&set| set.to_owned()).collect();
    load(CASE, &sets).unwrap_or_else(|e| panic!("{e}"))
}

fn checkpoint_every(units: &str, written: &str) -> CheckpointEvery {
    case_with(&[&format!("units={units}"), &format!("checkpoint.every={written}")]).checkpoint.every
}

/// Checks that the resolved text reads back to the same case, for a new run and for a resumed one.
fn assert_round_trip(case: &Case) {
    let resolved = case.to_toml();
    for again in [load(&resolved, &[]), Case::load_from_checkpoint(&resolved, "checkpoint", &[])] {
        let again = again.unwrap_or_else(|e| panic!("{e}\n{resolved}"));
        assert_eq!(&again, case, "{resolved}");
        assert_eq!(again.to_toml(), resolved);
    }
}

#[test]
fn defaults_of_the_reliability_keys() {
    let case = case_with(&[]);
    assert_eq!(case.checkpoint.every, CheckpointEvery::WallClock(Duration::from_secs(600)));
    assert_eq!(case.checkpoint.keep, 2);
    assert_eq!(case.limits, LimitSettings { drift: Some(0.02), on_drift: OnDrift::Warn });
    assert_eq!(case.output.on_error, OnError::Stop);
    let resolved = case.to_toml();
    for line in [
        "every = \"10 min\"",
        "keep = 2",
        "energy_error = 0.02",
        "on_energy_error = \"warn\"",
        "on_error = \"stop\"",
    ] {
        assert!(resolved.lines().any(|written| written == line), "no {line} in\n{resolved}");
    }
}

#[test]
fn the_unit_selects_wall_clock_or_simulated_time() {
    let clock = |seconds| CheckpointEvery::WallClock(Duration::from_secs(seconds));
    for units in ["nbody", "galactic", "solar"] {
        for (written, expected) in [
            ("10 min", clock(600)),
            ("10m", clock(600)),
            ("1 s", clock(1)),
            ("90 seconds", clock(90)),
            ("2 hours", clock(7200)),
            ("1 h 30 min", clock(5400)),
            ("1 day 12 h", clock(129_600)),
            ("100 steps", CheckpointEvery::Steps(100)),
            ("1 step", CheckpointEvery::Steps(1)),
            ("0.25", CheckpointEvery::Time(0.25)),
            ("3", CheckpointEvery::Time(3.0)),
            ("\"3\"", CheckpointEvery::Time(3.0)),
            ("0", CheckpointEvery::Never),
            ("0.0", CheckpointEvery::Never),
            ("0 steps", CheckpointEvery::Never),
            ("0 min", CheckpointEvery::Never),
        ] {
            assert_eq!(checkpoint_every(units, written), expected, "{units} {written}");
        }
    }
    let year = |written, years: f64| {
        let CheckpointEvery::Time(time) = checkpoint_every("solar", written) else { panic!("{written}") };
        assert!((time / years - 1.0).abs() < 1e-14, "{written}: {time}");
    };
    year("1 day", 1.0 / 365.25);
    year("30 days", 30.0 / 365.25);
    year("1 yr", 1.0);
    year("0.01 Myr", 1e4);
    assert_eq!(checkpoint_every("solar", "0 yr"), CheckpointEvery::Never);
}

#[test]
fn a_wall_clock_interval_has_no_schedule() {
    assert_eq!(checkpoint_every("nbody", "7 steps").schedule(), Every::Steps(7));
    assert_eq!(checkpoint_every("nbody", "0.5").schedule(), Every::Time(0.5));
    assert_eq!(checkpoint_every("nbody", "0").schedule(), Every::Never);
    assert_eq!(checkpoint_every("nbody", "7 min").schedule(), Every::Never);
}

#[test]
fn limits_can_be_set_and_turned_off() {
    let case =
        case_with(&["limits.energy_error=1e-6", "limits.on_energy_error=stop", "output.on_error=wait"]);
    assert_eq!(case.limits, LimitSettings { drift: Some(1e-6), on_drift: OnDrift::Stop });
    assert_eq!(case.output.on_error, OnError::Wait);
    assert_eq!(case_with(&["limits.energy_error=none"]).limits.drift, None);
    assert_eq!(case_with(&["limits.energy_error=2"]).limits.drift, Some(2.0));
}

#[test]
fn random_settings_read_back_from_the_resolved_text() {
    let mut random = SplitMix64::new(7);
    let mut next = |end: usize| random.below(end);
    for _ in 0..500 {
        let number = 1 + next(1 << 20);
        let every = match next(6) {
            0 => format!("{number} steps"),
            1 => format!("{number} min"),
            2 => format!("{number}.{:09} s", next(1_000_000_000)),
            3 => format!("{}.{} h", next(1000) + 1, next(1 << 30)),
            4 => format!("{:e}", number as f64 / 3e4),
            _ => "0".to_owned(),
        };
        let energy_error = match next(3) {
            0 => "none".to_owned(),
            _ => format!("{:e}", 1.0 / number as f64),
        };
        let sets = [
            format!("checkpoint.every={every}"),
            format!("checkpoint.keep={}", 1 + next(1000)),
            format!("limits.energy_error={energy_error}"),
            format!("limits.on_energy_error={}", ["warn", "stop"][next(2)]),
            format!("output.on_error={}", ["stop", "wait"][next(2)]),
        ];
        assert_round_trip(&load(CASE, &sets).unwrap_or_else(|e| panic!("{e}")));
    }
}

#[test]
fn the_largest_allowed_number_of_outputs_is_accepted() {
    // Exactly the largest allowed number.
    case_with(&["time.step=1e-5", "time.end=100", "output.record_every=1 step"]);
    case_with(&["time.end=1e6", "output.record_every=0.1"]);
    case_with(&["time.end=1e6", "output.snapshot_every=1", "checkpoint.every=1"]);
    // The number of adaptive steps is not known before the run.
    case_with(&[
        "time.step=adaptive",
        "time.end=1e300",
        "output.snapshot_every=1 step",
        "checkpoint.every=1 step",
    ]);
    // The number of checkpoints of a wall-clock interval is not known.
    case_with(&["time.end=1e6", "checkpoint.every=1 s"]);
}

#[test]
fn a_resumed_case_does_not_need_its_file_of_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let bodies = folder.path().join("start.xyz");
    fs::write(&bodies, "").unwrap();
    let text = format!("bodies.file = {bodies:?}\ntime = {{ step = 0.5, start = 3, end = 20 }}\n");
    let case = load(&text, &[]).unwrap();
    fs::remove_file(&bodies).unwrap();
    let resolved = case.to_toml();
    let refused = load(&resolved, &[]).unwrap_err().to_string();
    assert!(refused.ends_with(" does not exist, expected a snapshot"), "{refused}");
    assert_eq!(Case::load_from_checkpoint(&resolved, "checkpoint", &[]).unwrap(), case);
    // Runs of older versions started at 0, also with a file.
    let older = resolved.replace("start = 3.0\n", "");
    assert_eq!(Case::load_from_checkpoint(&older, "checkpoint", &[]).unwrap().time.start, Some(0.0));
}

#[test]
fn a_resumed_case_is_not_checked_against_memory() {
    let many = case_with(&["bodies.n=1000000"]).to_toml().replace("n = 1000000\n", "n = 4000000000\n");
    assert!(load(&many, &[]).unwrap_err().to_string().contains(" of memory, "));
    assert_eq!(
        Case::load_from_checkpoint(&many, "checkpoint", &[]).unwrap().gravity().unwrap().body_count(),
        Some(4_000_000_000)
    );
}

#[test]
fn a_resolved_text_without_newer_keys_gets_their_defaults() {
    let case = case_with(&["time.integrator=yoshida4", "output.record_every=3 steps", "bodies.n=77"]);
    let resolved = case.to_toml();
    let mut section = "";
    let older = resolved.lines().filter(|line| {
        section = if line.starts_with('[') { line } else { section };
        !matches!(section, "[checkpoint]" | "[limits]") && !line.starts_with("on_error")
    });
    let older: String = older.map(|line| format!("{line}\n")).collect();
    assert!(!older.contains("checkpoint") && !older.contains("energy") && !older.contains("on_error"));
    assert_eq!(Case::load_from_checkpoint(&older, "checkpoint", &[]).unwrap(), case);
}

#[test]
fn all_other_checks_apply_to_a_resumed_case() {
    for (text, expected) in [
        ("", ":1:1: no section selects a physics"),
        (
            "bodies.model = \"plummer\"\ntime = { step = 1, end = 2 }\ncheckpoint.keep = 0",
            ":3:19: checkpoint.keep",
        ),
        ("bodies.model = \"plummer\"\ntime = { step = 3, end = 2 }", ":2:17: time.step = 3 is longer"),
        (
            "bodies.model = \"plummer\"\ntime = { step = 1, end = 2 }\noutput.image_every = 1e-300",
            "gives 2e300 images",
        ),
        ("\u{0}", ":1:2: not valid TOML"),
    ] {
        let error = Case::load_from_checkpoint(text, "checkpoint-000040", &[]).unwrap_err().to_string();
        assert!(error.starts_with("checkpoint-000040:") && error.contains(expected), "{error}");
    }
}
