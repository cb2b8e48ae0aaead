//! Fields, volumes and profiles as numpy arrays of f4 or f8, in C or Fortran order and either byte
//! order.

use std::path::Path;

use orrery_model::Precision;
use orrery_model::grid::Grid;

use super::{FieldData, FieldValues, VolumeData, allocate_values};
use crate::error::{Fault, IoError};
use crate::hashed::{HashedFile, read_hashed};
use crate::limits::Limits;
use crate::npy::{Array, write_header};
use crate::storage::replace_file;

/// Reads an array of shape (ny, nx).
pub fn read_field_npy(path: &Path, limits: &Limits) -> Result<FieldData, IoError> {
    read_field_npy_hashed(path, limits).map(|(data, _)| data)
}

/// Reads an array of shape (ny, nx), and hashes the file.
pub fn read_field_npy_hashed(path: &Path, limits: &Limits) -> Result<(FieldData, String), IoError> {
    read_array(path, |array| {
        let [ny, nx] = array.shape()[..] else {
            return Err(array.shape_fault("shape [ny, nx]"));
        };
        let (precision, values) = read_reals(array, limits)?;
        Ok(FieldData { nx: nx as usize, ny: ny as usize, precision, values })
    })
}

/// Reads an array of shape (nz, ny, nx) or (ny, nx).
pub fn read_volume_npy(path: &Path, limits: &Limits) -> Result<VolumeData, IoError> {
    read_volume_npy_hashed(path, limits).map(|(data, _)| data)
}

/// Reads an array of shape (nz, ny, nx) or (ny, nx), and hashes the file.
pub fn read_volume_npy_hashed(path: &Path, limits: &Limits) -> Result<(VolumeData, String), IoError> {
    read_array(path, |array| {
        let nodes = match array.shape()[..] {
            [ny, nx] => [nx, ny, 1],
            [nz, ny, nx] => [nx, ny, nz],
            _ => return Err(array.shape_fault("shape [nz, ny, nx] or [ny, nx]")),
        };
        let (precision, values) = read_reals(array, limits)?;
        Ok(VolumeData { nodes: nodes.map(|count| count as usize), precision, values })
    })
}

/// Reads the values in C order: the last index varies fastest.
fn read_reals(array: Array<&mut HashedFile>, limits: &Limits) -> Result<(Precision, Vec<f64>), Fault> {
    let precision = array.real_precision()?;
    let mut values = allocate_values(limits, array.entry_count(), 0)?;
    if array.is_fortran_order() {
        let shape: Vec<usize> = array.shape().iter().map(|&extent| extent as usize).collect();
        values.resize(array.entry_count() as usize, 0.0);
        let mut k = 0;
        array.read_reals(|value| {
            // Divide the first index off first, because it varies fastest in the file.
            let (mut rest, mut index) = (k, 0);
            for extent in &shape {
                index = index * extent + rest % extent;
                rest /= extent;
            }
            values[index] = value;
            k += 1;
        })?;
    } else {
        array.read_reals(|value| values.push(value))?;
    }
    Ok((precision, values))
}

/// Reads an array of shape (n): values along an edge.
pub fn read_profile_npy(path: &Path, limits: &Limits) -> Result<Vec<f64>, IoError> {
    read_profile_npy_hashed(path, limits).map(|(values, _)| values)
}

/// Reads an array of shape (n), and hashes the file.
pub fn read_profile_npy_hashed(path: &Path, limits: &Limits) -> Result<(Vec<f64>, String), IoError> {
    read_array(path, |array| {
        if array.shape().len() != 1 {
            return Err(array.shape_fault("shape [n]"));
        }
        array.real_precision()?;
        let mut values = allocate_values(limits, array.entry_count(), 0)?;
        array.read_reals(|value| values.push(value))?;
        Ok(values)
    })
}

fn read_array<T>(
    path: &Path,
    read: impl FnOnce(Array<&mut HashedFile>) -> Result<T, Fault>,
) -> Result<(T, String), IoError> {
    read_hashed(path, |file| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let length = file.length();
        read(Array::open(&name, file, length)?)
    })
}

/// Writes an array of shape (ny, nx) in C order. The write is atomic.
pub fn write_field_npy(path: &Path, grid: &Grid, values: FieldValues) -> Result<(), IoError> {
    write_volume_npy(path, [grid.nx, grid.ny, 1], values)
}

/// Writes an array of shape (nz, ny, nx) in C order, or (ny, nx) for nz = 1. `nodes` are nx, ny and
/// nz. The write is atomic.
pub fn write_volume_npy(path: &Path, nodes: [usize; 3], values: FieldValues) -> Result<(), IoError> {
    let [nx, ny, nz] = nodes;
    match nz {
        1 => write_array(path, "field", &[ny, nx], values),
        _ => write_array(path, "field", &[nz, ny, nx], values),
    }
}

/// Writes an array in C order. `name` is its name in messages. The write is atomic.
pub(crate) fn write_array(
    path: &Path,
    name: &str,
    shape: &[usize],
    values: FieldValues,
) -> Result<(), IoError> {
    replace_file(path, |file| {
        Fault::check_length(name, values.len() as u64, shape.iter().product::<usize>() as u64)?;
        let kind = match values {
            FieldValues::Single(_) => "<f4",
            FieldValues::Double(_) => "<f8",
        };
        write_header(file, kind, shape)?;
        Ok(values.write_to(file)?)
    })
}
