//! Reader of image data: the XML, then the values of one array.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;

use orrery_model::Precision;

use super::super::{FieldData, FieldFrame, FieldLabels, VolumeData};
use super::data::{ArrayHead, BinaryForm, Storage, read_values};
use super::xml::{Element, Scanner};
use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::regular::open_input;
use crate::text::{MAX_QUOTED_CHARS, shorten_for_message};

/// Largest number of arrays in a file.
const MAX_ARRAYS: usize = 1000;
/// Number of bytes at the end of a file in which it must end.
const END_BYTES: u64 = 256;
/// Largest index of a node. Sums and differences of two indices are exact.
const MAX_INDEX: i64 = 1 << 40;
/// Largest number of characters of a name or a unit.
const MAX_LABEL_CHARS: usize = 200;
/// Name of the array with the time, in VTK and in ParaView.
const TIME: &str = "TimeValue";

/// Reads a scalar field on a plane from VTK image data. Returns it with its labels.
///
/// The array is the one that the file marks as its scalars, else the first with one Float32 or
/// Float64 per node. A plane may be normal to any axis, and its axes are then x and y.
pub fn read_field_vti(path: &Path, limits: &Limits) -> Result<(FieldData, FieldLabels), IoError> {
    let read = || {
        let (array, labels) = read(path, limits, Layout::plane)?;
        let FieldArray { nodes: [nx, ny], precision, values } = array;
        Ok((FieldData { nx, ny, precision, values }, labels))
    };
    read().map_err(|fault: Fault| fault.in_file(path))
}

/// Reads a scalar field from VTK image data of any number of nodes along x, y and z. Returns it
/// with its labels. The array is that of [`read_field_vti`].
pub fn read_volume_vti(path: &Path, limits: &Limits) -> Result<(VolumeData, FieldLabels<3>), IoError> {
    let read = || {
        let (array, labels) = read(path, limits, Layout::volume)?;
        let FieldArray { nodes, precision, values } = array;
        Ok((VolumeData { nodes, precision, values }, labels))
    };
    read().map_err(|fault: Fault| fault.in_file(path))
}

/// Values of a field with `D` axes.
struct FieldArray<const D: usize> {
    nodes: [usize; D],
    precision: Precision,
    values: Vec<f64>,
}

/// Reads the XML, selects nodes with `select`, and reads their values.
fn read<const D: usize>(
    path: &Path,
    limits: &Limits,
    select: impl Fn(&Layout) -> Result<Nodes<D>, Fault>,
) -> Result<(FieldArray<D>, FieldLabels<D>), Fault> {
    let (mut file, file_bytes) = open_input(path)?;
    let layout = Layout::read(&mut file, file_bytes, limits)?;
    let form = layout.binary_form()?;
    let Nodes { counts, frame } = select(&layout)?;
    let array = layout.select_array()?;
    let count = counts.iter().fold(1, |product: u64, &count| product.saturating_mul(count));
    let values = read_values(&file, form, array, count, limits)?;
    let time = layout.time.as_ref().map(|time| read_values(&file, form, time, 1, limits)).transpose()?;
    let others = layout.arrays.iter().filter(|other| !std::ptr::eq(*other, array));
    let labels = FieldLabels {
        name: clean_label(&array.name),
        unit: array.unit.as_deref().and_then(clean_label),
        time: time.map(|time| time[0]),
        frame: Some(frame),
        other_arrays: others.filter_map(|array| clean_label(&array.name)).collect(),
    };
    let precision = array.precision.unwrap_or(Precision::Double);
    Ok((FieldArray { nodes: counts.map(|count| count as usize), precision, values }, labels))
}

/// Content of the XML.
#[derive(Default)]
struct Layout {
    form: Option<BinaryForm>,
    image: Option<ImageHead>,
    pieces: usize,
    /// Arrays of the nodes.
    arrays: Vec<ArrayHead>,
    /// Name of the array that is marked as scalars.
    scalars: Option<String>,
    cell_arrays: usize,
    time: Option<ArrayHead>,
}

