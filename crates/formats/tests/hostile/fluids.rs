//! Hostile files of fluids: GSD, extended XYZ (`.extxyz`) and LAMMPS data.

use std::path::Path;

use super::files::{Hostile, sparse_file, with_bytes};
use crate::fluids::{Trajectory, periodic_box};

/// Returns all files.
pub fn all() -> Vec<Hostile> {
    [gsd(), xyz(), lammps()].into_iter().flatten().collect()
}

/// Returns a GSD file with a box and positions. `change` changes header, names, entries or data.
fn gsd_bytes(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..8].copy_from_slice(&0x65DF_65DF_65DF_65DF_u64.to_le_bytes());
    // Index of 3 entries at byte 512, names of 4 * 64 bytes at byte 256.
    for (offset, value) in [(8, 512_u64), (16, 3), (24, 256), (32, 4)] {
        bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes[40..44].copy_from_slice(&(1_u32 << 16 | 4).to_le_bytes());
    bytes[44..48].copy_from_slice(&(2_u32 << 16).to_le_bytes());
    bytes[112..117].copy_from_slice(b"hoomd");
    bytes.extend(b"particles/N\0particles/position\0configuration/box\0");
    bytes.resize(512, 0);
    // Number, position and box: frame, rows, location, columns, name, type.
    for (name, rows, location, columns, kind) in
        [(0_u16, 1_u64, 608_u64, 1_u32, 3), (1, 2, 612, 3, 9), (2, 6, 636, 1, 9)]
    {
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(rows.to_le_bytes());
        bytes.extend(location.to_le_bytes());
        bytes.extend(columns.to_le_bytes());
        bytes.extend(name.to_le_bytes());
        bytes.extend([kind, 0]);
    }
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend([0; 24]);
    bytes.extend([4.0_f32, 5.0, 6.0, 0.0, 0.0, 0.0].map(f32::to_le_bytes).concat());
    change(&mut bytes);
    bytes
}

fn set(offset: usize, value: u64) -> impl Fn(&mut Vec<u8>) {
    move |bytes| bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes())
}

fn gsd() -> Vec<Hostile> {
    let index = 512;
    let changed = |change: &dyn Fn(&mut Vec<u8>), message| with_bytes("s.gsd", gsd_bytes(change), message);
    vec![
        changed(&|bytes| bytes.truncate(255), "the file ends too early"),
        changed(&set(0, 1), "byte 0: got other bytes, expected the signature of a GSD file"),
        changed(&set(16, u64::MAX), "index: got 18446744073709551615 entries at byte 512"),
        changed(&set(16, 1 << 40), "index: got 1099511627776 entries at byte 512, expected entries within"),
        changed(&set(8, u64::MAX), "index: got 3 entries at byte 18446744073709551615"),
        changed(&set(32, 1 << 58), "names: got 288230376151711744 entries at byte 256"),
        changed(&set(8, 0), "entry 0 of the index: got"),
        changed(&set(index + 8 + 32, u64::MAX), "entry 1 of the index: got 18446744073709551615 x 3 values"),
        changed(
            &set(index + 8 + 32, 1 << 40),
            "entry 1 of the index: got 1099511627776 x 3 values at byte 612",
        ),
        changed(&set(index + 16 + 32, u64::MAX - 3), "entry 1 of the index: got 2 x 3 values at byte 184467"),
        changed(&|bytes| bytes[index + 56..index + 60].fill(0), "entry 1 of the index: got 2 x 0 values"),
        changed(
            &|bytes| bytes[index + 30] = 77,
            "entry 0 of the index: got the type 77, expected a type from 1",
        ),
        changed(&|bytes| bytes[index + 28] = 9, "entry 0 of the index: got name 9, expected one of 3 names"),
        changed(&set(index, 7), "entry 1 of the index: got frame 0, expected frame 7 or a later one"),
        changed(&set(index + 16, 0), "index: got no frames, expected at least one"),
        changed(&|bytes| bytes[608] = 3, "particles/position: got 2 x 3 values, expected 3 x 3 values"),
        changed(&|bytes| bytes[608..612].fill(0xff), "got 2 x 3 values, expected 4294967295 x 3 values"),
        changed(
            &|bytes| bytes[636..660].fill(0),
            "the box has the length 0e0 along x, expected 1e-100 to 1e100",
        ),
        changed(&|bytes| bytes[655] = 1, "configuration/box: got the tilt factors"),
        changed(
            &|bytes| bytes[612..616].fill(0xff),
            "particles/position: got NaN of particle 0, expected finite",
        ),
        changed(&|bytes| bytes[46] = 3, "version: got 3, expected 1 or 2"),
        changed(&|bytes| bytes[112] = b'x', "schema: got 'xoomd' 1, expected 'hoomd' 1 or 2"),
        // Many particles in a sparse file.
        sparse_file(
            "s.gsd",
            gsd_bytes(|bytes| {
                set(index + 8 + 32, 1 << 31)(bytes);
                bytes[608..612].copy_from_slice(&(1_u32 << 31).to_le_bytes());
            }),
            40 << 30,
            "2147483648 bodies need 172.0 GiB of memory, the limit is 256.0 MiB",
        ),
        // Names of 4 GiB.
        sparse_file(
            "s.gsd",
            gsd_bytes(set(32, 1 << 26)),
            5 << 30,
            "names: got 4294967296 bytes, expected at most",
        ),
    ]
}

