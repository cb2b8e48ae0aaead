//! Randomly changed input files give an error of one line and never a panic.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use orrery_device::testing::SplitMix64;
use orrery_engine::case::{Case, CaseSource, presets};
use orrery_formats::Limits;

use crate::common::{self, PAIR, TestDir, gadget_binary};

/// Number of changed copies per file.
const TRIALS: u64 = 200;

/// Applies one to eight edits: replaces, inserts or removes a byte, or copies a piece to another
/// position.
fn mutated(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes.insert(at, b" =[]\".#-9e\n\0\xff"[random.below(13)]),
            2 => drop(bytes.remove(at)),
            _ => {
                let piece: Vec<u8> = bytes[at..].iter().take(1 + random.below(32)).copied().collect();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}

fn is_one_line(message: &str) -> bool {
    !message.is_empty() && !message.contains(char::is_control)
}

#[test]
fn no_mutated_case_panics() {
    let (mut accepted, mut refused) = (0, 0);
    for preset in presets() {
        for k in 0..TRIALS / 4 {
            let bytes = mutated(preset.text.as_bytes(), 1000 * preset.text.len() as u64 + k);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let source =
                CaseSource::Text { label: "case".into(), text: text.clone(), folder: PathBuf::new() };
            let outcome = catch_unwind(|| Case::load(&source, &[]));
            match outcome.unwrap_or_else(|_| panic!("{} {k} panics:\n{text}", preset.name)) {
                Ok(case) => {
                    // The resolved text of an accepted case is accepted as well.
                    let again = CaseSource::Text {
                        label: "again".into(),
                        text: case.to_toml(),
                        folder: PathBuf::new(),
                    };
                    assert_eq!(Case::load(&again, &[]).unwrap_or_else(|e| panic!("{e}\n{text}")), case);
                    accepted += 1;
                }
                Err(error) => {
                    assert!(is_one_line(&error.to_string()), "{error}\n{text}");
                    refused += 1;
                }
            }
        }
    }
    assert!(
        accepted + refused >= TRIALS && accepted > 10 && refused > 50,
        "{accepted} accepted, {refused} refused"
    );
}

/// Runs some of them through the command line.
#[test]
fn no_mutated_case_breaks_a_dry_run() {
    let dir = TestDir::new();
    for (k, preset) in (0u64..).zip(presets().iter().cycle().take(24)) {
        dir.write("case.toml", mutated(preset.text.as_bytes(), k));
        let before = dir.content();
        let output = dir.orrery(&["run", "case.toml", "--dry-run"]);
        let stderr = common::text(&output.stderr);
        match output.status.code() {
            Some(0) => assert_eq!(stderr, ""),
            Some(2) => assert!(stderr.starts_with("error: ") && is_one_line(stderr.trim_end()), "{stderr}"),
            other => panic!("status {other:?}: {stderr}"),
        }
        assert!(dir.content() == before, "a dry run wrote files");
    }
}

#[test]
fn no_mutated_snapshot_panics() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("old.dat", gadget_binary(7));
    for file in ["sphere.hdf5", "sphere.npz", "sphere.xyz"] {
        dir.stdout_of(&["ic", "plummer", "-n", "5", "-o", file]);
    }
    for file in ["sphere.hdf5", "sphere.npz", "sphere.xyz", "pair.xyz", "old.dat"] {
        let whole = dir.bytes(file);
        let mut refused = 0;
        for k in 0..TRIALS {
            let name = format!("changed-{file}");
            dir.write(&name, mutated(&whole, 7 * k + 1));
            let path = dir.path(&name);
            match catch_unwind(|| read_and_validate(&path))
                .unwrap_or_else(|_| panic!("{file}, edit {k} panics"))
            {
                Ok(()) => {}
                Err(message) => {
                    assert!(is_one_line(&message), "{file}, edit {k}: {message:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > TRIALS / 4, "{file}: only {refused} of {TRIALS} refused");
    }
}

/// Reads a file and validates its bodies, as the commands do.
fn read_and_validate(path: &Path) -> Result<(), String> {
    let snapshot = orrery_formats::read_snapshot(path, &Limits::default()).map_err(|e| e.to_string())?;
    snapshot.particles.validate().map_err(|e| e.to_string())
}