/// Attributes of the element `ImageData`.
struct ImageHead {
    /// First and last index of each axis.
    extent: [[i64; 2]; 3],
    origin: [f64; 3],
    spacing: [f64; 3],
}

/// Numbers of nodes along `D` axes and their coordinates.
struct Nodes<const D: usize> {
    counts: [u64; D],
    frame: FieldFrame<D>,
}

impl Layout {
    fn read(file: &mut File, file_bytes: u64, limits: &Limits) -> Result<Self, Fault> {
        check_end(file, file_bytes)?;
        let mut scanner = Scanner::new(BufReader::new(&*file), limits.memory);
        let mut layout = Self::default();
        while let Some(element) = scanner.next_element()? {
            match element.path.as_str() {
                "VTKFile" => layout.form = Some(read_form(&element, file_bytes)?),
                "VTKFile/ImageData" => layout.image = Some(ImageHead::read(&element)?),
                "VTKFile/ImageData/FieldData/DataArray" => {
                    let is_time = element.attribute("Name") == Some(TIME)
                        && matches!(element.attribute("NumberOfTuples"), None | Some("1"));
                    if is_time {
                        layout.time = Some(read_array_head(&element)?);
                    }
                }
                "VTKFile/ImageData/Piece" => layout.add_piece(&element)?,
                "VTKFile/ImageData/Piece/PointData" => {
                    layout.scalars = element.attribute("Scalars").map(str::to_owned);
                }
                "VTKFile/ImageData/Piece/PointData/DataArray" => {
                    layout.arrays.push(read_array_head(&element)?);
                    if layout.arrays.len() > MAX_ARRAYS {
                        let expected = format!("at most {MAX_ARRAYS}");
                        return Err(Fault::malformed("PointData", "more arrays", expected));
                    }
                }
                "VTKFile/ImageData/Piece/PointData/DataArray/InformationKey" => {
                    if element.attribute("name") == Some("UNITS_LABEL")
                        && let Some(array) = layout.arrays.last_mut()
                    {
                        array.unit = Some(scanner.read_text()?).filter(|unit| !unit.is_empty());
                    }
                }
                "VTKFile/ImageData/Piece/CellData/DataArray" => layout.cell_arrays += 1,
                "VTKFile/AppendedData" => {
                    if let Some(form) = &mut layout.form {
                        form.is_appended_base64 = read_choice(&element, "encoding", ["raw", "base64"])? == 1;
                        form.appended_start = Some(scanner.find_appended_data()?);
                    }
                    // Raw bytes follow, which are not XML.
                    break;
                }
                _ if layout.form.is_none() => {
                    let got = format!("the element {}", quote(element.name()));
                    return Err(Fault::malformed("XML", got, "VTKFile"));
                }
                _ => {}
            }
        }
        Ok(layout)
    }

    fn add_piece(&mut self, element: &Element) -> Result<(), Fault> {
        self.pieces += 1;
        if self.pieces > 1 {
            return Err(Fault::malformed("ImageData", "several pieces", "one piece"));
        }
        let extent = read_extent(element, "Extent")?;
        if self.image.as_ref().is_some_and(|image| image.extent != extent) {
            return Err(element.attribute_fault("Extent", "the WholeExtent of ImageData"));
        }
        Ok(())
    }

    fn binary_form(&self) -> Result<&BinaryForm, Fault> {
        self.form.as_ref().ok_or_else(|| Fault::malformed("XML", "no element VTKFile", "image data of VTK"))
    }

    /// Returns the nodes of a plane. Its normal is the last axis with one node.
    fn plane(&self) -> Result<Nodes<2>, Fault> {
        match self.image()?.node_counts() {
            [_, _, 1] => self.nodes_along([0, 1]),
            [_, 1, _] => self.nodes_along([0, 2]),
            [1, _, _] => self.nodes_along([1, 2]),
            [nx, ny, nz] => {
                let got = format!("{nx} x {ny} x {nz} nodes");
                Err(Fault::malformed("ImageData WholeExtent", got, "a plane, an axis with one node"))
            }
        }
    }

