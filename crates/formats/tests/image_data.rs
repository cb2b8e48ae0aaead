//! VTK image data: all forms that VTK writes, round trips, and files that are refused.

use std::fs;
use std::path::Path;

use orrery_formats::{
    FieldData, FieldFrame, FieldLabels, FieldValues, Limits, read_field, read_field_vti, write_field_vti,
};
use orrery_model::Precision;
use orrery_model::grid::Grid;
use orrery_model::rng::philox4x32_10;

/// Returns a file with 3 x 2 nodes. `replaced` is a part of it and its replacement.
fn vti_text(replaced: (&str, &str)) -> String {
    let text = r#"<?xml version="1.0"?>
<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian">
  <ImageData WholeExtent="0 2 0 1 0 0" Origin="0 0 0" Spacing="1 1 1">
    <Piece Extent="0 2 0 1 0 0">
      <PointData>
        <DataArray type="Float64" Name="u" format="ascii">
          1 2 3
          4 5 6
        </DataArray>
      </PointData>
    </Piece>
  </ImageData>
</VTKFile>
"#;
    assert!(text.contains(replaced.0), "{}", replaced.0);
    text.replace(replaced.0, replaced.1)
}

/// Reads bytes as a file and checks that an error is one line that starts with the path.
fn read_bytes(bytes: impl AsRef<[u8]>) -> Result<(FieldData, FieldLabels), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.vti");
    fs::write(&path, bytes).unwrap();
    let (data, labels) = read_field_vti(&path, &Limits { memory: 1 << 20 }).map_err(|error| {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        let start = format!("{}: ", path.display());
        message.strip_prefix(&start).expect("starts with the path").to_owned()
    })?;
    assert_eq!(data.values.len(), data.nx * data.ny);
    Ok((data, labels))
}

/// tests/vti/make.py wrote the files.
#[test]
fn all_forms_of_vtk_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vti");
    let mut count = 0;
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "vti") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (data, labels) = read_field_vti(&path, &Limits::unbounded()).unwrap();
        let is_single = name.ends_with("-32");
        let exact = (0..12).map(|k| f64::from(k) / 7.0);
        let expected: Vec<f64> = match (is_single, name.starts_with("ascii")) {
            (true, true) => {
                exact.map(|u| format!("{:.8}", u as f32).parse::<f32>().unwrap().into()).collect()
            }
            (true, false) => exact.map(|u| f64::from(u as f32)).collect(),
            (false, _) => exact.collect(),
        };
        assert_eq!((data.nx, data.ny), (4, 3), "{name}");
        assert_eq!(data.values, expected, "{name}");
        let precision = if is_single { Precision::Single } else { Precision::Double };
        assert_eq!(data.precision, precision, "{name}");
        let expected = FieldLabels {
            name: Some("T".to_owned()),
            unit: Some("K & more".to_owned()),
            time: Some(0.3),
            frame: Some(FieldFrame { origin: [2.0, 1.75], spacing: [0.5, 0.25] }),
            other_arrays: vec!["flux".to_owned()],
        };
        assert_eq!(labels, expected, "{name}");
        count += 1;
    }
    assert_eq!(count, 26);
}

#[test]
fn written_files_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.vti");
    let grid = Grid { nx: 5, ny: 3, hx: 0.1, hy: 1e-7 };
    let mut doubles: Vec<f64> = (0..15).map(|k| f64::from(k) / 7.0 - 1.0).collect();
    doubles[3] = f64::INFINITY;
    let singles: Vec<f32> = doubles.iter().map(|&u| u as f32).collect();
    let (name, time) = ("temperature <K> & \"more\"", 0.1 + 0.2);
    for values in [FieldValues::Single(&singles), FieldValues::Double(&doubles)] {
        write_field_vti(&path, &grid, name, time, values).unwrap();
        let (data, labels) = read_field_vti(&path, &Limits::unbounded()).unwrap();
        let expected = match values {
            FieldValues::Single(_) => singles.iter().map(|&u| u.into()).collect(),
            FieldValues::Double(_) => doubles.clone(),
        };
        assert_eq!((data.nx, data.ny, data.values), (5, 3, expected));
        let frame = FieldFrame { origin: [0.0; 2], spacing: [0.1, 1e-7] };
        assert_eq!(labels.name.as_deref(), Some(name));
        assert_eq!((labels.time, labels.frame, labels.unit), (Some(time), Some(frame), None));
    }
}

