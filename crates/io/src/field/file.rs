//! Files of fields in all formats: detection of the format, reading, writing, and a picture.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};

use super::array::write_volume_npy;
use super::vti::{self, write_labelled_vti};
use super::{
    FieldData, FieldFrame, FieldLabels, FieldValues, read_field_npy, read_field_png, read_field_vti,
};
use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::picture::{FieldPicture, Image, PictureError, ValueRange, render_field};
use crate::snapshot::Format;

/// Longer side of a picture in pixels.
const PICTURE_PIXELS: u32 = 1024;

/// A file format of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFormat {
    /// NumPy array: `.npy`.
    Npy,
    /// VTK image data: `.vti`.
    Vti,
    /// Image: `.png`.
    Png,
}

impl FieldFormat {
    /// Returns the format for the extension of `path`.
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "npy" => Some(Self::Npy),
            "vti" => Some(Self::Vti),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    /// Detects the format from the first bytes of a file.
    pub fn from_content(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x93NUMPY") {
            Some(Self::Npy)
        } else if head.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if vti::looks_like(head) {
            Some(Self::Vti)
        } else {
            None
        }
    }

    /// Returns the format in which a file is read: that of its extension, else that of its first
    /// bytes. `None` if the file is not a field, or if it cannot be read.
    pub fn detect(path: &Path) -> Option<Self> {
        if Format::from_path(path).is_some() {
            return None;
        }
        Self::from_path(path).or_else(|| {
            // Opening a pipe waits for a writer.
            path.is_file().then_some(())?;
            let mut head = Vec::new();
            File::open(path).ok()?.take(64).read_to_end(&mut head).ok()?;
            Self::from_content(&head)
        })
    }

    /// Name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Npy => "NPY",
            Self::Vti => "VTK image data",
            Self::Png => "PNG image",
        }
    }
}

/// A field from a file of any format.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldFile {
    /// Format of the file.
    pub format: FieldFormat,
    /// Length of the file.
    pub file_bytes: u64,
    /// Nodes and values.
    pub data: FieldData,
    /// Properties that the file records.
    pub labels: FieldLabels,
}

impl FieldFile {
    /// Returns the column and the row of the node `index`, and its coordinates if they are known.
    pub fn node(&self, index: usize) -> ([usize; 2], Option<[f64; 2]>) {
        let node = [index % self.data.nx, index / self.data.nx];
        let position = |FieldFrame { origin, spacing }: FieldFrame| {
            [0, 1].map(|axis| origin[axis] + node[axis] as f64 * spacing[axis])
        };
        (node, self.labels.frame.map(position))
    }
}

/// Reads a field in any supported format.
///
/// The format is that of the extension. For an unknown extension, the first bytes of the file
/// select it. A field has at least one node.
pub fn read_field(path: &Path, limits: &Limits) -> Result<FieldFile, IoError> {
    let format = FieldFormat::detect(path).ok_or_else(|| {
        let expected = "an NPY file, VTK image data or a PNG image";
        // A path that does not exist has no content.
        let fault = match path.metadata() {
            Err(error) => Fault::System(error),
            Ok(_) => Fault::malformed("byte 0", "unknown content", expected),
        };
        fault.in_file(path)
    })?;
    let (data, labels) = match format {
        FieldFormat::Npy => (read_field_npy(path, limits)?, FieldLabels::default()),
        FieldFormat::Png => (read_field_png(path, limits)?, FieldLabels::default()),
        FieldFormat::Vti => read_field_vti(path, limits)?,
    };
    if data.values.is_empty() {
        let got = format!("{} x {} nodes", data.nx, data.ny);
        return Err(Fault::malformed("field", got, "at least one node").in_file(path));
    }
    let file_bytes = path.metadata().map_err(|error| IoError::from_system(path, error))?.len();
    Ok(FieldFile { format, file_bytes, data, labels })
}

/// Writes a field as `.npy` or `.vti`, in its precision. The write is atomic.
///
/// An NPY file has the values alone. [`render_field_file`] makes a picture.
pub fn write_field(path: &Path, field: &FieldFile) -> Result<(), IoError> {
    let FieldData { nx, ny, precision, values } = &field.data;
    let singles: Vec<f32>;
    let values = if *precision == Precision::Single {
        singles = values.iter().map(|&value| value as f32).collect();
        FieldValues::Single(&singles)
    } else {
        FieldValues::Double(values)
    };
    match FieldFormat::from_path(path) {
        Some(FieldFormat::Npy) => write_volume_npy(path, [*nx, *ny, 1], values),
        Some(FieldFormat::Vti) => write_labelled_vti(path, [*nx, *ny], &field.labels, values),
        _ => {
            let got = path.extension().map_or("(none)".into(), |e| format!(".{}", e.display()));
            Err(Fault::malformed("extension", got, ".npy or .vti").in_file(path))
        }
    }
}

/// Draws a field with axes and a colour bar. Lengths start at the first node.
pub fn render_field_file(field: &FieldFile, title: &str) -> Result<Image, PictureError> {
    let FieldData { nx, ny, ref values, .. } = field.data;
    let FieldFrame { spacing: [hx, hy], .. } = field.labels.frame.unwrap_or_default();
    // A file does not record the conditions on its edges.
    let boundaries = Boundaries::uniform(Boundary::INSULATED);
    let mut picture = FieldPicture {
        shows_edges: false,
        title: title.to_owned(),
        quantity: field.labels.name.clone().unwrap_or_default(),
        unit: field.labels.unit.clone().unwrap_or_default(),
        ..FieldPicture::new(Grid { nx, ny, hx, hy }, boundaries, (PICTURE_PIXELS, PICTURE_PIXELS))
    };
    let range = ValueRange::covering(values);
    picture.pixels = picture.fitted_pixels(PICTURE_PIXELS, range);
    let time =
        field.labels.time.map_or(String::new(), |time| format!("t = {}", orrery_model::short_number(time)));
    render_field(values, &picture, range, &time)
}
