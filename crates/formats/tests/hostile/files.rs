//! The files of hostile.rs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use orrery_formats::Snapshot;
use orrery_model::{Particle, Particles, Species, Units};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A file that must be rejected.
pub struct Hostile {
    /// File name.
    pub name: &'static str,
    /// Writes the file.
    pub make: Box<dyn Fn(&Path)>,
    /// Part of the expected message.
    pub message: &'static str,
}

fn hostile(name: &'static str, message: &'static str, make: impl Fn(&Path) + 'static) -> Hostile {
    Hostile { name, make: Box::new(make), message }
}

/// Returns a file with these bytes.
pub fn with_bytes(name: &'static str, bytes: impl Into<Vec<u8>>, message: &'static str) -> Hostile {
    let bytes = bytes.into();
    hostile(name, message, move |path| fs::write(path, &bytes).unwrap())
}

/// Returns a sparse file: `start`, and then zeros that take no space on the disk.
pub fn sparse_file(
    name: &'static str,
    start: impl Into<Vec<u8>>,
    length: u64,
    message: &'static str,
) -> Hostile {
    let start = start.into();
    hostile(name, message, move |path| {
        let mut file = File::create(path).unwrap();
        file.write_all(&start).unwrap();
        file.set_len(length).unwrap();
    })
}

/// Returns all files.
pub fn all() -> Vec<Hostile> {
    [xyz(), npz(), gadget(), hdf5()].into_iter().flatten().collect()
}

fn xyz() -> Vec<Hostile> {
    let head = "Properties=pos:R:3:vel:R:3:mass:R:1";
    let with_count = |n: u64| format!("{n}\n{head}\n1 2 3 0 0 0 1\n");
    let names = "a ".repeat(2 << 20);
    let columns = "x:R:1000:".repeat(1 << 18);
    vec![
        with_bytes("s.xyz", with_count(1 << 31), "got 2147483648 bodies, expected no more than fit"),
        with_bytes("s.xyz", with_count(1 << 40), "got 1099511627776 bodies, expected no more than fit"),
        with_bytes("s.xyz", with_count(1 << 63), "got 9223372036854775808 bodies, expected no more than fit"),
        with_bytes(
            "s.xyz",
            with_count(u64::MAX),
            "got 18446744073709551615 bodies, expected no more than fit",
        ),
        sparse_file("s.xyz", with_count(1 << 31), 40 << 30, "2147483648 bodies need 130.0 GiB of memory"),
        sparse_file("s.xyz", "1\n", 10 << 30, "line 2: got a longer line, expected at most"),
        with_bytes("s.xyz", vec![b'7'; 50_000_000], "line 1: got a longer line, expected at most"),
        with_bytes("s.xyz", format!("1\n{names}\n"), "line 2: got 1025 names, expected at most 1000"),
        with_bytes(
            "s.xyz",
            format!("1\nProperties={columns}\n"),
            "line 2, Properties: got 'x:R:1000:x:R:1000",
        ),
        with_bytes("s.xyz", format!("0\n{head}{}", "\n".repeat(50_000_000)), "got another line"),
    ]
}

