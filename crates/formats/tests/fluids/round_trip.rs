//! Frames that are written and read back, and appended again.

use std::fs;
use std::path::Path;

use orrery_formats::{FluidFile, FluidFrames, Limits, append_fluid_frame, is_fluid_trajectory};
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::{EXTENSIONS, Trajectory, boxes, periodic_box, read_unlimited};

/// A copy of a folder may consist of hard links, and a link may be to a foreign file.
#[test]
#[cfg(unix)]
fn a_trajectory_does_not_change_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = Trajectory::new(periodic_box(), 5, 3);
    for extension in EXTENSIONS {
        let path = |name: &str| folder.path().join(name).with_extension(extension);
        let (file, other, alone) = (path("file"), path("other"), path("alone"));
        trajectory.append(&file, 0..2);
        trajectory.append(&alone, 0..3);
        let before = fs::read(&file).unwrap();
        fs::hard_link(&file, &other).unwrap();
        trajectory.append(&file, 2..3);
        assert_eq!(fs::read(&other).unwrap(), before, "{extension}");
        assert_eq!(fs::read(&file).unwrap(), fs::read(&alone).unwrap(), "{extension}");
        fs::remove_file(&other).unwrap();
        fs::hard_link(&file, &other).unwrap();
        orrery_formats::remove_fluid_frames(&file, trajectory.frame(1).time).unwrap();
        assert_eq!(fs::read(&other).unwrap(), fs::read(&alone).unwrap(), "{extension}");
        assert!(fs::read(&file).unwrap().len() < before.len(), "{extension}");
    }
}

/// Extended XYZ keeps all bits. GSD keeps those of the box, and f32 numbers of the particles.
#[test]
fn last_frame_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bounds) in boxes() {
        let trajectory = Trajectory::new(bounds, 50, 3);
        let last = &trajectory.frames[2];
        for extension in EXTENSIONS {
            let path = folder.path().join(name).with_extension(extension);
            trajectory.append(&path, 0..3);
            let read = read_unlimited(&path).unwrap();
            assert_eq!(read.bounds, bounds, "{name}.{extension}");
            assert_eq!(read.image.as_ref(), Some(&last.image), "{name}.{extension}");
            assert_eq!((&read.species, &read.id), (&last.species, &last.id), "{name}.{extension}");
            assert_eq!((read.step, read.time), (Some(200), Some(0.2)), "{name}.{extension}");
            assert_eq!(read.species_names, ["A", "B"]);
            assert_eq!(read.mass.as_deref(), Some(&[1.0 / 3.0, 2.5][..]));
            let velocity = read.velocity.unwrap();
            if extension == "xyz" {
                assert_eq!(read.coordinates, last.coordinates());
                assert_eq!(velocity, last.velocity);
            } else {
                check_single_precision(&read.coordinates, &last.coordinates(), &bounds);
                let single = |v: [f64; 3]| v.map(|x| f64::from(x as f32));
                assert!(velocity.iter().zip(last.velocity.iter()).all(|(got, v)| got == single(v)));
            }
        }
    }
}

fn all_frames(path: &Path) -> Result<Vec<FluidFile>, String> {
    let mut frames = FluidFrames::open(path, &Limits::unbounded()).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    while let Some(frame) = frames.next_frame().map_err(|error| error.to_string())? {
        found.push(frame);
    }
    Ok(found)
}

