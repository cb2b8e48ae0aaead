//! Checkpoints of earlier versions: each can still be read and resumed. `golden/` contains one
//! small file per version of the layout. It was written by that version and is never written again.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, resume};
use orrery_io::{Block, Limits, parse_checkpoint, read_checkpoint};

/// The files with their version, step and time.
const GOLDEN: [(&str, u32, u64, f64); 1] = [("version-1.orrery", 1, 3, 0.375)];

fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn checkpoints_of_every_version_resume() {
    for (name, version, step, time) in GOLDEN {
        let checkpoint = read_checkpoint(&golden_path(name), &Limits::default()).unwrap();
        assert_eq!(checkpoint.version, version);
        let names: Vec<_> = checkpoint.blocks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..4], ["mass", "id", "species", "position.x"]);
        assert_eq!(checkpoint.blocks[0].1, Block::Reals(vec![3.0, 4.0, 5.0]));
        assert_eq!(checkpoint.blocks[1].1, Block::Integers(vec![0, 1, 2]));

        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("checkpoints");
        fs::create_dir(&folder).unwrap();
        fs::copy(golden_path(name), folder.join("checkpoint_000000003.orrery")).unwrap();
        let mut from = None;
        // The rows and frames of that run no longer exist, so the outputs are restarted.
        let run = Resume { folder: dir.path(), sets: &[], restart_outputs: true };
        let summary = resume(&run, &Control::default(), |event| {
            if let RunEvent::Resumed { step, time, .. } = event {
                from = Some((step, time));
            }
        });
        let summary = summary.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((from, summary.step), (Some((step, time)), 8), "{name}");
        let (first, last) = summary.first_and_last;
        // The three bodies of Burrau's problem before their first close encounter: the energy is
        // conserved to the order of the integrator.
        assert!((last.total_energy() / first.total_energy() - 1.0).abs() < 1e-3, "{name}: {last:?}");
    }
}

/// Flips every bit of every byte, and cuts the file at every length.
#[test]
fn every_damage_to_a_checkpoint_is_detected() {
    let whole = fs::read(golden_path("version-1.orrery")).unwrap();
    assert!(parse_checkpoint(&whole).is_ok());
    let mut bytes = whole.clone();
    for index in 0..whole.len() {
        for bit in 0..8 {
            bytes[index] ^= 1 << bit;
            assert!(parse_checkpoint(&bytes).is_err(), "bit {bit} of byte {index}");
            bytes[index] ^= 1 << bit;
        }
        assert!(parse_checkpoint(&whole[..index]).is_err(), "cut at {index}");
    }
}
