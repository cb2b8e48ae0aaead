//! Hostile image data of VTK.

use std::path::Path;

use super::files::{Hostile, sparse_file, with_bytes};
use orrery_formats::{FieldValues, write_field_npy, write_field_vti};
use orrery_model::grid::Grid;

/// Returns image data with `nodes` along x and along y. `file` are more attributes of the file,
/// `array` those of its array, and `rest` follows them.
fn image_data(nodes: u64, file: &str, array: &str, rest: &str) -> String {
    let extent = format!("0 {0} 0 {0} 0 0", nodes - 1);
    format!(
        "<VTKFile type=\"ImageData\" {file}><ImageData WholeExtent=\"{extent}\"><Piece Extent=\"{extent}\">\
         <PointData><DataArray type=\"Float64\" Name=\"u\" {array}{rest}</VTKFile>"
    )
}

/// Returns the end of a file with appended raw data.
fn appended(data: &[u8]) -> Vec<u8> {
    let start = "/></PointData></Piece></ImageData><AppendedData encoding=\"raw\">_";
    [start.as_bytes(), data, b"</AppendedData></VTKFile>"].concat()
}

/// Returns all files.
pub fn all() -> Vec<Hostile> {
    let text = "</DataArray></PointData></Piece></ImageData>";
    let binary = |nodes: u64, file: &str, data: &[u8]| {
        let start = image_data(nodes, file, "format=\"appended\" offset=\"0\"", "").replace("</VTKFile>", "");
        [start.into_bytes(), appended(data)].concat()
    };
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let zlib = "header_type=\"UInt64\" compressor=\"vtkZLibDataCompressor\"";
    let nested = "<a>".repeat(20_000_000);
    let arrays = "<DataArray type=\"Int8\" format=\"ascii\"/>".repeat(1_000_000);
    vec![
        with_bytes(
            "s.vti",
            image_data(1 << 40, "", "format=\"ascii\">", &format!("1 2 3{text}")),
            "expected at least 18446744073709551614 for 18446744073709551615 values",
        ),
        with_bytes(
            "s.vti",
            binary(1 << 20, "", &[0; 1000]),
            "expected at least 8796093022208 for 1099511627776 values",
        ),
        // Deflate cannot give as much as the header of the blocks announces.
        with_bytes(
            "s.vti",
            binary(1 << 20, zlib, &words(&[1, 1 << 43, 0, 1000])),
            "expected at least 8523345951 for",
        ),
        // A trillion empty blocks.
        with_bytes("s.vti", binary(10, zlib, &words(&[1 << 40, 0, 800, 0, 0])), "got blocks of 0 bytes"),
        with_bytes("s.vti", binary(10, zlib, &words(&[u64::MAX, u64::MAX, 1])), "expected 800 in total"),
        with_bytes(
            "s.vti",
            binary(10, zlib, &words(&[1, 800, 0, u64::MAX, 0])),
            "got data that end too early",
        ),
        sparse_file("s.vti", "<VTKFile", 10 << 30, "got an end without </VTKFile>"),
        with_bytes(
            "s.vti",
            format!("<VTKFile type=\"ImageData\">{nested}</VTKFile>"),
            "deeply nested elements",
        ),
        with_bytes("s.vti", image_data(3, "", "format=\"ascii\"/>", &arrays), "PointData: got more arrays"),
        with_bytes(
            "s.vti",
            format!("<VTKFile type=\"{}\"></VTKFile>", "a".repeat(50_000_000)),
            "got a longer tag, expected at most",
        ),
        with_bytes(
            "s.vti",
            image_data(3, "", "format=\"ascii\">", &format!("{}{text}", "1".repeat(50_000_000))),
            "expected numbers",
        ),
        with_bytes(
            "s.vti",
            format!("<VTKFile type=\"ImageData\"><!--{}--></VTKFile>", "a".repeat(50_000_000)),
            "got a longer tag, expected at most",
        ),
        with_bytes(
            "s.vti",
            "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]><VTKFile></VTKFile>",
            "byte 0: got no XML",
        ),
    ]
}

/// Writes a field of 1000 x `rows` nodes.
pub fn many_nodes(path: &Path, rows: usize) {
    let grid = Grid { nx: 1000, ny: rows, hx: 1.0, hy: 1.0 };
    let values = vec![0.5; grid.len()];
    match path.extension().is_some_and(|extension| extension == "vti") {
        true => write_field_vti(path, &grid, "u", 0.0, FieldValues::Double(&values)).unwrap(),
        false => write_field_npy(path, &grid, FieldValues::Double(&values)).unwrap(),
    }
}
