//! GADGET binary files, built byte by byte: formats 1 and 2, both byte orders, 4 and 8 bytes per
//! number.

use orrery_formats::{Comoving, Limits, Snapshot, read_snapshot, read_snapshot_as};
use orrery_model::{Species, Units};

/// Variant of the format.
#[derive(Clone, Copy, Debug)]
struct Variant {
    big_endian: bool,
    labelled: bool,
    wide: bool,
}

impl Variant {
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

    /// Two halo bodies with a shared mass and one disc body with an individual mass.
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
fn assert_error(bytes: &[u8], expected: &str) {
    let message = read_bytes(bytes).expect_err("the file should be rejected");
    assert!(message.contains(expected), "got: {message}\nexpected: {expected}");
}

#[test]
fn all_variants_are_read() {
    for variant in Variant::all() {
        let snapshot = read_bytes(&variant.file()).unwrap_or_else(|error| panic!("{variant:?}: {error}"));
        let p = &snapshot.particles;
        assert_eq!(p.position.x, [1.0, 4.0, 7.0], "{variant:?}");
        assert_eq!(p.position.z, [3.0, 6.0, 9.0]);
        assert_eq!(p.velocity.y, [0.0, -1.0, 0.0]);
        assert_eq!(p.mass, [2.5, 2.5, 0.5]);
        assert_eq!(p.id, [30, 10, 20]);
        assert_eq!(p.species, [Species::Halo, Species::Halo, Species::Disc]);
        assert_eq!((snapshot.time, snapshot.units), (0.75, Units::Galactic));
        assert_eq!(snapshot.provenance[0].0, "units assumed");
    }
}

/// a = 1/4 and h = 1/2, so that all factors are exact.
#[test]
fn cosmological_files_are_refused_or_converted() {
    for variant in Variant::all() {
        let mut bytes = variant.file();
        let header = if variant.labelled { 20 } else { 4 };
        for (offset, value) in [(72, 0.25), (80, 3.0), (128, 100.0), (136, 0.3), (152, 0.5)] {
            bytes[header + offset..][..8].copy_from_slice(&variant.double(value));
        }
        assert_error(
            &bytes,
            "snapshot (Redshift = 3, Time = 0.25, Omega0 = 0.3, HubbleParam = 0.5, BoxSize = 100), expected physical",
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot_000");
        std::fs::write(&path, &bytes).unwrap();
        let snapshot = read_snapshot_as(&path, &Limits::unbounded(), Comoving::ToPhysical).unwrap();
        let p = &snapshot.particles;
        assert_eq!((&p.position.x[..], &p.velocity.x[..]), (&[0.5, 2.0, 3.5][..], &[-0.5, 0.0, 0.0][..]));
        assert_eq!((&p.mass[..], snapshot.time), (&[5.0, 5.0, 1.0][..], 0.0));
        assert_eq!(snapshot.warnings(), ["periodic box: BoxSize = 100, but forces are not periodic"]);
    }
}

#[test]
fn labelled_blocks_may_come_in_any_order_and_with_others() {
    let variant = Variant { big_endian: false, labelled: true, wide: false };
    let mut bytes = variant.header([0, 1, 0, 0, 0, 0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 1);
    bytes.extend(variant.block(b"ID  ", &variant.ids(&[5])));
    bytes.extend(variant.block(b"U   ", &[0; 12]));
    bytes.extend(variant.block(b"VEL ", &variant.reals(&[1.0; 3])));
    bytes.extend(variant.block(b"POS ", &variant.reals(&[2.0; 3])));
    let snapshot = read_bytes(&bytes).unwrap();
    assert_eq!((snapshot.particles.id[0], snapshot.particles.position.x[0]), (5, 2.0));
}

#[test]
fn every_truncation_is_an_error() {
    for variant in Variant::all() {
        let whole = variant.file();
        for length in 0..whole.len() {
            assert!(read_bytes(&whole[..length]).is_err(), "{variant:?} cut at {length} of {}", whole.len());
        }
    }
}

#[test]
fn changed_bytes_do_not_panic() {
    for variant in Variant::all() {
        let whole = variant.file();
        for offset in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[offset] ^= 0xff;
            if let Ok(snapshot) = read_bytes(&bytes) {
                assert_eq!(snapshot.particles.position.len(), snapshot.particles.mass.len());
            }
        }
    }
}

#[test]
fn errors_name_the_block() {
    let variant = Variant { big_endian: false, labelled: false, wide: false };
    let one = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    let mut bytes = variant.header([0, 2, 0, 0, 0, 0], one, 1);
    bytes.extend(variant.block(b"POS ", &variant.reals(&[1.0; 3])));
    assert_error(&bytes, "block POS at byte 268: got 12 bytes, expected 24 or 48");
    assert_error(
        &variant.header([0, 1, 0, 0, 0, 0], one, 4),
        "block HEAD: got 4 files, expected 1 file per snapshot",
    );
    // The total of the snapshot is at byte 96 of the header, after the length of the block.
    let mut part = variant.header([0, 1, 0, 0, 0, 0], one, 1);
    part[4 + 96 + 4..][..4].copy_from_slice(&variant.int(8));
    assert_error(
        &part,
        "block HEAD: got 8 bodies of type 1, expected the 1 of this file: 1 file per snapshot",
    );
    assert_error(
        &variant.header([0, 1, 0, 0, 0, 0], one, 1),
        "end of file: got no further block, expected POS, VEL, ID",
    );

    let mut bytes = variant.header([0, u32::MAX, 0, 0, 0, 0], one, 1);
    bytes.extend(variant.int(u32::MAX));
    bytes.extend([0; 100]);
    assert_error(&bytes, "got a length of 4294967295 bytes, expected at most the 100 bytes left");

    let mut bytes = variant.file();
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&variant.int(5));
    assert_error(
        &bytes,
        "end of block MASS at byte 380: got length 5, expected 4 as at the start of the block",
    );
}

/// Two types and nine types with the header of GADGET-4, in both lengths that its versions write.
#[test]
fn headers_of_gadget_4_are_read() {
    for variant in Variant::all() {
        for (counts, end) in [(vec![0u64, 2], 8), (vec![0, 2], 24), (vec![1, 0, 0, 0, 0, 0, 0, 0, 1], 8)] {
            let types = counts.len();
            let word = |value: u64| variant.double(f64::from_bits(value));
            let mut head: Vec<u8> = [&counts[..], &counts[..]].concat().into_iter().flat_map(word).collect();
            head.extend((0..types).flat_map(|_| variant.double(0.25)));
            head.extend([0.75, 0.0, 0.0].iter().flat_map(|&value| variant.double(value)));
            head.extend(variant.int(1));
            head.resize(24 * types + 24 + end, 0);
            let bytes = [
                variant.block(b"HEAD", &head),
                variant.block(b"POS ", &variant.reals(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
                variant.block(b"VEL ", &variant.reals(&[0.0; 6])),
                variant.block(b"ID  ", &variant.ids(&[7, 8])),
            ];
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("snapshot_000");
            std::fs::write(&path, bytes.concat()).unwrap();
            let snapshot = read_snapshot(&path, &Limits::unbounded()).unwrap_or_else(|e| panic!("{e}"));
            let bodies = &snapshot.particles;
            assert_eq!(
                (snapshot.time, &bodies.id[..], &bodies.mass[..]),
                (0.75, &[7, 8][..], &[0.25; 2][..])
            );
            let expected = if types == 2 { [Species::Halo; 2] } else { [Species::Gas, Species::Halo] };
            assert_eq!((&bodies.species[..], bodies.position.z[1]), (&expected[..], 6.0));
            assert_eq!(snapshot.warnings().iter().any(|text| text.contains("type 8")), types == 9);
        }
    }
}
