//! Values of the arrays of image data.
//!
//! An array is text, or binary data in the XML or appended to it. Binary data start with a header
//! of unsigned integers of 4 or 8 bytes. Without compression it is the number of bytes of the
//! values. With compression it is n, s, r and then n numbers: the values are n blocks of s bytes,
//! the last one of r bytes unless r is 0, and the numbers are the lengths of the compressed blocks.
//! In base64 the header is a part of the same text as the values, or a separate text before them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use flate2::{Decompress, FlushDecompress, Status};
use orrery_model::Precision;

use super::super::allocate_values;
use crate::error::Fault;
use crate::limits::Limits;
use crate::text::{MAX_QUOTED_CHARS, byte_count, shorten_for_message};

/// Bytes decoded at a time, a multiple of 8.
const WINDOW_BYTES: usize = 1 << 16;
/// Longest number in a text. The smallest f64 has 1074 digits after its point.
const MAX_NUMBER_BYTES: usize = 1100;
/// Largest compression ratio of deflate: 258 bytes take at least two bits.
const MAX_COMPRESSION: u64 = 1032;

/// An array that the XML declares.
pub struct ArrayHead {
    /// Name of the array.
    pub name: String,
    /// Type of the values. `None` unless it is Float32 or Float64.
    pub precision: Option<Precision>,
    /// Description of the type for messages, such as `Int32` or `3 components`.
    pub kind: String,
    /// True if there is one value per node.
    pub is_scalar: bool,
    /// Unit of the values.
    pub unit: Option<String>,
    /// Place and form of the values.
    pub storage: Storage,
}

/// Place and form of the values of an array.
#[derive(Clone, Copy)]
pub enum Storage {
    /// Numbers as text at this offset of the file.
    Text(u64),
    /// Base64 at this offset of the file.
    Inline(u64),
    /// At this offset of the appended data.
    Appended(u64),
}

/// Form of all binary data of a file.
pub struct BinaryForm {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    pub is_big_endian: bool,
    /// Bytes of a number in a header, 4 or 8.
    pub header_bytes: usize,
    pub is_compressed: bool,
    /// Offset of the appended data in the file.
    pub appended_start: Option<u64>,
    /// True if the appended data are base64 and not raw bytes.
    pub is_appended_base64: bool,
}

/// Reads the `count` values of an array.
pub fn read_values(
    file: &File,
    form: &BinaryForm,
    array: &ArrayHead,
    count: u64,
    limits: &Limits,
) -> Result<Vec<f64>, Fault> {
    let location = format!("array {}", shorten_for_message(&array.name, MAX_QUOTED_CHARS));
    let precision = array
        .precision
        .ok_or_else(|| Fault::malformed(&location, array.kind.as_str(), "Float32 or Float64"))?;
    let (offset, is_base64) = match array.storage {
        Storage::Text(offset) => (offset, false),
        Storage::Inline(offset) => (offset, true),
        Storage::Appended(offset) => {
            let start = form
                .appended_start
                .ok_or_else(|| Fault::malformed(&location, "no appended data", "its values in them"))?;
            (start.saturating_add(offset), form.is_appended_base64)
        }
    };
    let available = form.file_bytes.saturating_sub(offset);
    let width = if precision == Precision::Single { 4 } else { 8 };
    let bytes = count.saturating_mul(width);
    let is_text = matches!(array.storage, Storage::Text(_));
    let least = match (is_text, form.is_compressed, is_base64) {
        (true, ..) => count.saturating_mul(2) - 1,
        (_, true, _) => bytes / MAX_COMPRESSION,
        (_, _, true) => bytes / 3 * 4,
        _ => bytes,
    };
    if available < least {
        let got = format!("{} in the file", byte_count(available));
        return Err(Fault::malformed(location, got, format!("at least {least} for {count} values")));
    }
    let mut source = BufReader::with_capacity(WINDOW_BYTES, file);
    source.seek(SeekFrom::Start(offset))?;
    let reader = ArrayReader { location, count, precision, form, limits };
    if is_text {
        reader.read_text(&mut source)
    } else if is_base64 {
        reader.read_binary(&mut Base64Reader::new(source), bytes)
    } else {
        reader.read_binary(&mut source, bytes)
    }
}

/// The properties of an array while its values are read.
struct ArrayReader<'a> {
    /// Name for messages.
    location: String,
    count: u64,
    precision: Precision,
    form: &'a BinaryForm,
    limits: &'a Limits,
}

