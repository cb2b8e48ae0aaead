//! Errors in the user's input. Each gives one line with the location, the value found and the
//! expected value, exit status 2, and no output files.

use crate::common::{PAIR, TestDir, cosmological_gadget_binary, from_file, gadget_binary, text};

/// Returns a directory with valid and invalid input files.
fn dir_with_inputs() -> TestDir {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", from_file("pair.xyz"));
    for [name, old, new] in [
        ["nan", "2 0 0 0 0 0 5 20", "2 0 nan 0 0 0 5 20"],
        ["infinite", "2 0 0 0 0 0 5 20", "2 0 0 0 inf 0 5 20"],
        ["negative", "2 0 0 0 0 0 5 20", "2 0 0 0 0 0 -5 20"],
        ["duplicate", "2 0 0 0 0 0 5 20", "2 0 0 0 0 0 5 10"],
        ["same", "2 0 0 0 0 0 5 20", "0 0 0 1 0 0 5 20"],
        ["text", "2 0 0 0 0 0 5 20", "2 0 0 0 zero 0 5 20"],
        ["solar", "units=nbody", "units=solar"],
    ] {
        dir.write(&format!("{name}.xyz"), PAIR.replace(old, new));
        dir.write(&format!("{name}.toml"), from_file(&format!("{name}.xyz")));
    }
    for good in ["good.hdf5", "good.npz"] {
        dir.stdout_of(&["ic", "plummer", "-n", "100", "-o", good]);
    }
    for (whole, cut, share) in
        [("good.hdf5", "cut.hdf5", 2), ("good.npz", "cut.npz", 2), ("pair.xyz", "cut.xyz", 2)]
    {
        let bytes = dir.bytes(whole);
        dir.write(cut, &bytes[..(bytes.len() - 1) / share]);
    }
    dir.write("cut.dat", &gadget_binary(7)[..300]);
    dir.write("cosmological.dat", cosmological_gadget_binary(7));
    dir.write("cosmological.toml", from_file("cosmological.dat"));
    dir.write("empty.hdf5", "");
    dir.write("letter.hdf5", "Dear Sir or Madam,\n");
    dir.write("letter", "Dear Sir or Madam,\n");
    dir.write("cut.toml", from_file("cut.hdf5"));
    dir.write("missing.toml", from_file("nowhere.hdf5"));
    dir.write(
        "misspelt.toml",
        "[bodies]\nmodel = \"plummer\"\n[gravity]\nsofening = 1\n[time]\nstep = 1\nend = 2\n",
    );
    dir.write("toml.toml", "[bodies]\nmodel = plummer\n");
    std::fs::create_dir_all(dir.path("full/snapshots")).unwrap();
    dir.write("full/notes.txt", "mine");
    std::fs::create_dir(dir.path("bare")).unwrap();
    std::fs::create_dir(dir.path("folder.npz")).unwrap();
    dir
}

/// Runs each command. Checks its status and its message, and that it changes no file. `...` in an
/// expected message stands for any text.
pub fn check_messages(dir: &TestDir, mistakes: &[(&[&str], &str)]) {
    let mut unexpected = Vec::new();
    let before = dir.content();
    for (arguments, expected) in mistakes {
        let output = dir.orrery(arguments);
        let (status, stderr) = (output.status.code(), text(&output.stderr));
        let expected = format!("error: {expected}\n");
        let matches = match expected.split_once("...") {
            Some((start, end)) => {
                stderr.starts_with(start) && stderr.ends_with(end) && stderr.lines().count() == 1
            }
            None => stderr == expected,
        };
        if !matches || status != Some(2) {
            unexpected.push(format!("orrery {}\n  [{status:?}] {stderr}", arguments.join(" ")));
        }
        assert!(dir.content() == before, "orrery {} wrote something", arguments.join(" "));
    }
    assert!(unexpected.is_empty(), "{} of {}:\n{}", unexpected.len(), mistakes.len(), unexpected.join("\n"));
}

