//! Files: snapshots of bodies in formats that other programs read. This room knows no devices.
//!
//! [`write_snapshot`] picks the format by the extension, [`read_snapshot`] by the extension or, where that says nothing, by
//! the first bytes. Files come from anywhere and may be broken or hostile: whatever the bytes are, reading
//! gives bodies or an [`IoError`] of one line, and memory is bounded by the size of the file and by the
//! [`Limits`] of the caller, never by what its header announces. Names inside a file are only ever compared
//! and kept as text: none becomes a path.

mod checkpoint;
mod error;
mod gadget;
mod hdf5;
mod limits;
mod metered;
mod npy;
mod npz;
pub mod picture;
pub mod plot;
mod snapshot;
mod storage;
mod text;
mod xyz;

pub use checkpoint::{Block, Checkpoint, Column, parse_checkpoint, read_checkpoint, write_checkpoint};
pub use error::{Fault, IoError};
pub use limits::{Limits, format_bytes};
pub use npz::{NpzArray, write_npz_arrays};
pub use snapshot::{Format, Snapshot, SnapshotDescription, describe_snapshot, read_snapshot, write_snapshot};
pub use storage::{
    AppendFile, Mark, StorageError, WriteStage, make_folder, remove_files, write_file_atomically,
};
