//! The `.npy` format: a magic, a version, a Python dictionary as text, then the raw array (NEP 1).
//!
//! Written: version 1.0, little-endian, C order. Read: versions 1 to 3, either byte order, C or Fortran
//! order, reals and integers of 1 to 8 bytes, texts. Never Python objects, which would be code.

use std::io::{self, Read, Write};

use orrery_model::Vec3s;

use crate::error::Fault;
use crate::text::{LONGEST_WORD, shortened};

const MAGIC: &[u8] = b"\x93NUMPY";
/// A dictionary of three entries takes about 100 bytes; numpy itself stops at 10,000.
const LONGEST_HEADER: u64 = 1 << 16;
/// numpy's own bound.
const MOST_DIMENSIONS: usize = 64;
/// Bytes decoded at a time, a multiple of 8.
const WINDOW_BYTES: usize = 1 << 16;
const INTACT: &str = "an intact zip archive";

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

/// An array of a file whose header has been read and whose values are to come. The bytes left in `source`
/// are as many as the shape promises.
pub struct Array<R> {
    name: String,
    kind: Kind,
    width: usize,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<u64>,
    bytes: u64,
    source: R,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Real,
    Signed,
    Unsigned,
    Text,
}

impl<R: Read> Array<R> {
    /// Reads the header of the `.npy` file called `name`, which is `size` bytes long.
    pub fn open(name: &str, mut source: R, size: u64) -> Result<Self, Fault> {
        let wrong =
            |got: &str, expected: &str| Fault::malformed(format!("array {name}"), got, expected.to_owned());
        let broken = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong("a header that ends too early", "an npy header"),
            _ => wrong(&error.to_string(), INTACT),
        };
        let mut start = [0; 10];
        if size < start.len() as u64 {
            return Err(wrong("no npy magic", "an array of numpy"));
        }
        source.read_exact(&mut start).map_err(broken)?;
        if !start.starts_with(MAGIC) {
            return Err(wrong("no npy magic", "an array of numpy"));
        }
        let low = u64::from(u16::from_le_bytes([start[8], start[9]]));
        let (begin, length) = match start[6] {
            1 => (10, low),
            2 | 3 => {
                let mut high = [0; 2];
                source.read_exact(&mut high).map_err(broken)?;
                (12, low | u64::from(u16::from_le_bytes(high)) << 16)
            }
            other => return Err(wrong(&format!("npy version {other}"), "1, 2 or 3")),
        };
        if length > LONGEST_HEADER {
            let expected = format!("at most {LONGEST_HEADER}");
            return Err(wrong(&format!("a header of {length} bytes"), &expected));
        }
        let mut dict = vec![0; length as usize];
        source.read_exact(&mut dict).map_err(broken)?;
        let (descr, fortran_order, shape) = parse_dict(&dict)
            .ok_or_else(|| wrong("a header without descr, order or shape", "an npy header"))?;
        let (big_endian, kind, width) = parse_descr(&descr).ok_or_else(|| {
            wrong(&format!("type {:?}", shortened(&descr, LONGEST_WORD)), "reals, integers or text of numpy")
        })?;
        let bytes = size.saturating_sub(begin + length);
        let promised = shape.iter().try_fold(width as u64, |bytes, &d| bytes.checked_mul(d));
        if promised != Some(bytes) {
            let got = format!("{bytes} bytes of data");
            return Err(wrong(&got, &format!("shape {shape:?} of {width} bytes each")));
        }
        Ok(Self { name: name.to_owned(), kind, width, big_endian, fortran_order, shape, bytes, source })
    }

    /// Its extents.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// How many values it has.
    pub fn entries(&self) -> u64 {
        self.bytes / self.width as u64
    }

    /// Its raw bytes, where they are no more than `most`.
    pub fn into_bytes(mut self, most: u64) -> Result<Vec<u8>, Fault> {
        if self.bytes > most {
            let (got, expected) = (format!("{} bytes", self.bytes), format!("at most {most}"));
            return Err(self.wrong(got, expected));
        }
        let mut bytes = vec![0; self.bytes as usize];
        self.fill(&mut bytes)?;
        self.expect_end()?;
        Ok(bytes)
    }

    /// All values as reals.
    pub fn reals(self, mut each: impl FnMut(f64)) -> Result<(), Fault> {
        let narrow = match (self.kind, self.width) {
            (Kind::Real, 8) => false,
            (Kind::Real, 4) => true,
            _ => return Err(self.wrong_kind("f32 or f64")),
        };
        self.words(|word| {
            each(if narrow { f32::from_bits(word as u32).into() } else { f64::from_bits(word) });
            Ok(())
        })
    }

    /// All values as integers that are not negative.
    pub fn integers(self, mut each: impl FnMut(u64) -> Result<(), Fault>) -> Result<(), Fault> {
        let negative = self.wrong_kind("integers >= 0");
        let sign_bit = match self.kind {
            Kind::Unsigned => 0,
            Kind::Signed => 1 << (8 * self.width - 1),
            _ => return Err(negative),
        };
        let mut negative = Some(negative);
        self.words(|word| match word & sign_bit {
            0 => each(word),
            _ => Err(negative.take().expect("words stops at the first error")),
        })
    }

    /// How many rows of three there are.
    pub fn rows(&self) -> Result<u64, Fault> {
        match self.shape[..] {
            [n, 3] => Ok(n),
            _ => Err(self.wrong(format!("shape {:?}", self.shape), "shape [n, 3]")),
        }
    }

    /// Rows of three reals, appended to `column`.
    pub fn vectors(self, column: &mut Vec3s) -> Result<(), Fault> {
        let n = self.rows()?;
        let by_column = self.fortran_order;
        let mut k = 0;
        self.reals(|value| {
            let axis = if by_column { k / n } else { k % 3 };
            [&mut column.x, &mut column.y, &mut column.z][axis as usize].push(value);
            k += 1;
        })
    }

    /// One text, short.
    pub fn text(self) -> Result<String, Fault> {
        if self.kind != Kind::Text {
            return Err(self.wrong_kind("text"));
        }
        let (big_endian, wrong) = (self.big_endian, self.wrong("no Unicode", "text"));
        let bytes = self.into_bytes(LONGEST_HEADER)?;
        let points = bytes.chunks_exact(4).map(|c| {
            let c = [c[0], c[1], c[2], c[3]];
            if big_endian { u32::from_be_bytes(c) } else { u32::from_le_bytes(c) }
        });
        let text: Option<String> = points.map(char::from_u32).collect();
        Ok(text.ok_or(wrong)?.trim_end_matches('\0').to_owned())
    }

    /// All values in the order of the file, zero-extended to 64 bits; stops at an error of `each`.
    fn words(mut self, mut each: impl FnMut(u64) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut buffer = vec![0; WINDOW_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            let window = &mut buffer[..left.min(WINDOW_BYTES as u64) as usize];
            left -= window.len() as u64;
            self.fill(window)?;
            for value in window.chunks_exact(self.width) {
                let append = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
                each(if self.big_endian {
                    value.iter().fold(0, append)
                } else {
                    value.iter().rev().fold(0, append)
                })?;
            }
        }
        self.expect_end()
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Fault> {
        self.source.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.wrong("fewer bytes than the directory says", INTACT),
            _ => self.wrong(error.to_string(), INTACT),
        })
    }

    /// Where the source is at its end, it has also seen that its checksum is right.
    fn expect_end(mut self) -> Result<(), Fault> {
        match self.source.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.wrong("more bytes than the directory says", INTACT)),
            Err(error) => Err(self.wrong(error.to_string(), INTACT)),
        }
    }

    fn wrong(&self, got: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::malformed(format!("array {}", self.name), got, expected)
    }

    fn wrong_kind(&self, expected: &str) -> Fault {
        self.wrong("values of another type", expected)
    }
}

/// The type, whether the order is Fortran's, and the shape.
fn parse_dict(dict: &[u8]) -> Option<(String, bool, Vec<u64>)> {
    let dict = std::str::from_utf8(dict).ok()?;
    let entry = |key: &str| Some(dict.split_once(&format!("'{key}':"))?.1.trim_start());
    let descr = entry("descr")?.strip_prefix('\'')?.split_once('\'')?.0;
    let fortran_order = entry("fortran_order")?.starts_with("True");
    let dims = entry("shape")?.strip_prefix('(')?.split_once(')')?.0;
    let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
    let shape = dims.take(MOST_DIMENSIONS + 1).map(|d| d.parse().ok()).collect::<Option<Vec<u64>>>()?;
    (shape.len() <= MOST_DIMENSIONS).then(|| (descr.to_owned(), fortran_order, shape))
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
