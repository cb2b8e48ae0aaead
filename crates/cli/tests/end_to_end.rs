//! Every command but `run`, as a user would give it, with its answers checked.

mod common;

use std::io::Read;

use common::{PAIR, Room, gadget, text};

/// The numbers of an f64 array in an .npz file, after checking its type and shape.
fn npz_numbers(bytes: &[u8], name: &str, shape: &str) -> Vec<f64> {
    let data = npz_array(bytes, name, "<f8", shape);
    data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn npz_array(bytes: &[u8], name: &str, kind: &str, shape: &str) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("a zip archive");
    let mut array = Vec::new();
    archive.by_name(&format!("{name}.npy")).expect(name).read_to_end(&mut array).unwrap();
    assert!(array.starts_with(b"\x93NUMPY\x01\x00"), "{name} is no array");
    let end = 10 + usize::from(u16::from_le_bytes([array[8], array[9]]));
    let header = text(&array[10..end]).replace(' ', "");
    assert!(header.contains(&format!("'descr':'{kind}'")), "{name}: {header}");
    assert!(header.contains(&format!("'shape':{shape}")), "{name}: {header}");
    array.split_off(end)
}

#[test]
fn help_names_every_command() {
    let room = Room::new();
    let help = room.says(&["--help"]);
    for command in [
        "run",
        "presets",
        "init",
        "ic",
        "info",
        "convert",
        "forces",
        "accuracy",
        "analyze",
        "bench",
        "completions",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        assert!(room.says(&[command, "--help"]).contains("Usage: orrery "), "{command}");
    }
    assert_eq!(room.says(&["--version"]), format!("orrery {}\n", env!("CARGO_PKG_VERSION")));
}

/// At 80 columns nothing is cut or runs over; wider terminals are used up to 100.
#[test]
fn help_fits_the_terminal() {
    let room = Room::new();
    for command in ["", "run", "init", "ic", "info", "convert", "forces", "accuracy", "analyze", "bench"] {
        for flag in ["-h", "--help"] {
            for (columns, widest) in [("80", 80), ("250", 100)] {
                let arguments: Vec<_> = [command, flag].into_iter().filter(|word| !word.is_empty()).collect();
                let output = room.command(&arguments).env("COLUMNS", columns).output().unwrap();
                for line in text(&output.stdout).lines() {
                    let width = line.chars().count();
                    assert!(width <= widest, "orrery {command} {flag}: {width} columns: {line}");
                    // A lone word at the far right would mean that wrapping had no room.
                    assert!(
                        width - line.trim_start().chars().count() <= 40,
                        "orrery {command} {flag}: {line}"
                    );
                }
            }
        }
    }
}

#[test]
fn presets_are_listed_with_what_they_show() {
    let listed = Room::new().says(&["presets"]);
    let names: Vec<_> = listed.lines().map(|line| line.split_once("  ").expect("a description").0).collect();
    assert_eq!(
        names.iter().map(|name| name.trim()).collect::<Vec<_>>(),
        ["galaxy-collision", "plummer", "cold-collapse", "solar-system", "figure-eight", "pythagorean"]
    );
}

#[test]
fn ic_makes_every_model() {
    let room = Room::new();
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
            assert_eq!(room.says(&arguments), format!("wrote {count} bodies to {file}\n"));
            room.bytes(file)
        };
        let [first, second] = ["a", "b"].map(|name| make(&format!("{model}-{name}.hdf5"), "5"));
        assert!(first == second, "{model}: equal seeds, other bytes");
        let snapshot = room.snapshot(&format!("{model}-a.hdf5"));
        snapshot.particles.validate().unwrap();
        assert_eq!((snapshot.particles.len(), snapshot.time, snapshot.step), (count, 0.0, 0));
        if count >= 100 && model != "encounter" {
            make(&format!("{model}-c.hdf5"), "6");
            let other = room.snapshot(&format!("{model}-c.hdf5"));
            assert!(snapshot.particles != other.particles, "{model}: other seeds, equal bodies");
        }
    }
}

#[test]
fn ic_takes_units_and_parameters() {
    let room = Room::new();
    let set = ["--set", "semi_major_axis=2", "--set", "eccentricity=0"];
    room.says(&[&["ic", "kepler", "-o", "pair.npz", "--units", "solar"], &set[..]].concat());
    let pair = room.snapshot("pair.npz");
    assert_eq!(pair.units.name(), "solar");
    let [a, b] = [0, 1].map(|i| pair.particles.position.get(i));
    let distance = (0..3).map(|c| (a[c] - b[c]).powi(2)).sum::<f64>().sqrt();
    assert!((distance - 2.0).abs() < 1e-12, "{distance}");
    room.says(&["ic", "figure-eight", "-o", "pair.npz", "--force"]);
    assert_eq!(room.snapshot("pair.npz").particles.len(), 3);
}

