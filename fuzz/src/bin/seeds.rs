//! Writes the seeds: small valid files, one folder per target. Run it in the folder `fuzz`: `cargo
//! run --bin seeds`.

use std::error::Error;
use std::fs;
use std::path::Path;

use orrery_draw::picture::{Image, write_png};
use orrery_formats::{
    FieldValues, Seismogram, Snapshot, write_field_npy, write_field_vti, write_seismograms_segy,
    write_volume_npy,
};
use orrery_model::grid::Grid;
use orrery_model::{Particle, Particles, Precision, Species, Units};

fn main() -> Result<(), Box<dyn Error>> {
    let seeds = Path::new("seeds");
    for (target, extension) in [("snapshot_hdf5", "hdf5"), ("snapshot_xyz", "xyz"), ("snapshot_npz", "npz")] {
        let folder = seeds.join(target);
        fs::create_dir_all(&folder)?;
        for bodies in [0, 3] {
            orrery_formats::write_snapshot(
                &folder.join(format!("{bodies}.{extension}")),
                &small_snapshot(bodies),
            )?;
        }
    }
    let folder = seeds.join("snapshot_gadget");
    fs::create_dir_all(&folder)?;
    for labelled in [false, true] {
        fs::write(folder.join(if labelled { "format2" } else { "format1" }), gadget_bytes(labelled))?;
    }
    write_field_seeds(seeds)?;
    write_segy_seeds(seeds)?;
    write_fluid_seeds(seeds)?;
    let folder = seeds.join("case");
    fs::create_dir_all(&folder)?;
    for entry in fs::read_dir("../examples")? {
        let path = entry?.path().join("case.toml");
        let name = path.parent().and_then(Path::file_name).ok_or("the example has no name")?;
        fs::copy(&path, folder.join(name).with_extension("toml"))?;
    }
    Ok(())
}

/// Writes a numpy array in each precision, image data of VTK in several forms, and an image.
fn write_field_seeds(seeds: &Path) -> Result<(), Box<dyn Error>> {
    let grid = Grid { nx: 3, ny: 2, hx: 1.0, hy: 1.0 };
    let folder = seeds.join("field_npy");
    fs::create_dir_all(&folder)?;
    write_field_npy(&folder.join("single.npy"), &grid, FieldValues::Single(&[0.5; 6]))?;
    write_field_npy(&folder.join("double.npy"), &grid, FieldValues::Double(&[-2.0; 6]))?;
    write_volume_npy(&folder.join("volume.npy"), [3, 2, 2], FieldValues::Single(&[0.5; 12]))?;
    let folder = seeds.join("field_vti");
    fs::create_dir_all(&folder)?;
    write_field_vti(&folder.join("written.vti"), &grid, "u", 0.5, FieldValues::Single(&[0.5; 6]))?;
    for name in ["ascii-32", "binary-64", "base64-zlib-32", "raw-big-64"] {
        let from = Path::new("../crates/formats/tests/vti").join(name).with_extension("vti");
        fs::copy(from, folder.join(name).with_extension("vti"))?;
    }
    let folder = seeds.join("field_png");
    fs::create_dir_all(&folder)?;
    write_png(&folder.join("rgb.png"), &Image::filled(4, 3, [10, 200, 30]), &[("Title", "seed")])?;
    Ok(())
}

/// Writes a shot as rev 1 and as rev 2, and the same headers with samples of other formats.
fn write_segy_seeds(seeds: &Path) -> Result<(), Box<dyn Error>> {
    let folder = seeds.join("segy");
    fs::create_dir_all(&folder)?;
    let shot = |dt| Seismogram {
        shot: 1,
        dt,
        start: 0.01,
        source: [50.0, 0.0, 2.5],
        receivers: vec![[0.0; 3], [100.0, 0.0, 0.0]],
        precision: Precision::Single,
        samples: vec![0.0, 1.0, -1.0, 0.5, 0.25, 0.0],
    };
    for (name, dt) in [("rev1", 0.001), ("rev2", 612.372e-6)] {
        write_seismograms_segy(&folder.join(name), &[shot(dt)], &[])?;
    }
    let mut bytes = fs::read(folder.join("rev1"))?;
    for (name, code) in [("ibm", 1), ("int32", 2)] {
        bytes[3225] = code;
        fs::write(folder.join(name), &bytes)?;
    }
    Ok(())
}

