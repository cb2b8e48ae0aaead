//! Files of Orrery: snapshots, fields, fluids and seismograms in formats that other programs read,
//! and checkpoints.
//!
//! [`write_snapshot`] selects the format by the extension, for example `.hdf5`. [`read_snapshot`]
//! selects it by the extension or, for an unknown one, by the first bytes. A file may be damaged or
//! hostile. For any bytes, reading returns bodies or an [`IoError`] with a message of one line.
//! Memory is limited by the length of the file and by the [`Limits`] of the caller, never by a
//! count in a header. Names inside a file are compared and stored as text, and none is used as a
//! path. This crate does not use devices.
//!
//! [`append_fluid_frame`] adds a frame to a trajectory of a fluid, in GSD or extended XYZ.
//! [`read_fluid`] reads the last frame of one, or a data file of LAMMPS.

mod available;
mod checkpoint;
mod cosmology;
mod error;
mod field;
mod fluid;
mod gadget;
mod hashed;
mod hdf5;
mod limits;
mod manifest;
mod metered;
mod npy;
mod npy_header;
mod npz;
mod regular;
mod segy;
mod seismogram;
mod snapshot;
mod storage;
mod text;
mod xyz;

pub use available::available_memory;
pub use checkpoint::{Block, Checkpoint, Column, parse_checkpoint, read_checkpoint, write_checkpoint};
pub use cosmology::Comoving;
pub use error::{Fault, IoError};
pub use field::{
    FieldData, FieldFile, FieldFormat, FieldFrame, FieldLabels, FieldValues, VolumeData, Window, copy_window,
    read_field, read_field_npy, read_field_npy_hashed, read_field_png, read_field_vti, read_profile_npy,
    read_profile_npy_hashed, read_volume_npy, read_volume_npy_hashed, read_volume_vti, write_field,
    write_field_npy, write_field_vti, write_labelled_vti, write_volume_npy, write_volume_vti,
};
pub use fluid::{
    FluidFile, FluidFrame, FluidFrames, FluidSpecies, append_fluid_frame, is_fluid_trajectory, read_fluid,
    remove_fluid_frames,
};
pub use hashed::hash_file;
pub use limits::{Limits, format_bytes};
pub use manifest::{FileProblem, FileRecord, MANIFEST_FILE, Manifest, ManifestContent, read_manifest};
pub use npz::{NpzArray, write_npz_arrays};
pub use regular::{has_other_names, is_link, open_unlinked, read_small_file, read_small_text, read_text};
pub use segy::{
    SegyFile, SegyKind, SegyModel, read_model_segy, read_model_segy_hashed, read_segy, read_seismograms_segy,
    write_seismograms_segy,
};
pub use seismogram::{Seismogram, write_seismogram_csv, write_seismogram_npy};
pub use snapshot::{
    Format, Snapshot, SnapshotDescription, describe_snapshot, read_snapshot, read_snapshot_as, write_snapshot,
};
pub use storage::{
    AppendFile, Mark, StorageError, WriteStage, check_writable, copy_file_atomically, create_new_file,
    make_folder, remove_files, write_file_atomically, write_unlisted_file,
};
