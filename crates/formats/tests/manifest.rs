//! The manifest of a folder: the lines of all kinds of files, and what it finds in changed ones.

use std::fs;
use std::path::Path;

use orrery_formats::{
    FileProblem, Limits, MANIFEST_FILE, Manifest, Mark, read_manifest, write_file_atomically, write_snapshot,
};

use crate::common::{EXTENSIONS, mixed_snapshot};
use crate::fluids::{Trajectory, periodic_box};

/// Writes a file of every kind to `folder`. Returns the state of its manifest.
fn write_files(folder: &Path) -> Mark {
    let manifest = Manifest::start(folder);
    write_file_atomically(&folder.join("case.toml"), b"name = \"a\"\n").unwrap();
    manifest.create_file().unwrap();
    fs::create_dir(folder.join("snapshots")).unwrap();
    fs::create_dir(folder.join("checkpoints")).unwrap();
    for extension in EXTENSIONS {
        write_snapshot(&folder.join(format!("snapshots/a b.{extension}")), &mixed_snapshot()).unwrap();
    }
    // The same bytes have no second line.
    write_file_atomically(&folder.join("case.toml"), b"name = \"a\"\n").unwrap();
    write_file_atomically(&folder.join("checkpoints/c.orrery"), b"not listed").unwrap();
    // A GSD file gets a second index after 50 frames of about 5 entries.
    let trajectory = Trajectory::new(periodic_box(), 7, 60);
    for extension in crate::fluids::EXTENSIONS {
        let path = folder.join(format!("trajectory.{extension}"));
        trajectory.append(&path, 0..60);
        // The last frame is repeated, as after a failure.
        trajectory.append(&path, 59..60);
    }
    manifest.sync().unwrap().unwrap()
}

/// Returns the problem of each file that differs.
fn problems(folder: &Path, mark: &Mark) -> Vec<(String, String)> {
    let content = read_manifest(folder, mark, &Limits::unbounded()).unwrap();
    assert_eq!(content.covered.len(), 6);
    let problem = |(name, record): (&String, &orrery_formats::FileRecord)| {
        let path = folder.join(name);
        let found =
            record.compare_length(&path, false).and_then(|()| record.compare_content(&path, &|| false));
        assert!(!matches!(found, Ok(false)));
        let stopped = record.compare_content(&path, &|| true);
        assert!(found.is_err() || matches!(stopped, Ok(false)), "{stopped:?}");
        found.err().map(|problem: FileProblem| (name.clone(), problem.to_string()))
    };
    content.covered.iter().filter_map(problem).collect()
}

/// The recorded hashes are those of the files, also of formats whose writers go back, and of
/// frames.
#[test]
fn every_kind_of_file_has_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let mark = write_files(folder.path());
    assert_eq!(problems(folder.path(), &mark), []);
    let text = fs::read_to_string(folder.path().join(MANIFEST_FILE)).unwrap();
    assert!(text.starts_with("orrery manifest 1\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with(" case.toml")).count(), 1);
    let hash = blake3::hash(&fs::read(folder.path().join("snapshots/a b.npz")).unwrap()).to_hex();
    assert!(text.contains(hash.as_str()), "{text}");
    // After the manifest is dropped, files have no lines.
    write_file_atomically(&folder.path().join("later"), b"x").unwrap();
    assert_eq!(fs::read_to_string(folder.path().join(MANIFEST_FILE)).unwrap(), text);
}

/// Each bit of a trajectory that readers use is covered: header, index and data.
#[test]
fn damage_of_each_kind_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mark = write_files(folder.path());
    for name in ["case.toml", "snapshots/a b.hdf5", "trajectory.gsd", "trajectory.xyz"] {
        let path = folder.path().join(name);
        let whole = fs::read(&path).unwrap();
        let length = whole.len();
        let problem = || {
            let found = problems(folder.path(), &mark);
            let [(changed, problem)] = &found[..] else { panic!("{name}: {found:?}") };
            assert_eq!(changed, name);
            problem.clone()
        };
        for at in [0, length / 3, length / 2, length - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, bytes).unwrap();
            let found = problem();
            assert!(found.starts_with("changed: ") || found.starts_with("unreadable: "), "{at}: {found}");
        }
        fs::write(&path, &whole[..length - 1]).unwrap();
        assert_eq!(problem(), format!("truncated to {} bytes, expected {length}", length - 1));
        fs::write(&path, [&whole[..], b"\n"].concat()).unwrap();
        assert_eq!(problem(), format!("longer: {} bytes, expected {length}", length + 1));
        fs::write(&path, "").unwrap();
        assert_eq!(problem(), format!("empty, expected {length} bytes"));
        fs::remove_file(&path).unwrap();
        assert_eq!(problem(), "missing");
        fs::create_dir(&path).unwrap();
        assert_eq!(problem(), "replaced by something that is not a file");
        fs::remove_dir(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
}

/// A process that was killed leaves lines after the checkpoint, the last one without its end. A
/// resumed run truncates them.
#[test]
fn lines_after_the_checkpoint_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(MANIFEST_FILE);
    let mark = write_files(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    let line = format!("{} 5 images/x.png\n", "ab".repeat(32));
    for torn in ["", "ab", &line[..line.len() - 1], "not a line\n"] {
        fs::write(&path, format!("{text}{line}{torn}")).unwrap();
        let content = read_manifest(folder.path(), &mark, &Limits::unbounded()).unwrap();
        assert_eq!(content.later.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["images/x.png"]);
        let manifest = Manifest::resume(folder.path(), &mark).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(manifest.sync().unwrap().unwrap(), mark);
        write_file_atomically(&folder.path().join("case.toml"), b"name = \"a\"\n").unwrap();
        assert_eq!(manifest.sync().unwrap().unwrap(), mark, "the same bytes have no second line");
    }
    fs::write(&path, text.replace("case.toml", "care.toml")).unwrap();
    assert!(read_manifest(folder.path(), &mark, &Limits::unbounded()).is_err());
}

/// Names that lead out of the folder are refused.
#[test]
fn hostile_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hash = "ab".repeat(32);
    for name in ["../x", "/etc/passwd", "a/../../x", "", "a//b", "a\u{1b}[2J", "c:\\x"] {
        let text = format!("orrery manifest 1\n{hash} 5 {name}\n");
        fs::write(folder.path().join(MANIFEST_FILE), &text).unwrap();
        let blake3 = blake3::hash(text.as_bytes()).to_hex().to_string();
        let mark = Mark { length: text.len() as u64, blake3 };
        let error = read_manifest(folder.path(), &mark, &Limits::unbounded()).unwrap_err();
        assert!(error.to_string().contains("line 2: got other text"), "{name:?}: {error}");
    }
}
