//! Tests of the commands other than `run` and those about devices, with checked results.

use std::io::Read;

use crate::common::{PAIR, TestDir, cosmological_gadget_binary, from_file, gadget_binary, text};

/// Returns the numbers of an f64 array in an .npz file. Checks its type and shape.
fn npz_numbers(bytes: &[u8], name: &str, shape: &str) -> Vec<f64> {
    let data = npz_array(bytes, name, "<f8", shape);
    data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn npz_array(bytes: &[u8], name: &str, kind: &str, shape: &str) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("a zip archive");
    let mut array = Vec::new();
    archive.by_name(&format!("{name}.npy")).expect(name).read_to_end(&mut array).unwrap();
    assert!(array.starts_with(b"\x93NUMPY\x01\x00"), "{name} is not a NumPy array");
    let end = 10 + usize::from(u16::from_le_bytes([array[8], array[9]]));
    let header = text(&array[10..end]).replace(' ', "");
    assert!(header.contains(&format!("'descr':'{kind}'")), "{name}: {header}");
    assert!(header.contains(&format!("'shape':{shape}")), "{name}: {header}");
    array.split_off(end)
}

#[test]
fn presets_are_listed_with_a_description() {
    let listed = TestDir::new().stdout_of(&["presets"]);
    let names: Vec<_> = listed.lines().map(|line| line.split_once("  ").expect("a description").0).collect();
    assert_eq!(
        names.iter().map(|name| name.trim()).collect::<Vec<_>>(),
        [
            "galaxy-collision",
            "plummer",
            "cold-collapse",
            "solar-system",
            "figure-eight",
            "pythagorean",
            "hot-plate",
            "sine-decay",
            "chip",
            "two-layer-shot",
            "salt-dome",
            "wave-3d",
            "ripple-tank",
            "lj-melt",
            "argon",
            "droplet",
            "lj-2d",
            "kob-andersen"
        ]
    );
}

#[test]
fn ic_generates_every_model() {
    let dir = TestDir::new();
    for (model, count) in [
        ("plummer", 100),
        ("hernquist", 100),
        ("uniform-sphere", 100),
        ("galaxy", 1000),
        ("encounter", 1000),
        ("kepler", 2),
        ("figure-eight", 3),
        ("pythagorean", 3),
        ("solar-system", 9),
    ] {
        let n = count.to_string();
        let make = |file: &str, seed: &str| {
            let mut arguments = vec!["ic", model, "-o", file];
            if count >= 100 {
                arguments.extend(["-n", &n]);
            }
            if count >= 100 && model != "encounter" {
                arguments.extend(["--seed", seed]);
            }
            assert_eq!(dir.stdout_of(&arguments), format!("wrote {count} bodies to {file}\n"));
            dir.bytes(file)
        };
        let [first, second] = ["a", "b"].map(|name| make(&format!("{model}-{name}.hdf5"), "5"));
        assert!(first == second, "{model}: equal seeds give different bytes");
        let snapshot = dir.snapshot(&format!("{model}-a.hdf5"));
        snapshot.particles.validate().unwrap();
        assert_eq!((snapshot.particles.len(), snapshot.time, snapshot.step), (count, 0.0, 0));
        if count >= 100 && model != "encounter" {
            make(&format!("{model}-c.hdf5"), "6");
            let other = dir.snapshot(&format!("{model}-c.hdf5"));
            assert!(snapshot.particles != other.particles, "{model}: different seeds give equal bodies");
        }
    }
}

#[test]
fn ic_accepts_units_and_parameters() {
    let dir = TestDir::new();
    let set = ["--set", "semi_major_axis=2", "--set", "eccentricity=0"];
    dir.stdout_of(&[&["ic", "kepler", "-o", "pair.npz", "--units", "solar"], &set[..]].concat());
    let pair = dir.snapshot("pair.npz");
    assert_eq!(pair.units.name(), "solar");
    let [a, b] = [0, 1].map(|i| pair.particles.position.get(i));
    let distance = (0..3).map(|c| (a[c] - b[c]).powi(2)).sum::<f64>().sqrt();
    assert!((distance - 2.0).abs() < 1e-12, "{distance}");
    dir.stdout_of(&["ic", "figure-eight", "-o", "pair.npz", "--force"]);
    assert_eq!(dir.snapshot("pair.npz").particles.len(), 3);
}

