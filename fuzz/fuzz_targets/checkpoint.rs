#![no_main]
//! Reads the bytes in two ways: as a whole file, where the hashes detect every change, and as the
//! header of an intact file, as a hostile file with valid hashes would have it.

use orrery_engine::checkpoint;
use orrery_formats::{Column, parse_checkpoint, write_checkpoint};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(fault) = parse_checkpoint(bytes) {
        assert_eq!(fault.to_string().lines().count(), 1, "{fault}");
    }
    let Ok(header) = std::str::from_utf8(bytes) else { return };
    let (reals, frame) = ([0.5, -1.0, 2.0], [0; 64]);
    let vectors = ["position", "velocity", "acceleration"];
    let names: Vec<String> =
        vectors.iter().flat_map(|v| ["x", "y", "z"].map(|c| format!("{v}.{c}"))).collect();
    let mut columns = vec![
        ("mass", Column::Reals(&reals)),
        ("id", Column::Integers(&[4, 5, 6])),
        ("species", Column::Bytes(&[1, 1, 4])),
        ("frame", Column::Bytes(&frame)),
    ];
    columns.extend(names.iter().map(|name| (name.as_str(), Column::Reals(&reals))));
    let path = orrery_fuzz::scratch_file("orrery");
    write_checkpoint(&path, header, &columns).expect("the scratch folder is writable");
    if let Err(error) = checkpoint::describe(&path, &orrery_fuzz::LIMITS) {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
});
