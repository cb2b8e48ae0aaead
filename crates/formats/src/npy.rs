//! The `.npy` format: magic bytes, a version, a Python dictionary as text, then the raw array (NEP
//! 1).
//!
//! Arrays are written with version 1.0, in little-endian byte order and C order. The reader accepts
//! versions 1 to 3, both byte orders, C and Fortran order, reals of 4 or 8 bytes, integers of 1 to
//! 8 bytes, and text. Integers up to 2^53 are also read as reals: an array without a decimal point
//! in Python is one of integers. It rejects Python objects, because reading them would execute
//! code, and every header that numpy rejects.

use std::io::{self, Read, Write};

use orrery_model::{Precision, Vec3s};

use crate::error::Fault;
use crate::npy_header::{NpyHeader, parse_header};
use crate::text::{MAX_QUOTED_CHARS, byte_count, shorten_for_message};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Largest header in bytes, as in numpy. A dictionary of three entries takes about 100.
const MAX_HEADER_BYTES: u64 = 10_000;
/// Largest text in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 16;
/// Bytes decoded at a time, a multiple of 8.
const WINDOW_BYTES: usize = 1 << 16;
const INTACT: &str = "an intact zip archive";
/// Largest integer that is read as a real. Above it, not all integers are exact in f64.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// Writes magic bytes, version and dictionary, padded so that the data start at a multiple of 64
/// bytes.
pub fn write_header(sink: &mut impl Write, descr: &str, shape: &[usize]) -> io::Result<()> {
    let dims: String = shape.iter().map(|d| format!("{d},")).collect();
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let length = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    sink.write_all(MAGIC)?;
    sink.write_all(&[1, 0])?;
    sink.write_all(&(length as u16).to_le_bytes())?;
    writeln!(sink, "{dict:<width$}", width = length - 1)
}