#[test]
fn info_prints_the_contents_of_a_file() {
    let dir = TestDir::new();
    dir.stdout_of(&["ic", "galaxy", "-n", "1000", "-o", "galaxy.hdf5"]);
    let stdout = dir.stdout_of(&["info", "galaxy.hdf5"]);
    for line in [
        "galaxy.hdf5",
        "  format     GADGET HDF5",
        "  bodies     1000 (500 halo, 400 disc, 100 bulge)",
        "  time       0 Myr after 0 steps",
        "  units      galactic",
        "  seed       1",
    ] {
        assert!(stdout.lines().any(|found| found == line), "{line:?} in\n{stdout}");
    }
    dir.write("pair.xyz", PAIR);
    let stdout = dir.stdout_of(&["info", "pair.xyz"]);
    assert!(stdout.contains("  format     extended XYZ\n  bodies     2 (2 halo)\n"), "{stdout}");
    assert!(stdout.contains("  mass       8.000000\n  x          0.000000 to 2.000000\n"), "{stdout}");
    dir.write("old.dat", gadget_binary(7));
    let stdout = dir.stdout_of(&["info", "old.dat"]);
    assert!(stdout.contains("  format     GADGET binary\n  bodies     7 (7 halo)\n"), "{stdout}");
}

#[test]
fn info_describes_several_files_and_reports_problems() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("bad.xyz", PAIR.replace("2 0 0 0 0 0 5 20", "2 nan 0 0 inf 0 -5 10"));
    dir.write("gas.xyz", "1\nProperties=species:S:1:pos:R:3:vel:R:3:mass:R:1 units=nbody\nGas 1 2 3 0 0 0 1");
    let output = dir.orrery(&["info", "pair.xyz", "bad.xyz", "gas.xyz"]);
    let stdout = text(&output.stdout);
    assert!(stdout.contains("pair.xyz\n  format") && stdout.contains("gas.xyz\n  format"), "{stdout}");
    for line in [
        "  y          0.000000 to 0.000000",
        "  problem    1 value is NaN or infinite in position y",
        "  problem    1 value is NaN or infinite in velocity y",
        "  problem    1 mass is negative",
        "  problem    1 body has the id of an earlier body",
    ] {
        assert!(stdout.lines().any(|found| found == line), "{line:?} in\n{stdout}");
    }
    assert_eq!(output.status.code(), Some(0));
    let gas = "gas.xyz: 1 gas particle is treated as collisionless, since there is no hydrodynamics";
    assert_eq!(text(&output.stderr), format!("warning: {gas}\n"));

    let output = dir.orrery(&["info", "no.xyz", "pair.xyz", "folder.npz"]);
    assert!(text(&output.stdout).contains("pair.xyz\n  format"));
    let expected = "error: no.xyz: no such file or directory\nerror: folder.npz: no such file or directory\n\
                    error: 2 of 3 files could not be read\n";
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), (expected, Some(2)));
}