#[test]
fn errors_in_the_case() {
    check_messages(
        &dir_with_inputs(),
        &[
            (&["run", "plumer"], "plumer: no such case file or preset; did you mean 'plummer'?"),
            (&["run", "my/case.toml"], "my/case.toml: no such case file or preset"),
            (&["run", "bare"], "bare: is a directory, expected a case file (TOML text)"),
            (
                &["run", "misspelt.toml"],
                "misspelt.toml:4:1: unknown key 'sofening' in [gravity]; did you mean 'softening'?",
            ),
            (&["run", "toml.toml"], "toml.toml:2:9: ..."),
            (
                &["run", "plummer", "--set", "gravity.sofening=1"],
                "--set gravity.sofening=1: unknown key 'sofening' in [gravity]; did you mean 'softening'?",
            ),
            (
                &["run", "plummer", "--set", "gravity.theta"],
                "--set gravity.theta: expected KEY=VALUE such as gravity.theta=0.5",
            ),
            (
                &["run", "solar-system", "--set", "time.step=4 km"],
                "--set time.step=4 km: time.step = \"4 km\": ...",
            ),
            (
                &["run", "plummer", "--set", "gravity.softening=1 kpc"],
                "--set gravity.softening=1 kpc: gravity.softening = \"1 kpc\": 'kpc' has no meaning in nbody units \
                 (G = 1), expected a plain number; or set units = \"galactic\" or \"solar\"",
            ),
            (
                &["run", "plummer", "--set", "time.step=-0.1"],
                "--set time.step=-0.1: time.step = -0.1 is outside step > 0",
            ),
            (
                &["run", "plummer", "--set", "time.step=nan"],
                "--set time.step=nan: time.step = nan is not a finite number",
            ),
            (
                &["run", "plummer", "--set", "gravity.softening=-1"],
                "--set gravity.softening=-1: gravity.softening = -1 is outside softening >= 0",
            ),
            (
                &["run", "plummer", "--set", "gravity.softening=inf"],
                "--set gravity.softening=inf: gravity.softening = inf is not a finite number",
            ),
            (
                &["run", "plummer", "--set", "gravity.theta=-0.5"],
                "--set gravity.theta=-0.5: gravity.theta = -0.5 is outside 0 < theta <= 1.2",
            ),
            (
                &["run", "plummer", "--set", "gravity.theta=nan"],
                "--set gravity.theta=nan: gravity.theta = nan is not a finite number",
            ),
            (&["run", "plummer", "--set", "bodies.n=0"], "--set bodies.n=0: bodies.n = 0 is outside n >= 1"),
            (
                &["run", "plummer", "--set", "bodies.n=1000000000000000"],
                "--set bodies.n=1000000000000000: 1000000000000000 bodies need 399.7 PiB of memory, ... are available",
            ),
            (
                &["run", "plummer", "--set", "time.integrator=hermite4", "--set", "gravity.solver=tree"],
                "--set gravity.solver=tree: time.integrator = \"hermite4\" needs direct forces, \
                 expected gravity.solver = \"direct\" or \"auto\", got \"tree\"",
            ),
            (
                &["run", "missing.toml"],
                "missing.toml:2:15: bodies.file = \"nowhere.hdf5\" does not exist, expected a snapshot",
            ),
        ],
    );
}

