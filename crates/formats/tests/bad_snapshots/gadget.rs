//! Invalid GADGET binary files: sequences of records.

use super::{BadFile, bad};

#[derive(Default)]
struct File(Vec<u8>);

impl File {
    fn record(mut self, data: &[u8]) -> Self {
        let length = (data.len() as u32).to_le_bytes();
        self.0.extend([&length, data, &length].concat());
        self
    }

    fn header(self, counts: [u32; 6], masses: [f64; 6], files: u32) -> Self {
        let mut data: Vec<u8> = counts.iter().flat_map(|n| n.to_le_bytes()).collect();
        data.extend(masses.iter().flat_map(|m| m.to_le_bytes()));
        data.resize(124, 0);
        data.extend(files.to_le_bytes());
        data.resize(256, 0);
        self.record(&data)
    }

    fn labelled(self, label: &[u8; 4], data: &[u8]) -> Self {
        let next = (data.len() as u32 + 8).to_le_bytes();
        self.record(&[label, &next[..]].concat()).record(data)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn expect_message(self, message: &'static str) -> BadFile {
        bad("snapshot_000", self.0, message)
    }
}

/// Header of a file with two halo bodies that have individual masses.
fn two_bodies() -> File {
    File::default().header([0, 2, 0, 0, 0, 0], [0.0; 6], 1)
}

/// Header of a file with these counts and a shared mass for all species.
fn with_counts(counts: [u32; 6]) -> File {
    File::default().header(counts, [1.0; 6], 1)
}

/// Header of a file of format 2, with its label.
fn format2(counts: [u32; 6]) -> File {
    let mut header = [0; 256];
    for (k, count) in counts.iter().enumerate() {
        header[4 * k..4 * k + 4].copy_from_slice(&count.to_le_bytes());
    }
    File::default().labelled(b"HEAD", &header)
}

pub fn all() -> Vec<BadFile> {
    let length = |bytes: u32| bytes.to_le_bytes();
    let many = 20_000;
    vec![
        File::default().raw(&length(256)).expect_message("block HEAD at byte 4: got a length of 256 bytes, expected at most the 0 bytes left in the file"),
        File::default().raw(&length(256)).raw(&[0; 100]).expect_message("block HEAD at byte 4: got a length of 256 bytes, expected at most the 100 bytes left in the file"),
        File::default().raw(&length(256)).raw(&[0; 256]).expect_message("block HEAD at byte 4: got a length of 256 bytes, expected at most the 256 bytes left in the file"),
        File::default().raw(&length(256)).raw(&[0; 256]).raw(&length(255)).expect_message("end of block HEAD at byte 260: got length 255, expected 256 as at the start of the block"),
        File::default().raw(&length(8)).raw(&[0; 4]).expect_message("block label at byte 4: got a length of 8 bytes, expected at most the 4 bytes left in the file"),
        File::default().record(b"HEAD\0\0\0\0").expect_message("the file ends too early: it is truncated"),
        File::default().record(b"HEAD\0\0\0\0").record(&[0; 255]).expect_message("block HEAD at byte 20: got 255 bytes, expected 256 bytes, or 24 N + 32 or 24 N + 48 for N types"),
        File::default().header([0, 2, 0, 0, 0, 0], [0.0; 6], 2).expect_message("block HEAD: got 2 files, expected 1 file per snapshot"),
        File::default().header([0, 2, 0, 0, 0, 0], [0.0; 6], u32::MAX).expect_message("block HEAD: got 4294967295 files, expected 1 file per snapshot"),
        two_bodies().expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        two_bodies().raw(&[0; 3]).expect_message("the file ends too early: it is truncated"),
        two_bodies().raw(&length(24)).expect_message("block POS at byte 268: got a length of 24 bytes, expected at most the 0 bytes left in the file"),
        two_bodies().raw(&length(u32::MAX)).raw(&[0; 40]).expect_message("block POS at byte 268: got a length of 4294967295 bytes, expected at most the 40 bytes left in the file"),
        two_bodies().record(&[0; 23]).expect_message("block POS at byte 268: got 23 bytes, expected 24 or 48 (6 numbers of 4 or 8 bytes)"),
        two_bodies().record(&[0; 12]).expect_message("block POS at byte 268: got 12 bytes, expected 24 or 48 (6 numbers of 4 or 8 bytes)"),
        two_bodies().raw(&length(24)).raw(&[0; 24]).raw(&length(48)).expect_message("end of block POS at byte 292: got length 48, expected 24 as at the start of the block"),
        two_bodies().record(&[0; 24]).expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        two_bodies().record(&[0; 24]).record(&[0; 36]).expect_message("block VEL at byte 300: got 36 bytes, expected 24 or 48 (6 numbers of 4 or 8 bytes)"),
        two_bodies().record(&[0; 48]).record(&[0; 24]).expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        two_bodies().record(&[0; 48]).record(&[0; 24]).record(&[0; 12]).expect_message("block ID at byte 356: got 12 bytes, expected 8 or 16 (2 numbers of 4 or 8 bytes)"),
        two_bodies().record(&[0; 24]).record(&[0; 24]).record(&[0; 8]).expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        two_bodies().record(&[0; 24]).record(&[0; 24]).record(&[0; 8]).record(&[0; 4]).expect_message("block MASS at byte 348: got 4 bytes, expected 8 or 16 (2 numbers of 4 or 8 bytes)"),
        with_counts([0, 1 << 31, 0, 0, 0, 0]).record(&[0; 24]).expect_message("block POS at byte 268: got 24 bytes, expected 25769803776 or 51539607552 (6442450944 numbers of 4 or 8 bytes)"),
        with_counts([u32::MAX; 6]).record(&[0; 24]).expect_message("block POS at byte 268: got 24 bytes, expected 309237645240 or 618475290480 (77309411310 numbers of 4 or 8 bytes)"),
        with_counts([u32::MAX; 6]).expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        with_counts([0, many, 0, 0, 0, 0]).record(&vec![0; 12 * many as usize]).expect_message("20000 bodies need 1.4 MiB of memory, the limit is 1.0 MiB"),
        with_counts([many, 0, 0, 0, 0, many]).record(&vec![0; 48 * many as usize]).expect_message("40000 bodies need 2.8 MiB of memory, the limit is 1.0 MiB"),
        format2([0, 2, 0, 0, 0, 0]).expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        format2([0, 2, 0, 0, 0, 0]).record(&[0; 9]).expect_message("block label at byte 284: got 9 bytes, expected 8 bytes"),
        format2([0, 2, 0, 0, 0, 0]).labelled(b"U   ", &[0; 8]).expect_message("end of file: got no further block, expected POS, VEL, ID and MASS"),
        format2([0, 2, 0, 0, 0, 0]).labelled(b"POS ", &[0; 8]).expect_message("block POS at byte 300: got 8 bytes, expected 24 or 48 (6 numbers of 4 or 8 bytes)"),
        format2([0, 2, 0, 0, 0, 0]).labelled(b"POS ", &[0; 24]).labelled(b"POS ", &[0; 24]).expect_message("block POS: got a second one, expected each block once"),
        format2([0, 2, 0, 0, 0, 0]).labelled(b"ID  ", &[0; 8]).labelled(b"ID  ", &[0; 16]).expect_message("block ID: got a second one, expected each block once"),
        format2([0, 2, 0, 0, 0, 0]).labelled(b"../x", &[0; 8]).raw(&[8, 0, 0]).expect_message("the file ends too early: it is truncated"),
        format2([0, 0, 0, 0, 0, 1 << 31]).labelled(b"MASS", &[0; 8]).expect_message("block MASS at byte 300: got 8 bytes, expected 8589934592 or 17179869184 (2147483648 numbers of 4 or 8 bytes)"),
        bad("snapshot_000", [&[0, 0, 1, 0][..], &[0; 300]].concat(), "end of block HEAD at byte 260: got length 0, expected 256 as at the start of the block"),
        bad("snapshot_000", [&[0, 1, 1, 0][..], &[0; 300]].concat(), "byte 0: got unknown content, expected a GADGET (HDF5 or binary), extended XYZ or NPZ file"),
    ]
}
