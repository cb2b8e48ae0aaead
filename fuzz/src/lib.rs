//! Shared code of the fuzz targets: writes bytes to a file and reads it. For any bytes, the result
//! must be bodies, a field, a fluid, seismograms or an error message of one line.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_formats::{FieldData, FluidFrame, FluidSpecies, IoError, Limits, VolumeData};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;

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
    match orrery_formats::read_snapshot(&path, &LIMITS) {
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
        Ok(volume) => assert_eq!(volume.values.len(), volume.nodes.iter().product::<usize>()),
        Err(error) => check_message(&error),
    }
}

/// Reads `bytes` as seismograms and as a model in SEG-Y, and checks the results.
pub fn read_segy(bytes: &[u8]) {
    let path = scratch_file("sgy");
    fs::write(&path, bytes).expect("the scratch folder is writable");
    match orrery_formats::read_seismograms_segy(&path, &LIMITS) {
        Ok(shots) => {
            for shot in shots {
                assert_eq!(shot.samples.len(), shot.receivers.len() * shot.sample_count());
            }
        }
        Err(error) => check_message(&error),
    }
    match orrery_formats::read_model_segy(&path, &LIMITS) {
        Ok(model) => assert_eq!(model.data.values.len(), model.data.nodes.iter().product::<usize>()),
        Err(error) => check_message(&error),
    }
}

/// Reads `bytes` as a fluid and checks the result. Then appends a frame, which must succeed or give
/// an error too.
pub fn read_fluid(bytes: &[u8], extension: &str) {
    let path = scratch_file(extension);
    fs::write(&path, bytes).expect("the scratch folder is writable");
    match orrery_formats::read_fluid(&path, &LIMITS) {
        Ok(fluid) => {
            let n = fluid.id.len();
            assert_eq!([fluid.coordinates.len(), fluid.species.len()], [n; 2]);
            assert!(fluid.velocity.is_none_or(|velocity| velocity.len() == n));
            assert!(fluid.image.is_none_or(|image| image.iter().all(|column| column.len() == n)));
            assert!(fluid.species.iter().all(|&species| usize::from(species) < fluid.species_names.len()));
            assert!(fluid.coordinates.first_non_finite().is_none() && fluid.bounds.validate().is_ok());
        }
        Err(error) => check_message(&error),
    }
    if extension != "data"
        && let Err(error) = append_fluid_frame(&path, 5)
    {
        check_message(&error);
    }
}

/// Appends a frame of three particles.
pub fn append_fluid_frame(path: &Path, step: u64) -> Result<(), IoError> {
    let coordinates = Vec3s { x: vec![0.5, 1.5, 3.75], y: vec![0.0, -1.0, 2.0], z: vec![1.0, 2.0, 11.0] };
    let mut particles = FluidParticles::at_rest(SimulationBox::periodic([4.0, 3.0, 6.0], 3), &coordinates);
    particles.species[1] = 1;
    let species = |name: &str| FluidSpecies { name: name.to_owned(), mass: 1.0, sigma: 1.0 };
    let frame = FluidFrame {
        particles: &particles,
        species: &[species("A"), species("B")],
        step,
        time: 0.5 * step as f64,
        units: "lj",
        unit_names: &[],
        provenance: &[("case".to_owned(), "name = \"seed\"\n".to_owned())],
    };
    orrery_formats::append_fluid_frame(path, &frame)
}

fn check_message(error: &IoError) {
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message:?}");
    assert!(message.len() < 1000, "{message:?}");
}