#[test]
fn errors_in_the_bodies() {
    let same =
        "same.xyz: bodies 10 and 20 are at the same place (0, 0, 0); set a softening above 0 or move one";
    let nan = "nan.xyz: body 20 (number 1) has position z = NaN, expected a finite number";
    let solar = "solar.xyz: the units are solar but the case has nbody, and one of them has no physical scale; expected units = \"solar\" in the case";
    let dir = dir_with_inputs();
    check_messages(
        &dir,
        &[
            (&["run", "cut.toml", "--out", "new"], "cut.toml:2:15: cut.hdf5: file: got ... is truncated"),
            (&["run", "nan.toml", "--out", "new"], &format!("nan.toml:2:15: {nan}")),
            (&["run", "same.toml", "--out", "new"], &format!("same.toml:2:15: {same}")),
            (&["run", "solar.toml", "--out", "new"], &format!("solar.toml:2:15: {solar}")),
            (&["run", "solar.toml", "--dry-run"], &format!("solar.toml:2:15: {solar}")),
            (&["info", "cut.hdf5"], "cut.hdf5: file: got ... is truncated"),
            (
                &["info", "cut.npz"],
                "cut.npz: archive: got no directory at its end, expected an intact zip archive; is it truncated?",
            ),
            (&["info", "cut.xyz"], "cut.xyz: line 2: got no newline at its end, expected a whole line"),
            (
                &["convert", "cosmological.dat", "new.hdf5"],
                "cosmological.dat: the header is that of a cosmological snapshot (Redshift = 3, Time = 0.25, ... \
                 orrery convert --cosmological physical FILE NEW.hdf5, or bodies.cosmological = \"physical\" in a case, \
                 converts them, and unchanged keeps the numbers",
            ),
            (
                &["run", "cosmological.toml", "--out", "new"],
                "cosmological.toml:2:15: cosmological.dat: the header is that of a cosmological snapshot ...",
            ),
            (
                &["forces", "cosmological.dat"],
                "cosmological.dat: the header is that of a cosmological snapshot ...",
            ),
            (
                &["analyze", "cosmological.dat"],
                "cosmological.dat: the header is that of a cosmological snapshot ...",
            ),
            (&["convert", "nan.xyz", "new.npz"], nan),
            (
                &["info", "cut.dat"],
                "cut.dat: block POS at byte 268: got a length of 84 bytes, expected at most the 32 bytes left in the file",
            ),
            (&["info", "nowhere.npz"], "nowhere.npz: no such file or directory"),
            (&["info", "empty.hdf5"], "empty.hdf5: the file is empty, expected a snapshot"),
            (&["info", "letter.hdf5"], "letter.hdf5: byte 0: got no HDF5 signature, expected an HDF5 file"),
            (
                &["info", "letter"],
                "letter: byte 0: got unknown content, expected a GADGET (HDF5 or binary), extended XYZ or NPZ file",
            ),
            (
                &["info", "bare"],
                "bare: is a directory, expected a snapshot file; orrery analyze reads the directory of a run, orrery check compares its files",
            ),
            (&["forces", "text.xyz"], "text.xyz: line 4: got 'zero' in column 5, expected a number"),
            (&["forces", "nan.xyz"], nan),
            (
                &["forces", "infinite.xyz"],
                "infinite.xyz: body 20 (number 1) has velocity y = inf, expected a finite number",
            ),
            (&["forces", "negative.xyz"], "negative.xyz: body 20 (number 1) has mass -5, expected mass >= 0"),
            (
                &["forces", "duplicate.xyz"],
                "duplicate.xyz: bodies number 0 and 1 share the id 10, expected unique ids",
            ),
            (&["forces", "same.xyz"], same),
            (&["accuracy", "same.xyz"], same),
            (&["analyze", "same.xyz"], same),
            (
                &["analyze", "bare"],
                "bare: no snapshots in it, expected .hdf5, .xyz, .npz, .npy or .vti files",
            ),
            (&["analyze", "nowhere"], "nowhere: no such file or directory"),
        ],
    );
    // With softening, two bodies may have the same position.
    dir.stdout_of(&["forces", "same.xyz", "--softening", "0.1"]);
}

