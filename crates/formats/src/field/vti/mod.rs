//! VTK image data in XML (`.vti`), which ParaView and VTK open and write.
//!
//! In written files the values follow the XML as raw bytes: a 64-bit length, then the values,
//! little-endian ("appended data" in "VTK XML Formats", VTK documentation). The array is not
//! compressed, because the low bits of the values are noise. The reader accepts all forms that VTK
//! writes by default or on request: text, base64 and raw bytes, in both byte orders, compressed by
//! zlib or not.

mod data;
mod read;
mod xml;

use std::io::Write;
use std::path::Path;

use orrery_model::grid::Grid;

pub use read::{read_field_vti, read_volume_vti};

use super::{FieldFrame, FieldLabels, FieldValues};
use crate::error::{Fault, IoError};
use crate::storage::replace_file;

/// Whether a file that starts with these bytes may be image data.
pub fn looks_like(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    [&b"<?xml"[..], b"<VTKFile", b"<!--"].iter().any(|start| text.starts_with(start))
}

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
    let labels = FieldLabels {
        name: Some(name.to_owned()),
        time: Some(time),
        frame: Some(FieldFrame { origin: [0.0; 2], spacing: [grid.hx, grid.hy] }),
        ..FieldLabels::default()
    };
    write_labelled_vti(path, [grid.nx, grid.ny], &labels, values)
}

/// Writes a field of `nodes` along x and y as VTK image data with its labels. The write is atomic.
///
/// A field without a name is called `value`, and one without a frame has its first node at 0 and a
/// spacing of 1. Name and unit must not contain control characters.
pub fn write_labelled_vti(
    path: &Path,
    [nx, ny]: [usize; 2],
    labels: &FieldLabels,
    values: FieldValues,
) -> Result<(), IoError> {
    let in_volume = |FieldFrame { origin: [x, y], spacing: [hx, hy] }| FieldFrame {
        origin: [x, y, 0.0],
        spacing: [hx, hy, 1.0],
    };
    let labels = FieldLabels {
        name: labels.name.clone(),
        unit: labels.unit.clone(),
        time: labels.time,
        frame: labels.frame.map(in_volume),
        other_arrays: Vec::new(),
    };
    write_volume_vti(path, [nx, ny, 1], &labels, values)
}

/// Writes a field of `nodes` along x, y and z as VTK image data, like [`write_labelled_vti`]. The
/// write is atomic.
pub fn write_volume_vti(
    path: &Path,
    nodes: [usize; 3],
    labels: &FieldLabels<3>,
    values: FieldValues,
) -> Result<(), IoError> {
    replace_file(path, |file| {
        Fault::check_length("field", values.len() as u64, nodes.iter().product::<usize>() as u64)?;
        for (location, text) in [("name", labels.name.as_deref()), ("unit", labels.unit.as_deref())] {
            if let Some(text) = text.filter(|text| text.is_empty() || text.contains(char::is_control)) {
                let location = format!("{location} of the field");
                return Err(Fault::malformed(location, format!("{text:?}"), "text"));
            }
        }
        file.write_all(header(nodes, labels, values).as_bytes())?;
        file.write_all(&(values.bytes().len() as u64).to_le_bytes())?;
        values.write_to(file)?;
        Ok(file.write_all(b"\n  </AppendedData>\n</VTKFile>\n")?)
    })
}

/// Returns the XML before the values.
fn header(nodes: [usize; 3], labels: &FieldLabels<3>, values: FieldValues) -> String {
    let [last_x, last_y, last_z] = nodes.map(|count| count - 1);
    let extent = format!("0 {last_x} 0 {last_y} 0 {last_z}");
    let FieldFrame { origin: [x, y, z], spacing: [hx, hy, hz] } = labels.frame.unwrap_or_default();
    let name = escape_xml(labels.name.as_deref().unwrap_or("value"));
    let kind = match values {
        FieldValues::Single(_) => "Float32",
        FieldValues::Double(_) => "Float64",
    };
    let time = labels.time.map_or(String::new(), |time| {
        format!(
            r#"
    <FieldData>
      <DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">{time:?}</DataArray>
    </FieldData>"#
        )
    });
    let array = format!(r#"<DataArray type="{kind}" Name="{name}" format="appended" offset="0""#);
    let array = match &labels.unit {
        None => format!("{array}/>"),
        Some(unit) => format!(
            r#"{array}>
          <InformationKey name="UNITS_LABEL" location="vtkDataArray">{}</InformationKey>
        </DataArray>"#,
            escape_xml(unit)
        ),
    };
    format!(
        r#"<?xml version="1.0"?>
<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">
  <ImageData WholeExtent="{extent}" Origin="{x:?} {y:?} {z:?}" Spacing="{hx:?} {hy:?} {hz:?}">{time}
    <Piece Extent="{extent}">
      <PointData Scalars="{name}">
        {array}
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