/// An array whose header has been read. Its values come next in `source`.
///
/// Invariant: `bytes`, the length of the values, equals the product of `shape` and `width`.
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
        let fault =
            |got: &str, expected: &str| Fault::malformed(format!("array {name}"), got, expected.to_owned());
        let read_fault = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => fault("a header that ends too early", "an npy header"),
            _ => fault(&error.to_string(), INTACT),
        };
        let mut start = [0; 10];
        if size < start.len() as u64 {
            return Err(fault("no npy magic", "a numpy array"));
        }
        source.read_exact(&mut start).map_err(read_fault)?;
        if !start.starts_with(MAGIC) {
            return Err(fault("no npy magic", "a numpy array"));
        }
        let low = u64::from(u16::from_le_bytes([start[8], start[9]]));
        let (begin, length) = match (start[6], start[7]) {
            (1, 0) => (10, low),
            (2 | 3, 0) => {
                let mut high = [0; 2];
                source.read_exact(&mut high).map_err(read_fault)?;
                (12, low | u64::from(u16::from_le_bytes(high)) << 16)
            }
            (major, minor) => return Err(fault(&format!("npy version {major}.{minor}"), "1.0, 2.0 or 3.0")),
        };
        if length > MAX_HEADER_BYTES {
            let expected = format!("at most {MAX_HEADER_BYTES}");
            return Err(fault(&format!("a header of {}", byte_count(length)), &expected));
        }
        let mut dict = vec![0; length as usize];
        source.read_exact(&mut dict).map_err(read_fault)?;
        let NpyHeader { descr, fortran_order, shape } =
            parse_header(&dict).map_err(|(got, expected)| fault(&got, expected))?;
        let (big_endian, kind, width) = parse_descr(&descr).ok_or_else(|| {
            let got = format!("type '{}'", shorten_for_message(&descr, MAX_QUOTED_CHARS));
            fault(&got, "a numpy type of reals, integers or text")
        })?;
        let bytes = size.saturating_sub(begin + length);
        let expected_bytes = shape.iter().try_fold(width as u64, |bytes, &d| bytes.checked_mul(d));
        if expected_bytes != Some(bytes) {
            let got = format!("{} of data", byte_count(bytes));
            return Err(fault(&got, &format!("shape {shape:?} of {} each", byte_count(width as u64))));
        }
        Ok(Self { name: name.to_owned(), kind, width, big_endian, fortran_order, shape, bytes, source })
    }

    /// Extents of the dimensions.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Whether the first index varies fastest.
    pub fn is_fortran_order(&self) -> bool {
        self.fortran_order
    }

    /// Returns the precision of an array of reals. Integers need f64.
    pub fn real_precision(&self) -> Result<Precision, Fault> {
        match (self.kind, self.width) {
            (Kind::Real, 8) | (Kind::Signed | Kind::Unsigned, _) => Ok(Precision::Double),
            (Kind::Real, 4) => Ok(Precision::Single),
            _ => Err(self.type_fault("f32, f64 or integers")),
        }
    }

    /// Returns the error for an array that has another shape than `expected`.
    pub fn shape_fault(&self, expected: &str) -> Fault {
        self.fault(format!("shape {:?}", self.shape), expected)
    }

    /// Number of values.
    pub fn entry_count(&self) -> u64 {
        self.bytes / self.width as u64
    }

    /// Reads the raw bytes. Fails if there are more than `max_bytes`.
    pub fn read_bytes(mut self, max_bytes: u64) -> Result<Vec<u8>, Fault> {
        if self.bytes > max_bytes {
            let (got, expected) = (byte_count(self.bytes), format!("at most {max_bytes}"));
            return Err(self.fault(got, expected));
        }
        let mut bytes = vec![0; self.bytes as usize];
        self.fill_buffer(&mut bytes)?;
        self.expect_end()?;
        Ok(bytes)
    }

    /// Calls `each` with every value of an array of reals or of integers up to 2^53.
    pub fn read_reals(self, mut each: impl FnMut(f64)) -> Result<(), Fault> {
        let narrow = self.real_precision()? == Precision::Single;
        if self.kind != Kind::Real {
            return self.read_integers_as_reals(each);
        }
        self.read_words(|word| {
            each(if narrow { f32::from_bits(word as u32).into() } else { f64::from_bits(word) });
            Ok(())
        })
    }

    fn read_integers_as_reals(self, mut each: impl FnMut(f64)) -> Result<(), Fault> {
        let unused_bits = 64 - 8 * self.width as u32;
        let (name, is_signed) = (self.name.clone(), self.kind == Kind::Signed);
        self.read_words(|word| {
            // The shifts extend the sign.
            let signed = (word << unused_bits).cast_signed() >> unused_bits;
            let magnitude = if is_signed { signed.unsigned_abs() } else { word };
            if magnitude > MAX_EXACT_INTEGER {
                let sign = if is_signed && signed < 0 { "-" } else { "" };
                let got = format!("the integer {sign}{magnitude}");
                return Err(Fault::malformed(
                    format!("array {name}"),
                    got,
                    "f32, f64 or integers up to 2^53",
                ));
            }
            each(if is_signed { signed as f64 } else { word as f64 });
            Ok(())
        })
    }

    /// Calls `each` with every value of an array of integers. Fails for negative values.
    pub fn read_integers(self, mut each: impl FnMut(u64) -> Result<(), Fault>) -> Result<(), Fault> {
        let sign_bit = match self.kind {
            Kind::Unsigned => 0,
            Kind::Signed => 1 << (8 * self.width - 1),
            _ => return Err(self.type_fault("integers >= 0")),
        };
        let negative = self.fault("a negative integer", "integers >= 0");
        let mut negative = Some(negative);
        self.read_words(|word| match word & sign_bit {
            0 => each(word),
            _ => Err(negative.take().expect("read_words stops at the first error")),
        })
    }

    /// Number of rows of an array of shape [n, 3].
    pub fn row_count(&self) -> Result<u64, Fault> {
        match self.shape[..] {
            [n, 3] => Ok(n),
            _ => Err(self.shape_fault("shape [n, 3]")),
        }
    }

    /// Appends rows of three reals to `column`.
    pub fn read_vectors(self, column: &mut Vec3s) -> Result<(), Fault> {
        let n = self.row_count()?;
        let by_column = self.fortran_order;
        let mut index = 0;
        self.read_reals(|value| {
            let axis = if by_column { index / n } else { index % 3 };
            [&mut column.x, &mut column.y, &mut column.z][axis as usize].push(value);
            index += 1;
        })
    }

    /// Reads an array that is one short text.
    pub fn read_text(self) -> Result<String, Fault> {
        if self.kind != Kind::Text {
            return Err(self.type_fault("text"));
        }
        let (big_endian, fault) = (self.big_endian, self.fault("invalid Unicode", "text"));
        let bytes = self.read_bytes(MAX_TEXT_BYTES)?;
        let code_points = bytes.chunks_exact(4).map(|c| {
            let c = [c[0], c[1], c[2], c[3]];
            if big_endian { u32::from_be_bytes(c) } else { u32::from_le_bytes(c) }
        });
        let text: Option<String> = code_points.map(char::from_u32).collect();
        Ok(text.ok_or(fault)?.trim_end_matches('\0').to_owned())
    }

    /// Calls `each` with every value in file order, zero-extended to 64 bits. Stops at the first
    /// error.
    fn read_words(mut self, mut each: impl FnMut(u64) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut buffer = vec![0; WINDOW_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            let window = &mut buffer[..left.min(WINDOW_BYTES as u64) as usize];
            left -= window.len() as u64;
            self.fill_buffer(window)?;
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

    fn fill_buffer(&mut self, buffer: &mut [u8]) -> Result<(), Fault> {
        self.source.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.fault("fewer bytes than the directory says", INTACT),
            _ => self.fault(error.to_string(), INTACT),
        })
    }

    /// Checks that the source is at its end. The zip reader verifies its checksum at that point.
    fn expect_end(mut self) -> Result<(), Fault> {
        match self.source.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.fault("more bytes than the directory says", INTACT)),
            Err(error) => Err(self.fault(error.to_string(), INTACT)),
        }
    }

    fn fault(&self, got: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::malformed(format!("array {}", self.name), got, expected)
    }

    fn type_fault(&self, expected: &str) -> Fault {
        let found = match (self.kind, self.width) {
            (Kind::Real, 2) => "f16 values",
            (Kind::Real, 4) => "f32 values",
            (Kind::Real, _) => "f64 values",
            (Kind::Signed, _) => "signed integers",
            (Kind::Unsigned, _) => "unsigned integers",
            (Kind::Text, _) => "text",
        };
        self.fault(found, expected)
    }
}

/// Parses a type such as `<f8`, `|u1`, `>i4` or `<U12` into big-endian, kind, and width in bytes.
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
    let digits = chars.as_str();
    let size: usize = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let width = match kind {
        Kind::Text => size.checked_mul(4).filter(|&width| width > 0)?,
        _ => [1, 2, 4, 8].into_iter().find(|&width| width == size)?,
    };
    Some((big_endian, kind, width))
}
