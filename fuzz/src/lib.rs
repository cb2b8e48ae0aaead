//! Shared code of the fuzz targets: writes bytes to a file and reads it. For any bytes, the result
//! must be bodies, a field, seismograms or an error message of one line.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_io::{FieldData, IoError, Limits, VolumeData};

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

/// Reads the file that [`read_field`] has written as a volume and checks the result.
pub fn read_volume(extension: &str, read: fn(&Path, &Limits) -> Result<VolumeData, IoError>) {
    match read(&scratch_file(extension), &LIMITS) {
        Ok(volume) => assert_eq!(volume.values.len(), volume.nodes.iter().product()),
        Err(error) => check_message(&error),
    }
}

/// Reads `bytes` as seismograms and as a model in SEG-Y, and checks the results.
pub fn read_segy(bytes: &[u8]) {
    let path = scratch_file("sgy");
    fs::write(&path, bytes).expect("the scratch folder is writable");
    match orrery_io::read_seismograms_segy(&path, &LIMITS) {
        Ok(shots) => {
            for shot in shots {
                assert_eq!(shot.samples.len(), shot.receivers.len() * shot.sample_count());
            }
        }
        Err(error) => check_message(&error),
    }
    match orrery_io::read_model_segy(&path, &LIMITS) {
        Ok(model) => assert_eq!(model.data.values.len(), model.data.nodes.iter().product()),
        Err(error) => check_message(&error),
    }
}

fn check_message(error: &IoError) {
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message:?}");
    assert!(message.len() < 1000, "{message:?}");
}
