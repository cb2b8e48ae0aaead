//! Damaged trajectories: interrupted and failed appends are repaired, and no bytes cause a panic.

use std::fs;
use std::path::Path;

use orrery_formats::append_fluid_frame;
use orrery_model::rng::philox4x32_10;

use super::{EXTENSIONS, Trajectory, boxes, periodic_box, read_unlimited};

const LAMMPS: &str = "title, timestep = 7\n\n2 atoms\n2 atom types\n-1 3 xlo xhi\n0 5 ylo yhi\n0 6 zlo zhi\n\n\
    Masses\n\n1 1.5\n2 2.5\n\nAtoms # full\n\n1 1 1 0.5 1 2 3 0 0 0\n2 1 2 0.5 1 2 5 0 0 0\n\n\
    Velocities\n\n1 0 0.5 0\n2 0 -0.5 0\n";

/// Returns the bytes of a trajectory after each of its frames.
fn bytes_after_frames(trajectory: &Trajectory, path: &Path) -> Vec<Vec<u8>> {
    let write = |index: usize| {
        trajectory.append(path, index..index + 1);
        fs::read(path).unwrap()
    };
    (0..trajectory.frames.len()).map(write).collect()
}

#[track_caller]
fn assert_repaired(path: &Path, torn: &[u8], trajectory: &Trajectory, index: usize, expected: &[u8]) {
    fs::write(path, torn).unwrap();
    trajectory.append(path, index..index + 1);
    assert!(fs::read(path).unwrap() == expected, "{} bytes of frame {index}", torn.len());
}

/// A loss of power may leave any part of the new frame, or zeros.
#[test]
fn torn_xyz_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.xyz");
    let trajectory = Trajectory::new(periodic_box(), 3, 3);
    let after = bytes_after_frames(&trajectory, &path);
    for length in after[1].len()..after[2].len() {
        assert_repaired(&path, &after[2][..length], &trajectory, 2, &after[2]);
    }
    for zeros in [1, 100, 100_000] {
        let torn = [&after[2][..after[1].len() + 40], &vec![0; zeros]].concat();
        assert_repaired(&path, &torn, &trajectory, 2, &after[2]);
        let mut torn = after[2].clone();
        torn[after[1].len() + 200..].fill(0);
        assert_repaired(&path, &torn, &trajectory, 2, &after[2]);
    }
    // A frame that is longer than the blocks of the search.
    let large = Trajectory::new(periodic_box(), 2000, 2);
    let path = folder.path().join("large.xyz");
    let after = bytes_after_frames(&large, &path);
    for length in [after[0].len() + 1, after[1].len() / 2 + 70_000, after[1].len() - 1] {
        assert_repaired(&path, &after[1][..length], &large, 1, &after[1]);
    }
}

/// Bytes of the header that a GSD file changes with each frame.
const COMMIT: std::ops::Range<usize> = 8..24;

/// Data and entries are written before the header. Without the header the earlier frames are
/// readable, and the next call gives the same bytes. Frame 42 needs a new index.
#[test]
fn torn_gsd_is_readable_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gsd");
    let trajectory = Trajectory::new(periodic_box(), 3, 120);
    let after = bytes_after_frames(&trajectory, &path);
    let moved: Vec<usize> = (1..120).filter(|&k| after[k][8..16] != after[k - 1][8..16]).collect();
    assert!(moved.len() >= 2, "the index was never moved");
    for index in [1, moved[0], moved[1], 119] {
        let (before, whole) = (&after[index - 1], &after[index]);
        for length in (before.len()..=whole.len()).rev().step_by(61) {
            for has_entries in [false, true] {
                let start = if has_entries { whole } else { before };
                let mut torn = [&start[..before.len()], &whole[before.len()..length]].concat();
                torn[COMMIT].copy_from_slice(&before[COMMIT]);
                fs::write(&path, &torn).unwrap();
                assert_eq!(read_unlimited(&path).unwrap().step, Some(100 * (index as u64 - 1)));
                assert_repaired(&path, &torn, &trajectory, index, whole);
            }
        }
    }
    // Entries can be on the disk without the data. They must not remain behind a shorter frame.
    let mut torn = after[1].clone();
    let index = 1312 + 32 * u64::from_le_bytes(torn[16..24].try_into().unwrap()) as usize;
    torn[index..index + 20 * 32].fill(7);
    assert_repaired(&path, &torn, &trajectory, 2, &after[2]);
    // The removal of frames was interrupted after the header.
    for kept in [1, moved[0] - 1, moved[1] - 1, 118] {
        let mut torn = after[119].clone();
        torn[COMMIT].copy_from_slice(&after[kept][COMMIT]);
        assert_repaired(&path, &torn, &trajectory, kept + 1, &after[kept + 1]);
    }
}

