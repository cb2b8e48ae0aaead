//! VTK image data in XML (`.vti`), which ParaView and VTK open.
//!
//! The values follow the XML as raw bytes: a 64-bit length, then the values, little-endian
//! ("appended data" in "VTK XML Formats", VTK documentation). The array is not compressed, because
//! the low bits of the values are noise.

use std::io::Write;
use std::path::Path;

use orrery_model::grid::Grid;

use super::FieldValues;
use crate::error::{Fault, IoError};
use crate::storage::replace_file;

/// Writes a field as VTK image data with the point array `name` at simulated time `time`. The write
/// is atomic.
///
/// `name` must not contain control characters.
pub fn write_field_vti(
    path: &Path,
    grid: &Grid,
    name: &str,
    time: f64,
    values: FieldValues,
) -> Result<(), IoError> {
    replace_file(path, |file| {
        Fault::check_length("field", values.len() as u64, grid.len() as u64)?;
        if name.is_empty() || name.contains(char::is_control) {
            return Err(Fault::malformed("name of the field", format!("{name:?}"), "text"));
        }
        file.write_all(header(grid, name, time, values).as_bytes())?;
        file.write_all(&(values.bytes().len() as u64).to_le_bytes())?;
        values.write_to(file)?;
        Ok(file.write_all(b"\n  </AppendedData>\n</VTKFile>\n")?)
    })
}

/// Returns the XML before the values.
fn header(grid: &Grid, name: &str, time: f64, values: FieldValues) -> String {
    let Grid { nx, ny, hx, hy } = grid;
    let extent = format!("0 {} 0 {} 0 0", nx - 1, ny - 1);
    let name = escape_xml(name);
    let kind = match values {
        FieldValues::Single(_) => "Float32",
        FieldValues::Double(_) => "Float64",
    };
    format!(
        r#"<?xml version="1.0"?>
<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">
  <ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="{hx:?} {hy:?} 1">
    <FieldData>
      <DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">{time:?}</DataArray>
    </FieldData>
    <Piece Extent="{extent}">
      <PointData Scalars="{name}">
        <DataArray type="{kind}" Name="{name}" format="appended" offset="0"/>
      </PointData>
    </Piece>
  </ImageData>
  <AppendedData encoding="raw">
_"#
    )
}

/// Escapes the characters that XML reserves.
fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
