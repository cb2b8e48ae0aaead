//! Shared code of the fuzz targets: writes bytes to a file and reads it. For any bytes, the result
//! must be bodies, a field or an error message of one line.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_io::{FieldData, IoError, Limits};

/// Memory limit of a reader: a quarter of the limit given to libFuzzer.
pub const LIMITS: Limits = Limits { memory: 256 << 20 };

/// Returns a path for this process, in shared memory if the system has such a folder.
pub fn scratch_file(extension: &str) -> PathBuf {
    let shared_memory = PathBuf::from("/dev/shm");
    let folder = if shared_memory.is_dir() { shared_memory } else { std::env::temp_dir() };
    folder.join(format!("orrery-fuzz-{}.{extension}", std::process::id()))
}

/// Reads `bytes` as a file with the given extension and checks the result.
pub fn read_snapshot(bytes: &[u8], extension: &str) {
    let path = scratch_file(extension);
    fs::write(&path, bytes).expect("the scratch folder is writable");
    match orrery_io::read_snapshot(&path, &LIMITS) {
        Ok(snapshot) => {
            let p = &snapshot.particles;
            let lengths = [p.position.len(), p.velocity.len(), p.id.len(), p.species.len()];
            assert_eq!(lengths, [p.mass.len(); 4]);
        }
        Err(error) => check_message(&error),
    }
}

/// Reads `bytes` as the file of a field with `read` and checks the result.
pub fn read_field(bytes: &[u8], extension: &str, read: fn(&Path, &Limits) -> Result<FieldData, IoError>) {
    let path = scratch_file(extension);
    fs::write(&path, bytes).expect("the scratch folder is writable");
    match read(&path, &LIMITS) {
        Ok(field) => assert_eq!(field.values.len(), field.nx * field.ny),
        Err(error) => check_message(&error),
    }
}

fn check_message(error: &IoError) {
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message:?}");
    assert!(message.len() < 1000, "{message:?}");
}