impl ArrayReader<'_> {
    fn read_text(&self, source: &mut impl BufRead) -> Result<Vec<f64>, Fault> {
        let mut values = allocate_values(self.limits, self.count, 0)?;
        let mut word = Vec::new();
        loop {
            let (used, is_end) = {
                let buffer = source.fill_buf()?;
                let end = buffer.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'<');
                word.extend_from_slice(&buffer[..end.unwrap_or(buffer.len())]);
                (end.map_or(buffer.len(), |end| end + 1), end.map(|end| buffer[end] == b'<'))
            };
            if word.len() > MAX_NUMBER_BYTES {
                return Err(self.fault(self.quote(&word), "numbers"));
            }
            let is_end_of_file = used == 0;
            source.consume(used);
            if is_end.is_none() && !is_end_of_file {
                continue;
            }
            if !word.is_empty() {
                if values.len() as u64 == self.count {
                    return Err(self.fault("more values", format!("{}, one per node", self.count)));
                }
                values.push(self.parse_number(&word)?);
                word.clear();
            }
            if is_end == Some(true) || is_end_of_file {
                break;
            }
        }
        Fault::check_length(&*self.location, values.len() as u64, self.count)?;
        Ok(values)
    }

    fn parse_number(&self, word: &[u8]) -> Result<f64, Fault> {
        let text = std::str::from_utf8(word).ok();
        let number = text.and_then(|text| match self.precision {
            Precision::Single => text.parse::<f32>().ok().map(f64::from),
            _ => text.parse().ok(),
        });
        number.ok_or_else(|| self.fault(self.quote(word), "a number"))
    }

    /// Reads values of `bytes` in total.
    fn read_binary(&self, source: &mut impl Read, bytes: u64) -> Result<Vec<f64>, Fault> {
        if self.form.is_compressed {
            return self.read_compressed(source, bytes);
        }
        let announced = self.read_header_number(source)?;
        if announced != bytes {
            let expected = format!("{bytes}, {} values", self.count);
            return Err(self.fault(byte_count(announced), expected));
        }
        let mut values = allocate_values(self.limits, self.count, 0)?;
        let mut window = vec![0; WINDOW_BYTES];
        let mut left = bytes;
        while left > 0 {
            let part = &mut window[..left.min(WINDOW_BYTES as u64) as usize];
            source.read_exact(part).map_err(|error| self.read_fault(error))?;
            self.append_values(part, &mut values);
            left -= part.len() as u64;
        }
        Ok(values)
    }

    fn read_compressed(&self, source: &mut impl Read, bytes: u64) -> Result<Vec<f64>, Fault> {
        let mut number = || self.read_header_number(source);
        let (blocks, block_bytes, last_bytes) = (number()?, number()?, number()?);
        let last_bytes = if last_bytes == 0 { block_bytes } else { last_bytes };
        let total = blocks
            .checked_sub(1)
            .and_then(|full| full.checked_mul(block_bytes))
            .and_then(|full| full.checked_add(last_bytes));
        if total != Some(bytes) {
            let got = format!("{blocks} blocks of {block_bytes} and the last of {}", byte_count(last_bytes));
            return Err(self.fault(got, format!("{bytes} in total, {} values", self.count)));
        }
        let width = bytes / self.count;
        if blocks > 1 && (block_bytes == 0 || !block_bytes.is_multiple_of(width)) {
            let got = format!("blocks of {}", byte_count(block_bytes));
            return Err(self.fault(got, format!("multiples of {width}")));
        }
        let list_bytes = blocks.saturating_mul(8);
        let mut values = allocate_values(self.limits, self.count, list_bytes)?;
        let sizes = (0..blocks).map(|_| number()).collect::<Result<Vec<u64>, _>>()?;
        let mut inflater = Inflater::new();
        for (k, &size) in sizes.iter().enumerate() {
            let expected = if k as u64 + 1 == blocks { last_bytes } else { block_bytes };
            inflater
                .inflate(source, size, expected, |part| self.append_values(part, &mut values))
                .map_err(|error| self.read_fault(error))?;
        }
        Ok(values)
    }

    fn read_header_number(&self, source: &mut impl Read) -> Result<u64, Fault> {
        let mut number = [0; 8];
        let width = self.form.header_bytes;
        source.read_exact(&mut number[..width]).map_err(|error| self.read_fault(error))?;
        if self.form.is_big_endian {
            number[..width].reverse();
        }
        Ok(u64::from_le_bytes(number))
    }

    /// Appends the values in `bytes`, which are complete.
    fn append_values(&self, bytes: &[u8], values: &mut Vec<f64>) {
        let is_big_endian = self.form.is_big_endian;
        match self.precision {
            Precision::Single => values.extend(bytes.chunks_exact(4).map(|word| {
                let word = [word[0], word[1], word[2], word[3]];
                f64::from(if is_big_endian { f32::from_be_bytes(word) } else { f32::from_le_bytes(word) })
            })),
            _ => values.extend(bytes.chunks_exact(8).map(|word| {
                let word = [word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]];
                if is_big_endian { f64::from_be_bytes(word) } else { f64::from_le_bytes(word) }
            })),
        }
    }

    fn quote(&self, word: &[u8]) -> String {
        format!("'{}'", shorten_for_message(&String::from_utf8_lossy(word), MAX_QUOTED_CHARS))
    }

    fn read_fault(&self, error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.fault("data that end too early", format!("{} values", self.count))
            }
            io::ErrorKind::InvalidData => self.fault(error.to_string(), "intact data"),
            _ => Fault::System(error),
        }
    }

    fn fault(&self, got: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::malformed(self.location.as_str(), got, expected)
    }
}

