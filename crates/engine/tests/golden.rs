//! Checkpoints that earlier versions wrote: each still loads and goes on. One small file a version of the
//! layout lies in `golden/`; it was made by the version that it names and is never made again.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, resume};
use orrery_io::{Block, Limits, parse_checkpoint, read_checkpoint};

/// The files, with their version, and the step and time they were written at.
const GOLDEN: [(&str, u32, u64, f64); 1] = [("version-1.orrery", 1, 3, 0.375)];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn every_version_goes_on() {
    for (name, version, step, time) in GOLDEN {
        let checkpoint = read_checkpoint(&golden(name), &Limits::default()).unwrap();
        assert_eq!(checkpoint.version, version);
        let names: Vec<_> = checkpoint.blocks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..4], ["mass", "id", "species", "position.x"]);
        assert_eq!(checkpoint.blocks[0].1, Block::Reals(vec![3.0, 4.0, 5.0]));
        assert_eq!(checkpoint.blocks[1].1, Block::Integers(vec![0, 1, 2]));

        let room = tempfile::tempdir().unwrap();
        let folder = room.path().join("checkpoints");
        fs::create_dir(&folder).unwrap();
        fs::copy(golden(name), folder.join("checkpoint_000000003.orrery")).unwrap();
        let mut from = None;
        // The rows and frames of that run are long gone: they begin anew.
        let run = Resume { folder: room.path(), sets: &[], restart_outputs: true };
        let summary = resume(&run, &Control::default(), |event| {
            if let RunEvent::Resumed { step, time, .. } = event {
                from = Some((step, time));
            }
        });
        let summary = summary.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((from, summary.step), (Some((step, time)), 8), "{name}");
        let (first, last) = summary.first_and_last;
        // Burrau's three bodies, far from their first encounter: the energy is kept to the method's order.
        assert!((last.total_energy() / first.total_energy() - 1.0).abs() < 1e-3, "{name}: {last:?}");
    }
}

/// Every bit of every byte, and every length.
#[test]
fn no_damage_to_a_real_one_goes_unnoticed() {
    let whole = fs::read(golden("version-1.orrery")).unwrap();
    assert!(parse_checkpoint(&whole).is_ok());
    let mut bytes = whole.clone();
    for at in 0..whole.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(parse_checkpoint(&bytes).is_err(), "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
        assert!(parse_checkpoint(&whole[..at]).is_err(), "cut at {at}");
    }
}