/// Every command that reads a snapshot warns about gas.
#[test]
fn gas_gives_a_warning() {
    let dir = TestDir::new();
    let body = |id: u32, y: f64| format!("Gas 0 {y} 0 0 0 0 1 {id}\n");
    let head = "Properties=species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody";
    dir.write("gas.xyz", format!("2\n{head}\n{}{}", body(1, -1.0), body(2, 1.0)));
    dir.write("gas.toml", from_file("gas.xyz"));
    let warning = "gas.xyz: 2 gas particles are treated as collisionless, since there is no hydrodynamics";
    for arguments in [
        &["run", "gas.toml", "--out", "out", "--quiet"][..],
        &["run", "gas.toml", "--dry-run"],
        &["info", "gas.xyz"],
        &["convert", "gas.xyz", "gas.npz"],
        &["forces", "gas.xyz", "--device", "cpu"],
        &["accuracy", "gas.xyz", "--device", "cpu"],
        &["analyze", "gas.xyz", "--device", "cpu"],
    ] {
        let output = dir.orrery(arguments);
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("warning: ") && stderr.ends_with(&format!("{warning}\n")),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
}

#[test]
fn cosmological_snapshot_is_described_and_converted() {
    let dir = TestDir::new();
    dir.write("old.dat", cosmological_gadget_binary(7));
    let stdout = dir.stdout_of(&["info", "old.dat"]);
    assert!(
        stdout.contains(
            "  cosmology  comoving numbers at expansion factor 0.25, unchanged: Redshift = 3, Time = 0.25"
        ),
        "{stdout}"
    );
    assert!(stdout.contains("\n  time       none, expansion factor 0.25\n"), "{stdout}");
    let json: serde_json::Value =
        serde_json::from_str(&dir.stdout_of(&["info", "old.dat", "--json", "-"])).unwrap();
    let file = &json["files"][0];
    assert!(file["time"].is_null() && file["expansion_factor"] == 0.25, "{json:#}");
    dir.stdout_of(&["convert", "--cosmological", "physical", "old.dat", "new.hdf5"]);
    let new = dir.snapshot("new.hdf5");
    // a / h = 1/2 and 1 / h = 2.
    assert_eq!(new.particles.position.x, [0., 0.5, 1., 1.5, 2., 2.5, 3.]);
    assert_eq!((&new.particles.mass[..], new.time), (&[2.0; 7][..], 0.0));
    dir.stdout_of(&["convert", "--cosmological", "unchanged", "old.dat", "same.npz"]);
    assert_eq!(dir.snapshot("same.npz").particles.position.x, [0., 1., 2., 3., 4., 5., 6.]);
}

/// A chain of conversions through all formats gives the same bodies to the bit.
#[test]
fn convert_keeps_all_bits() {
    let dir = TestDir::new();
    dir.stdout_of(&["ic", "galaxy", "-n", "500", "-o", "a.hdf5"]);
    for (from, to) in [("a.hdf5", "b.npz"), ("b.npz", "c.xyz"), ("c.xyz", "d.h5")] {
        assert_eq!(dir.stdout_of(&["convert", from, to]), format!("wrote 500 bodies to {to}\n"));
    }
    let [first, last] = ["a.hdf5", "d.h5"].map(|name| dir.snapshot(name));
    assert!(first.particles == last.particles);
    assert_eq!((first.time, first.units, first.provenance), (last.time, last.units, last.provenance));
    dir.write("old.dat", gadget_binary(7));
    dir.stdout_of(&["convert", "old.dat", "new.xyz"]);
    assert_eq!(dir.snapshot("new.xyz").particles.position.x, [0., 1., 2., 3., 4., 5., 6.]);
}

/// Masses 3 and 5 at a distance of 2. With softening 1.5 the softened distance is 2.5, so
/// a = m 2 / 2.5³ and φ = -m / 2.5.
#[test]
fn forces_of_two_bodies_match_the_analytic_values() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    for solver in ["direct", "tree"] {
        for (softening, a, phi) in [("0", [1.25, -0.75], [-2.5, -1.5]), ("1.5", [0.64, -0.384], [-2.0, -1.2])]
        {
            dir.stdout_of(&[
                "forces",
                "pair.xyz",
                "--solver",
                solver,
                "--softening",
                softening,
                "--precision",
                "double",
                "--force",
            ]);
            let file = dir.bytes("forces.npz");
            let ids = npz_array(&file, "id", "<u8", "(2,)");
            assert_eq!(ids, [10u64, 20].map(u64::to_le_bytes).concat());
            let acceleration = npz_numbers(&file, "acceleration", "(2,3,)");
            let expected = [a[0], 0.0, 0.0, a[1], 0.0, 0.0];
            let potential = npz_numbers(&file, "potential", "(2,)");
            for (got, expected) in acceleration.iter().chain(&potential).zip(expected.iter().chain(&phi)) {
                assert!((got - expected).abs() < 1e-14, "{solver}, {softening}: {got}, expected {expected}");
            }
        }
    }
}