/// A truncated file gives an error, or an earlier frame of a text file.
#[test]
fn truncated_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let path = folder.path().join("t").with_extension(extension);
        let trajectory = Trajectory::new(periodic_box(), 3, 3);
        let after = bytes_after_frames(&trajectory, &path);
        let whole = &after[2];
        // The last newline of an XYZ file is optional.
        for length in 0..whole.len() - usize::from(extension == "xyz") {
            fs::write(&path, &whole[..length]).unwrap();
            let is_boundary =
                extension == "xyz" && after.iter().any(|bytes| [length, length + 1].contains(&bytes.len()));
            assert_eq!(read_unlimited(&path).is_ok(), is_boundary, "{extension} cut at {length}");
        }
    }
    let path = folder.path().join("s.data");
    fs::write(&path, LAMMPS).unwrap();
    assert!(read_unlimited(&path).is_ok());
    // The section of velocities is optional, and a data file has no end mark.
    let atoms_end = LAMMPS.find("\n\nVelocities").unwrap();
    for length in (0..atoms_end - 1).chain(atoms_end + 3..LAMMPS.len() - 5) {
        fs::write(&path, &LAMMPS[..length]).unwrap();
        assert!(read_unlimited(&path).is_err(), "cut at {length}");
    }
}

/// Changes every byte of each file in turn. Any result is accepted except a panic or an endless
/// read.
#[test]
fn changed_bytes_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = vec![("data", LAMMPS.as_bytes().to_vec())];
    for extension in EXTENSIONS {
        let path = folder.path().join("t").with_extension(extension);
        for (_, bounds) in boxes() {
            let _ = fs::remove_file(&path);
            Trajectory::new(bounds, 3, 2).append(&path, 0..2);
            files.push((extension, fs::read(&path).unwrap()));
        }
    }
    for (extension, whole) in files {
        let path = folder.path().join("changed").with_extension(extension);
        // Long runs of zeros are padding and are skipped.
        let is_padding =
            |offset: usize| whole[offset.saturating_sub(16)..].iter().take(32).all(|&byte| byte == 0);
        let trajectory = Trajectory::new(periodic_box(), 3, 3);
        for offset in (0..whole.len()).filter(|&offset| !is_padding(offset)) {
            let [random, ..] = philox4x32_10([offset as u32, 0, 0, 0], [7, 7]);
            for value in [0xff, whole[offset] ^ 1 << (random % 8)] {
                let mut changed = whole.clone();
                changed[offset] = value;
                fs::write(&path, &changed).unwrap();
                if let Ok(read) = read_unlimited(&path) {
                    let n = read.id.len();
                    assert_eq!([read.coordinates.len(), read.species.len()], [n; 2], "byte {offset}");
                    assert!(read.species.iter().all(|&s| usize::from(s) < read.species_names.len()));
                }
                if extension != "data" && offset % 25 == 0 {
                    let _ = append_fluid_frame(&path, &trajectory.frame(2));
                }
            }
        }
    }
}

/// A file of another program is neither extended nor changed.
#[test]
fn foreign_files_are_not_extended() {
    let folder = tempfile::tempdir().unwrap();
    let trajectory = Trajectory::new(periodic_box(), 3, 1);
    let gsd = folder.path().join("own.gsd");
    trajectory.append(&gsd, 0..1);
    let mut other = fs::read(&gsd).unwrap();
    other[48..54].copy_from_slice(b"HOOMD\0");
    for (name, bytes, expected) in [
        ("t.gsd", other, "content: got the application 'HOOMD', expected a GSD file that orrery has written"),
        (
            "t.gsd",
            b"text".to_vec(),
            "content: got a shorter file, expected a GSD file that orrery has written",
        ),
        ("t.gsd", vec![b'x'; 300], "byte 0: got other bytes, expected the signature of a GSD file"),
        (
            "t.xyz",
            b"1\nProperties=species:S:1:pos:R:3\nH 1 2 3\n".to_vec(),
            "frame at byte 2: got no Time, expected a trajectory that orrery has written",
        ),
        (
            "t.xyz",
            b"1\ncomment\nH 1 2 3\n".to_vec(),
            "content: got no frame of Orrery, expected a trajectory that orrery has written",
        ),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, &bytes).unwrap();
        let message = append_fluid_frame(&path, &trajectory.frame(0)).unwrap_err().to_string();
        assert_eq!(message, format!("{}: {expected}", path.display()));
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let message = append_fluid_frame(&folder.path().join("none/t.gsd"), &trajectory.frame(0)).unwrap_err();
    assert!(message.is_bad_path(), "{message}");
}