    fn volume(&self) -> Result<Nodes<3>, Fault> {
        self.nodes_along([0, 1, 2])
    }

    fn image(&self) -> Result<&ImageHead, Fault> {
        let missing = || Fault::malformed("VTKFile", "no element ImageData", "image data of VTK");
        self.image.as_ref().ok_or_else(missing)
    }

    fn nodes_along<const D: usize>(&self, axes: [usize; D]) -> Result<Nodes<D>, Fault> {
        let image = self.image()?;
        let ImageHead { extent, origin, spacing } = image;
        let counts = image.node_counts();
        let is_usable = |h: f64| h.is_finite() && h > 0.0;
        if axes.iter().any(|&axis| counts[axis] > 1 && !is_usable(spacing[axis])) {
            let got = axes.map(|axis| spacing[axis].to_string()).join(" x ");
            return Err(Fault::malformed("ImageData Spacing", got, "positive numbers"));
        }
        let frame = FieldFrame {
            origin: axes.map(|axis| origin[axis] + extent[axis][0] as f64 * spacing[axis]),
            // An axis with one node has no distances, and some programs write 0 for it.
            spacing: axes.map(|axis| if is_usable(spacing[axis]) { spacing[axis] } else { 1.0 }),
        };
        Ok(Nodes { counts: axes.map(|axis| counts[axis]), frame })
    }

    /// Returns the array to read: the marked one if it is a scalar array, else the first of those.
    fn select_array(&self) -> Result<&ArrayHead, Fault> {
        let mut usable = self.arrays.iter().filter(|array| array.is_scalar && array.precision.is_some());
        let marked = usable.clone().find(|array| self.scalars.as_ref() == Some(&array.name));
        marked.or_else(|| usable.next()).ok_or_else(|| {
            let expected = "an array with one Float32 or Float64 per node";
            if self.arrays.is_empty() && self.cell_arrays > 0 {
                return Fault::malformed("PointData", "no array, only values of cells in CellData", expected);
            }
            let Some(array) = self.arrays.first() else {
                return Fault::malformed("PointData", "no array", expected);
            };
            let got = format!("{} with {}", quote(&array.name), quote(&array.kind));
            Fault::malformed("PointData", got, expected)
        })
    }
}

impl ImageHead {
    fn node_counts(&self) -> [u64; 3] {
        self.extent.map(|[first, last]| (last - first + 1) as u64)
    }

    fn read(element: &Element) -> Result<Self, Fault> {
        let numbers = |name: &str| match element.attribute(name) {
            None => Ok(None),
            Some(text) => parse_numbers::<f64, 3>(text)
                .filter(|numbers| numbers.iter().all(|number| number.is_finite()))
                .map(Some)
                .ok_or_else(|| element.attribute_fault(name, "three finite numbers")),
        };
        let direction = element.attribute("Direction").map(parse_numbers::<f64, 9>);
        if direction.is_some_and(|found| found != Some([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])) {
            return Err(element.attribute_fault("Direction", "1 0 0 0 1 0 0 0 1, axes along x, y and z"));
        }
        Ok(Self {
            extent: read_extent(element, "WholeExtent")?,
            origin: numbers("Origin")?.unwrap_or([0.0; 3]),
            spacing: numbers("Spacing")?.unwrap_or([1.0; 3]),
        })
    }
}

