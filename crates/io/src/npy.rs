//! The `.npy` format: a magic, a version, a Python dictionary as text, then the raw array (NEP 1).
//!
//! Written: version 1.0, little-endian, C order. Read: versions 1 to 3, either byte order, C or Fortran
//! order, reals and integers of 1 to 8 bytes, texts. Never Python objects, which would be code.

use std::io::{self, Write};

use orrery_model::Vec3s;

use crate::error::Fault;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Writes magic, version and dictionary, padded so that the data start at a multiple of 64.
pub fn write_header(sink: &mut impl Write, descr: &str, shape: &[usize]) -> io::Result<()> {
    let dims: String = shape.iter().map(|d| format!("{d},")).collect();
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let length = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    sink.write_all(MAGIC)?;
    sink.write_all(&[1, 0])?;
    sink.write_all(&(length as u16).to_le_bytes())?;
    writeln!(sink, "{dict:<width$}", width = length - 1)
}

/// An array as it lies in a file.
pub struct Array {
    name: String,
    kind: Kind,
    width: usize,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<u64>,
    data: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Real,
    Signed,
    Unsigned,
    Text,
}

impl Array {
    /// Takes apart the bytes of the whole `.npy` file called `name`.
    pub fn parse(name: &str, mut bytes: Vec<u8>) -> Result<Self, Fault> {
        let place = format!("array {name}");
        let wrong = |got: &str, expected: &str| Fault::malformed(place.clone(), got, expected);
        if bytes.len() < 12 || !bytes.starts_with(MAGIC) {
            return Err(wrong("no npy magic", "an array of numpy"));
        }
        let (start, length) = match bytes[6] {
            1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
            2 | 3 => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
            other => return Err(wrong(&format!("npy version {other}"), "1, 2 or 3")),
        };
        let end = start + length;
        let dict = bytes.get(start..end).and_then(|dict| std::str::from_utf8(dict).ok());
        let dict = dict.ok_or_else(|| wrong("a header that ends too early", "an npy header"))?;
        let entry = |key: &str| {
            let after = dict.split_once(&format!("'{key}':"))?.1.trim_start();
            Some(after)
        };
        let parts = || {
            let descr = entry("descr")?.strip_prefix('\'')?.split_once('\'')?.0;
            let fortran_order = entry("fortran_order")?.starts_with("True");
            let dims = entry("shape")?.strip_prefix('(')?.split_once(')')?.0;
            let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
            Some((
                descr.to_owned(),
                fortran_order,
                dims.map(|d| d.parse().ok()).collect::<Option<Vec<u64>>>()?,
            ))
        };
        let (descr, fortran_order, shape) =
            parts().ok_or_else(|| wrong("a header without descr, order or shape", "an npy header"))?;
        let (big_endian, kind, width) = parse_descr(&descr)
            .ok_or_else(|| wrong(&format!("type '{descr:.20}'"), "reals, integers or text of numpy"))?;
        let promised = shape.iter().try_fold(width as u64, |bytes, &d| bytes.checked_mul(d));
        if promised != Some((bytes.len() - end) as u64) {
            let got = format!("{} bytes of data", bytes.len() - end);
            return Err(wrong(&got, &format!("shape {shape:?} of {width} bytes each")));
        }
        bytes.drain(..end);
        Ok(Self { name: name.to_owned(), kind, width, big_endian, fortran_order, shape, data: bytes })
    }

    /// Its extents.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Its raw bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    fn wrong_kind(&self, expected: &str) -> Fault {
        Fault::malformed(format!("array {}", self.name), "values of another type", expected)
    }

    /// All values in the order of the file, zero-extended to 64 bits.
    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.data.chunks_exact(self.width).map(|chunk| {
            let append = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
            if self.big_endian { chunk.iter().fold(0, append) } else { chunk.iter().rev().fold(0, append) }
        })
    }

    /// All values as reals.
    pub fn reals(&self) -> Result<Vec<f64>, Fault> {
        match (self.kind, self.width) {
            (Kind::Real, 8) => Ok(self.words().map(f64::from_bits).collect()),
            (Kind::Real, 4) => Ok(self.words().map(|w| f64::from(f32::from_bits(w as u32))).collect()),
            _ => Err(self.wrong_kind("f32 or f64")),
        }
    }

    /// All values as integers that are not negative.
    pub fn integers(&self) -> Result<Vec<u64>, Fault> {
        let sign_bit = 1 << (8 * self.width.min(8) - 1);
        match self.kind {
            Kind::Unsigned => Ok(self.words().collect()),
            Kind::Signed if self.words().all(|word| word & sign_bit == 0) => Ok(self.words().collect()),
            _ => Err(self.wrong_kind("integers >= 0")),
        }
    }

    /// Rows of three reals.
    pub fn vectors(&self) -> Result<Vec3s, Fault> {
        let [n, 3] = self.shape[..] else {
            let got = format!("shape {:?}", self.shape);
            return Err(Fault::malformed(format!("array {}", self.name), got, "shape [n, 3]"));
        };
        let (n, flat) = (n as usize, self.reals()?);
        let component = |axis: usize| {
            if self.fortran_order {
                flat[axis * n..(axis + 1) * n].to_vec()
            } else {
                flat.iter().skip(axis).step_by(3).copied().collect()
            }
        };
        Ok(Vec3s { x: component(0), y: component(1), z: component(2) })
    }

    /// One text.
    pub fn text(&self) -> Result<String, Fault> {
        let points = self.data.chunks_exact(4).map(|c| {
            let c = [c[0], c[1], c[2], c[3]];
            if self.big_endian { u32::from_be_bytes(c) } else { u32::from_le_bytes(c) }
        });
        let text: Option<String> = points.map(char::from_u32).collect();
        match text {
            Some(text) if self.kind == Kind::Text => Ok(text.trim_end_matches('\0').to_owned()),
            _ => Err(self.wrong_kind("text")),
        }
    }
}

/// `<f8`, `|u1`, `>i4`, `<U12`: byte order, kind, width in bytes.
fn parse_descr(descr: &str) -> Option<(bool, Kind, usize)> {
    let mut chars = descr.chars();
    let big_endian = match chars.next()? {
        '<' | '|' => false,
        '>' => true,
        _ => return None,
    };
    let kind = match chars.next()? {
        'f' => Kind::Real,
        'i' => Kind::Signed,
        'u' => Kind::Unsigned,
        'U' => Kind::Text,
        _ => return None,
    };
    let size: usize = chars.as_str().parse().ok()?;
    let width = match kind {
        Kind::Text => size.checked_mul(4).filter(|&width| width > 0)?,
        _ => [1, 2, 4, 8].into_iter().find(|&width| width == size)?,
    };
    Some((big_endian, kind, width))
}