#[test]
fn accuracy_prints_the_errors_of_the_tree() {
    let dir = TestDir::new();
    dir.stdout_of(&["ic", "plummer", "-n", "3000", "-o", "sphere.npz"]);
    let rms = |theta: &str| {
        let stdout = dir.stdout_of(&["accuracy", "sphere.npz", "--solver", "tree", "--theta", theta]);
        let softening = "softening: 0 (default, the file records none)\n";
        let stdout = after_device(&stdout).strip_prefix(softening).expect("the softening");
        assert!(stdout.starts_with("3000 bodies, tree solver, mixed precision\n"), "{stdout}");
        let values: Vec<(&str, f64)> = stdout
            .lines()
            .skip(2)
            .map(two_words)
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect();
        assert_eq!(
            values.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["median", "99%", "99.99%", "max", "rms"]
        );
        assert!(values[..4].is_sorted_by_key(|(_, value)| *value), "{stdout}");
        values[4].1
    };
    let (fine, coarse) = (rms("0.5"), rms("0.9"));
    assert!(fine < 1e-3 && fine > 1e-6, "{fine}");
    assert!(coarse > fine, "{coarse} at 0.9, {fine} at 0.5");
    let stdout = dir.stdout_of(&[
        "accuracy",
        "sphere.npz",
        "--solver",
        "direct",
        "--precision",
        "double",
        "--sample",
        "10",
    ]);
    assert!(stdout.contains("10 bodies against the f64 all-pairs sum"), "{stdout}");
    let rms: f64 = two_words(stdout.lines().last().unwrap()).1.parse().unwrap();
    assert!(rms < 1e-13, "{stdout}");
}

/// Returns the output after the line that names the device.
fn after_device(stdout: &str) -> &str {
    let (first, rest) = stdout.split_once('\n').expect("a line");
    assert!(first.starts_with("device: "), "{stdout}");
    rest
}

fn two_words(line: &str) -> (&str, &str) {
    let mut words = line.split_whitespace();
    (words.next().expect("a name"), words.next().expect("a value"))
}

#[test]
fn analyze_reads_a_run_or_a_snapshot() {
    let dir = TestDir::new();
    let sets = [
        "bodies.n=1000",
        "time.end=0.05",
        "output.snapshot_every=0.01",
        "output.image_every=0",
        "image.size=64",
    ];
    dir.run("plummer", "out", &sets);
    let stdout = dir.stdout_of(&["analyze", "out"]);
    assert!(after_device(&stdout).starts_with("6 snapshots, nbody units, softening 0.01\n"), "{stdout}");
    assert!(
        stdout.ends_with(
            "wrote conserved, lagrangian and profile as .csv and .svg and species.csv to out/analysis\n"
        ),
        "{stdout}"
    );
    let names =
        ["conserved", "lagrangian", "profile"].map(|name| [format!("{name}.csv"), format!("{name}.svg")]);
    let names: Vec<String> = names.concat().into_iter().chain(["species.csv".to_owned()]).collect();
    assert_eq!(dir.list("out/analysis"), names);
    let rows = |name: &str| dir.text(&format!("out/analysis/{name}.csv")).lines().count() - 1;
    assert_eq!([rows("conserved"), rows("lagrangian")], [6, 6]);
    // Half of a Plummer sphere's mass lies within 0.769.
    let last = dir.text("out/analysis/lagrangian.csv").lines().last().unwrap().to_owned();
    let half: f64 = last.split(',').nth(3).unwrap().parse().unwrap();
    assert!((half - 0.769).abs() < 0.1, "{half}");
    let counted: usize = dir
        .text("out/analysis/profile.csv")
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(2).unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(counted, 1000);
    // The energies computed from the snapshots are those that the run wrote.
    let energies = |name: &str| {
        let text = dir.text(name);
        let row = text.lines().nth(1).unwrap().to_owned();
        row.split(',').skip(1).take(4).map(|x| x.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    for (a, b) in energies("out/conserved.csv").into_iter().zip(energies("out/analysis/conserved.csv")) {
        assert!((a - b).abs() <= 1e-12 * a.abs(), "{a} and {b}");
    }

    let before = dir.content();
    let stdout = dir.stdout_of(&["analyze", "out/snapshots/snapshot_000.hdf5", "--softening", "0.5"]);
    assert!(after_device(&stdout).starts_with("1 snapshot, nbody units, softening 0.5\n"), "{stdout}");
    assert!(dir.content() == before, "analyze of a snapshot wrote files without --output");
    dir.stdout_of(&["analyze", "out/snapshots/snapshot_000.hdf5", "-o", "one"]);
    assert_eq!(dir.list("one").len(), 7);
}

/// The softening is read from the run's directory, so the file with the initial bodies may be
/// deleted.
#[test]
fn analyze_finds_the_softening_of_a_run_from_a_file() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", from_file("pair.xyz"));
    dir.run("pair.toml", "out", &["gravity.softening=0.5"]);
    std::fs::remove_file(dir.path("pair.xyz")).unwrap();
    let stdout = dir.stdout_of(&["analyze", "out"]);
    assert!(after_device(&stdout).starts_with("2 snapshots, nbody units, softening 0.5\n"), "{stdout}");
}

#[test]
fn bench_prints_a_table_and_writes_json() {
    let dir = TestDir::new();
    let stdout = dir.stdout_of(&["bench", "direct", "-n", "512", "--repeats", "1", "--json", "bench.json"]);
    assert!(stdout.contains("20 flops per pair"), "{stdout}");
    dir.stdout_of(&[
        "bench",
        "tree",
        "-n",
        "2000",
        "--repeats",
        "1",
        "--theta",
        "0.6",
        "--json",
        "tree.json",
    ]);
    for (file, case, unit, count) in
        [("bench.json", "direct", "interactions/s", 3), ("tree.json", "tree", "bodies/s", 1)]
    {
        let json: serde_json::Value = serde_json::from_str(&dir.text(file)).unwrap();
        assert!(json["machine"]["cpu"].is_string() && json["machine"]["cores"].is_u64(), "{json:#}");
        assert_eq!(json["device"]["kind"], "cpu");
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), count);
        for result in results {
            assert_eq!((&result["case"], &result["unit"]), (&case.into(), &unit.into()));
            assert!(result["n"] == 512 || result["n"] == 2000);
            assert!(result["precision"].is_string() && result["strategy"]["name"] == case, "{result:#}");
            for number in ["seconds", "rate"] {
                assert!(result[number].as_f64().unwrap() > 0.0, "{number} in {result:#}");
            }
            assert!(result["error"]["median"].as_f64().unwrap() < 1e-2, "{result:#}");
        }
    }
}

