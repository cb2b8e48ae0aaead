//! Invalid NPZ files: zip archives of arrays, with headers that numpy would not write.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{BadFile, bad};

/// Builds an array in npy format 1.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_with_dict(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"), data)
}

/// Builds an array with this dictionary.
fn npy_with_dict(dict: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(data);
    bytes
}

fn archive(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in entries {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Builds an archive of two bodies, with some arrays replaced.
fn archive_with(replaced: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let mut entries = vec![
        ("position", npy("<f8", "(2, 3)", &[0; 48])),
        ("velocity", npy("<f8", "(2, 3)", &[0; 48])),
        ("mass", npy("<f8", "(2,)", &[0; 16])),
    ];
    for (name, bytes) in replaced {
        entries.retain(|(kept, _)| kept != name);
        entries.push((*name, bytes.clone()));
    }
    archive(&entries)
}

/// An archive of two bodies with one array replaced.
fn replaced_array(name: &'static str, bytes: Vec<u8>, message: &'static str) -> BadFile {
    bad("s.npz", archive_with(&[(name, bytes)]), message)
}

fn replace_bytes(bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at =
        bytes.windows(from.len()).position(|window| window == from).expect("the file contains the pattern");
    [&bytes[..at], to, &bytes[at + to.len()..]].concat()
}

pub fn all() -> Vec<BadFile> {
    let whole = archive_with(&[]);
    let truncated = |length: usize| whole[..length].to_vec();
    let mut version = npy("<f8", "(2,)", &[0; 16]);
    version[6] = 9;
    let mut long_header = npy("<f8", "(2,)", &[0; 16]);
    long_header[8..10].copy_from_slice(&[0xff, 0x1f]);
    let mut endless_header = npy("<f8", "(2,)", &[0; 16]);
    endless_header[6] = 2;
    endless_header.splice(8..10, [0xff; 4]);
    let dimensions = format!("({})", "1,".repeat(100));
    let names: Vec<_> = (0..2000).map(|k| format!("[\"{k}\",\"\"]")).collect();
    let names = format!("[{}]", names.join(","));
    let bytes = |text: &str| npy("|u1", &format!("({},)", text.len()), text.as_bytes());
    let many = |width: usize| npy("<f8", &format!("(20000, {width})"), &vec![0; 160_000 * width]);
    vec![
        bad("s.npz", "", "the file is empty, expected a snapshot"),
        bad(
            "s.npz",
            "PK",
            "archive: got no directory at its end, expected an intact zip archive; is it truncated?",
        ),
        bad(
            "s.npz",
            "no archive at all, only text",
            "archive: got no directory at its end, expected an intact zip archive; is it truncated?",
        ),
        bad(
            "s.npz",
            truncated(200),
            "archive: got no directory at its end, expected an intact zip archive; is it truncated?",
        ),
        bad(
            "s.npz",
            truncated(whole.len() - 1),
            "archive: got no directory at its end, expected an intact zip archive; is it truncated?",
        ),
        bad(
            "s.npz",
            archive(&[]),
            "arrays position, velocity, mass: got no arrays, expected position (n, 3), velocity (n, 3) and mass (n)",
        ),
        bad(
            "s.npz",
            archive(&[("../../position", npy("<f8", "(2, 3)", &[0; 48]))]),
            "arrays position, velocity, mass: got only ../../position, expected position (n, 3), velocity (n, 3) and mass (n)",
        ),
        bad(
            "s.npz",
            archive(&[("position", npy("<f8", "(2, 3)", &[0; 48]))]),
            "arrays velocity, mass: got only position, expected position (n, 3), velocity (n, 3) and mass (n)",
        ),
        // Changed values of position, which do not match the checksum.
        bad(
            "s.npz",
            replace_bytes(whole.clone(), &[0; 48], &[1; 48]),
            "array position: got Invalid checksum, expected an intact zip archive",
        ),
        bad(
            "s.npz",
            replace_bytes(whole.clone(), b"(2, 3)", b"(9, 3)"),
            "array position: got 48 bytes of data, expected shape [9, 3] of 8 bytes each",
        ),
        replaced_array("position", Vec::new(), "array position: got no npy magic, expected a numpy array"),
        replaced_array(
            "position",
            b"short".to_vec(),
            "array position: got no npy magic, expected a numpy array",
        ),
        replaced_array(
            "position",
            b"no array, although it is long enough".to_vec(),
            "array position: got no npy magic, expected a numpy array",
        ),
        replaced_array("position", version, "array position: got npy version 9.0, expected 1.0, 2.0 or 3.0"),
        replaced_array(
            "position",
            long_header,
            "array position: got a header that ends too early, expected an npy header",
        ),
        replaced_array(
            "position",
            endless_header,
            "array position: got a header of 4294967295 bytes, expected at most 10000",
        ),
        replaced_array(
            "position",
            npy_with_dict("{'descr': '<f8', 'fortran_order': False}", &[]),
            "array position: got a header without shape, expected the keys descr, fortran_order and shape",
        ),
        replaced_array(
            "position",
            npy_with_dict("{'shape': (2, 3), 'fortran_order': False}", &[]),
            "array position: got a header without descr, expected the keys descr, fortran_order and shape",
        ),
        replaced_array(
            "position",
            npy_with_dict("{'descr': '<f8', 'shape': (2, 3)}", &[]),
            "array position: got a header without fortran_order, expected the keys descr, fortran_order and shape",
        ),
        replaced_array(
            "position",
            npy("<f8", "(2, -3)", &[0; 48]),
            "array position: got the shape '(2, -3)', expected a shape as numpy writes it, for example (3, 4)",
        ),
        replaced_array(
            "position",
            npy("<f8", "(2, 3", &[0; 48]),
            "array position: got the shape '(2, 3,', expected a shape as numpy writes it, for example (3, 4)",
        ),
        replaced_array(
            "position",
            npy("<f8", &dimensions, &[0; 8]),
            "array position: got 100 dimensions, expected at most 64",
        ),
        replaced_array(
            "position",
            npy("|O", "(2, 3)", &[0; 48]),
            "array position: got type '|O', expected a numpy type of reals, integers or text",
        ),
        replaced_array(
            "position",
            npy("=f8", "(2, 3)", &[0; 48]),
            "array position: got type '=f8', expected a numpy type of reals, integers or text",
        ),
        replaced_array(
            "position",
            npy("<f16", "(2, 3)", &[0; 96]),
            "array position: got type '<f16', expected a numpy type of reals, integers or text",
        ),
        replaced_array(
            "position",
            npy("<c16", "(2, 3)", &[0; 96]),
            "array position: got type '<c16', expected a numpy type of reals, integers or text",
        ),
        replaced_array(
            "position",
            npy("<i8", "(2, 3)", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80].repeat(6)),
            "array position: got the integer -9151314442816847873, expected f32, f64 or integers up to 2^53",
        ),
        replaced_array(
            "position",
            npy("<f8", "(6,)", &[0; 48]),
            "array position: got shape [6], expected shape [n, 3]",
        ),
        replaced_array(
            "position",
            npy("<f8", "(3, 2)", &[0; 48]),
            "array position: got shape [3, 2], expected shape [n, 3]",
        ),
        replaced_array(
            "position",
            npy("<f8", "(3, 3)", &[0; 48]),
            "array position: got 48 bytes of data, expected shape [3, 3] of 8 bytes each",
        ),
        replaced_array(
            "position",
            npy("<f8", "(1099511627776, 3)", &[0; 48]),
            "array position: got 48 bytes of data, expected shape [1099511627776, 3] of 8 bytes each",
        ),
        replaced_array(
            "position",
            npy("<f8", "(9223372036854775808, 3)", &[0; 48]),
            "array position: got 48 bytes of data, expected shape [9223372036854775808, 3] of 8 bytes each",
        ),
        replaced_array(
            "position",
            npy("<f8", "(18446744073709551615, 3)", &[0; 48]),
            "array position: got 48 bytes of data, expected shape [18446744073709551615, 3] of 8 bytes each",
        ),
        replaced_array(
            "position",
            npy("<f8", "(18446744073709551616, 3)", &[0; 48]),
            "array position: got the shape '(18446744073709551616, 3)', expected a shape as numpy writes it, for example (3, 4)",
        ),
        replaced_array("position", many(3), "20000 bodies need 1.2 MiB of memory, the limit is 1.0 MiB"),
        replaced_array("velocity", npy("<f8", "(1, 3)", &[0; 24]), "array velocity has 1 entry, expected 2"),
        replaced_array("velocity", many(3), "array velocity has 20000 entries, expected 2"),
        replaced_array("mass", npy("<f8", "(1,)", &[0; 8]), "array mass has 1 entry, expected 2"),
        replaced_array(
            "mass",
            npy("<u8", "(2,)", &[1, 0, 0, 0, 0, 0, 0x20, 0].repeat(2)),
            "array mass: got the integer 9007199254740993, expected f32, f64 or integers up to 2^53",
        ),
        replaced_array(
            "mass",
            npy("<U1", "(2,)", &[0; 8]),
            "array mass: got text, expected f32, f64 or integers",
        ),
        replaced_array(
            "id",
            npy("<f8", "(2,)", &[0; 16]),
            "array id: got f64 values, expected integers >= 0",
        ),
        replaced_array("mass", many(1), "array mass has 20000 entries, expected 2"),
        replaced_array(
            "id",
            npy("<i8", "(2,)", &[0xff; 16]),
            "array id: got a negative integer, expected integers >= 0",
        ),
        replaced_array("id", npy("<u8", "(3,)", &[0; 24]), "array id has 3 entries, expected 2"),
        replaced_array("species", npy("|u1", "(2,)", &[1, 6]), "array species: got 6, expected 0 to 5"),
        replaced_array("species", npy("|u1", "(1,)", &[1]), "array species has 1 entry, expected 2"),
        replaced_array(
            "time",
            npy("<f8", "(2,)", &[0; 16]),
            "array time: got shape [2], expected one number",
        ),
        replaced_array(
            "time",
            npy("<U2", "()", &[0; 8]),
            "array time: got text, expected f32, f64 or integers",
        ),
        replaced_array("step", npy("<u8", "(0,)", &[]), "array step: got shape [0], expected one number"),
        replaced_array(
            "step",
            npy("<i8", "()", &[0xff; 8]),
            "array step: got a negative integer, expected integers >= 0",
        ),
        replaced_array("units", npy("<f8", "()", &[0; 8]), "array units: got f64 values, expected text"),
        replaced_array(
            "units",
            npy("<U1", "()", &[b'x', 0, 0, 0]),
            "array units: got 'x', expected nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'",
        ),
        replaced_array(
            "units",
            npy("<U1", "()", &[0xff; 4]),
            "array units: got invalid Unicode, expected text",
        ),
        replaced_array(
            "units",
            npy("<U20000", "()", &[0; 80_000]),
            "array units: got 80000 bytes, expected at most 65536",
        ),
        replaced_array(
            "provenance",
            bytes("{}"),
            "array provenance: got a parse error at line 1 column 0, expected JSON [[name, text], ...]",
        ),
        replaced_array(
            "provenance",
            bytes("[[\"name\"]]"),
            "array provenance: got a parse error at line 1 column 9, expected JSON [[name, text], ...]",
        ),
        replaced_array(
            "provenance",
            bytes(&"[".repeat(1000)),
            "array provenance: got a parse error at line 1 column 2, expected JSON [[name, text], ...]",
        ),
        replaced_array("provenance", bytes(&names), "provenance: got 2000 names, expected at most 1000"),
        replaced_array(
            "provenance",
            bytes(&" ".repeat((4 << 20) + 1)),
            "array provenance: got 4194305 bytes, expected at most 4194304",
        ),
    ]
}