/// Writes a zip archive of deflated entries.
pub fn archive(path: &Path, entries: &[(&str, &[u8])]) {
    let mut archive = ZipWriter::new(File::create(path).unwrap());
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in entries {
        archive.start_file(*name, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

fn npy(shape: &str, data: usize) -> Vec<u8> {
    let dict = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// An archive with the array `position` only.
fn position_only(array: Vec<u8>, message: &'static str) -> Hostile {
    hostile("s.npz", message, move |path| archive(path, &[("position.npy", &array)]))
}

fn npz() -> Vec<Hostile> {
    let mut endless_header = npy("(2, 3)", 48);
    endless_header[6] = 2;
    endless_header.splice(8..10, [0xff; 4]);
    let zeros = npy("(4200000, 3)", 24 * 4_200_000);
    let mut found = vec![
        position_only(npy("(2147483648, 3)", 48), "got 48 bytes of data, expected shape [2147483648, 3]"),
        position_only(
            npy("(1099511627776, 3)", 48),
            "got 48 bytes of data, expected shape [1099511627776, 3]",
        ),
        position_only(npy("(9223372036854775808, 3)", 48), "got 48 bytes of data, expected shape"),
        position_only(npy("(18446744073709551615, 3)", 48), "got 48 bytes of data, expected shape"),
        position_only(endless_header, "got a header of 4294967295 bytes, expected at most 10000"),
        // The strongest compression that deflate reaches. The array has the claimed size.
        position_only(zeros.clone(), "4200000 bodies need 260.4 MiB of memory, the limit is 256.0 MiB"),
        position_only(zeros[200..].to_vec(), "array position: got no npy magic"),
    ];
    found.push(hostile("s.npz", "array velocity has 4200000 entries, expected 2", move |path| {
        archive(path, &[("position.npy", &npy("(2, 3)", 48)), ("velocity.npy", &zeros)]);
    }));
    // A nested archive, which the reader does not unpack.
    found.push(hostile("s.npz", "array position: got no npy magic", |path| {
        archive(path, &[("position.npy", &vec![0; 10_000_000])]);
        let inner = fs::read(path).unwrap();
        archive(path, &[("position.npy", &inner)]);
    }));
    found.push(hostile("s.npz", "expected a compression of at most 1:1032", |path| {
        archive(path, &[("position.npy", &npy("(1000000, 3)", 24_000_000))]);
        let mut bytes = fs::read(path).unwrap();
        let directory = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        bytes[directory + 24..directory + 28].copy_from_slice(&100_000_000u32.to_le_bytes());
        fs::write(path, bytes).unwrap();
    }));
    found.push(hostile("s.npz", "archive, directory: got a structure larger than the read limit", |path| {
        let names: Vec<String> = (0..65_000).map(|k| format!("{k}.npy")).collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        archive(path, &entries);
    }));
    found.push(hostile("s.npz", "archive: got 70000 entries, expected at most 65535", |path| {
        let names: Vec<String> = (0..70_000).map(|k| format!("{k}.npy")).collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        archive(path, &entries);
    }));
    found.push(zip64_directory(
        1 << 40,
        1 << 30,
        0,
        "archive: got 1099511627776 entries, expected at most 65535",
    ));
    found.push(zip64_directory(1 << 25, 8 << 30, 0, "archive: got 33554432 entries, expected at most 65535"));
    found.push(zip64_directory(
        1 << 25,
        8 << 30,
        1 << 30,
        "archive: got a ZIP64 record far from its locator",
    ));
    found
}

/// A file of zeros with a ZIP64 directory of `entries` that do not exist. Its record is `gap` bytes
/// before the correct position.
fn zip64_directory(entries: u64, length: u64, gap: u64, message: &'static str) -> Hostile {
    hostile("s.npz", message, move |path| {
        use std::os::unix::fs::FileExt;
        let mut record = b"PK\x06\x06".to_vec();
        record.extend((44 + gap).to_le_bytes());
        record.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        record.extend([entries.to_le_bytes(), entries.to_le_bytes(), length.to_le_bytes(), [0; 8]].concat());
        let mut locator = b"PK\x06\x07\0\0\0\0".to_vec();
        locator.extend((length - gap).to_le_bytes());
        locator.extend(1u32.to_le_bytes());
        let end = [&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0, 0]].concat();
        let file = File::create(path).unwrap();
        file.write_all_at(b"PK\x03\x04", 0).unwrap();
        file.write_all_at(&record, length - gap).unwrap();
        file.write_all_at(&[locator, end].concat(), length + record.len() as u64).unwrap();
    })
}

/// Writes a snapshot of `n` bodies with mixed species. Without an extension it is a GADGET binary
/// file.
pub fn many_bodies(path: &Path, n: usize) {
    if path.extension().is_none() {
        let mut file = gadget_start([0, n as u32, 0, 0, 0, 0], 12 * n as u32);
        for (numbers, next) in [(3 * n, 3 * n), (3 * n, n), (n, n), (n, 0)] {
            file.resize(file.len() + 4 * numbers, 0);
            file.extend([(4 * numbers as u32).to_le_bytes(), (4 * next as u32).to_le_bytes()].concat());
        }
        return fs::write(path, file).unwrap();
    }
    let mut particles = Particles::with_capacity(n);
    for i in 0..n {
        particles.push(Particle {
            position: [1.0; 3],
            velocity: [0.0; 3],
            mass: 1.0,
            id: i as u64,
            species: Species::ALL[1 + i % 2],
        });
    }
    let snapshot = Snapshot { particles, time: 0.0, step: 0, units: Units::NBody, provenance: Vec::new() };
    orrery_formats::write_snapshot(path, &snapshot).unwrap();
}

/// Header of GADGET's format 1 for `counts`, and the length of the next record.
fn gadget_start(counts: [u32; 6], length: u32) -> Vec<u8> {
    let mut bytes = 256u32.to_le_bytes().to_vec();
    bytes.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
    bytes.resize(260, 0);
    bytes.extend(256u32.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes
}

fn gadget() -> Vec<Hostile> {
    let label = |name: &[u8; 4]| [&[8, 0, 0, 0], &name[..], &[8, 0, 0, 0], &[8, 0, 0, 0]].concat();
    let mut blocks = label(b"HEAD");
    blocks.extend(&gadget_start([1; 6], 0)[..264]);
    let block = [label(b"U   "), vec![0; 8]].concat();
    blocks.extend(block.repeat(2_000_000));
    let third = u32::MAX / 12;
    let left = "got a length of 4294967295 bytes, expected at most the";
    vec![
        with_bytes("s", [gadget_start([u32::MAX; 6], u32::MAX), vec![0; 100]].concat(), left),
        with_bytes(
            "s",
            [gadget_start([1 << 31; 6], 24), vec![0; 100]].concat(),
            "got 24 bytes, expected 154618822656",
        ),
        sparse_file(
            "s",
            gadget_start([0, third, 0, 0, 0, 0], 12 * third),
            5 << 30,
            "357913941 bodies need 24.3 GiB",
        ),
        with_bytes(
            "s",
            blocks,
            "first 1000 blocks: got not all required blocks, expected POS, VEL, ID and MASS",
        ),
    ]
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile").join(name)).unwrap()
}

fn find_pattern(bytes: &[u8], from: usize, pattern: &[u8]) -> usize {
    from + bytes[from..]
        .windows(pattern.len())
        .position(|window| window == pattern)
        .expect("the file contains it")
}

fn hdf5() -> Vec<Hostile> {
    let with_count = |n: u64, message: &'static str| {
        let mut file = fixture("plain.hdf5");
        let name = find_pattern(&file, 0, b"NumPart_ThisFile");
        let at = find_pattern(&file, name, &3u64.to_le_bytes());
        file[at..at + 8].copy_from_slice(&n.to_le_bytes());
        with_bytes("s.hdf5", file, message)
    };
    let fixture_case = |name: &'static str, message| with_bytes("s.hdf5", fixture(name), message);
    vec![
        with_count(1 << 31, "got 2147483648 bodies, expected no more than fit"),
        with_count(1 << 40, "got 1099511627776 bodies, expected no more than fit"),
        with_count(1 << 63, "got 9223372036854775808 bodies, expected no more than fit"),
        with_count(u64::MAX, "got 18446744073709551615 bodies, expected no more than fit"),
        fixture_case(
            "oversized_chunk.hdf5",
            "got chunks of 800000000 bytes, expected at most the 24 of the dataset",
        ),
        fixture_case(
            "many_chunks.hdf5",
            "got 100000 chunks, expected no more than fit into a file of 3688 bytes",
        ),
        fixture_case("many_filters.hdf5", "got 20 filters, expected at most 8"),
        fixture_case("never_written.hdf5", "got 1099511627776 bodies, expected no more than fit"),
        fixture_case("soft_link_group.hdf5", "got nothing, or a link"),
        fixture_case("soft_link_dataset.hdf5", "got nothing, or a link"),
        with_bytes("s.hdf5", branching_tree(), "a structure larger than the read limit"),
        with_bytes("s.hdf5", repeated_text(), "a structure larger than the read limit"),
        with_bytes("s.hdf5", nested_datatype(8000), "attribute /Header/NumPart_ThisFile: got nothing"),
    ]
}

/// Adds five levels above the tree of the root group. Each node has its child 32 times, so there
/// are 32^5 paths to the same leaf.
fn branching_tree() -> Vec<u8> {
    let mut file = fixture("plain.hdf5");
    let leaf = find_pattern(&file, 0, b"TREE");
    let address = |at: usize| (at as u64).to_le_bytes();
    let mut child = leaf;
    let mut trees = Vec::new();
    for level in 1..=5 {
        let mut tree = [&b"TREE\0"[..], &[level, 32, 0], &[0xff; 16]].concat();
        tree.extend([[0; 8], address(child)].concat().repeat(32));
        tree.extend([0; 8]);
        child = file.len() + trees.len();
        trees.extend(tree);
    }
    // The superblock and the root group both contain the address of the tree.
    let mut at = 0;
    while let Some(found) = file[at..].windows(8).position(|window| window == address(leaf)) {
        at += found;
        file[at..at + 8].copy_from_slice(&address(child));
    }
    file.extend(trees);
    file
}

/// All sixty names of the provenance refer to the same text of 4 MiB.
fn repeated_text() -> Vec<u8> {
    let mut file = fixture("repeated_text.hdf5");
    let heap = file.len() as u64;
    let length = 4u64 << 20;
    let first = find_pattern(&file, 0, b"GCOL") as u64;
    let mut at = 0;
    let reference = [&1u32.to_le_bytes()[..], &first.to_le_bytes()].concat();
    while let Some(found) = file[at..].windows(12).position(|window| window == reference) {
        at += found;
        file[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
        file[at + 4..at + 12].copy_from_slice(&heap.to_le_bytes());
        file[at + 12..at + 16].copy_from_slice(&1u32.to_le_bytes());
        at += 16;
    }
    file.extend(b"GCOL\x01\0\0\0");
    file.extend((16 + 16 + length + 16).to_le_bytes());
    file.extend([1, 0, 1, 0, 0, 0, 0, 0]);
    file.extend(length.to_le_bytes());
    file.resize(file.len() + length as usize, b'x');
    file.extend([0; 16]);
    file
}

/// An attribute whose type is a sequence of sequences, nested `levels` deep.
fn nested_datatype(levels: usize) -> Vec<u8> {
    const UNDEFINED: [u8; 8] = [0xff; 8];
    let message = |kind: u16, data: &[u8]| {
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(8), 0);
        let size = data.len() as u16;
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &[0; 4], &data].concat()
    };
    let object = |messages: &[Vec<u8>]| {
        let body = messages.concat();
        let mut start = vec![1, 0, messages.len() as u8, 0, 1, 0, 0, 0];
        start.extend((body.len() as u32).to_le_bytes());
        start.extend([0; 4]);
        [start, body].concat()
    };
    let links = message(2, &[&[0, 0][..], &UNDEFINED, &UNDEFINED].concat());
    let mut datatype = [0x19, 0, 0, 0, 16, 0, 0, 0].repeat(levels);
    datatype.extend([0x10, 0, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0]);
    let mut attribute = vec![1, 0, 2, 0];
    attribute.extend((datatype.len() as u16).to_le_bytes());
    attribute.extend(8u16.to_le_bytes());
    attribute.extend(*b"a\0\0\0\0\0\0\0");
    attribute.extend(&datatype);
    attribute.resize(attribute.len().next_multiple_of(8), 0);
    attribute.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    attribute.extend([0; 16]);
    let header = object(&[links.clone(), message(12, &attribute)]);
    let link = |to: u64| message(6, &[&b"\x01\0\x06Header"[..], &to.to_le_bytes()].concat());
    let root_bytes = object(&[links.clone(), link(0)]).len() as u64;
    let root = object(&[links, link(96 + root_bytes)]);

    let mut file = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0".to_vec();
    file.extend(
        [[0; 8], UNDEFINED, (96 + root_bytes + header.len() as u64).to_le_bytes(), UNDEFINED].concat(),
    );
    file.extend([[0; 8], 96u64.to_le_bytes(), [0; 8], [0; 8], [0; 8]].concat());
    [file, root, header].concat()
}
