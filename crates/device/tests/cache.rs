//! Cache of compiled kernels on disk. Separate processes build the same source with one cache
//! folder.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_device::take_cache_warnings;
use orrery_device::testing::test_devices;

use crate::common::{child_lines, run_child, test_file};

/// Function that damages the bytes of an entry.
type Damage = Box<dyn Fn(&[u8]) -> Vec<u8>>;

const TEXT: &str = "KERNEL(32) f(GLOBAL int* x)\n{\n    x[BLOCK_INDEX * 32 + THREAD] = VALUE;\n}\n";

/// Builds with VALUE from the environment, removes the build from memory and builds again. Prints
/// the origin of both builds.
#[test]
#[ignore = "run by the other tests"]
fn child_builds() {
    let value = std::env::var("VALUE").unwrap();
    for device in test_devices() {
        let definitions = [("VALUE", value.clone())];
        let mut origins = Vec::new();
        for _ in 0..2 {
            let module = device.build(&test_file(TEXT), &definitions, orrery_device::Math::Precise).unwrap();
            let out = device.zeros::<i32>(64).unwrap();
            device.queue().launch(&module.kernel("f").unwrap(), 2, 32, &[(&out).into()]).unwrap();
            assert_eq!(out.to_vec().unwrap(), [value.parse::<i32>().unwrap(); 64]);
            origins.push(format!("{:?}", module.origin()));
            device.forget_builds();
        }
        println!("child: {}", origins.join(" "));
    }
    for warning in take_cache_warnings() {
        println!("warning: {warning}");
    }
}

/// Returns the origins of both builds on each device.
fn build_in_child(folder: &Path, value: &str) -> Vec<String> {
    child_lines(&output_of_child(folder, value))
}

/// Returns the output of a process that builds with this cache.
fn output_of_child(folder: &Path, value: &str) -> String {
    // Without its own cache, PoCL uses the cache of this crate. It still writes temporary files.
    let temporary = tempfile::tempdir().unwrap();
    let variables = [
        ("ORRERY_CACHE_DIR", folder.to_str().unwrap()),
        ("VALUE", value),
        ("POCL_KERNEL_CACHE", "0"),
        ("POCL_CACHE_DIR", temporary.path().to_str().unwrap()),
    ];
    run_child("cache::child_builds", &variables)
}

fn on_every_device(line: &str) -> Vec<String> {
    vec![line.to_owned(); test_devices().len()]
}

fn cache_entries(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("kernels")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_new_process_loads_the_kernel_from_disk() {
    if test_devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(build_in_child(folder, "11"), on_every_device("Compiled Disk"));
    assert_eq!(build_in_child(folder, "11"), on_every_device("Disk Disk"));
    assert_eq!(build_in_child(folder, "12"), on_every_device("Compiled Disk"));
    assert_eq!(
        cache_entries(folder).len(),
        2 * test_devices().len(),
        "no temporary file remains: {:?}",
        cache_entries(folder)
    );
}

#[test]
fn a_damaged_entry_is_compiled_again_and_replaced() {
    if test_devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(build_in_child(folder, "13"), on_every_device("Compiled Disk"));
    let good: Vec<_> = cache_entries(folder).iter().map(|path| fs::read(path).unwrap()).collect();
    // The unit tests of the cache flip every bit and cut at every length.
    let flipped =
        |bytes: &[u8]| bytes.iter().enumerate().map(|(i, &b)| if i == 200 { !b } else { b }).collect();
    let damages: [(&str, Damage); 2] = [("flipped", Box::new(flipped)), ("empty", Box::new(|_| Vec::new()))];
    for (name, damage) in &damages {
        for (path, good) in cache_entries(folder).iter().zip(&good) {
            fs::write(path, damage(good)).unwrap();
        }
        assert_eq!(build_in_child(folder, "13"), on_every_device("Compiled Disk"), "{name}");
        assert_eq!(cache_entries(folder).len(), good.len(), "{name}");
    }
}

/// The entry is undamaged, but the driver rejects its binary.
#[test]
fn an_entry_that_does_not_load_is_compiled_again() {
    if test_devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(build_in_child(folder, "14"), on_every_device("Compiled Disk"));
    for path in cache_entries(folder) {
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(80);
        let payload = b"not a binary of any driver";
        bytes[40..48].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes[48..80].copy_from_slice(blake3::hash(payload).as_bytes());
        bytes.extend_from_slice(payload);
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(build_in_child(folder, "14"), on_every_device("Compiled Disk"));
    assert_eq!(build_in_child(folder, "14"), on_every_device("Disk Disk"));
}

/// The cache folder cannot be created, because a file has its name.
#[test]
fn builds_work_without_a_cache_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    assert_eq!(build_in_child(&file, "15"), on_every_device("Compiled Compiled"));
    assert_eq!(fs::read(&file).unwrap(), b"in the way");
}

/// Folders and entries that others can write to, as with umask 002, are used after their permission
/// is taken away.
#[cfg(unix)]
#[test]
fn other_users_cannot_write_to_the_cache() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    if test_devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let kernels = cache.join("kernels");
    let mode_of = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(build_in_child(&cache, "18"), on_every_device("Compiled Disk"));
    assert_eq!([mode_of(&cache), mode_of(&kernels)], [0o700; 2]);
    for entry in cache_entries(&cache) {
        assert_eq!(mode_of(&entry), 0o600, "{}", entry.display());
        set_mode(&entry, 0o666);
    }
    set_mode(&kernels, 0o777);
    assert_eq!(build_in_child(&cache, "18"), on_every_device("Disk Disk"));
    assert_eq!(mode_of(&kernels), 0o755);
    assert!(cache_entries(&cache).iter().all(|entry| mode_of(entry) == 0o644));
}