/// Frame k of all frames is the last frame of a file with k + 1 frames.
#[test]
fn all_frames_are_read_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bounds) in boxes() {
        let trajectory = Trajectory::new(bounds, 20, 4);
        for extension in EXTENSIONS {
            let path = folder.path().join(name).with_extension(extension);
            let last = |frame: usize| {
                trajectory.append(&path, frame..frame + 1);
                read_unlimited(&path).unwrap()
            };
            let expected: Vec<FluidFile> = (0..4).map(last).collect();
            assert_eq!(expected[1].units.as_ref().unwrap()["velocity"], "nm/ps");
            assert!(all_frames(&path).unwrap() == expected, "{name}.{extension}");
            assert!(is_fluid_trajectory(&path));
        }
    }
    let path = folder.path().join("empty-lines.xyz");
    fs::write(&path, "1\n\nA 1 2 3\n1\n\nA 2 2 3\n\n\n").unwrap();
    assert_eq!(all_frames(&path).unwrap().len(), 2);
    fs::write(&path, "1\n\nA 1 2 3\n\n1\n\nA 2 2 3\n").unwrap();
    assert!(all_frames(&path).unwrap_err().contains("a frame after an empty line"));
    fs::write(&path, "1\n\nA 1 2 3\n1\n\n").unwrap();
    assert!(all_frames(&path).unwrap_err().contains("end of file"));
}

/// HOOMD writes no chunk that is that of frame 0, so frames may have no entry in the index.
#[test]
fn frames_without_chunks_are_those_of_frame_0() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gsd");
    let trajectory = Trajectory::new(periodic_box(), 5, 2);
    trajectory.append(&path, 0..2);
    let frames = all_frames(&path).unwrap();
    let original = fs::read(&path).unwrap();
    let with_second_frame = |number: u64| {
        let mut bytes = original.clone();
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (index, entries) = (word(&bytes, 8) as usize, word(&bytes, 16) as usize);
        for entry in (0..entries).map(|k| index + 32 * k) {
            if word(&bytes, entry) == 1 && word(&bytes, entry + 16) != 0 {
                bytes[entry..entry + 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        fs::write(&path, bytes).unwrap();
        all_frames(&path)
    };
    let found = with_second_frame(3).unwrap();
    assert_eq!(found.len(), 4);
    assert!(found[..3].iter().all(|frame| *frame == frames[0]) && found[3] == frames[1]);
    let message = with_second_frame(1 << 60).unwrap_err();
    assert!(message.contains("expected at most 1000000 frames without chunks in a row"), "{message}");
}

/// Bonds, charges and rigid bodies are named, because they are not read.
#[test]
fn parts_that_are_not_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gsd");
    Trajectory::new(periodic_box(), 5, 2).append(&path, 0..2);
    let original = fs::read(&path).unwrap();
    let file = read_unlimited(&path).unwrap();
    assert_eq!((file.stated_dimensions, &file.ignored[..]), (Some(3), &[][..]));
    // The step of the last frame is 100, and all particles have a diameter.
    let names = [
        ("configuration/step", "bonds/N", "100 bonds"),
        ("particles/diameter", "particles/charge", "5 charges"),
        ("particles/typeid", "particles/body", "5 particles of rigid bodies"),
    ];
    for (name, other, expected) in names {
        let mut bytes = original.clone();
        // Names of other programs' files are free. Without types, the masses would be different
        // ones of the same species.
        for (name, other) in [("Orrery", "Others"), (name, other), ("particles/mass", "log/none")] {
            let at = bytes.windows(name.len()).position(|found| found == name.as_bytes()).unwrap();
            bytes[at..at + name.len()].fill(0);
            bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
        }
        fs::write(&path, bytes).unwrap();
        assert_eq!(read_unlimited(&path).unwrap().ignored, [expected], "{name}");
    }
    let path = folder.path().join("a.xyz");
    fs::write(&path, "1\n\nA 1 2 3\n").unwrap();
    assert_eq!(read_unlimited(&path).unwrap().stated_dimensions, None);
}

/// Files of bodies are not trajectories, unless they have a lattice or several frames.
#[test]
fn snapshots_of_bodies_are_not_trajectories() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.xyz");
    let columns = "Properties=species:S:1:pos:R:3:vel:R:3:mass:R:1";
    let frame = format!("1\n{columns}\nA 1 2 3 0 0 0 1\n");
    let found = |text: &str| {
        fs::write(&path, text).unwrap();
        is_fluid_trajectory(&path)
    };
    assert!(!found(&frame) && !found(&format!("{frame}\n")));
    assert!(found(&format!("{frame}{frame}")));
    assert!(found(&frame.replace(columns, &format!("{columns} Lattice=\"1 0 0 0 1 0 0 0 1\""))));
    assert!(found("1\n\nA 1 2 3\n"));
    assert!(!is_fluid_trajectory(&folder.path().join("missing.xyz")));
}

