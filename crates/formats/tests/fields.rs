//! Files of fields: round trips, orientation, damage and hostile headers.

use std::fs;
use std::path::Path;

use orrery_formats::{
    FieldData, FieldValues, Limits, read_field_npy, read_field_png, read_profile_npy, write_field_npy,
    write_field_vti,
};
use orrery_model::Precision;
use orrery_model::grid::Grid;
use orrery_model::rng::philox4x32_10;

const GRID: Grid = Grid { nx: 4, ny: 3, hx: 0.5, hy: 0.25 };

type Read = fn(&Path, &Limits) -> Result<FieldData, orrery_formats::IoError>;

/// Reads bytes as a file and checks that an error is one line that starts with the path.
fn read_bytes(read: Read, folder: &Path, bytes: &[u8]) -> Result<FieldData, String> {
    let path = folder.join("field");
    fs::write(&path, bytes).unwrap();
    let data = read(&path, &Limits { memory: 1 << 20 }).map_err(|error| {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message.strip_prefix(path.to_str().unwrap()).expect("starts with the path").to_owned()
    })?;
    assert_eq!(data.values.len(), data.nx * data.ny);
    Ok(data)
}

/// Returns a `.npy` file with the given dictionary entries and data.
fn npy_bytes(descr: &str, fortran_order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(data);
    bytes
}

fn png_bytes(width: u32, height: u32, colour: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    bytes
}

#[test]
fn npy_files_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.npy");
    let doubles: Vec<f64> = (0..12).map(|k| f64::from(k) / 7.0 - 1.0).collect();
    write_field_npy(&path, &GRID, FieldValues::Double(&doubles)).unwrap();
    let expected = FieldData { nx: 4, ny: 3, precision: Precision::Double, values: doubles.clone() };
    assert_eq!(read_field_npy(&path, &Limits::unbounded()).unwrap(), expected);
    let singles: Vec<f32> = doubles.iter().map(|&u| u as f32).collect();
    write_field_npy(&path, &GRID, FieldValues::Single(&singles)).unwrap();
    let values = singles.iter().map(|&u| u.into()).collect();
    let expected = FieldData { nx: 4, ny: 3, precision: Precision::Single, values };
    assert_eq!(read_field_npy(&path, &Limits::unbounded()).unwrap(), expected);
    let error = write_field_npy(&path, &GRID, FieldValues::Single(&singles[1..])).unwrap_err().to_string();
    assert!(error.ends_with("plate.npy: field has 11 entries, expected 12"), "{error}");
    // The failed write left the old file.
    assert_eq!(read_field_npy(&path, &Limits::unbounded()).unwrap(), expected);
}

#[test]
fn fortran_order_and_big_endian_arrays_are_read() {
    let folder = tempfile::tempdir().unwrap();
    // [[1, 2, 3], [4, 5, 6]] column by column.
    let data: Vec<u8> = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0].iter().flat_map(|u| u.to_be_bytes()).collect();
    let field =
        read_bytes(read_field_npy, folder.path(), &npy_bytes(">f4", "True", "(2, 3)", &data)).unwrap();
    assert_eq!((field.nx, field.ny), (3, 2));
    assert_eq!(field.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn arrays_of_another_shape_or_type_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = |bytes: &[u8]| read_bytes(read_field_npy, folder.path(), bytes).unwrap_err();
    assert_eq!(
        message(&npy_bytes("<f8", "False", "(2,)", &[0; 16])),
        ": array field: got shape [2], expected shape [ny, nx]"
    );
    assert_eq!(
        message(&npy_bytes("<c8", "False", "(2, 2)", &[0; 32])),
        ": array field: got type '<c8', expected a numpy type of reals, integers or text"
    );
    assert_eq!(message(b"P5 2 2 255 abcd"), ": array field: got no npy magic, expected a numpy array");
    assert_eq!(message(b""), ": array field: got no npy magic, expected a numpy array");
    // A header that announces more than the file contains.
    assert_eq!(
        message(&npy_bytes("<f8", "False", "(1000000, 1000000)", &[0; 16])),
        ": array field: got 16 bytes of data, expected shape [1000000, 1000000] of 8 bytes each"
    );
    // More values than the memory limit of 1 MiB allows.
    assert_eq!(
        message(&npy_bytes("<f4", "False", "(300, 500)", &vec![0; 600_000])),
        ": 150000 values need 1.1 MiB of memory, the limit is 1.0 MiB"
    );
}