/// Checks that the file is complete.
fn check_end(file: &mut File, file_bytes: u64) -> Result<(), Fault> {
    let mut start = [0; 16];
    let length = file.read(&mut start)?;
    if !super::looks_like(&start[..length]) {
        return Err(Fault::malformed("byte 0", "no XML", "image data of VTK"));
    }
    file.seek(SeekFrom::Start(file_bytes.saturating_sub(END_BYTES)))?;
    let mut end = Vec::new();
    (&*file).take(END_BYTES).read_to_end(&mut end)?;
    file.rewind()?;
    if !end.trim_ascii_end().ends_with(b"</VTKFile>") {
        return Err(Fault::malformed("file", "an end without </VTKFile>", "a complete file"));
    }
    Ok(())
}

/// Reads the attributes of `VTKFile`.
fn read_form(element: &Element, file_bytes: u64) -> Result<BinaryForm, Fault> {
    if element.required("type")? != "ImageData" {
        return Err(element.attribute_fault("type", "ImageData"));
    }
    let is_compressed = match element.attribute("compressor") {
        None | Some("") => false,
        Some("vtkZLibDataCompressor") => true,
        Some(_) => {
            return Err(element.attribute_fault("compressor", "vtkZLibDataCompressor or none"));
        }
    };
    Ok(BinaryForm {
        file_bytes,
        is_big_endian: read_choice(element, "byte_order", ["LittleEndian", "BigEndian"])? == 1,
        header_bytes: [4, 8][read_choice(element, "header_type", ["UInt32", "UInt64"])?],
        is_compressed,
        appended_start: None,
        is_appended_base64: false,
    })
}

/// Returns the index of an attribute among two `choices`. The first is the default.
fn read_choice(element: &Element, name: &str, choices: [&str; 2]) -> Result<usize, Fault> {
    match element.attribute(name) {
        None => Ok(0),
        Some(value) => choices
            .iter()
            .position(|choice| *choice == value)
            .ok_or_else(|| element.attribute_fault(name, &choices.join(" or "))),
    }
}

fn read_array_head(element: &Element) -> Result<ArrayHead, Fault> {
    let kind = element.required("type")?;
    let precision = match kind {
        "Float32" => Some(Precision::Single),
        "Float64" => Some(Precision::Double),
        _ => None,
    };
    let components = element.attribute("NumberOfComponents").unwrap_or("1");
    let is_scalar = components == "1";
    let storage = match element.required("format")? {
        "ascii" => Storage::Text(element.text_start),
        "binary" => Storage::Inline(element.text_start),
        "appended" => {
            let offset = element.required("offset")?.parse();
            Storage::Appended(offset.map_err(|_| element.attribute_fault("offset", "a number of bytes"))?)
        }
        _ => return Err(element.attribute_fault("format", "ascii, binary or appended")),
    };
    Ok(ArrayHead {
        name: element.attribute("Name").unwrap_or_default().to_owned(),
        precision,
        kind: if is_scalar { kind.to_owned() } else { format!("{components} components") },
        is_scalar,
        unit: None,
        storage,
    })
}

fn read_extent(element: &Element, name: &str) -> Result<[[i64; 2]; 3], Fault> {
    let indices = parse_numbers::<i64, 6>(element.required(name)?);
    let extent = indices.map(|k| [[k[0], k[1]], [k[2], k[3]], [k[4], k[5]]]);
    let is_usable = |[first, last]: [i64; 2]| -MAX_INDEX <= first && first <= last && last <= MAX_INDEX;
    extent
        .filter(|extent| extent.iter().all(|axis| is_usable(*axis)))
        .ok_or_else(|| element.attribute_fault(name, "the first and the last index of three axes"))
}

fn parse_numbers<T: FromStr, const N: usize>(text: &str) -> Option<[T; N]> {
    let numbers =
        text.split_whitespace().take(N + 1).map(|word| word.parse().ok()).collect::<Option<Vec<T>>>()?;
    numbers.try_into().ok()
}

/// Returns a text that can be printed and written, `None` if it is empty.
fn clean_label(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| shorten_for_message(text, MAX_LABEL_CHARS))
}

fn quote(text: &str) -> String {
    shorten_for_message(text, MAX_QUOTED_CHARS)
}