#[test]
fn errors_in_flag_values() {
    check_messages(
        &dir_with_inputs(),
        &[
            (&["accuracy", "good.npz", "--theta", "5"], "--theta 5 is outside 0 < theta <= 1.2"),
            (&["accuracy", "good.npz", "--theta", "nan"], "--theta NaN is outside 0 < theta <= 1.2"),
            (&["forces", "good.npz", "--softening", "-1"], "--softening -1 is outside softening >= 0"),
            (&["analyze", "good.npz", "--softening", "-1"], "--softening -1 is outside softening >= 0"),
            (&["bench", "direct", "-n", "0"], "-n 0 is outside n >= 1"),
            (
                &["bench", "tree", "-n", "10,1000000000000000"],
                "-n 1000000000000000: 1000000000000000 bodies need 399.7 PiB of memory, ... are available",
            ),
            (&["bench", "tree", "--theta", "-1"], "--theta -1 is outside 0 < theta <= 1.2"),
            (&["bench", "tree", "--rms", "1"], "--rms 1 is outside 1e-6 < rms < 0.1"),
            (
                &["ic", "plumer", "-n", "10", "-o", "new.npz"],
                "ic plumer: model = \"plumer\" is unknown, expected plummer, hernquist, uniform-sphere, galaxy, encounter, \
                 kepler, figure-eight, pythagorean or solar-system; did you mean 'plummer'?",
            ),
            (&["ic", "plummer", "-n", "0", "-o", "new.npz"], "ic plummer: n = 0 is outside n >= 1"),
            (
                &["ic", "plummer", "-n", "1000000000000000", "-o", "new.npz"],
                "ic plummer: 1000000000000000 bodies need 399.7 PiB of memory, ... are available",
            ),
            (
                &["ic", "figure-eight", "-n", "5", "-o", "new.npz"],
                "ic figure-eight: key 'n' is for plummer, hernquist, uniform-sphere, galaxy or encounter, not for figure-eight",
            ),
            (
                &["ic", "kepler", "--set", "eccentricity=2", "-o", "new.npz"],
                "ic kepler: eccentricity = 2 is outside 0 <= eccentricity < 1",
            ),
            (
                &["ic", "plummer", "--set", "mass", "-o", "new.npz"],
                "--set mass: expected KEY=VALUE such as scale_radius=2",
            ),
            (
                &["ic", "plummer", "--units", "imperial", "-o", "new.npz"],
                "ic plummer: units = \"imperial\" is unknown, expected nbody, galactic or solar",
            ),
            (&["init", "plumer"], "no preset is called 'plumer'; did you mean 'plummer'?"),
            (&["init", "moon"], "no preset is called 'moon'; orrery presets lists all presets"),
        ],
    );
}

#[test]
fn errors_in_the_run_to_resume() {
    let dir = dir_with_inputs();
    dir.run("plummer", "run", &["bodies.n=20", "time.end=0.0625", "image.size=64"]);
    let missing = "no checkpoint in it, expected a run with a checkpoint";
    check_messages(
        &dir,
        &[
            (&["resume", "bare"], &format!("bare: {missing}")),
            (&["resume", "nowhere"], "nowhere: no such directory, expected the directory of a run"),
            (&["resume", "pair.xyz"], "pair.xyz: it is a file, expected the directory of a run"),
            (
                &["run", "plummer", "--resume", "--out", "full"],
                "full: the output directory is not empty, expected a new or empty one",
            ),
            (
                &["run", "plummer", "--out", "run"],
                "run: the directory contains a run; orrery resume run continues it, --force replaces it",
            ),
            (
                &["resume", "run", "--set", "bodies.n=30"],
                "run: the run has bodies.n = 20 and cannot change to bodies.n = 30; only time.end, output.on_error and \
                 the keys of [checkpoint] and [limits] can change",
            ),
            (
                &["resume", "run", "--end", "0.01"],
                "run: time.end = 0.01 is not after time 0.0625 of step ..., which the run has reached; expected a later end",
            ),
            (
                &["resume", "run", "--end", "soon"],
                "--end soon: time.end = \"soon\": 'soon' is not a quantity, ...",
            ),
            (
                &["resume", "run", "--set", "limits.enrgy_error=1"],
                "--set limits.enrgy_error=1: unknown key ...",
            ),
            (
                &["run", "plummer", "--resume", "--out", "run"],
                "run: the run has bodies.n = 20 but the case has bodies.n = ...; orrery resume continues the run as it is, \
                 --force replaces it",
            ),
            (
                &["info", "run/checkpoints/checkpoint_000000099.orrery"],
                "run/checkpoints/checkpoint_000000099.orrery: no such file or directory",
            ),
        ],
    );
}

/// `--max-memory` limits the bodies that are generated and the files that are read.
#[test]
fn input_beyond_the_memory_limit() {
    let dir = dir_with_inputs();
    dir.stdout_of(&["ic", "plummer", "-n", "3000", "-o", "many.npz"]);
    check_messages(
        &dir,
        &[
            (
                &["run", "plummer", "--max-memory", "1MiB"],
                "preset plummer:...: 10000 bodies need 4.3 MiB of memory, 1.0 MiB are available",
            ),
            (
                &["info", "many.npz", "--max-memory", "100KiB"],
                "many.npz: 3000 bodies need 190.4 KiB of memory, the limit is 100.0 KiB",
            ),
            (
                &["convert", "many.npz", "new.xyz", "--max-memory", "100000"],
                "many.npz: 3000 bodies need 190.4 KiB of memory, the limit is 97.7 KiB",
            ),
        ],
    );
}