/// Decodes base64. White space is skipped, and the text ends at a `<`. Texts that follow each other
/// are decoded one after the other.
struct Base64Reader<R> {
    source: R,
    /// Bytes of the last group of four characters that are not read yet: `decoded[next..end]`.
    decoded: [u8; 3],
    next: usize,
    end: usize,
}

impl<R: BufRead> Base64Reader<R> {
    fn new(source: R) -> Self {
        Self { source, decoded: [0; 3], next: 0, end: 0 }
    }

    /// Decodes the next group. It has no bytes at the end of the text.
    fn decode_group(&mut self) -> io::Result<()> {
        let (mut bits, mut characters, mut padding) = (0u32, 0, 0);
        while characters < 4 {
            let Some(&byte) = self.source.fill_buf()?.first().filter(|byte| **byte != b'<') else { break };
            self.source.consume(1);
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if characters >= 2 => 0,
                byte if byte.is_ascii_whitespace() => continue,
                _ => return Err(invalid_data("a character that is not base64")),
            };
            if padding > 0 && byte != b'=' {
                return Err(invalid_data("base64 padding within a group"));
            }
            padding += usize::from(byte == b'=');
            bits = bits << 6 | u32::from(digit);
            characters += 1;
        }
        if characters != 0 && characters != 4 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        (self.decoded, self.next, self.end) = (bytes, 0, characters / 4 * 3 - padding);
        Ok(())
    }
}

impl<R: BufRead> Read for Base64Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.next == self.end {
                self.decode_group()?;
                if self.end == 0 {
                    break;
                }
            }
            let count = (self.end - self.next).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.decoded[self.next..self.next + count]);
            self.next += count;
            filled += count;
        }
        Ok(filled)
    }
}

/// Decompresses blocks with buffers that all blocks share.
struct Inflater {
    state: Decompress,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Inflater {
    fn new() -> Self {
        Self { state: Decompress::new(true), input: vec![0; WINDOW_BYTES], output: vec![0; WINDOW_BYTES] }
    }

    /// Decompresses a block of `compressed` bytes, which must give `expected` bytes. `each` gets
    /// them in parts, all of them except the last with `WINDOW_BYTES`.
    fn inflate(
        &mut self,
        source: &mut impl Read,
        mut compressed: u64,
        expected: u64,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.state.reset(true);
        let (mut start, mut end, mut filled) = (0, 0, 0);
        loop {
            if start == end && compressed > 0 {
                (start, end) = (0, compressed.min(WINDOW_BYTES as u64) as usize);
                source.read_exact(&mut self.input[..end])?;
                compressed -= end as u64;
            }
            let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
            let (input, output) = (&self.input[start..end], &mut self.output[filled..]);
            let status = self
                .state
                .decompress(input, output, FlushDecompress::None)
                .map_err(|_| invalid_data("a damaged compressed block"))?;
            let (used, made) = (self.state.total_in() - before_in, self.state.total_out() - before_out);
            start += used as usize;
            filled += made as usize;
            if self.state.total_out() > expected {
                return Err(invalid_data("a compressed block with more values"));
            }
            if filled == WINDOW_BYTES || status == Status::StreamEnd {
                each(&self.output[..filled]);
                filled = 0;
            }
            if status == Status::StreamEnd {
                break;
            }
            if used == 0 && made == 0 {
                return Err(invalid_data("a compressed block that ends too early"));
            }
        }
        if self.state.total_out() != expected || start != end || compressed > 0 {
            return Err(invalid_data("a compressed block of another length"));
        }
        Ok(())
    }
}

fn invalid_data(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
