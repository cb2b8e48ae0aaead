//! Files of fields on grids.
//!
//! | format | read | written |
//! |---|---|---|
//! | `.npy`: numpy array of shape (ny, nx) | [`read_field_npy`] | [`write_field_npy`] |
//! | `.npy`: numpy array of shape (n), values along an edge | [`read_profile_npy`] | |
//! | `.png`: grey values of an image | [`read_field_png`] | |
//! | `.vti`: VTK image data, for ParaView | [`read_field_vti`] | [`write_field_vti`] |
//! | `.npy`: volume of shape (nz, ny, nx) | [`read_volume_npy`] | [`write_volume_npy`] |
//! | `.vti`: VTK image data of a volume | [`read_volume_vti`] | [`write_volume_vti`] |
//!
//! [`read_field`] reads a plane or a volume in any of these formats, and models in SEG-Y files. The
//! functions for volumes read and write planes as well: a plane has nz = 1.
//!
//! Values are in the order of [`orrery_model::grid`]: x varies fastest, then y, then z. The first
//! row of a plane is its south edge. An image has its first row on top, which is the north edge.
//!
//! The functions that end in `_hashed` also return the BLAKE3 hash of the bytes that they read, in
//! hexadecimal.

mod array;
mod file;
mod image;
mod vti;
mod window;

use orrery_model::Precision;

pub(crate) use array::write_array;
pub use array::{
    read_field_npy, read_field_npy_hashed, read_profile_npy, read_profile_npy_hashed, read_volume_npy,
    read_volume_npy_hashed, write_field_npy, write_volume_npy,
};
pub(crate) use file::length_of;
pub use file::{FieldFile, FieldFormat, read_field, write_field};
pub use image::read_field_png;
pub use vti::{read_field_vti, read_volume_vti, write_field_vti, write_labelled_vti, write_volume_vti};
pub use window::{Window, copy_window};

use crate::error::Fault;
use crate::limits::Limits;

/// A field from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldData {
    /// Nodes along x.
    pub nx: usize,
    /// Nodes along y.
    pub ny: usize,
    /// Precision of the values in the file. The grey values of an image are computed in f64.
    pub precision: Precision,
    /// One value per node.
    pub values: Vec<f64>,
}

/// A field in three dimensions from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeData {
    /// Nodes along x, y and z. A plane has one node along z.
    pub nodes: [usize; 3],
    /// Precision of the values in the file.
    pub precision: Precision,
    /// One value per node. x varies fastest, then y.
    pub values: Vec<f64>,
}

/// Properties of a field with `D` axes that a file may record, apart from its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldLabels<const D: usize = 2> {
    /// Name, such as "temperature".
    pub name: Option<String>,
    /// Unit of the values.
    pub unit: Option<String>,
    /// Simulated time.
    pub time: Option<f64>,
    /// Coordinates of the nodes.
    pub frame: Option<FieldFrame<D>>,
    /// Names of arrays of the file that were not read.
    pub other_arrays: Vec<String>,
}

/// Coordinates of the nodes of a field with `D` axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldFrame<const D: usize = 2> {
    /// Coordinates of the first node: x, y and, for a volume, z.
    pub origin: [f64; D],
    /// Distances of neighbours along each axis.
    pub spacing: [f64; D],
}

impl<const D: usize> Default for FieldFrame<D> {
    /// Returns the first node at 0 and a spacing of 1.
    fn default() -> Self {
        Self { origin: [0.0; D], spacing: [1.0; D] }
    }
}

/// Values of a field to write, one per node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValues<'a> {
    /// f32.
    Single(&'a [f32]),
    /// f64.
    Double(&'a [f64]),
}

impl<'a> FieldValues<'a> {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    /// Returns the bytes of the values in the byte order of this machine.
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Single(values) => bytemuck::cast_slice(values),
            Self::Double(values) => bytemuck::cast_slice(values),
        }
    }

    /// Writes the values in little-endian byte order.
    fn write_to(&self, sink: &mut impl std::io::Write) -> std::io::Result<()> {
        if cfg!(target_endian = "little") {
            return sink.write_all(self.bytes());
        }
        match self {
            Self::Single(values) => values.iter().try_for_each(|value| sink.write_all(&value.to_le_bytes())),
            Self::Double(values) => values.iter().try_for_each(|value| sink.write_all(&value.to_le_bytes())),
        }
    }
}

/// Returns empty memory for `count` values. `extra_bytes` are needed at the same time.
///
/// The length of the file must have confirmed the count.
pub(crate) fn allocate_values(limits: &Limits, count: u64, extra_bytes: u64) -> Result<Vec<f64>, Fault> {
    let needed = count.saturating_mul(8).saturating_add(extra_bytes);
    if needed > limits.memory {
        return Err(Fault::ValuesMemory { values: count, needed, limit: limits.memory });
    }
    let mut values = Vec::new();
    let reserved = usize::try_from(count).ok().and_then(|count| values.try_reserve_exact(count).ok());
    reserved.ok_or_else(|| Fault::System(std::io::ErrorKind::OutOfMemory.into()))?;
    Ok(values)
}
