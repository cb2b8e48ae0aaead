//! Files of fields in all formats: detection of the format, reading and writing.

use std::io::Read;
use std::path::Path;

use orrery_model::Precision;

use super::array::{read_volume_npy, write_volume_npy};
use super::vti::{self, read_volume_vti, write_volume_vti};
use super::window::{Window, copy_window};
use super::{FieldData, FieldFrame, FieldLabels, FieldValues, VolumeData, read_field_png};
use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::regular::open_input;
use crate::segy::{self, SegyModel, read_model_segy};
use crate::snapshot::Format;

/// A file format of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFormat {
    /// NumPy array: `.npy`.
    Npy,
    /// VTK image data: `.vti`.
    Vti,
    /// Image: `.png`.
    Png,
    /// SEG-Y: `.sgy` or `.segy`. It may also have seismograms, see [`crate::read_segy`].
    Segy,
}

impl FieldFormat {
    /// Returns the format for the extension of `path`.
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "npy" => Some(Self::Npy),
            "vti" => Some(Self::Vti),
            "png" => Some(Self::Png),
            "sgy" | "segy" => Some(Self::Segy),
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
        } else if segy::looks_like(head) {
            Some(Self::Segy)
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
            let mut head = Vec::new();
            open_input(path).ok()?.0.take(64).read_to_end(&mut head).ok()?;
            Self::from_content(&head)
        })
    }

    /// Name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Npy => "NPY",
            Self::Vti => "VTK image data",
            Self::Png => "PNG image",
            Self::Segy => "SEG-Y",
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
    /// Nodes and values. A plane has one node along z.
    pub data: VolumeData,
    /// Properties that the file records. A plane has coordinates along z as well.
    pub labels: FieldLabels<3>,
    /// Whether the field is a plane whose y is a depth.
    pub is_section: bool,
}

impl FieldFile {
    /// Returns the number of axes: 2 for a plane, else 3.
    pub fn axis_count(&self) -> usize {
        if self.data.nodes[2] == 1 { 2 } else { 3 }
    }

    /// Returns the indices of the node `index` along x, y and z, and its coordinates if they are
    /// known.
    pub fn node(&self, index: usize) -> ([usize; 3], Option<[f64; 3]>) {
        let [nx, ny, _] = self.data.nodes;
        let node = [index % nx, index / nx % ny, index / (nx * ny)];
        let position = |FieldFrame { origin, spacing }: FieldFrame<3>| {
            [0, 1, 2].map(|axis| origin[axis] + node[axis] as f64 * spacing[axis])
        };
        (node, self.labels.frame.map(position))
    }

    /// Returns the node `index` for a message, for example `node (2, 1)`.
    pub fn node_text(&self, index: usize) -> String {
        let (node, _) = self.node(index);
        let indices: Vec<String> = node[..self.axis_count()].iter().map(usize::to_string).collect();
        format!("node ({})", indices.join(", "))
    }

    /// Returns the numbers of nodes for a message, for example `4 x 3` for a plane.
    pub fn nodes_text(&self) -> String {
        let counts: Vec<String> = self.data.nodes[..self.axis_count()].iter().map(usize::to_string).collect();
        counts.join(" x ")
    }

    /// Returns the field at the nodes of `windows` along x, y and z.
    pub fn windowed(self, windows: &[Window; 3]) -> Result<Self, Fault> {
        let values = copy_window(&self.data.values, self.data.nodes, windows)?;
        let frame = self.labels.frame.map(|FieldFrame { origin, spacing }| FieldFrame {
            origin: [0, 1, 2].map(|axis| origin[axis] + windows[axis].start as f64 * spacing[axis]),
            spacing: [0, 1, 2].map(|axis| spacing[axis] * windows[axis].stride as f64),
        });
        Ok(Self {
            data: VolumeData { nodes: windows.map(|window| window.len()), values, ..self.data },
            labels: FieldLabels { frame, ..self.labels },
            ..self
        })
    }