/// Defaults of attributes, planes normal to x and y, and texts as other programs write them.
#[test]
fn other_layouts_are_read() {
    let (data, labels) = read_bytes(vti_text(("", ""))).unwrap();
    assert_eq!((data.nx, data.ny, &data.values[..]), (3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]));
    assert_eq!(labels.time, None);
    let (data, labels) = read_bytes(vti_text(("0 2 0 1 0 0", "0 0 5 7 1 2"))).unwrap();
    assert_eq!((data.nx, data.ny), (3, 2));
    assert_eq!(labels.frame.unwrap().origin, [5.0, 1.0]);
    let (data, _) = read_bytes(vti_text(("0 2 0 1 0 0", "0 2 4 4 0 1"))).unwrap();
    assert_eq!((data.nx, data.ny), (3, 2));
    let (data, _) = read_bytes(vti_text(("0 2 0 1 0 0", "0 5 0 0 0 0"))).unwrap();
    assert_eq!((data.nx, data.ny), (6, 1));
    let (data, labels) = read_bytes(vti_text((" Origin=\"0 0 0\" Spacing=\"1 1 1\"", ""))).unwrap();
    assert_eq!((data.nx, labels.frame), (3, Some(FieldFrame::default())));
    let (data, _) = read_bytes(vti_text(("1 2 3", "-nan inf -3e-5"))).unwrap();
    assert!(data.values[0].is_nan() && data.values[1..3] == [f64::INFINITY, -3e-5]);
    // In base64, the header is in one text with the values, or in a text before them.
    let joined = "MAAAAAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAIQAAAAAAAABBAAAAAAAAAFEAAAAAAAAAYQA==";
    let separate = "MAAAAA== AAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhAAAAAAAAAEEAAAAAAAAAUQAAAAAAAABhA";
    for text in [joined, separate] {
        let whole =
            vti_text(("format=\"ascii\"", "format=\"binary\"")).replace("1 2 3\n          4 5 6", text);
        assert_eq!(read_bytes(whole).unwrap().0.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}

/// A plane is a field with one node along z, whatever its normal and the spacing along it are.
#[test]
fn planes_of_any_normal_are_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plane.vti");
    for (extent, spacing, expected) in [
        ("0 2 0 1 0 0", "1 2 0", [1.0, 2.0, 1.0]),
        ("0 2 4 4 0 1", "1 0 3", [1.0, 3.0, 1.0]),
        ("4 4 0 2 0 1", "-1 2 3", [2.0, 3.0, 1.0]),
    ] {
        let text = vti_text(("0 2 0 1 0 0", extent)).replace("1 1 1\"", &format!("{spacing}\""));
        fs::write(&path, text).unwrap();
        let field = read_field(&path, &Limits::default()).unwrap();
        assert_eq!(
            (field.data.nodes, field.labels.frame.unwrap().spacing),
            ([3, 2, 1], expected),
            "{extent}"
        );
        assert_eq!(field.data.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}

#[test]
fn the_marked_array_or_the_first_scalar_array_is_read() {
    let arrays = "<DataArray type=\"UInt8\" Name=\"mask\" format=\"ascii\">0 0 0 0 0 0</DataArray>
        <DataArray type=\"Float32\" Name=\"v\" format=\"ascii\">6 5 4 3 2 1</DataArray>
        <DataArray type=\"Float64\" Name=\"u\"";
    let start = "<DataArray type=\"Float64\" Name=\"u\"";
    let (data, labels) = read_bytes(vti_text((start, arrays))).unwrap();
    assert_eq!((labels.name.as_deref(), data.values[0], data.precision), (Some("v"), 6.0, Precision::Single));
    assert_eq!(labels.other_arrays, ["mask", "u"]);
    for (marked, expected) in [("u", "u"), ("mask", "v"), ("w", "v")] {
        let text =
            vti_text((start, arrays)).replace("<PointData>", &format!("<PointData Scalars='{marked}'>"));
        assert_eq!(read_bytes(text).unwrap().1.name.as_deref(), Some(expected));
    }
}

#[test]
fn files_that_cannot_be_read_are_refused_with_a_clear_line() {
    let array = "type=\"Float64\" Name=\"u\" format=\"ascii\"";
    for (replaced, message) in [
        (("</VTKFile>\n", ""), "file: got an end without </VTKFile>, expected a complete file"),
        (("<?xml version=\"1.0\"?>\n", "GIF89a"), "byte 0: got no XML, expected image data of VTK"),
        (("<VTKFile", "<html><VTKFile"), "XML: got the element html, expected VTKFile"),
        (("\"ImageData\"", "\"PolyData\""), "VTKFile type: got 'PolyData', expected ImageData"),
        (("LittleEndian", "PDP"), "VTKFile byte_order: got 'PDP', expected LittleEndian or BigEndian"),
        (
            ("version=\"1.0\" byte", "compressor=\"vtkLZ4DataCompressor\" byte"),
            "VTKFile compressor: got 'vtkLZ4DataCompressor', expected vtkZLibDataCompressor or none",
        ),
        (
            ("0 2 0 1 0 0", "0 2 0 1 0 3"),
            "ImageData WholeExtent: got 3 x 2 x 4 nodes, expected a plane, an axis with one node",
        ),
        (
            ("WholeExtent=\"0 2", "WholeExtent=\"2 0"),
            "ImageData WholeExtent: got '2 0 0 1 0 0', expected the first and the last index of three axes",
        ),
        (
            ("\"0 2 0 1 0 0\" Origin", "\"0 1 0 1 0 0\" Origin"),
            "Piece Extent: got '0 2 0 1 0 0', expected the WholeExtent of ImageData",
        ),
        (
            ("WholeExtent=\"0 2 0 1 0 0\"", ""),
            "ImageData: got no attribute WholeExtent, expected image data of VTK",
        ),
        (("1 1 1", "1 0 1"), "ImageData Spacing: got 1 x 0, expected positive numbers"),
        (("1 1 1", "1 1"), "ImageData Spacing: got '1 1', expected three finite numbers"),
        (
            ("1 1 1\"", "1 1 1\" Direction=\"0 1 0 1 0 0 0 0 1\""),
            "ImageData Direction: got '0 1 0 1 0 0 0 0 1', expected 1 0 0 0 1 0 0 0 1, axes along x, y and z",
        ),
        (
            ("</Piece>", "</Piece><Piece Extent=\"0 2 0 1 0 0\"></Piece>"),
            "ImageData: got several pieces, expected one piece",
        ),
        (
            ("Float64", "Int32"),
            "PointData: got u with Int32, expected an array with one Float32 or Float64 per node",
        ),
        (
            ("format", "NumberOfComponents=\"3\" format"),
            "PointData: got u with 3 components, expected an array with one Float32 or Float64 per node",
        ),
        (("1 2 3", "1 2"), "array u has 5 entries, expected 6"),
        (("1 2 3", "1 2 3 4"), "array u: got more values, expected 6, one per node"),
        (("1 2 3", "1 2 x"), "array u: got 'x', expected a number"),
        (
            ("0 2 0 1 0 0", "0 999999 0 99999 0 0"),
            "array u: got 112 bytes in the file, expected at least 199999999999 for 100000000000 values",
        ),
        (
            ("0 2 0 1 0 0", "0 1099511627776 0 1099511627776 0 0"),
            "array u: got 112 bytes in the file, expected at least 18446744073709551614 for 18446744073709551615 values",
        ),
        (
            (array, "type=\"Float64\" Name=\"u\" format=\"xml\""),
            "DataArray format: got 'xml', expected ascii, binary or appended",
        ),
        (
            (array, "type=\"Float64\" Name=\"u\" format=\"appended\" offset=\"0\""),
            "array u: got no appended data, expected its values in them",
        ),
        (
            (array, "type=\"Float64\" Name=\"u\" format=\"appended\" offset=\"-1\""),
            "DataArray offset: got '-1', expected a number of bytes",
        ),
    ] {
        assert_eq!(read_bytes(vti_text(replaced)).unwrap_err(), message);
    }
    let cells = vti_text(("", "")).replace("PointData", "CellData");
    assert_eq!(
        read_bytes(cells).unwrap_err(),
        "PointData: got no array, only values of cells in CellData, expected an array with one Float32 or Float64 per node"
    );
    // More values than the memory limit of 1 MiB allows.
    let many = vti_text(("0 2 0 1 0 0", "0 399 0 499 0 0")).replace("1 2 3", &"1 ".repeat(199_997));
    assert_eq!(read_bytes(many).unwrap_err(), "200000 values need 1.5 MiB of memory, the limit is 1.0 MiB");
}

#[test]
fn binary_data_of_another_length_are_refused() {
    let inline = |text: &str| {
        let array = "type=\"Float64\" Name=\"u\" format=\"binary\"";
        let whole = vti_text(("type=\"Float64\" Name=\"u\" format=\"ascii\"", array));
        read_bytes(whole.replace("1 2 3\n          4 5 6", text)).unwrap_err()
    };
    let values = "AAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhAAAAAAAAAEEAAAAAAAAAUQAAAAAAAABhA";
    assert_eq!(inline(&format!("LwAAAA=={values}")), "array u: got 47 bytes, expected 48, 6 values");
    assert_eq!(
        inline(&format!("MAAAAA=={}", &values[..63])),
        "array u: got data that end too early, expected 6 values"
    );
    assert_eq!(
        inline(&format!("MAAAAA=={}", &values[..60])),
        "array u: got data that end too early, expected 6 values"
    );
    assert_eq!(
        inline(&format!("MAAAAA=={}", values.replace('Q', "~"))),
        "array u: got a character that is not base64, expected intact data"
    );
    assert_eq!(
        inline(&format!("MAAAAA=A{values}")),
        "array u: got base64 padding within a group, expected intact data"
    );
}

/// Cuts every file of VTK, and changes every byte. Any result is accepted except a panic, an
/// endless read, or a field that does not have the announced size.
#[test]
fn damaged_files_are_errors_or_fields_of_the_announced_size() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vti");
    for name in ["ascii-32", "binary-zlib-64", "base64-32", "base64-zlib-big-32", "raw-big-64", "raw-zlib-32"]
    {
        let whole = fs::read(folder.join(name).with_extension("vti")).unwrap();
        let complete = whole.trim_ascii_end().len();
        for length in 0..complete {
            assert!(read_bytes(&whole[..length]).is_err(), "{name} cut at {length}");
        }
        for offset in 0..whole.len() {
            let [random, ..] = philox4x32_10([offset as u32, 0, 0, 0], [7, 7]);
            for value in [0xff, whole[offset] ^ 1 << (random % 8)] {
                let mut changed = whole.clone();
                changed[offset] = value;
                let _ = read_bytes(&changed);
            }
        }
    }
}