#[test]
fn errors_in_output_paths() {
    check_messages(
        &dir_with_inputs(),
        &[
            (
                &["run", "plummer", "--out", "full"],
                "full: the output directory is not empty, expected a new or empty one",
            ),
            (
                &["run", "plummer", "--out", "pair.xyz"],
                "pair.xyz: cannot be used as output directory: it is a file, expected a directory",
            ),
            (
                &["run", "plummer", "--out", "pair.xyz/new", "--force"],
                "pair.xyz/new: cannot be used as output directory: a part of its path is a file, expected a directory",
            ),
            (
                &["convert", "pair.xyz", "pair.dat"],
                "pair.dat: unknown extension .dat, expected .hdf5, .h5, .xyz, .extxyz or .npz",
            ),
            (
                &["convert", "pair.xyz", "pair"],
                "pair: unknown extension (none), expected .hdf5, .h5, .xyz, .extxyz or .npz",
            ),
            (
                &["convert", "pair.xyz", "new/pair.npz"],
                "new/pair.npz: the folder new does not exist, expected an existing one",
            ),
            (&["convert", "pair.xyz", "folder.npz"], "folder.npz: is a directory, expected a file to write"),
            (&["convert", "pair.xyz", "pair.toml/x.npz"], "pair.toml/x.npz: cannot be written: ..."),
            (&["convert", "bare", "new.npz"], "bare: is a directory, ..."),
            (
                &["forces", "pair.xyz", "-o", "new/forces.npz"],
                "new/forces.npz: the folder new does not exist, expected an existing one",
            ),
            (
                &["forces", "good.npz", "-o", "./good.npz"],
                "./good.npz: is the input snapshot, expected another file for the forces",
            ),
            (
                &["ic", "plummer", "-n", "10", "-o", "good.npz"],
                "good.npz: exists already, expected a new file; --force replaces it",
            ),
            (
                &["ic", "plummer", "-n", "10", "-o", "new/x.npz"],
                "new/x.npz: the folder new does not exist, expected an existing one",
            ),
            (
                &["ic", "plummer", "-n", "10", "-o", "new.txt"],
                "new.txt: unknown extension .txt, expected .hdf5, .h5, .xyz, .extxyz or .npz",
            ),
            (
                &["init", "plummer", "-o", "pair.toml"],
                "pair.toml: exists already, expected a new file; --force replaces it",
            ),
            (
                &["init", "plummer", "-o", "new/x.toml"],
                "new/x.toml: the folder new does not exist, expected an existing one",
            ),
            (
                &["bench", "direct", "-n", "10", "--json", "new/x.json"],
                "new/x.json: the folder new does not exist, expected an existing one",
            ),
            (
                &["analyze", "good.npz", "-o", "pair.xyz"],
                "pair.xyz: is a file, expected a folder to write to",
            ),
        ],
    );
}

/// Uses a read-only folder, or /proc for root, who may write to any folder.
#[test]
#[cfg(target_os = "linux")]
fn an_output_folder_without_write_permission() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir_with_inputs();
    std::fs::set_permissions(dir.path("bare"), PermissionsExt::from_mode(0o555)).unwrap();
    let is_root = std::fs::create_dir(dir.path("bare/probe")).is_ok();
    let folder = if is_root { "/proc/orrery" } else { "bare/new" };
    let output = dir.orrery(&["run", "pair.toml", "--quiet", "--out", folder]);
    let stderr = text(&output.stderr);
    let start = format!("error: {folder}: cannot be used as output directory: it cannot be written to: ");
    assert!(stderr.starts_with(&start) && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(output.status.code(), Some(2));
}