#[test]
fn profiles_have_one_dimension() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("west.npy");
    let data: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|u| u.to_le_bytes()).collect();
    fs::write(&path, npy_bytes("<f8", "False", "(2,)", &data)).unwrap();
    assert_eq!(read_profile_npy(&path, &Limits::unbounded()).unwrap(), [1.5, -2.0]);
    fs::write(&path, npy_bytes("<f8", "False", "(1, 2)", &data)).unwrap();
    let error = read_profile_npy(&path, &Limits::unbounded()).unwrap_err().to_string();
    assert!(error.ends_with("west.npy: array west: got shape [1, 2], expected shape [n]"), "{error}");
}

#[test]
fn images_are_read_with_the_top_row_in_the_north() {
    use png::{BitDepth, ColorType};
    let folder = tempfile::tempdir().unwrap();
    let read = |bytes: &[u8]| read_bytes(read_field_png, folder.path(), bytes).unwrap();
    let field = read(&png_bytes(3, 2, ColorType::Grayscale, BitDepth::Eight, &[0, 51, 255, 102, 0, 0]));
    assert_eq!((field.nx, field.ny), (3, 2));
    assert_eq!(field.values, [0.4, 0.0, 0.0, 0.0, 0.2, 1.0]);
    let field = read(&png_bytes(1, 2, ColorType::Grayscale, BitDepth::Sixteen, &[0xff, 0xff, 0x33, 0x33]));
    assert_eq!(field.values, [0.2, 1.0]);
    // One bit per pixel.
    let field = read(&png_bytes(3, 1, ColorType::Grayscale, BitDepth::One, &[0b1010_0000]));
    assert_eq!(field.values, [1.0, 0.0, 1.0]);
    // Green, and white that is transparent.
    let field = read(&png_bytes(2, 1, ColorType::Rgba, BitDepth::Eight, &[0, 255, 0, 255, 255, 255, 255, 0]));
    assert!((field.values[0] - 0.7152).abs() < 1e-15 && (field.values[1] - 1.0).abs() < 1e-15);
}

#[test]
fn files_that_are_not_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = |bytes: &[u8]| read_bytes(read_field_png, folder.path(), bytes).unwrap_err();
    let text = message(b"\x93NUMPY and so on, long enough for a signature");
    assert!(text.starts_with(": image: got ") && text.ends_with(", expected an intact PNG image"), "{text}");
    assert_eq!(message(b""), ": image: got a file that ends too early, expected an intact PNG image");
    let folder_error = read_field_png(folder.path(), &Limits::unbounded()).unwrap_err().to_string();
    assert!(folder_error.ends_with("path: got a directory, expected a file"), "{folder_error}");
    // More pixels than the memory limit of 1 MiB allows.
    let large = png_bytes(400, 400, png::ColorType::Grayscale, png::BitDepth::Eight, &[7; 160_000]);
    assert_eq!(message(&large), ": 160000 values need 1.4 MiB of memory, the limit is 1.0 MiB");
}

/// Changes width and height of a PNG file and corrects the checksum of its header.
#[test]
fn announced_pixels_that_no_file_of_this_length_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = png_bytes(2, 2, png::ColorType::Grayscale, png::BitDepth::Eight, &[0; 4]);
    bytes[16..20].copy_from_slice(&100_000u32.to_be_bytes());
    bytes[20..24].copy_from_slice(&100_000u32.to_be_bytes());
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    let path = folder.path().join("bomb.png");
    fs::write(&path, &bytes).unwrap();
    let error = read_field_png(&path, &Limits::unbounded()).unwrap_err().to_string();
    let length = bytes.len();
    assert!(
        error.ends_with(&format!(
            "image: got 100000 x 100000 pixels, expected no more than fit into a file of {length} bytes"
        )),
        "{error}"
    );
}

/// Returns the checksum of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