#[cfg(target_os = "linux")]
mod full_disk {
    use super::*;
    use std::process::Command;

    const FOLDER: &str = "ORRERY_FULL_DISK";

    /// Appends frames until the limit on the length of files is reached.
    #[test]
    #[ignore = "the other test starts it in a separate process"]
    fn append_until_it_fails() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let trajectory = Trajectory::new(periodic_box(), 100, 20);
        for extension in EXTENSIONS {
            let path = Path::new(&folder).join("t").with_extension(extension);
            let failed = (0..20).find_map(|index| {
                let error = append_fluid_frame(&path, &trajectory.frame(index)).err()?;
                Some((index, error.to_string()))
            });
            let (index, message) = failed.expect("an append should fail");
            println!("\nFAILED {extension} {index} {message}");
        }
    }

    /// The failed append leaves the earlier frames, and can be repeated when there is space.
    #[test]
    fn append_can_be_repeated() {
        let folder = tempfile::tempdir().unwrap();
        // With the signal ignored, a write beyond the limit fails with an error.
        let child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 60; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "fluids::damage::full_disk::append_until_it_fails", "--nocapture"])
            .env(FOLDER, folder.path())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&child.stdout);
        let trajectory = Trajectory::new(periodic_box(), 100, 20);
        for extension in EXTENSIONS {
            let start = format!("FAILED {extension} ");
            let line = printed.lines().find_map(|line| line.strip_prefix(&start));
            let line = line.unwrap_or_else(|| panic!("{child:?}"));
            let (index, message) = line.split_once(' ').unwrap();
            assert!(message.contains("could not be written after"), "{message}");
            let index: usize = index.parse().unwrap();
            assert!(index > 0, "{message}");
            let path = folder.path().join("t").with_extension(extension);
            assert_eq!(read_unlimited(&path).unwrap().step, Some(100 * (index as u64 - 1)));
            trajectory.append(&path, index..20);
            let whole = folder.path().join("whole").with_extension(extension);
            trajectory.append(&whole, 0..20);
            assert!(fs::read(&path).unwrap() == fs::read(&whole).unwrap(), "{extension}");
        }
    }
}

/// Chunks with a damaged name would be missing, and velocities would be 0. In a file of Orrery,
/// every byte of the names counts. In files of other programs, names of logs are free.
#[test]
fn damaged_names_of_chunks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gsd");
    Trajectory::new(periodic_box(), 3, 2).append(&path, 0..2);
    let own = fs::read(&path).unwrap();
    let mut foreign = own.clone();
    foreign[48..54].copy_from_slice(b"others");
    let end = 256 + own[256..].windows(2).position(|pair| pair == [0, 0]).unwrap();
    let log = 256 + own[256..].windows(4).position(|bytes| bytes == b"log/").unwrap();
    for (whole, range) in [(&own, 256..end), (&foreign, 256..log)] {
        fs::write(&path, whole).unwrap();
        assert!(read_unlimited(&path).is_ok());
        for offset in range {
            for value in [whole[offset] ^ 1, whole[offset] ^ 0x20, 0] {
                let mut changed = whole.clone();
                changed[offset] = value;
                fs::write(&path, &changed).unwrap();
                let is_same = value == whole[offset];
                assert_eq!(read_unlimited(&path).is_ok(), is_same, "byte {offset} = {value}");
            }
        }
    }
    let velocity = 256 + own[256..].windows(8).position(|bytes| bytes == b"velocity").unwrap();
    for (whole, expected) in [
        (&own, "name 9 of the chunks: got 'particles/velocitx', expected 'particles/velocity'"),
        (
            &foreign,
            "name 9 of the chunks: got 'particles/velocitx', expected a name of the schema hoomd, or one below \
             log/ or state/",
        ),
    ] {
        let mut changed = whole.clone();
        changed[velocity + 7] = b'x';
        fs::write(&path, &changed).unwrap();
        let error = read_unlimited(&path).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    let mut changed = foreign.clone();
    changed[log + 4] = b'q';
    fs::write(&path, &changed).unwrap();
    read_unlimited(&path).expect("a log of another program");
}