    /// Returns a field with one node along x or y as a plane, whose axes become x and y. Other
    /// fields stay as they are.
    pub fn as_plane(mut self) -> Self {
        let axes = match self.data.nodes {
            [_, _, 1] => return self,
            [_, 1, _] => [0, 2, 1],
            [1, _, _] => [1, 2, 0],
            _ => return self,
        };
        self.data.nodes = axes.map(|axis| self.data.nodes[axis]);
        self.labels.frame = self.labels.frame.map(|frame| FieldFrame {
            origin: axes.map(|axis| frame.origin[axis]),
            spacing: axes.map(|axis| frame.spacing[axis]),
        });
        // The last axis of a model is the depth.
        self.is_section = self.format == FieldFormat::Segy;
        self
    }

    /// Creates the field of a model. It has coordinates if the spacing along all of its axes is
    /// known.
    pub(crate) fn from_model(model: SegyModel, file_bytes: u64) -> Self {
        let SegyModel { data, spacing } = model;
        let is_section = data.nodes[2] == 1;
        let spacing_along = |axis: usize| match data.nodes[axis] {
            1 => Some(spacing[axis].unwrap_or(1.0)),
            _ => spacing[axis],
        };
        let frame = match [0, 1, 2].map(spacing_along) {
            [Some(hx), Some(hy), Some(hz)] => Some(FieldFrame { origin: [0.0; 3], spacing: [hx, hy, hz] }),
            _ => None,
        };
        let labels = FieldLabels { frame, ..FieldLabels::default() };
        Self { format: FieldFormat::Segy, file_bytes, data, labels, is_section }
    }
}

/// Reads a field in any supported format, a plane or a volume.
///
/// The format is that of the extension. For an unknown extension, the first bytes of the file
/// select it. SEG-Y is read as a model. A field has at least one node. A plane of VTK image data
/// may be normal to any axis, and its axes are then x and y.
pub fn read_field(path: &Path, limits: &Limits) -> Result<FieldFile, IoError> {
    let format = FieldFormat::detect(path).ok_or_else(|| {
        let expected = "an NPY file, VTK image data, a PNG image or SEG-Y";
        // A path that does not exist has no content.
        let fault = match path.metadata() {
            Err(error) => Fault::System(error),
            Ok(_) => Fault::malformed("byte 0", "unknown content", expected),
        };
        fault.in_file(path)
    })?;
    let (data, labels) = match format {
        FieldFormat::Npy => (read_volume_npy(path, limits)?, FieldLabels::default()),
        FieldFormat::Png => {
            let FieldData { nx, ny, precision, values } = read_field_png(path, limits)?;
            (VolumeData { nodes: [nx, ny, 1], precision, values }, FieldLabels::default())
        }
        FieldFormat::Vti => read_volume_vti(path, limits)?,
        FieldFormat::Segy => {
            return Ok(FieldFile::from_model(read_model_segy(path, limits)?, length_of(path)?));
        }
    };
    let file_bytes = length_of(path)?;
    let field = FieldFile { format, file_bytes, data, labels, is_section: false };
    if field.data.values.is_empty() {
        let got = format!("{} nodes", field.nodes_text());
        return Err(Fault::malformed("field", got, "at least one node").in_file(path));
    }
    Ok(if format == FieldFormat::Vti { field.as_plane() } else { field })
}

pub(crate) fn length_of(path: &Path) -> Result<u64, IoError> {
    Ok(path.metadata().map_err(|error| IoError::from_system(path, error))?.len())
}

/// Writes a field as `.npy` or `.vti`, in its precision. The write is atomic.
///
/// An NPY file has the values alone.
pub fn write_field(path: &Path, field: &FieldFile) -> Result<(), IoError> {
    let VolumeData { nodes, precision, values } = &field.data;
    let singles: Vec<f32>;
    let values = if *precision == Precision::Single {
        singles = values.iter().map(|&value| value as f32).collect();
        FieldValues::Single(&singles)
    } else {
        FieldValues::Double(values)
    };
    match FieldFormat::from_path(path) {
        Some(FieldFormat::Npy) => write_volume_npy(path, *nodes, values),
        Some(FieldFormat::Vti) => write_volume_vti(path, *nodes, &field.labels, values),
        _ => {
            let got = path.extension().map_or("(none)".into(), |e| format!(".{}", e.display()));
            Err(Fault::malformed("extension", got, ".npy or .vti").in_file(path))
        }
    }
}
