//! Runs of cases with units: `case.toml` has the units of the user, also after a resume, and
//! folders of versions that wrote numbers are resumed.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::common::{assert_same, case, output_to, plate, rewrite_header, temp_folder};
use orrery_engine::case::Case;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, resume, run, run_or_resume};

/// Returns a case of each physics with units, its step and its end as `case.toml` has them, and
/// another step.
fn cases_with_units() -> [(Case, [&'static str; 3]); 2] {
    let bodies = case(&[
        "units=solar",
        "time.step=0.125 yr",
        "time.end=1.5yr",
        "output.snapshot_every=0.4 yr",
        "gravity.softening=1e7 km",
    ]);
    let field = plate(&[
        "units=si",
        "time.step=125ms",
        "time.end=1500 ms",
        "output.snapshot_every=400 ms",
        "grid.hx=100 cm",
    ]);
    [(bodies, ["0.125 yr", "1.5 yr", "1 day"]), (field, ["125 ms", "1500 ms", "0.1 s"])]
}

fn run_two_steps(case: &Case, folder: &Path) {
    let control = Control::default();
    run(case, &output_to(folder.to_owned()), &control, |event| {
        if matches!(&event, RunEvent::Step(status) if status.step == 2) {
            control.stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap_or_else(|e| panic!("{e}"));
}

fn refuse_edits(event: RunEvent<'_>) {
    assert!(!matches!(event, RunEvent::CaseFileEdited { .. }));
}

#[test]
fn a_resumed_run_keeps_the_units_of_its_case() {
    for (case, [step, end, other]) in cases_with_units() {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"));
        run_two_steps(&case, &parts);
        let run = Resume { folder: &parts, sets: &[], restart_outputs: false };
        resume(&run, &Control::default(), refuse_edits).unwrap_or_else(|e| panic!("{e}"));
        assert_same(&whole, &parts, "resumed with units");
        let text = fs::read_to_string(parts.join("case.toml")).unwrap();
        let has = |line: &str| text.lines().any(|found| found == line);
        assert!(has(&format!("step = \"{step}\"")) && has(&format!("end = \"{end}\"")), "{text}");

        // A difference is reported as it was written.
        fs::write(
            parts.join("case.toml"),
            text.replacen(&format!("step = \"{step}\""), &format!("step = \"{other}\""), 1),
        )
        .unwrap();
        let message = resume(&run, &Control::default(), |_| {}).unwrap_err().to_string();
        let expected = format!("it has time.step = \"{other}\", but the run has time.step = \"{step}\"");
        assert!(message.contains(&expected), "{message}");
    }
}

/// Versions before this one wrote all quantities as numbers, to `case.toml` and to checkpoints.
#[test]
fn a_run_that_was_recorded_in_numbers_is_resumed() {
    for (case, _) in cases_with_units() {
        let dir = temp_folder();
        let whole = dir.path().join("whole");
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"));
        for with_case in [false, true] {
            let folder = dir.path().join(format!("old-{with_case}"));
            run_two_steps(&case, &folder);
            let path = folder.join("case.toml");
            let numbers = case.to_plain_toml();
            assert_ne!(fs::read_to_string(&path).unwrap(), numbers);
            fs::write(&path, &numbers).unwrap();
            rewrite_header(&folder.join("checkpoints/checkpoint_000000002.orrery"), |header| {
                header["case"] = numbers.clone().into();
            });
            let outcome = if with_case {
                run_or_resume(&case, &folder, &Control::default(), refuse_edits)
            } else {
                let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
                resume(&run, &Control::default(), refuse_edits)
            };
            assert_eq!(outcome.unwrap_or_else(|e| panic!("{e}")).step, 12);
            for name in ["conserved.csv", "animation.gif"] {
                assert!(
                    fs::read(whole.join(name)).unwrap() == fs::read(folder.join(name)).unwrap(),
                    "{name}"
                );
            }
        }
    }
}