fn xyz() -> Vec<Hostile> {
    let frame = "1\nProperties=species:S:1:pos:R:3\nAr 1 2 3\n";
    let with_count = |n: u64| format!("{n}\nProperties=species:S:1:pos:R:3\nAr 1 2 3\n");
    let names = "a ".repeat(2 << 20);
    let many: String = (0..300).map(|k| format!("s{k} 1 2 3\n")).collect();
    vec![
        with_bytes(
            "s.extxyz",
            with_count(1 << 31),
            "line 4: got end of file, expected 2147483648 particles, found 1",
        ),
        with_bytes("s.extxyz", with_count(u64::MAX), "expected 18446744073709551615 particles, found 1"),
        with_bytes(
            "s.extxyz",
            format!("{frame}{}", with_count(2)),
            "line 7: got end of file, expected 2 particles",
        ),
        sparse_file("s.extxyz", frame, 10 << 30, "line 4: got a longer line, expected at most"),
        with_bytes(
            "s.extxyz",
            format!("{frame}{}", "\n".repeat(50_000_000)),
            "got more than 1000 empty lines",
        ),
        with_bytes("s.extxyz", format!("{frame}\n{frame}"), "line 5: got a frame after an empty line"),
        with_bytes(
            "s.extxyz",
            format!("1\n{names}\nAr 1 2 3\n"),
            "line 2: got 1025 names, expected at most 1000",
        ),
        with_bytes(
            "s.extxyz",
            format!("300\n\n{many}"),
            "line 259: got another species 's256', expected at most 256",
        ),
        with_bytes(
            "s.extxyz",
            "1\nProperties=pos:R:3:x:R:1000\n1 2 3 4\n",
            "line 2, Properties: got 'pos:R:3:x:R:1000'",
        ),
        with_bytes("s.extxyz", "1\nProperties=pos:R:3:pos:R:3\n1 2 3 4 5 6\n", "without one 'pos'"),
        with_bytes(
            "s.extxyz",
            "1\nLattice=\"4 0 0 1 4 0 0 0 4\"\nAr 1 2 3\n",
            "line 2, Lattice: got '4 0 0 1 4 0 0 0 4', expected a box with right angles",
        ),
        with_bytes(
            "s.extxyz",
            "1\nLattice=\"4 0 0\"\nAr 1 2 3\n",
            "Lattice: got '4 0 0', expected nine numbers",
        ),
        with_bytes(
            "s.extxyz",
            "1\nLattice=\"4 0 0 0 4 0 0 0 4\" pbc=\"T F T\"\nAr 1 2 3\n",
            "line 2, pbc: got 'T F T', expected \"T T T\", \"F F F\", or \"T T F\" with dimensions=2",
        ),
        with_bytes(
            "s.extxyz",
            "1\npbc=\"T T T\"\nAr 1 2 3\n",
            "Lattice: got 'nothing', expected nine numbers",
        ),
        with_bytes(
            "s.extxyz",
            "1\nLattice=\"4 0 0 0 -4 0 0 0 4\"\nAr 1 2 3\n",
            "the box has the length -4e0 along y, expected 1e-100 to 1e100",
        ),
        with_bytes(
            "s.extxyz",
            "1\n\nAr 1 inf 3\n",
            "line 3: got 'inf' in column 3, expected a finite number",
        ),
        with_bytes("s.extxyz", "1\n\nAr 1 2 3 4\n", "line 3: got 5 columns, expected 4"),
        with_bytes("s.extxyz", "2\n\nAr 1e308 0 0\nAr -1e308 0 0\n", "the box has the length inf along x"),
        with_bytes(
            "s.extxyz",
            "2\nProperties=species:S:1:pos:R:3:mass:R:1\nAr 1 2 3 1\nAr 1 2 4 2\n",
            "line 4: got the mass 2e0, expected 1e0, as other particles of species Ar",
        ),
    ]
}

fn lammps() -> Vec<Hostile> {
    let head =
        |n: u64| format!("t\n{n} atoms\n1 atom types\n0 4 xlo xhi\n0 4 ylo yhi\n0 4 zlo zhi\nAtoms\n\n");
    vec![
        with_bytes(
            "s.data",
            head(u64::MAX),
            "header: got 18446744073709551615 atoms, expected no more than fit",
        ),
        with_bytes("s.data", head(1 << 40), "header: got 1099511627776 atoms, expected no more than fit"),
        sparse_file("s.data", head(1 << 31), 40 << 30, "2147483648 bodies need 172.0 GiB of memory"),
        sparse_file("s.data", head(1), 10 << 30, "got a longer line, expected at most"),
        with_bytes("s.data", "x".repeat(50_000_000), "line 1: got a longer line, expected at most"),
        with_bytes(
            "s.data",
            format!("{}{}", head(1), "#\n".repeat(5_000_000)),
            "got end of file, expected 1 line in Atoms",
        ),
        with_bytes("s.data", format!("t\n{} atoms\n", "9".repeat(1000)), "line 2: got '99999"),
        with_bytes(
            "s.data",
            [b"t\n\xff atoms\n".as_slice()].concat(),
            "line 2: got bytes that are not UTF-8",
        ),
    ]
}

/// Writes a valid file with `n` particles, in the format of the extension. The ids decrease, so
/// reading it sorts them.
pub fn many_particles(path: &Path, n: usize) {
    if path.extension().is_some_and(|extension| extension == "data") {
        let atoms: String = (0..n).map(|k| format!("{} 1 {}.5 0 0 0 0 0\n", n - k, k % 4)).collect();
        let velocities: String = (0..n).map(|k| format!("{} 0 0 0.5\n", k + 1)).collect();
        let header = format!("t\n{n} atoms\n1 atom types\n0 4 xlo xhi\n0 4 ylo yhi\n0 4 zlo zhi\n");
        std::fs::write(path, format!("{header}Atoms\n\n{atoms}\nVelocities\n\n{velocities}")).unwrap();
        return;
    }
    Trajectory::new(periodic_box(), n, 1).append(path, 0..1);
}