/// Writes trajectories of one and two frames, and data files of LAMMPS.
fn write_fluid_seeds(seeds: &Path) -> Result<(), Box<dyn Error>> {
    for (target, extension) in [("fluid_gsd", "gsd"), ("fluid_xyz", "extxyz")] {
        let folder = seeds.join(target);
        fs::create_dir_all(&folder)?;
        for frames in [1, 2] {
            let path = folder.join(format!("{frames}.{extension}"));
            (0..frames).try_for_each(|step| orrery_fuzz::append_fluid_frame(&path, step))?;
        }
    }
    fs::write(seeds.join("fluid_xyz/plain.extxyz"), "1\n\nAr 1 2 3\n")?;
    let folder = seeds.join("fluid_lammps");
    fs::create_dir_all(&folder)?;
    let header = "title, timestep = 7\n\n2 atoms\n1 atom types\n0 4 xlo xhi\n0 5 ylo yhi\n0 6 zlo zhi\n\n";
    for (name, sections) in [
        ("atomic.data", "Atoms # atomic\n\n1 1 1 2 3\n2 1 1 2 5\n"),
        (
            "full.data",
            "Atom Type Labels\n\n1 Ar\n\nMasses\n\n1 1.5 # Ar\n\nPair Coeffs\n\n1 1 1\n\nAtoms # full\n\n\
             7 1 Ar 0.5 1 2 3 0 0 -1\n3 1 1 0.5 1 2 5 0 0 0\n\nVelocities\n\n3 0 0.5 0\n7 0 -0.5 0\n",
        ),
    ] {
        fs::write(folder.join(name), format!("{header}{sections}"))?;
    }
    Ok(())
}

fn small_snapshot(bodies: usize) -> Snapshot {
    let mut particles = Particles::default();
    for i in 0..bodies {
        let k = i as f64;
        particles.push(Particle {
            position: [0.5 + k, -k, 0.0],
            velocity: [0.0, 1e-3, k],
            mass: 0.25,
            id: i as u64,
            // The species are not in file order, so the HDF5 file has the dataset Order.
            species: if i == 0 { Species::Disc } else { Species::Halo },
        });
    }
    let provenance = vec![("case".to_owned(), "name = \"seed\"\n".to_owned())];
    Snapshot { particles, time: 0.5, step: 7, units: Units::Solar, provenance }
}

/// Returns a GADGET binary file with two halo bodies of a shared mass and a disc body with an
/// individual mass.
fn gadget_bytes(labelled: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut block = |label: &[u8; 4], data: &[u8]| {
        let length = data.len() as u32;
        if labelled {
            bytes.extend(8u32.to_le_bytes());
            bytes.extend(label);
            bytes.extend((length + 8).to_le_bytes());
            bytes.extend(8u32.to_le_bytes());
        }
        bytes.extend(length.to_le_bytes());
        bytes.extend(data);
        bytes.extend(length.to_le_bytes());
    };
    let mut header = [0; 256];
    header[4] = 2;
    header[8] = 1;
    header[32..40].copy_from_slice(&2.5f64.to_le_bytes());
    header[124] = 1;
    block(b"HEAD", &header);
    let vectors: Vec<u8> = (0..9u8).flat_map(|k| f32::from(k).to_le_bytes()).collect();
    block(b"POS ", &vectors);
    block(b"VEL ", &vectors);
    block(b"ID  ", &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    block(b"MASS", &0.5f32.to_le_bytes());
    bytes
}