#[test]
fn info_tells_what_a_file_holds() {
    let room = Room::new();
    room.says(&["ic", "galaxy", "-n", "1000", "-o", "galaxy.hdf5"]);
    let said = room.says(&["info", "galaxy.hdf5"]);
    for line in [
        "galaxy.hdf5",
        "  format     GADGET HDF5",
        "  bodies     1000 (500 halo, 400 disc, 100 bulge)",
        "  time       0 Myr after 0 steps",
        "  units      galactic",
        "  seed       1",
    ] {
        assert!(said.lines().any(|found| found == line), "{line:?} in\n{said}");
    }
    room.write("pair.xyz", PAIR);
    let said = room.says(&["info", "pair.xyz"]);
    assert!(said.contains("  format     extended XYZ\n  bodies     2 (2 halo)\n"), "{said}");
    assert!(said.contains("  mass       8.000000\n  x          0.000000 to 2.000000\n"), "{said}");
    room.write("old.dat", gadget(7));
    let said = room.says(&["info", "old.dat"]);
    assert!(said.contains("  format     GADGET binary\n  bodies     7 (7 halo)\n"), "{said}");
}

/// Through every format and back: the same bodies, to the bit.
#[test]
fn convert_loses_nothing() {
    let room = Room::new();
    room.says(&["ic", "galaxy", "-n", "500", "-o", "a.hdf5"]);
    for (from, to) in [("a.hdf5", "b.npz"), ("b.npz", "c.xyz"), ("c.xyz", "d.h5")] {
        assert_eq!(room.says(&["convert", from, to]), format!("wrote 500 bodies to {to}\n"));
    }
    let [first, last] = ["a.hdf5", "d.h5"].map(|name| room.snapshot(name));
    assert!(first.particles == last.particles);
    assert_eq!((first.time, first.units, first.provenance), (last.time, last.units, last.provenance));
    room.write("old.dat", gadget(7));
    room.says(&["convert", "old.dat", "new.xyz"]);
    assert_eq!(room.snapshot("new.xyz").particles.position.x, [0., 1., 2., 3., 4., 5., 6.]);
}

