//! Compiled kernels on the disk: processes of their own build the same source with one cache folder.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{child, devices, said, source};

/// What happens to the bytes of an entry.
type Damage = Box<dyn Fn(&[u8]) -> Vec<u8>>;

const TEXT: &str = "KERNEL(32) f(GLOBAL int* x)\n{\n    x[BLOCK_INDEX * 32 + THREAD] = VALUE;\n}\n";

/// Builds with VALUE from the environment, forgets it and builds again; says where both came from.
#[test]
#[ignore = "run by the other tests"]
fn child_builds() {
    let value = std::env::var("VALUE").unwrap();
    for device in devices() {
        let definitions = [("VALUE", value.clone())];
        let mut origins = Vec::new();
        for _ in 0..2 {
            let module = device.build(&source(TEXT, &definitions)).unwrap();
            let out = device.zeros::<i32>(64).unwrap();
            device.queue().launch(&module.kernel("f").unwrap(), 2, 32, &[(&out).into()]).unwrap();
            assert_eq!(out.to_vec().unwrap(), [value.parse::<i32>().unwrap(); 64]);
            origins.push(format!("{:?}", module.origin()));
            device.forget_builds();
        }
        println!("said: {}", origins.join(" "));
    }
}

fn build(folder: &Path, value: &str) -> Vec<String> {
    said(&child("child_builds", &[("ORRERY_CACHE_DIR", folder.to_str().unwrap()), ("VALUE", value)]))
}

fn all(line: &str) -> Vec<String> {
    vec![line.to_owned(); devices().len()]
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("kernels")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_new_process_takes_it_from_the_disk() {
    if devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(build(folder, "11"), all("Compiled Disk"));
    assert_eq!(build(folder, "11"), all("Disk Disk"));
    assert_eq!(build(folder, "12"), all("Compiled Disk"));
    assert_eq!(
        entries(folder).len(),
        2 * devices().len(),
        "no temporary file is left: {:?}",
        entries(folder)
    );
}

#[test]
fn a_damaged_entry_is_built_anew_and_replaced() {
    if devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(build(folder, "13"), all("Compiled Disk"));
    let good: Vec<_> = entries(folder).iter().map(|path| fs::read(path).unwrap()).collect();
    let flipped = |at: usize| {
        move |bytes: &[u8]| bytes.iter().enumerate().map(|(i, &b)| if i == at { !b } else { b }).collect()
    };
    let damages: [(&str, Damage); 8] = [
        ("magic", Box::new(flipped(3))),
        ("key", Box::new(flipped(20))),
        ("length", Box::new(flipped(41))),
        ("hash", Box::new(flipped(60))),
        ("payload", Box::new(flipped(200))),
        ("truncated", Box::new(|bytes| bytes[..bytes.len() - 1].to_vec())),
        ("only a header", Box::new(|bytes| bytes[..80].to_vec())),
        ("empty", Box::new(|_| Vec::new())),
    ];
    for (name, damage) in &damages {
        for (path, good) in entries(folder).iter().zip(&good) {
            fs::write(path, damage(good)).unwrap();
        }
        assert_eq!(build(folder, "13"), all("Compiled Disk"), "{name}");
        assert_eq!(entries(folder).len(), good.len(), "{name}");
    }
}

/// A binary that is whole but that the driver refuses: as good as damaged.
#[test]
fn an_entry_that_does_not_load_is_built_anew() {
    if devices().is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(build(folder, "14"), all("Compiled Disk"));
    for path in entries(folder) {
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(80);
        let payload = b"no binary of any driver";
        bytes[40..48].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes[48..80].copy_from_slice(blake3::hash(payload).as_bytes());
        bytes.extend_from_slice(payload);
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(build(folder, "14"), all("Compiled Disk"));
    assert_eq!(build(folder, "14"), all("Disk Disk"));
}

/// A folder that cannot be: a file stands in its place.
#[test]
fn without_a_folder_it_works_without_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    assert_eq!(build(&file, "15"), all("Compiled Compiled"));
    assert_eq!(fs::read(&file).unwrap(), b"in the way");
}

#[test]
fn processes_may_build_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(build(folder, "16").len(), devices().len()));
        }
    });
    assert_eq!(build(folder, "16"), all("Disk Disk"));
}