/// Checks positions relative to the centre of the box. They are rounded once to f32. The sum with
/// the centre has an error of a few f64 units in the last place.
fn check_single_precision(got: &orrery_model::Vec3s, expected: &orrery_model::Vec3s, bounds: &SimulationBox) {
    for (got, expected) in got.iter().zip(expected.iter()) {
        for axis in 0..bounds.dimensions {
            let centre = bounds.origin[axis] + 0.5 * bounds.lengths[axis];
            let size = expected[axis].abs() + centre.abs() + bounds.lengths[axis];
            let tolerance = (expected[axis] - centre).abs() / f64::from(1 << 24) + 4.0 * f64::EPSILON * size;
            let error = (got[axis] - expected[axis]).abs();
            assert!(error <= tolerance, "{error:e} > {tolerance:e}");
        }
        assert!(bounds.dimensions == 3 || got[2] == 0.0);
    }
}

/// Particles of an open box that another program moved out of its middle get a new box.
#[test]
fn open_box_contains_its_particles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.xyz");
    let text = "2\nLattice=\"4 0 0 0 4 0 0 0 4\" pbc=\"F F F\"\nAr 0 0 0\nAr 1 2 3\n";
    fs::write(&path, text).unwrap();
    let bounds = read_unlimited(&path).unwrap().bounds;
    assert_eq!(bounds, SimulationBox::open([0.0; 3], [1.0, 2.0, 3.0], 3));
    // One particle has no extent.
    fs::write(&path, "1\n\nAr 1 2 3\n").unwrap();
    let bounds = read_unlimited(&path).unwrap().bounds;
    assert_eq!((bounds.sides, bounds.lengths), (BoxSides::Open, [8.0; 3]));
    assert!(bounds.validate().is_ok());
}

/// The bytes depend on the frames only. A resumed run writes some frames again, and may start in
/// the middle of the trajectory. 120 frames need several indices of a GSD file.
#[test]
fn repeated_frames_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = Trajectory::new(periodic_box(), 3, 120);
    for extension in EXTENSIONS {
        let path = |name: &str| folder.path().join(name).with_extension(extension);
        // Bytes after each frame.
        let mut after = Vec::new();
        for index in 0..120 {
            trajectory.append(&path("whole"), index..index + 1);
            after.push(fs::read(path("whole")).unwrap());
        }
        assert_eq!(read_unlimited(&path("whole")).unwrap().step, Some(11_900));
        for (first, second) in [(0, 0), (1, 0), (5, 5), (5, 3), (40, 2), (119, 30), (119, 60), (119, 119)] {
            fs::write(path("part"), &after[first]).unwrap();
            trajectory.append(&path("part"), second..second + 1);
            assert!(fs::read(path("part")).unwrap() == after[second], "{extension}: {first}, {second}");
        }
        trajectory.append(&path("part"), 120 - 1..120);
        trajectory.append(&path("part"), 0..120);
        assert!(fs::read(path("part")).unwrap() == after[119], "{extension}");
    }
}

