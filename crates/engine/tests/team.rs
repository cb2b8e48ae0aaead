//! Runs on several ranks, here threads on the CPU, have the files of a run on one.

use std::path::Path;
use std::sync::atomic::Ordering;

use orrery_cluster::{Team, threads};
use orrery_engine::EngineError;
use orrery_engine::case::Case;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Summary, resume, run};
use orrery_engine::team::{FollowerSettings, Ranks, follow};

use crate::common::{assert_same, case, fluid, output_to, plate, tank, temp_folder};

/// Calls `lead` on rank 0 of several ranks. Each has a pool of one thread, because ranks that wait
/// in a common pool would block one another.
fn with_ranks<T: Send>(
    size: usize,
    lead: impl Fn(&Control) -> Result<T, EngineError> + Sync,
) -> Result<T, EngineError> {
    let results = threads::run(size, |transport| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.install(|| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, &FollowerSettings::default()).map(|()| None);
            }
            let ranks = Ranks::lead(&team);
            let result = lead(&Control { ranks: ranks.clone(), ..Control::default() })?;
            assert!(ranks.dismiss(None));
            Ok(Some(result))
        })
    })?;
    Ok(results.into_iter().flatten().next().expect("rank 0 has a result"))
}

/// Runs until `step` is complete, then stops as after a signal.
fn run_until(case: &Case, folder: &Path, step: u64, control: &Control) -> Result<Summary, EngineError> {
    let stop = control.stop.clone();
    run(case, &output_to(folder.to_owned()), control, move |event| {
        if matches!(event, RunEvent::Step(status) if status.step == step) {
            stop.store(true, Ordering::Relaxed);
        }
    })
}

/// Compares runs on `sizes` ranks with a run on one. Also stops each run after five steps and
/// resumes it on the next number of ranks.
fn check_case(case: &Case, sizes: &[usize]) {
    let dir = temp_folder();
    let whole = dir.path().join("whole");
    run(case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();
    for (number, &size) in sizes.iter().enumerate() {
        let folder = dir.path().join(size.to_string());
        let summary =
            with_ranks(size, |control| run(case, &output_to(folder.clone()), control, |_| {})).unwrap();
        assert_same(&folder, &whole, &format!("{}: {size} ranks", case.name));
        assert_eq!(summary.rank_times.len(), if size > 1 { size } else { 0 });
        assert!(summary.rank_times.iter().all(|times| !times.computation.is_zero()));

        let folder = dir.path().join(format!("parts-{size}"));
        let summary = with_ranks(size, |control| run_until(case, &folder, 5, control)).unwrap();
        assert!(summary.stopped.is_some() && summary.step == 5);
        let next = sizes[(number + 1) % sizes.len()];
        with_ranks(next, |control| {
            let mut warnings = Vec::new();
            let parts = Resume { folder: &folder, sets: &[], restart_outputs: false };
            let summary = resume(&parts, control, |event| {
                if matches!(event, RunEvent::WriterChanged { .. }) {
                    warnings.push(format!("{event:?}"));
                }
            })?;
            assert_eq!(warnings, Vec::<String>::new());
            Ok(summary)
        })
        .unwrap();
        assert_same(&folder, &whole, &format!("{}: {size} and {next} ranks", case.name));
    }
}

#[test]
fn ranks_do_not_change_the_files_of_gravity() {
    check_case(&case(&[]), &[1, 2, 4]);
    check_case(&case(&["gravity.solver=tree", "bodies.n=700"]), &[3, 2]);
    check_case(&case(&["time.step=adaptive", "time.end=0.25"]), &[3]);
    check_case(&case(&["time.integrator=hermite4"]), &[2]);
}

#[test]
fn ranks_do_not_change_the_files_of_heat() {
    check_case(&plate(&[]), &[1, 2, 3, 4]);
}

#[test]
fn ranks_do_not_change_the_files_of_waves() {
    check_case(&tank(&["grid.ny=50"]), &[1, 2, 3, 4]);
    check_case(&tank(&["grid.ny=14", "grid.nz=27", "wave.precision=double"]), &[2]);
}

/// The thermostat ends during the run, which creates the fluid again. With 108 particles, a slab of
/// four is thinner than the radius of the lists.
#[test]
fn ranks_do_not_change_the_files_of_fluids() {
    check_case(&fluid(&[]), &[1, 2, 3, 4]);
}

/// Several runs follow one another, also of different physics, as the shots of a survey do.
#[test]
fn the_same_ranks_compute_several_runs() {
    let dir = temp_folder();
    let cases = [plate(&[]), case(&[]), tank(&["grid.ny=50"]), fluid(&[]), plate(&["time.end=1"])];
    let run_all = |prefix: &str, control: &Control| {
        for (number, case) in cases.iter().enumerate() {
            run(case, &output_to(dir.path().join(format!("{prefix}-{number}"))), control, |_| {})?;
        }
        Ok(())
    };
    run_all("one", &Control::default()).unwrap();
    with_ranks(3, |control| run_all("three", control)).unwrap();
    for number in 0..cases.len() {
        let [one, three] = ["one", "three"].map(|prefix| dir.path().join(format!("{prefix}-{number}")));
        assert_same(&three, &one, &format!("run {number}"));
    }
}

/// Cases that ranks cannot compute are refused before anything is written. The ranks can compute
/// another case after that.
#[test]
fn cases_that_ranks_cannot_divide_are_refused() {
    let dir = temp_folder();
    let (folder, other) = (dir.path().join("refused"), dir.path().join("other"));
    let wide = "expected at least 6 for 3 ranks: 2 per rank";
    let messages = [
        (plate(&["grid.ny=5"]), wide),
        (tank(&[]), "[grid]: the grid has 20 nodes along y, expected at least "),
    ];
    with_ranks(3, |control| {
        for (case, message) in &messages {
            let error = run(case, &output_to(folder.clone()), control, |_| {}).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.is_user_error() && !folder.exists());
        }
        run(&case(&[]), &output_to(other.clone()), control, |_| {})
    })
    .unwrap();
    assert!(other.exists());
}

/// A resume on too many ranks changes nothing.
#[test]
fn a_resume_on_too_many_ranks_is_refused() {
    let dir = temp_folder();
    let folder = dir.path().join("run");
    let case = tank(&["grid.ny=30"]);
    run_until(&case, &folder, 5, &Control::default()).unwrap();
    let before = crate::common::folder_content(&folder);
    with_ranks(4, |control| {
        let parts = Resume { folder: &folder, sets: &[], restart_outputs: false };
        let error = resume(&parts, control, |_| {}).unwrap_err();
        assert!(error.to_string().contains("for 4 ranks"), "{error}");
        Ok(())
    })
    .unwrap();
    assert!(crate::common::folder_content(&folder) == before);
}