/// Masses 3 and 5 at a distance of 2. Softened by 1.5 the distance counts as 2.5: a = m 2 / 2.5³, φ = -m / 2.5.
#[test]
fn forces_of_two_bodies_are_those_on_paper() {
    let room = Room::new();
    room.write("pair.xyz", PAIR);
    for solver in ["direct", "tree"] {
        for (softening, a, phi) in [("0", [1.25, -0.75], [-2.5, -1.5]), ("1.5", [0.64, -0.384], [-2.0, -1.2])]
        {
            room.says(&[
                "forces",
                "pair.xyz",
                "--solver",
                solver,
                "--softening",
                softening,
                "--precision",
                "double",
            ]);
            let file = room.bytes("forces.npz");
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
fn accuracy_measures_the_tree() {
    let room = Room::new();
    room.says(&["ic", "plummer", "-n", "3000", "-o", "sphere.npz"]);
    let rms = |theta: &str| {
        let said = room.says(&["accuracy", "sphere.npz", "--solver", "tree", "--theta", theta]);
        let said = after_device(&said);
        assert!(said.starts_with("3000 bodies, 3000 of them compared"), "{said}");
        let values: Vec<(&str, f64)> =
            said.lines().skip(2).map(two_words).map(|(name, value)| (name, value.parse().unwrap())).collect();
        assert_eq!(
            values.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["median", "99%", "99.99%", "max", "rms"]
        );
        assert!(values[..4].is_sorted_by_key(|(_, value)| *value), "{said}");
        values[4].1
    };
    let (fine, coarse) = (rms("0.5"), rms("0.9"));
    assert!(fine < 1e-3 && fine > 1e-6, "{fine}");
    assert!(coarse > fine, "{coarse} at 0.9, {fine} at 0.5");
    let said = room.says(&[
        "accuracy",
        "sphere.npz",
        "--solver",
        "direct",
        "--precision",
        "double",
        "--sample",
        "10",
    ]);
    assert!(said.contains("10 of them"), "{said}");
    let rms: f64 = two_words(said.lines().last().unwrap()).1.parse().unwrap();
    assert!(rms < 1e-13, "{said}");
}

/// What follows the line that names the device.
fn after_device(said: &str) -> &str {
    let (first, rest) = said.split_once('\n').expect("a line");
    assert!(first.starts_with("device: "), "{said}");
    rest
}

fn two_words(line: &str) -> (&str, &str) {
    let mut words = line.split_whitespace();
    (words.next().expect("a name"), words.next().expect("a value"))
}

#[test]
fn analyze_measures_a_run_and_a_file() {
    let room = Room::new();
    let sets = [
        "bodies.n=1000",
        "time.end=0.05",
        "output.snapshot_every=0.01",
        "output.image_every=0",
        "image.size=64",
    ];
    room.run("plummer", "out", &sets);
    let said = room.says(&["analyze", "out"]);
    assert!(after_device(&said).starts_with("6 snapshots, nbody units, softening 0.01\n"), "{said}");
    assert!(
        said.ends_with("wrote conserved, lagrangian and profile as .csv and .svg to out/analysis\n"),
        "{said}"
    );
    let names =
        ["conserved", "lagrangian", "profile"].map(|name| [format!("{name}.csv"), format!("{name}.svg")]);
    assert_eq!(room.list("out/analysis"), names.concat());
    let rows = |name: &str| room.text(&format!("out/analysis/{name}.csv")).lines().count() - 1;
    assert_eq!([rows("conserved"), rows("lagrangian")], [6, 6]);
    // Half of a Plummer sphere's mass lies within 0.769.
    let last = room.text("out/analysis/lagrangian.csv").lines().last().unwrap().to_owned();
    let half: f64 = last.split(',').nth(3).unwrap().parse().unwrap();
    assert!((half - 0.769).abs() < 0.1, "{half}");
    let counted: usize = room
        .text("out/analysis/profile.csv")
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(2).unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(counted, 1000);
    // What analyze reads off the snapshots is what the run wrote while it ran.
    let energies = |name: &str| {
        let text = room.text(name);
        let row = text.lines().nth(1).unwrap().to_owned();
        row.split(',').skip(1).take(4).map(|x| x.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    for (a, b) in energies("out/conserved.csv").into_iter().zip(energies("out/analysis/conserved.csv")) {
        assert!((a - b).abs() <= 1e-12 * a.abs(), "{a} and {b}");
    }

    let before = room.content();
    let said = room.says(&["analyze", "out/snapshots/snapshot_000.hdf5", "--softening", "0.5"]);
    assert!(after_device(&said).starts_with("1 snapshot, nbody units, softening 0.5\n"), "{said}");
    assert!(room.content() == before, "analyze of a file wrote without being asked");
    room.says(&["analyze", "out/snapshots/snapshot_000.hdf5", "-o", "one"]);
    assert_eq!(room.list("one").len(), 6);
}

/// The softening of a run that started from a file is known even when that file is gone.
#[test]
fn analyze_knows_the_softening_of_a_run_from_a_file() {
    let room = Room::new();
    room.write("pair.xyz", PAIR);
    room.write("pair.toml", common::from_file("pair.xyz"));
    room.run("pair.toml", "out", &["gravity.softening=0.5"]);
    std::fs::remove_file(room.path("pair.xyz")).unwrap();
    let said = room.says(&["analyze", "out"]);
    assert!(after_device(&said).starts_with("2 snapshots, nbody units, softening 0.5\n"), "{said}");
}

#[test]
fn bench_reports_in_words_and_json() {
    let room = Room::new();
    let said = room.says(&["bench", "direct", "-n", "512", "--repeats", "1", "--json", "bench.json"]);
    assert!(said.contains("20 flops a pair"), "{said}");
    room.says(&["bench", "tree", "-n", "2000", "--repeats", "1", "--theta", "0.6", "--json", "tree.json"]);
    for (file, case, unit, count) in
        [("bench.json", "direct", "interactions/s", 3), ("tree.json", "tree", "bodies/s", 1)]
    {
        let json: serde_json::Value = serde_json::from_str(&room.text(file)).unwrap();
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

#[test]
fn completions_and_man_page_come_from_the_flags() {
    let room = Room::new();
    for (shell, sign) in
        [("bash", "complete -F _orrery"), ("zsh", "#compdef orrery"), ("fish", "complete -c orrery")]
    {
        let script = room.says(&["completions", shell]);
        assert!(script.contains(sign) && script.contains("dry-run"), "{shell}");
    }
    let page = room.says(&["man"]);
    assert!(page.starts_with(".ie ") || page.starts_with(".TH "), "{}", &page[..20]);
    for word in ["galaxy\\-collision", "\\-\\-dry\\-run", "\\-\\-softening", "\\-\\-json"] {
        assert!(page.contains(word), "{word}");
    }
}

/// A reader that goes away early is no reason to panic.
#[test]
#[cfg(unix)]
fn a_closed_pipe_is_no_error() {
    let room = Room::new();
    for command in ["presets", "man", "completions zsh", "run plummer --dry-run", "--help"] {
        let line = format!("'{}' {command} | true", env!("CARGO_BIN_EXE_orrery"));
        let mut shell = assert_cmd::Command::new("sh");
        let output = shell.current_dir(room.path("")).args(["-c", &line]).output().unwrap();
        assert_eq!(text(&output.stderr), "", "{command}");
    }
}

/// A plain file from elsewhere says nothing of its units; the constant of gravity is then a guess, and said to be one.
#[test]
fn files_without_units_are_warned_of() {
    let room = Room::new();
    room.write(
        "foreign.xyz",
        b"2\nProperties=species:S:1:pos:R:3:vel:R:3:mass:R:1\nX 0 0 0 0 0 0 1\nX 1 0 0 0 0 0 1\n",
    );
    for arguments in [
        &["forces", "foreign.xyz", "-o", "f.npz"][..],
        &["accuracy", "foreign.xyz"],
        &["analyze", "foreign.xyz"],
    ] {
        let output = room.orrery(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "warning: foreign.xyz: names no units; galactic ones are assumed\n");
        assert!(output.status.success());
    }
}