/// Schema 2.0 has the names of 1.4, so a damaged one is refused. Names of later versions are not
/// known, and those that may be velocities are reported.
#[test]
fn damaged_names_of_later_schemas_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gsd");
    Trajectory::new(periodic_box(), 3, 1).append(&path, 0..1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[48..54].copy_from_slice(b"others");
    let velocity = 256 + bytes[256..].windows(8).position(|bytes| bytes == b"velocity").unwrap();
    let mut read = |schema: u32, last: u8| {
        bytes[40..44].copy_from_slice(&schema.to_le_bytes());
        bytes[velocity + 7] = last;
        fs::write(&path, &bytes).unwrap();
        read_unlimited(&path)
    };
    for schema in [2 << 16, 2 << 16 | 1] {
        assert_eq!(read(schema, b'y').unwrap().ignored, [""; 0]);
    }
    let error = read(2 << 16, b'x').unwrap_err().to_string();
    assert!(error.contains("name 9 of the chunks: got 'particles/velocitx'"), "{error}");
    let file = read(2 << 16 | 1, b'x').unwrap();
    assert_eq!(file.ignored, ["no velocities but chunks of another name ('particles/velocitx')"]);
}

/// An entry of the index that refers to another name is found where the names of a frame are known.
#[test]
fn damaged_names_in_the_index_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gsd");
    Trajectory::new(periodic_box(), 3, 1).append(&path, 0..1);
    let whole = fs::read(&path).unwrap();
    let entries = u64::from_le_bytes(whole[16..24].try_into().unwrap()) as usize;
    assert_eq!(entries, 20);
    for number in 0..entries {
        for name in (0..20).filter(|&name| name != number) {
            let mut changed = whole.clone();
            changed[1312 + 32 * number + 28] = name as u8;
            fs::write(&path, &changed).unwrap();
            let error = read_unlimited(&path).expect_err("a frame without a chunk").to_string();
            assert!(error.contains("of the index: got "), "{number} as {name}: {error}");
        }
    }
}

/// Properties that may be velocities under a damaged name are reported, others are not.
#[test]
fn velocities_under_another_name_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.xyz");
    let ignored = |properties: &str, values: &str| {
        let text = format!("1\nLattice=\"4 0 0 0 4 0 0 0 4\" Properties={properties}\nA 1 2 3 {values}\n");
        fs::write(&path, text).unwrap();
        let file = read_unlimited(&path).unwrap();
        (file.velocity.is_some(), file.ignored)
    };
    let reported = |name: &str| vec![format!("no velocities but properties of another name ('{name}')")];
    let start = "species:S:1:pos:R:3";
    assert_eq!(ignored(&format!("{start}:vemo:R:3"), "1 2 3"), (false, reported("vemo:R:3")));
    assert_eq!(ignored(&format!("{start}:velo:S:3"), "1 2 3"), (false, reported("velo:S:3")));
    assert_eq!(ignored(&format!("{start}:momenta:R:3"), "1 2 3"), (false, reported("momenta:R:3")));
    let columns = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        vec![format!("no velocities but properties of another name ({})", names.join(", "))]
    };
    assert_eq!(
        ignored(&format!("{start}:vx:R:1:vy:R:1:vz:R:1"), "1 2 3"),
        (false, columns(&["vx:R:1", "vy:R:1", "vz:R:1"]))
    );
    assert_eq!(
        ignored(&format!("{start}:V:R:2:w:R:1:V_z:R:1"), "1 2 3 4"),
        (false, columns(&["V:R:2", "V_z:R:1"]))
    );
    assert_eq!(ignored(&format!("{start}:volume:R:1:virial:R:6"), "1 2 3 4 5 6 7"), (false, Vec::new()));
    assert_eq!(ignored(&format!("{start}:forces:R:3:Z:I:1"), "1 2 3 4"), (false, Vec::new()));
    assert_eq!(ignored(start, ""), (false, Vec::new()));
    assert_eq!(ignored(&format!("{start}:velo:I:3:spin:R:3"), "1 2 3 4 5 6"), (true, Vec::new()));
}
