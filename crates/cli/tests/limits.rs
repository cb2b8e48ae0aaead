//! Numerical failures during a run, and bodies at the limits of f64. Each gives finite results or
//! an error of one line.

use crate::common::{self, TestDir, from_file, text};

const HEAD: &str = "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n";

/// Writes a case of two bodies, given as two lines of a file, with the given step and end.
fn write_pair(dir: &TestDir, bodies: &str, time: &str) {
    dir.write("pair.xyz", format!("{HEAD}{bodies}"));
    let case = from_file("pair.xyz").replace("step = 0.25\nend = 0.5\n", time);
    assert!(case.contains(time));
    dir.write("pair.toml", format!("{case}[image]\nsize = 64\n"));
}

/// Runs the case with `--quiet` into `out`. Returns the exit status and standard error.
fn run_pair(dir: &TestDir, sets: &[&str]) -> (Option<i32>, String) {
    let output = dir.orrery(&common::run_arguments("pair.toml", "out", sets));
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_non_finite_value_ends_the_run_with_a_post_mortem_snapshot() {
    let dir = TestDir::new();
    write_pair(&dir, "0 0 0 0 0 0 1 10\n2 0 0 1e99 0 0 0 20\n", "step = 1e250\nend = 1e251\n");
    let (status, stderr) = run_pair(&dir, &[]);
    assert_eq!(status, Some(1));
    assert!(
        stderr.starts_with("error: step 1, time 1e250: body 20 has position x = -inf, expected a finite"),
        "{stderr}"
    );
    assert!(stderr.ends_with("; the bodies at that moment are in out/post-mortem.hdf5\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let found = dir.snapshot("out/post-mortem.hdf5");
    assert_eq!((found.step, found.particles.id.clone()), (1, vec![10, 20]));
    assert!(found.particles.position.x[1].is_infinite());
    // The output before the failure is complete.
    assert_eq!(dir.snapshot("out/snapshots/snapshot_000.hdf5").step, 0);
    assert_eq!(dir.list("out/checkpoints"), ["checkpoint_000000000.orrery"]);
    assert_eq!(dir.text("out/conserved.csv").lines().count(), 2);
}

/// Forces in f32 are wrong if a body is 1e9 times as far away as the others.
#[test]
fn single_precision_that_does_not_resolve_the_bodies_gives_a_warning() {
    let dir = TestDir::new();
    let bodies = |far: &str| {
        format!(
            "4\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n0 0 0 0 0 0 1 1\n1 0 0 0 0 0 1 2\n\
             0 1 0 0 0 0 1 3\n{far} 0 0 0 0 0 1 4\n"
        )
    };
    dir.write("far.xyz", bodies("1e9"));
    dir.write("near.xyz", bodies("3"));
    for name in ["far", "near"] {
        dir.write(&format!("{name}.toml"), from_file(&format!("{name}.xyz")));
    }
    for (input, precision, is_warned) in [
        ("far", "single", true),
        ("far", "mixed", false),
        ("far", "double", false),
        ("near", "single", false),
    ] {
        let (file, case) = (format!("{input}.xyz"), format!("{input}.toml"));
        for command in [
            &["forces", &file, "--force", "--softening", "0.1"][..],
            &["accuracy", &file, "--softening", "0.1"],
            &["run", &case, "--quiet", "--force", "--out", "out", "--set", "gravity.softening=0.1"],
        ] {
            let output = dir.orrery(&[command, &["--precision", precision]].concat());
            let stderr = text(&output.stderr);
            assert!(output.status.success(), "{command:?}: {stderr}");
            // With --quiet, a warning names the run.
            let run = if command[0] == "run" { "out: " } else { "" };
            let start = format!("warning: {run}single precision does not resolve these bodies: ");
            assert_eq!(stderr.starts_with(&start), is_warned, "{command:?} {precision}: {stderr}");
            assert_eq!(stderr.contains("use precision mixed"), is_warned, "{stderr}");
        }
    }
}

/// A body that moves away during the run. The warning comes once, with a checkpoint.
#[test]
fn single_precision_is_checked_during_the_run() {
    let dir = TestDir::new();
    let bodies = "4\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n0 0 0 0 0 0 1 1\n1 0 0 0 0 0 1 2\n\
                  0 1 0 0 0 0 1 3\n3 0 0 1e9 0 0 1 4\n";
    dir.write("escape.xyz", bodies);
    dir.write("case.toml", from_file("escape.xyz"));
    let sets = ["gravity.softening=0.1", "limits.energy_error=none", "checkpoint.every=1 step"];
    for (precision, count) in [("single", 1), ("mixed", 0)] {
        let mut arguments = common::run_arguments("case.toml", precision, &sets);
        arguments.extend(["--precision", precision]);
        let stderr = text(&dir.orrery(&arguments).stderr);
        assert_eq!(stderr.lines().count(), count, "{stderr}");
        if count == 1 {
            let start = "warning: single: step 1: single precision does not resolve these bodies: ";
            assert!(stderr.starts_with(start), "{stderr}");
        }
    }
}

#[test]
fn an_energy_error_above_its_limit_warns_or_stops() {
    let dir = TestDir::new();
    // The bodies pass each other within four steps, so leapfrog has a large energy error.
    write_pair(&dir, "-1 0 0 0 0.1 0 1 10\n1 0 0 0 -0.1 0 1 20\n", "step = 0.5\nend = 4\n");
    let every = "output.record_every=1 step";
    let (status, stderr) = run_pair(&dir, &[every]);
    assert_eq!(status, Some(0));
    assert!(stderr.starts_with("warning: out: step "), "{stderr}");
    assert!(
        stderr
            .ends_with("above 0.02 ([limits] energy_error); a shorter step or a larger softening may help\n"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "expected one warning: {stderr}");

    std::fs::remove_dir_all(dir.path("out")).unwrap();
    let (status, stderr) = run_pair(&dir, &[every, "limits.on_energy_error=stop", "limits.energy_error=0.1"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains(": the energy error is "), "{stderr}");
    assert!(
        stderr.contains(", expected at most 0.1 ([limits] energy_error); the bodies at that moment are in"),
        "{stderr}"
    );
    let step = dir.snapshot("out/post-mortem.hdf5").step;
    assert!(stderr.starts_with(&format!("error: step {step}, time {}: ", step as f64 / 2.0)), "{stderr}");
    // All rows before the stop are written, and the plot.
    assert_eq!(dir.text("out/conserved.csv").lines().count() as u64, step + 2);
    assert!(dir.bytes("out/energy.png").starts_with(b"\x89PNG"));

    std::fs::remove_dir_all(dir.path("out")).unwrap();
    assert_eq!(run_pair(&dir, &[every, "limits.energy_error=none"]), (Some(0), String::new()));
}

#[test]
fn bodies_at_the_limits_of_f64() {
    let dir = TestDir::new();
    let steps = "step = 0.25\nend = 0.5\n";
    let too_large = "expected at most 1e100 in size: energies and moments would overflow";
    for (second, softening, expected) in [
        ("1e300 0 0 0 0 0 5 20", "0", format!("body 20 (number 1) has position x = 1e300, {too_large}")),
        ("2 0 0 0 -1e300 0 5 20", "0", format!("body 20 (number 1) has velocity y = -1e300, {too_large}")),
        ("2 0 0 0 0 0 1e300 20", "0", format!("body 20 (number 1) has mass = 1e300, {too_large}")),
        ("2 0 0 0 0 0 5 10", "0", "bodies number 0 and 1 share the id 10, expected unique ids".to_owned()),
        ("0 0 0 0 0 0 5 20", "0", String::new()),
    ] {
        write_pair(&dir, &format!("0 0 0 0 0 0 3 10\n{second}\n"), steps);
        let (status, stderr) = run_pair(&dir, &[&format!("gravity.softening={softening}")]);
        assert_eq!(status, Some(2), "{second}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(&expected) && stderr.lines().count() == 1,
            "{second}: {stderr}"
        );
        assert!(!dir.path("out").exists(), "{second}");
    }
    // The bodies are so close that the force overflows f64.
    write_pair(&dir, "0 0 0 0 0 0 3 10\n1e-200 0 0 0 0 0 5 20\n", steps);
    let (status, stderr) = run_pair(&dir, &[]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.starts_with("error: out: step 0, time 0: body 10 has acceleration x = "), "{stderr}");
    assert!(!dir.path("out").exists(), "the run failed before it started");

    // Valid: a body without mass, and with softening two bodies at the same position.
    for (second, softening) in
        [("2 0 0 0 0 0 0 20", "0"), ("0 0 0 0 0 0 5 20", "0.1"), ("1e-300 0 0 0 0 0 5 20", "0.1")]
    {
        write_pair(&dir, &format!("0 0 0 0 0 0 3 10\n{second}\n"), steps);
        let (status, stderr) = run_pair(&dir, &[&format!("gravity.softening={softening}")]);
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{second}");
        let last = dir.snapshots("out").pop().unwrap().particles;
        assert!(last.position.x.iter().chain(&last.velocity.x).all(|x| x.is_finite()), "{second}");
        if second.starts_with('2') {
            assert_eq!(last.velocity.x[0], 0.0, "a body without mass exerts no force");
            assert!(last.velocity.x[1] < 0.0, "a body without mass is accelerated");
        }
        std::fs::remove_dir_all(dir.path("out")).unwrap();
    }
}

/// The orbital period is 1e-135. After a step of 0.1 the kinetic energy overflows.
#[test]
fn a_recorded_quantity_that_is_not_finite_ends_the_run() {
    let dir = TestDir::new();
    dir.write(
        "pair.toml",
        "bodies = { model = \"kepler\", semi_major_axis = 1e-90 }\ntime = { step = 0.1, end = 1 }\n",
    );
    let (status, stderr) = run_pair(&dir, &["output.record_every=1 step"]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.starts_with("error: step 1, time 0.1: the kinetic energy is "), "{stderr}");
    assert!(stderr.ends_with("; the bodies at that moment are in out/post-mortem.hdf5\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let table = dir.text("out/conserved.csv");
    assert!(table.lines().count() == 2 && !table.contains("NaN") && !table.contains("inf"), "{table}");
}

#[test]
fn an_adaptive_step_that_would_never_reach_the_end_is_an_error() {
    let dir = TestDir::new();
    for softening in ["0", "0.1"] {
        write_pair(&dir, "-1 0 0 0 0.1 0 1 10\n1 0 0 0 -0.1 0 1 20\n", "step = \"adaptive\"\nend = 4\n");
        let (status, stderr) =
            run_pair(&dir, &["time.eta=1e-300", &format!("gravity.softening={softening}")]);
        assert_eq!(status, Some(1), "{stderr}");
        assert!(stderr.starts_with("error: out: step 0, time 0: the adaptive step is "), "{stderr}");
        assert!(stderr.ends_with("at most 2^53; set a larger softening or a larger eta\n"), "{stderr}");
        std::fs::remove_dir_all(dir.path("out")).unwrap();
    }
}