/// A reader that closes the pipe early must not cause a panic.
#[test]
#[cfg(unix)]
fn a_closed_pipe_is_not_an_error() {
    let dir = TestDir::new();
    for command in ["presets", "man", "completions zsh", "run plummer --dry-run", "--help"] {
        let line = format!("'{}' {command} | true", env!("CARGO_BIN_EXE_orrery"));
        let mut shell = assert_cmd::Command::new("sh");
        let output = shell.current_dir(dir.path("")).args(["-c", &line]).output().unwrap();
        assert_eq!(text(&output.stderr), "", "{command}");
    }
}

/// The gravitational constant follows from the units, so a file without units causes a warning.
#[test]
fn files_without_units_cause_a_warning() {
    let dir = TestDir::new();
    dir.write(
        "foreign.xyz",
        b"2\nProperties=species:S:1:pos:R:3:vel:R:3:mass:R:1\nX 0 0 0 0 0 0 1\nX 1 0 0 0 0 0 1\n",
    );
    for arguments in [
        &["forces", "foreign.xyz", "-o", "f.npz"][..],
        &["accuracy", "foreign.xyz"],
        &["analyze", "foreign.xyz"],
    ] {
        let output = dir.orrery(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr, "warning: foreign.xyz: the file names no units, galactic units are assumed\n");
        assert!(output.status.success());
    }
    dir.write("case.toml", from_file("foreign.xyz") + "[limits]\nenergy_error = \"none\"\n");
    // With --quiet, a warning names the run.
    for (flag, run) in [("--quiet", "out/case: "), ("--dry-run", "")] {
        let output = dir.orrery(&["run", "case.toml", flag]);
        let stderr = text(&output.stderr);
        assert_eq!(
            stderr,
            format!(
                "warning: {run}foreign.xyz: the file names no units, those of the case are used: nbody\n"
            )
        );
        assert!(output.status.success());
    }
}
