//! Fields and profiles as numpy arrays of f4 or f8, in C or Fortran order and either byte order.

use std::io::BufReader;
use std::path::Path;

use orrery_model::grid::Grid;

use super::{FieldData, FieldValues, allocate_values, open_file};
use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::npy::{Array, write_header};
use crate::storage::replace_file;

/// Reads an array of shape (ny, nx).
pub fn read_field_npy(path: &Path, limits: &Limits) -> Result<FieldData, IoError> {
    read_field(path, limits).map_err(|fault| fault.in_file(path))
}

fn read_field(path: &Path, limits: &Limits) -> Result<FieldData, Fault> {
    let array = open_array(path)?;
    let [rows, columns] = array.shape()[..] else {
        return Err(array.shape_fault("shape [ny, nx]"));
    };
    let (precision, is_fortran_order) = (array.real_precision()?, array.is_fortran_order());
    let mut values = allocate_values(limits, array.entry_count(), 0)?;
    if is_fortran_order {
        values.resize(array.entry_count() as usize, 0.0);
        let (rows, columns, mut k) = (rows as usize, columns as usize, 0);
        array.read_reals(|value| {
            values[k % rows * columns + k / rows] = value;
            k += 1;
        })?;
    } else {
        array.read_reals(|value| values.push(value))?;
    }
    Ok(FieldData { nx: columns as usize, ny: rows as usize, precision, values })
}

/// Reads an array of shape (n): values along an edge.
pub fn read_profile_npy(path: &Path, limits: &Limits) -> Result<Vec<f64>, IoError> {
    let read = || {
        let array = open_array(path)?;
        if array.shape().len() != 1 {
            return Err(array.shape_fault("shape [n]"));
        }
        array.real_precision()?;
        let mut values = allocate_values(limits, array.entry_count(), 0)?;
        array.read_reals(|value| values.push(value))?;
        Ok(values)
    };
    read().map_err(|fault: Fault| fault.in_file(path))
}

fn open_array(path: &Path) -> Result<Array<BufReader<std::fs::File>>, Fault> {
    let (file, length) = open_file(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Array::open(&name, BufReader::new(file), length)
}

/// Writes an array of shape (ny, nx) in C order. The write is atomic.
pub fn write_field_npy(path: &Path, grid: &Grid, values: FieldValues) -> Result<(), IoError> {
    write_array(path, [grid.nx, grid.ny], values)
}

/// Writes an array of shape (ny, nx) in C order. The write is atomic.
pub(super) fn write_array(path: &Path, [nx, ny]: [usize; 2], values: FieldValues) -> Result<(), IoError> {
    replace_file(path, |file| {
        Fault::check_length("field", values.len() as u64, (nx * ny) as u64)?;
        let kind = match values {
            FieldValues::Single(_) => "<f4",
            FieldValues::Double(_) => "<f8",
        };
        write_header(file, kind, &[ny, nx])?;
        Ok(values.write_to(file)?)
    })
}