/// Only root can give a file to another user.
#[cfg(unix)]
#[test]
fn a_cache_of_another_user_is_refused_with_a_warning() {
    use std::os::unix::fs::chown;

    let folder = tempfile::tempdir().unwrap();
    let kernels = folder.path().join("kernels");
    if test_devices().is_empty() || chown(folder.path(), Some(4321), None).is_err() {
        return;
    }
    chown(folder.path(), Some(0), None).unwrap();
    assert_eq!(build_in_child(folder.path(), "19"), on_every_device("Compiled Disk"));
    let warnings = |output: &str| {
        let warnings = output.lines().filter_map(|line| line.split_once("warning: "));
        warnings.map(|(_, text)| text.to_owned()).collect::<Vec<_>>()
    };
    let refused = |path: &Path| {
        format!(
            "{}: refused, it belongs to user 4321, expected user 0; the kernel is compiled. Remove it, or set \
             ORRERY_CACHE_DIR to another folder",
            path.display()
        )
    };
    // An entry in the folder of this user is replaced.
    let entries = cache_entries(folder.path());
    entries.iter().for_each(|entry| chown(entry, Some(4321), None).unwrap());
    let output = output_of_child(folder.path(), "19");
    assert_eq!(child_lines(&output), on_every_device("Compiled Disk"));
    let mut found = warnings(&output);
    found.sort();
    assert_eq!(found, entries.iter().map(|entry| refused(entry)).collect::<Vec<_>>());
    // In a folder of another user, nothing is read or written.
    chown(&kernels, Some(4321), None).unwrap();
    let output = output_of_child(folder.path(), "19");
    assert_eq!(child_lines(&output), on_every_device("Compiled Compiled"));
    assert_eq!(warnings(&output), [refused(&kernels)]);
}

#[test]
fn processes_can_build_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(build_in_child(folder, "16").len(), test_devices().len()));
        }
    });
    assert_eq!(build_in_child(folder, "16"), on_every_device("Disk Disk"));
}

#[test]
fn kernels_of_a_driver_with_a_cache_are_not_stored_twice() {
    if !test_devices().iter().any(|device| device.properties().version.contains("PoCL")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("orrery"), folder.path().join("pocl"));
    let variables = [
        ("ORRERY_CACHE_DIR", ours.to_str().unwrap()),
        ("POCL_CACHE_DIR", theirs.to_str().unwrap()),
        ("CUDA_VISIBLE_DEVICES", ""),
        ("VALUE", "17"),
    ];
    let lines = child_lines(&run_child("cache::child_builds", &variables));
    assert!(lines.iter().all(|line| line == "Compiled Compiled"), "{lines:?}");
    assert!(!ours.exists());
    assert!(fs::read_dir(theirs).unwrap().count() > 0);
}
