//! Runs on several ranks, here threads on the CPU, have the files of a run on one.

use std::path::Path;
use std::sync::atomic::Ordering;

use orrery_cluster::{Team, threads};
use orrery_engine::EngineError;
use orrery_engine::case::{Case, CaseSource};
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

/// Returns an NPY file of f64.
fn npy(shape: &str, values: &[f64]) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// A plate and waves whose properties are in files of `folder`.
fn cases_of_files(folder: &Path) -> [(Case, &'static [&'static str]); 2] {
    let write = |name: &str, shape: &str, values: &[f64]| {
        std::fs::write(folder.join(name), npy(shape, values)).unwrap();
    };
    write("conductivity.npy", "24, 16", &[1.0; 384]);
    write("source.npy", "24, 16", &[0.0; 384]);
    write("west.npy", "24,", &[0.5; 24]);
    write("velocity.npy", "50, 24", &[1.0; 1200]);
    write("wavelet.npy", "9,", &[0.0, 0.5, 1.0, 0.5, 0.0, -0.5, -1.0, -0.5, 0.0]);
    let times = "[time]\nstep = 0.125\nend = 1\n[output]\nrecord_every = \"1 step\"\n[image]\nsize = 64\n";
    let plate = "[grid]\nnx = 16\nny = 24\nhx = 1.0\n[heat]\nconductivity_file = \"conductivity.npy\"\n\
                 source_file = \"source.npy\"\nwest = { condition = \"fixed\", file = \"west.npy\" }\n\
                 [initial]\nstate = \"hot-spot\"\n";
    let tank = "[grid]\nnx = 24\nny = 50\nhx = 1.0\n[wave]\nvelocity_file = \"velocity.npy\"\nlayer_nodes = 4\n\
                [[wave.source]]\nx = 12\ny = 25\nfile = \"wavelet.npy\"\ninterval = 0.5\n";
    let load = |text: &str| {
        let (label, folder) = ("case".to_owned(), folder.to_owned());
        let source = CaseSource::Text { label, text: [text, times].concat(), folder };
        Case::load(&source, &[]).unwrap_or_else(|error| panic!("{error}"))
    };
    [
        (load(plate), &["conductivity.npy", "source.npy", "west.npy"]),
        (load(tank), &["velocity.npy", "wavelet.npy"]),
    ]
}

/// Starts three ranks. Rank 0 has read `file` when its first value changes, and the others read it
/// after that, as from a stale cache. Returns the error of rank 0.
fn error_of_changed_file(
    file: &Path,
    lead: impl Fn(&Control) -> Result<Summary, EngineError> + Sync,
) -> EngineError {
    let before = std::fs::read(file).unwrap();
    let mut after = before.clone();
    let first = after.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    after[first] ^= 1;
    let errors = threads::run(3, |transport| {
        let team = Team::new(transport);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.install(|| {
            if !team.is_leader() {
                return follow(&team, &FollowerSettings::default()).map(|()| None);
            }
            let (file, after) = (file.to_owned(), after.clone());
            team.set_command_hook(move || std::fs::write(&file, &after).unwrap());
            let ranks = Ranks::lead(&team);
            let result = lead(&Control { ranks: ranks.clone(), ..Control::default() });
            assert!(ranks.dismiss(Some(std::time::Duration::from_secs(20))), "the followers wait");
            Ok::<_, EngineError>(result.err())
        })
    });
    std::fs::write(file, before).unwrap();
    errors.unwrap().into_iter().flatten().next().expect("the run is refused")
}

/// The ranks must read the same files, at the start of a run and when it is resumed.
#[test]
fn ranks_that_read_different_files_are_refused() {
    let dir = temp_folder();
    for (case, files) in cases_of_files(dir.path()) {
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        with_ranks(3, |control| run(&case, &output_to(whole.clone()), control, |_| {})).unwrap();
        with_ranks(3, |control| run_until(&case, &parts, 3, control)).unwrap();
        let before = crate::common::folder_content(&parts);
        let refused = dir.path().join("refused");
        let resumed = Resume { folder: &parts, sets: &[], restart_outputs: false };
        for name in files {
            let file = dir.path().join(name);
            let hash = blake3::hash(&std::fs::read(&file).unwrap()).to_hex();
            let check = |error: EngineError| {
                let text = error.to_string();
                let start =
                    format!("{}: rank 1 of 3 has read another file than rank 0: blake3:", file.display());
                assert!(text.starts_with(&start), "{text}");
                assert!(text.contains(&format!(", expected blake3:{}; ", &hash[..16])), "{text}");
                assert!(error.is_user_error());
            };
            check(error_of_changed_file(&file, |control| {
                run(&case, &output_to(refused.clone()), control, |_| {})
            }));
            assert!(!refused.exists(), "{name}");
            check(error_of_changed_file(&file, |control| resume(&resumed, control, |_| {})));
            assert!(crate::common::folder_content(&parts) == before, "{name}");
        }
        with_ranks(3, |control| resume(&resumed, control, |_| {})).unwrap();
        assert_same(&parts, &whole, "resumed after refusals");
        std::fs::remove_dir_all(whole).unwrap();
        std::fs::remove_dir_all(parts).unwrap();
    }
}