#[test]
fn damaged_files_are_errors_or_fields_of_the_announced_size() {
    let folder = tempfile::tempdir().unwrap();
    let npy = npy_bytes("<f8", "False", "(3, 2)", &[0; 48]);
    let pixels: Vec<u8> = (0..60).collect();
    let png = png_bytes(5, 4, png::ColorType::Rgb, png::BitDepth::Eight, &pixels);
    let readers: [(Read, Vec<u8>); 2] = [(read_field_npy, npy), (read_field_png, png)];
    for (read, whole) in readers {
        assert!(read_bytes(read, folder.path(), &whole).is_ok());
        for length in 0..whole.len() {
            assert!(read_bytes(read, folder.path(), &whole[..length]).is_err(), "cut at {length}");
        }
        for offset in 0..whole.len() {
            let [random, ..] = philox4x32_10([offset as u32, 0, 0, 0], [7, 7]);
            for value in [0xff, whole[offset] ^ 1 << (random % 8)] {
                let mut changed = whole.clone();
                changed[offset] = value;
                let _ = read_bytes(read, folder.path(), &changed);
            }
        }
    }
}

#[test]
fn vti_file_has_the_layout_of_vtk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plate.vti");
    let values: Vec<f32> = (0..12).map(|k| k as f32 * 0.5).collect();
    write_field_vti(&path, &GRID, "temperature <K>", 0.125, FieldValues::Single(&values)).unwrap();
    let bytes = fs::read(&path).unwrap();
    let start = bytes.windows(2).position(|pair| pair == b"\n_").unwrap() + 2;
    let xml = std::str::from_utf8(&bytes[..start]).unwrap();
    for part in [
        r#"<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">"#,
        r#"WholeExtent="0 3 0 2 0 0" Origin="0.0 0.0 0.0" Spacing="0.5 0.25 1.0""#,
        r#"<DataArray type="Float32" Name="temperature &lt;K&gt;" format="appended" offset="0"/>"#,
        r#"Name="TimeValue" NumberOfTuples="1" format="ascii">0.125<"#,
    ] {
        assert!(xml.contains(part), "{part} in {xml}");
    }
    assert_eq!(bytes[start..start + 8], 48u64.to_le_bytes());
    let data: Vec<u8> = values.iter().flat_map(|u| u.to_le_bytes()).collect();
    assert_eq!(bytes[start + 8..start + 56], data);
    assert_eq!(&bytes[start + 56..], b"\n  </AppendedData>\n</VTKFile>\n");
    let error = write_field_vti(&path, &GRID, "a\nb", 0.0, FieldValues::Single(&values)).unwrap_err();
    assert!(error.to_string().ends_with(r#"name of the field: got "a\nb", expected text"#), "{error}");
}

/// Python makes an array of integers from numbers without a decimal point.
#[test]
fn integers_are_read_as_reals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    let write = |descr: &str, bytes: &[u8]| {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 2), }}");
        let dict = format!("{dict:<117}\n");
        let head = [b"\x93NUMPY\x01\x00", &118u16.to_le_bytes()[..], dict.as_bytes()].concat();
        fs::write(&path, [&head, bytes].concat()).unwrap();
    };
    let read = || read_field_npy(&path, &Limits::unbounded()).map_err(|error| error.to_string());
    let exact = 1u64 << 53;
    for (descr, bytes, expected) in [
        ("|i1", vec![5, 0x80], [5.0, -128.0]),
        ("|u1", vec![5, 0x80], [5.0, 128.0]),
        ("<i2", vec![5, 0, 0xfe, 0xff], [5.0, -2.0]),
        (">i4", [1500i32, -7].iter().flat_map(|v| v.to_be_bytes()).collect(), [1500.0, -7.0]),
        ("<i8", [-1i64, 3200].iter().flat_map(|v| v.to_le_bytes()).collect(), [-1.0, 3200.0]),
        ("<u8", [exact, 2].iter().flat_map(|v| v.to_le_bytes()).collect(), [9007199254740992.0, 2.0]),
    ] {
        write(descr, &bytes);
        let found = read().unwrap();
        assert_eq!((&found.values[..], found.precision), (&expected[..], Precision::Double), "{descr}");
    }
    write("<u8", &[exact + 1, 2].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let error = read().unwrap_err();
    assert!(error.ends_with("got the integer 9007199254740993, expected f32, f64 or integers up to 2^53"));
}
