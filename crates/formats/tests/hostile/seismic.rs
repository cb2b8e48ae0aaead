//! Hostile SEG-Y files.

use std::path::Path;

use super::files::{Hostile, sparse_file, with_bytes};
use orrery_formats::{Seismogram, write_seismograms_segy};
use orrery_model::Precision;

/// Returns headers with these 16-bit numbers at these positions of the standard.
fn headers(fields: &[(usize, u16)]) -> Vec<u8> {
    let mut bytes = vec![0; 3600];
    for (position, value) in [(3217, 1000), (3221, 1), (3225, 5), (3501, 0x100)].iter().chain(fields) {
        bytes[position - 1..=*position].copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// Returns all files.
pub fn all() -> Vec<Hostile> {
    let long = |samples: u32| {
        let mut bytes = headers(&[(3501, 0x200)]);
        bytes[3268..3272].copy_from_slice(&samples.to_be_bytes());
        bytes
    };
    let ten_gib = 3600 + (10 << 30) / 244 * 244;
    vec![
        // 44 million traces of one sample.
        sparse_file("s.sgy", headers(&[]), ten_gib, "44005812 values need 11.1 GiB"),
        sparse_file("s.segy", headers(&[]), ten_gib, "44005812 values need 11.1 GiB"),
        // One trace of 2^31 - 1 samples, announced and real.
        with_bytes("s.sgy", long(i32::MAX as u32), "file: got 0 bytes after the headers"),
        sparse_file("s.sgy", long(i32::MAX as u32), 3840 + (4 << 31) - 4, "2147483647 values need 32.0 GiB"),
        with_bytes("s.sgy", long(u32::MAX), "number of samples: got -1, expected at least 1"),
        with_bytes("s.sgy", headers(&[(3505, 0x7fff)]), "file: got 0 bytes after the headers"),
        sparse_file("s.sgy", "C 1", 10 << 30, "format code: got 0, expected 1"),
    ]
}

/// Writes a file in which each trace is a shot.
pub fn many_traces(path: &Path, traces: usize, samples: usize) {
    let shots: Vec<Seismogram> = (0..traces)
        .map(|k| Seismogram {
            shot: k as i32,
            dt: 0.001,
            start: 0.0,
            source: [0.0; 3],
            receivers: vec![[25.0 * k as f64, 0.0, 0.0]],
            precision: Precision::Single,
            samples: vec![0.5; samples],
        })
        .collect();
    write_seismograms_segy(path, &shots, &[]).unwrap();
}
