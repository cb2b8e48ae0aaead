//! GADGET binary files, built here byte by byte: formats 1 and 2, both byte orders, both widths.

use orrery_io::{Limits, Snapshot, read_snapshot};
use orrery_model::{Species, Units};

/// How a file is to be written.
#[derive(Clone, Copy, Debug)]
struct Style {
    big_endian: bool,
    labelled: bool,
    wide: bool,
}

impl Style {
    fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|k| Self { big_endian: k & 1 != 0, labelled: k & 2 != 0, wide: k & 4 != 0 })
    }

    fn int(self, value: u32) -> Vec<u8> {
        if self.big_endian { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn double(self, value: f64) -> Vec<u8> {
        if self.big_endian { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn reals(self, values: &[f32]) -> Vec<u8> {
        let real = |&v: &f32| if self.wide { self.double(v.into()) } else { self.int(v.to_bits()) };
        values.iter().flat_map(real).collect()
    }

    fn ids(self, values: &[u32]) -> Vec<u8> {
        let id = |&v: &u32| if self.wide { self.double(f64::from_bits(v.into())) } else { self.int(v) };
        values.iter().flat_map(id).collect()
    }

    fn block(self, label: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let length = data.len() as u32;
        let mut bytes = Vec::new();
        if self.labelled {
            bytes.extend(self.int(8));
            bytes.extend(label);
            bytes.extend(self.int(length + 8));
            bytes.extend(self.int(8));
        }
        bytes.extend(self.int(length));
        bytes.extend(data);
        bytes.extend(self.int(length));
        bytes
    }

    fn header(self, counts: [u32; 6], masses: [f64; 6], files: u32) -> Vec<u8> {
        let mut data: Vec<u8> = counts.iter().flat_map(|&n| self.int(n)).collect();
        data.extend(masses.iter().flat_map(|&m| self.double(m)));
        data.extend([0.75, 0.0].iter().flat_map(|&t| self.double(t)));
        data.resize(124, 0);
        data.extend(self.int(files));
        data.resize(256, 0);
        self.block(b"HEAD", &data)
    }

    /// Two halo bodies of a shared mass and one disc body with its own.
    fn file(self) -> Vec<u8> {
        let mut bytes = self.header([0, 2, 1, 0, 0, 0], [0.0, 2.5, 0.0, 0.0, 0.0, 0.0], 1);
        bytes.extend(self.block(b"POS ", &self.reals(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])));
        bytes.extend(self.block(b"VEL ", &self.reals(&[-1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, -1.0])));
        bytes.extend(self.block(b"ID  ", &self.ids(&[30, 10, 20])));
        bytes.extend(self.block(b"MASS", &self.reals(&[0.5])));
        bytes
    }
}

fn read_bytes(bytes: &[u8]) -> Result<Snapshot, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot_000");
    std::fs::write(&path, bytes).unwrap();
    read_snapshot(&path, &Limits::unbounded()).map_err(|error| error.to_string())
}

#[track_caller]
fn says(bytes: &[u8], expected: &str) {
    let message = read_bytes(bytes).expect_err("the file should be refused");
    assert!(message.contains(expected), "got: {message}\nexpected: {expected}");
}

#[test]
fn all_styles_are_read() {
    for style in Style::all() {
        let snapshot = read_bytes(&style.file()).unwrap_or_else(|error| panic!("{style:?}: {error}"));
        let p = &snapshot.particles;
        assert_eq!(p.position.x, [1.0, 4.0, 7.0], "{style:?}");
        assert_eq!(p.position.z, [3.0, 6.0, 9.0]);
        assert_eq!(p.velocity.y, [0.0, -1.0, 0.0]);
        assert_eq!(p.mass, [2.5, 2.5, 0.5]);
        assert_eq!(p.id, [30, 10, 20]);
        assert_eq!(p.species, [Species::Halo, Species::Halo, Species::Disc]);
        assert_eq!((snapshot.time, snapshot.units), (0.75, Units::Galactic));
        assert_eq!(snapshot.provenance[0].0, "units assumed");
    }
}

#[test]
fn labels_free_the_order_and_allow_further_blocks() {
    let style = Style { big_endian: false, labelled: true, wide: false };
    let mut bytes = style.header([0, 1, 0, 0, 0, 0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 1);
    bytes.extend(style.block(b"ID  ", &style.ids(&[5])));
    bytes.extend(style.block(b"U   ", &[0; 12]));
    bytes.extend(style.block(b"VEL ", &style.reals(&[1.0; 3])));
    bytes.extend(style.block(b"POS ", &style.reals(&[2.0; 3])));
    let snapshot = read_bytes(&bytes).unwrap();
    assert_eq!((snapshot.particles.id[0], snapshot.particles.position.x[0]), (5, 2.0));
}

#[test]
fn every_truncation_is_an_error() {
    for style in Style::all() {
        let whole = style.file();
        for length in 0..whole.len() {
            assert!(read_bytes(&whole[..length]).is_err(), "{style:?} cut at {length} of {}", whole.len());
        }
    }
}

#[test]
fn no_changed_byte_panics() {
    for style in Style::all() {
        let whole = style.file();
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0xff;
            if let Ok(snapshot) = read_bytes(&bytes) {
                assert_eq!(snapshot.particles.position.len(), snapshot.particles.mass.len());
            }
        }
    }
}

#[test]
fn mistakes_say_the_block() {
    let style = Style { big_endian: false, labelled: false, wide: false };
    let one = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    let mut bytes = style.header([0, 2, 0, 0, 0, 0], one, 1);
    bytes.extend(style.block(b"POS ", &style.reals(&[1.0; 3])));
    says(&bytes, "block POS at byte 268: got 12 bytes, expected 24 or 48");
    says(&style.header([0, 1, 0, 0, 0, 0], one, 4), "block HEAD: got 4 files, expected 1, a whole snapshot");
    says(
        &style.header([0, 1, 0, 0, 0, 0], one, 1),
        "end of file: got no further block, expected POS, VEL, ID",
    );

    let mut bytes = style.header([0, u32::MAX, 0, 0, 0, 0], one, 1);
    bytes.extend(style.int(u32::MAX));
    bytes.extend([0; 100]);
    says(&bytes, "got a length of 4294967295 bytes, expected at most the 100 bytes left");

    let mut bytes = style.file();
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&style.int(5));
    says(&bytes, "end of block MASS at byte 380: got 5, expected 4 as at its start");
}
