//! `info` and `convert` of every file that a run writes: it is read, or refused in one line that
//! names what can be read.

use std::collections::BTreeSet;

use crate::common::{TestDir, text};

/// A short run of each physics with all kinds of output: preset and settings.
const RUNS: [(&str, &[&str]); 4] = [
    ("plummer", &["bodies.n=20", "time.step=0.01", "time.end=0.02", "output.snapshot_every=1 step"]),
    ("hot-plate", &["grid.nx=12", "grid.ny=16", "time.step=0.25 s", "time.end=0.5 s"]),
    (
        "two-layer-shot",
        &[
            "grid.nx=24",
            "grid.ny=20",
            "wave.layer_nodes=6",
            "wave.layer=[{ top = 0, velocity = 1500 }, { top = 50, velocity = 2800 }]",
            "wave.source=[{ x = 40, y = 20, wavelet = \"sine\", frequency = 25 }]",
            "wave.receivers=[{ x = 42, y = 20, count = 3, dx = 1 }]",
            "time.step=0.5 ms",
            "time.end=3 ms",
        ],
    ),
    (
        "argon",
        &[
            "particles.cells=4",
            "lennard_jones.cutoff=1.9",
            "structure.every=2 steps",
            "structure.radius=11 angstrom",
            "structure.from=0.02",
            "thermostat.time=10 fs",
            "thermostat.until=50 fs",
            "time.end=100 fs",
            "output.snapshot_every=50 fs",
            "image.size=96",
        ],
    ),
];

/// Extensions of files that neither command reads.
const OTHERS: [&str; 7] = ["csv", "toml", "txt", "log", "svg", "gif", "mp4"];

/// Returns the message of a refusal, or `None` if the command succeeded.
fn refusal(dir: &TestDir, arguments: &[&str]) -> Option<String> {
    let output = dir.orrery(arguments);
    let message = text(&output.stderr);
    if output.status.success() {
        return None;
    }
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{arguments:?}: {message}");
    Some(message)
}

#[test]
fn every_file_of_a_run_is_read_or_refused_with_what_can_be_read() {
    for (preset, sets) in RUNS {
        let dir = TestDir::new();
        dir.run(preset, "out", sets);
        let mut kinds = BTreeSet::new();
        for (path, bytes) in dir.content() {
            let name = path.strip_prefix(dir.path("")).unwrap().display().to_string();
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            let is_file_of_run = name.starts_with("out/") && bytes.is_some();
            if !is_file_of_run || !kinds.insert(extension.clone()) {
                continue;
            }
            let info = refusal(&dir, &["info", &name]);
            let is_other = OTHERS.contains(&extension.as_str());
            assert_eq!(info.is_some(), is_other, "{name}: {info:?}");
            let target = match extension.as_str() {
                "npy" | "vti" | "png" => "copy.vti",
                "sgy" => "copy.npy",
                _ => "copy.npz",
            };
            let converted = refusal(&dir, &["convert", &name, target, "--force"]);
            let is_refused = is_other || ["orrery", "gsd"].contains(&extension.as_str());
            assert_eq!(converted.is_some(), is_refused, "{name}: {converted:?}");
            for message in [info, converted].into_iter().flatten() {
                assert!(message.starts_with(&format!("error: {name} ")), "{message}");
                assert!(
                    message.contains(", expected a snapshot (.hdf5, .xyz, .npz, GADGET binary), a field")
                );
            }
        }
        assert!(kinds.len() >= 7, "{preset}: {kinds:?}");
    }
}

/// The trajectory in extended XYZ may have any name. A snapshot of bodies may be called `.txt`.
#[test]
fn content_decides_before_the_name() {
    let dir = TestDir::new();
    let (preset, sets) = RUNS[3];
    dir.run(preset, "out", &[sets, &["output.format=xyz"]].concat());
    std::fs::copy(dir.path("out/trajectory.xyz"), dir.path("copy.xyz")).unwrap();
    assert!(dir.stdout_of(&["info", "copy.xyz"]).contains("  particles  "));
    for name in ["out/trajectory.xyz", "copy.xyz"] {
        let message = refusal(&dir, &["convert", name, "new.hdf5"]).unwrap();
        assert!(message.starts_with(&format!("error: {name} has particles of a fluid (OVITO")), "{message}");
    }
    dir.write("bodies.txt", crate::common::PAIR);
    assert!(dir.stdout_of(&["info", "bodies.txt"]).contains("  bodies     2"));
    let folder = refusal(&dir, &["info", "out"]).unwrap();
    assert!(folder.contains("orrery check compares its files"), "{folder}");
}