/// Times need not be equidistant, and a frame with an earlier time replaces later ones. Two frames
/// may have the same step, because outputs can be due between two steps.
#[test]
fn frames_at_or_after_the_time_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = Trajectory::new(periodic_box(), 5, 4);
    for extension in EXTENSIONS {
        let path = folder.path().join("t").with_extension(extension);
        trajectory.append(&path, 0..4);
        let between = orrery_formats::FluidFrame { step: 100, time: 0.15, ..trajectory.frame(3) };
        append_fluid_frame(&path, &between).unwrap();
        let read = read_unlimited(&path).unwrap();
        assert_eq!((read.step, read.time), (Some(100), Some(0.15)));
        let expected = folder.path().join("expected").with_extension(extension);
        trajectory.append(&expected, 0..2);
        append_fluid_frame(&expected, &between).unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(&expected).unwrap());
    }
}

#[test]
fn frames_are_removed_as_if_they_had_never_been_written() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = Trajectory::new(periodic_box(), 5, 30);
    for extension in EXTENSIONS {
        let path = folder.path().join("t").with_extension(extension);
        let expected = folder.path().join("expected").with_extension(extension);
        trajectory.append(&path, 0..30);
        for count in [29, 28, 3, 1] {
            orrery_formats::remove_fluid_frames(&path, trajectory.frame(count).time).unwrap();
            trajectory.append(&expected, 0..count);
            assert!(fs::read(&path).unwrap() == fs::read(&expected).unwrap(), "{count}");
            fs::remove_file(&expected).unwrap();
        }
        orrery_formats::remove_fluid_frames(&path, 0.0).unwrap();
        assert!(!path.exists());
        orrery_formats::remove_fluid_frames(&path, 0.0).unwrap();
    }
}

/// An open box is doubled when a particle leaves its middle, and a fluid may change its size.
#[test]
fn box_and_number_of_particles_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = SimulationBox::open([-1.0; 3], [1.0; 3], 3);
    let (small, large) = (Trajectory::new(bounds, 7, 2), Trajectory::new(bounds.doubled(), 9, 3));
    for extension in EXTENSIONS {
        let path = folder.path().join("t").with_extension(extension);
        small.append(&path, 0..2);
        large.append(&path, 2..3);
        let read = read_unlimited(&path).unwrap();
        assert_eq!((read.bounds, read.id.len()), (bounds.doubled(), 9));
        assert_eq!(read.species, large.frames[2].species);
    }
}

#[test]
fn frames_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = Trajectory::new(periodic_box(), 4, 1);
    let error = |name: &str, frame: &orrery_formats::FluidFrame<'_>| {
        let path = folder.path().join(name);
        let error = append_fluid_frame(&path, frame).unwrap_err().to_string();
        assert!(!path.exists());
        error
    };
    let frame = trajectory.frame(0);
    assert!(error("t.dat", &frame).ends_with("extension: got .dat, expected .gsd, .xyz or .extxyz"));
    assert!(error("t.data", &frame).contains("extension: got .data, expected .gsd"));
    assert!(error("t", &frame).contains("extension: got (none), expected .gsd"));
    let mut short = trajectory.frames[0].clone();
    short.image[1].pop();
    let bad = orrery_formats::FluidFrame { particles: &short, ..frame };
    assert!(error("t.gsd", &bad).ends_with("image has 3 entries, expected 4"));
    let one = [super::species("A", 1.0, 1.0)];
    let bad = orrery_formats::FluidFrame { species: &one, ..frame };
    assert!(error("t.xyz", &bad).ends_with("species: got 1, expected an index below 1"));
    let blank = [super::species("A b", 1.0, 1.0), super::species("B", 1.0, 1.0)];
    let bad = orrery_formats::FluidFrame { species: &blank, ..frame };
    assert!(error("t.xyz", &bad).ends_with("species: got \"A b\", expected a name without blanks"));
    let mut wide = trajectory.frames[0].clone();
    wide.bounds.lengths[0] = 1e60;
    let bad = orrery_formats::FluidFrame { particles: &wide, ..frame };
    assert!(
        error("t.gsd", &bad).contains("length of the box: got 1e60, expected 1e-30 to 1e30 in a GSD file")
    );
}