/// `run --force` removes nothing if the new run cannot write to a part of the directory.
#[test]
#[cfg(target_os = "linux")]
fn a_run_that_cannot_be_replaced_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir_with_inputs();
    dir.run("pair.toml", "run", &[]);
    let again = ["run", "pair.toml", "--quiet", "--force", "--out", "run"];
    let refuse = |part: &str, error: &str| {
        let before = dir.content();
        let output = dir.orrery(&again);
        let (stderr, status) = (text(&output.stderr), output.status.code());
        let expected = format!("error: {error}");
        assert!(stderr.starts_with(&expected) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(status, Some(2));
        assert!(dir.content() == before, "{part}: a file changed");
    };
    for part in ["checkpoints", "snapshots", "images"] {
        std::fs::rename(dir.path("run").join(part), dir.path("aside")).unwrap();
        dir.write(&format!("run/{part}"), "not a directory");
        let reason = format!("its {part} is a file, expected a directory or nothing");
        refuse(part, &format!("run: cannot be used as output directory: {reason}"));
        std::fs::remove_file(dir.path("run").join(part)).unwrap();
        std::fs::rename(dir.path("aside"), dir.path("run").join(part)).unwrap();
        // Root may write to every directory.
        let folder = dir.path("run").join(part);
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
        if std::fs::write(folder.join("probe"), "").is_err() {
            refuse(
                part,
                &format!("run/{part}: cannot be used as output directory: it cannot be written to: "),
            );
        } else {
            std::fs::remove_file(folder.join("probe")).unwrap();
        }
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::remove_file(dir.path("run/energy.svg")).unwrap();
    std::fs::create_dir(dir.path("run/energy.svg")).unwrap();
    let reason = "its energy.svg is a directory, expected a file or nothing";
    refuse("energy.svg", &format!("run: cannot be used as output directory: {reason}"));
    std::fs::remove_dir(dir.path("run/energy.svg")).unwrap();
    assert_eq!(dir.stdout_of(&again), "");
}

/// Errors found by clap are also one line that starts with `error:`. The exit status is 2 and
/// standard output is empty.
#[test]
fn errors_in_the_command_line() {
    let dir = dir_with_inputs();
    let before = dir.content();
    for (arguments, start) in [
        (&["frces"][..], "error: unrecognized subcommand 'frces'"),
        (&["run"], "error: the following required arguments were not provided:"),
        (&["run", "plummer", "--fource"], "error: unexpected argument '--fource' found"),
        (
            &["run", "plummer", "--threads", "0"],
            "error: invalid value '0' for '--threads <N>': 0 is not in 1..=4096",
        ),
        (
            &["run", "plummer", "--precision", "half"],
            "error: invalid value 'half' for '--precision <PRECISION>'",
        ),
        (
            &["accuracy", "good.npz", "--sample", "0"],
            "error: invalid value '0' for '--sample <K>': 0 is not in 1..=1000000000",
        ),
        (&["forces", "good.npz", "--solver", "fmm"], "error: invalid value 'fmm' for '--solver <SOLVER>'"),
        (&["forces", "good.npz", "--theta", "wide"], "error: invalid value 'wide' for '--theta <THETA>'"),
        (
            &["run", "plummer", "--wall-time", "soon"],
            "error: invalid value 'soon' for '--wall-time <TIME>': expected a time > 0 such as 90min, 2h, 23:59:00 or 1-12:00:00",
        ),
        (&["resume", "bare", "--wall-time", "0 s"], "error: invalid value '0 s' for '--wall-time <TIME>'"),
        (
            &["info", "good.npz", "--max-memory", "much"],
            "error: invalid value 'much' for '--max-memory <SIZE>': expected a size such as 500MB or 2GiB",
        ),
        (
            &["run", "plummer", "--resume", "--force"],
            "error: the argument '--resume' cannot be used with '--force'",
        ),
        // Commands without input files have no --max-memory.
        (&["presets", "--max-memory", "1GB"], "error: unexpected argument '--max-memory' found"),
        (&["bench", "direct", "--max-memory", "1GB"], "error: unexpected argument '--max-memory' found"),
        (&["completions", "csh"], "error: invalid value 'csh' for '<SHELL>'"),
    ] {
        let output = dir.orrery(arguments);
        assert!(text(&output.stderr).starts_with(start), "{}", text(&output.stderr));
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{start}");
    }
    assert!(dir.content() == before);
}
