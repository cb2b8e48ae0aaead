//! Fields of binary headers and trace headers.

use super::sample::{CODES, SampleFormat};
use super::text::TEXT_BYTES;
use crate::error::Fault;
use crate::text::byte_count;

/// Bytes of the binary header.
pub const BINARY_BYTES: usize = 400;
/// Bytes of a trace header.
pub const TRACE_HEADER_BYTES: usize = 240;
/// Number in the binary header that shows the byte order, from rev 2.
pub const ORDER_MARK: u32 = 0x0102_0304;

/// Fields of the binary header.
pub mod binary {
    pub const JOB: usize = 3201;
    pub const LINE: usize = 3205;
    pub const REEL: usize = 3209;
    pub const TRACES_PER_SHOT: usize = 3213;
    pub const INTERVAL: usize = 3217;
    pub const ORIGINAL_INTERVAL: usize = 3219;
    pub const SAMPLES: usize = 3221;
    pub const ORIGINAL_SAMPLES: usize = 3223;
    pub const FORMAT: usize = 3225;
    pub const FOLD: usize = 3227;
    pub const SORTING: usize = 3229;
    pub const LENGTH_UNIT: usize = 3255;
    pub const LONG_TRACES_PER_SHOT: usize = 3261;
    pub const LONG_SAMPLES: usize = 3269;
    pub const LONG_INTERVAL: usize = 3273;
    pub const LONG_ORIGINAL_INTERVAL: usize = 3281;
    pub const LONG_ORIGINAL_SAMPLES: usize = 3289;
    pub const ORDER: usize = 3297;
    pub const REVISION: usize = 3501;
    pub const FIXED_LENGTH: usize = 3503;
    pub const EXTENDED_TEXTS: usize = 3505;
    pub const TRACE_COUNT: usize = 3513;
    pub const FIRST_TRACE: usize = 3521;
}

/// Fields of a trace header.
pub mod trace {
    pub const NUMBER_IN_LINE: usize = 1;
    pub const NUMBER_IN_FILE: usize = 5;
    pub const SHOT: usize = 9;
    pub const NUMBER_IN_SHOT: usize = 13;
    pub const SOURCE_POINT: usize = 17;
    pub const KIND: usize = 29;
    pub const OFFSET: usize = 37;
    pub const RECEIVER_ELEVATION: usize = 41;
    pub const SURFACE_ELEVATION: usize = 45;
    pub const SOURCE_DEPTH: usize = 49;
    pub const ELEVATION_SCALAR: usize = 69;
    pub const COORDINATE_SCALAR: usize = 71;
    pub const SOURCE_X: usize = 73;
    pub const SOURCE_Y: usize = 77;
    pub const RECEIVER_X: usize = 81;
    pub const RECEIVER_Y: usize = 85;
    pub const COORDINATE_UNIT: usize = 89;
    pub const DELAY: usize = 109;
    pub const SAMPLES: usize = 115;
    pub const INTERVAL: usize = 117;
    pub const MIDPOINT_X: usize = 181;
    pub const MIDPOINT_Y: usize = 185;
    pub const INLINE: usize = 189;
    pub const CROSSLINE: usize = 193;
    pub const TIME_SCALAR: usize = 215;
}

/// Code of feet in the field of the unit of length, and their length in metres.
const FEET: i16 = 2;
const FOOT: f64 = 0.3048;

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    Big,
    Little,
}

impl ByteOrder {
    /// Converts the bytes of a number between this order and big-endian.
    pub fn to_big_endian<const W: usize>(self, mut bytes: [u8; W]) -> [u8; W] {
        if self == Self::Little {
            bytes.reverse();
        }
        bytes
    }
}

/// A header of `N` bytes. Its first byte has the position `FIRST` in the standard.
pub struct Header<const N: usize, const FIRST: usize> {
    pub bytes: [u8; N],
    pub order: ByteOrder,
}

pub type BinaryHeader = Header<BINARY_BYTES, 3201>;
pub type TraceHeader = Header<TRACE_HEADER_BYTES, 1>;

impl<const N: usize, const FIRST: usize> Header<N, FIRST> {
    /// Returns a big-endian header of zeros.
    pub fn new() -> Self {
        Self { bytes: [0; N], order: ByteOrder::Big }
    }

    pub fn i16(&self, position: usize) -> i16 {
        i16::from_be_bytes(self.field(position))
    }

    pub fn u16(&self, position: usize) -> u16 {
        u16::from_be_bytes(self.field(position))
    }

    pub fn i32(&self, position: usize) -> i32 {
        i32::from_be_bytes(self.field(position))
    }

    pub fn u32(&self, position: usize) -> u32 {
        u32::from_be_bytes(self.field(position))
    }

    pub fn f64(&self, position: usize) -> f64 {
        f64::from_be_bytes(self.field(position))
    }

    /// Stores the big-endian bytes of a number.
    pub fn set<const W: usize>(&mut self, position: usize, value: [u8; W]) {
        self.bytes[position - FIRST..][..W].copy_from_slice(&self.order.to_big_endian(value));
    }

    /// Returns a number multiplied by the scalar at `scalar_position`, or divided by it if it is
    /// negative. A scalar of 0 counts as 1.
    pub fn scaled(&self, position: usize, scalar_position: usize) -> f64 {
        apply_scalar(self.i32(position).into(), self.i16(scalar_position))
    }

    fn field<const W: usize>(&self, position: usize) -> [u8; W] {
        let mut field = [0; W];
        field.copy_from_slice(&self.bytes[position - FIRST..][..W]);
        self.order.to_big_endian(field)
    }
}

/// Multiplies a number by a positive scalar, or divides it by a negative one.
pub fn apply_scalar(number: f64, scalar: i16) -> f64 {
    match scalar {
        0 => number,
        1.. => number * f64::from(scalar),
        _ => number / -f64::from(scalar),
    }
}

/// Content of a binary header that is needed to read the traces.
pub struct Layout {
    pub order: ByteOrder,
    pub format: SampleFormat,
    pub is_rev0: bool,
    /// Samples per trace, at least 1.
    pub samples: usize,
    /// 16-bit number of samples, which trace headers repeat.
    pub short_samples: u16,
    /// Interval of the samples in microseconds, positive and finite.
    pub interval: f64,
    /// 16-bit interval, which trace headers repeat.
    pub short_interval: u16,
    /// Metres per unit of length: that of a foot if the file says so, and 1 otherwise.
    pub length_unit: f64,
    /// Number of traces, at least 1.
    pub traces: u64,
    /// Offset of the first trace in the file.
    pub start: u64,
}

impl Layout {
    /// Checks a binary header against the length of the file.
    pub fn parse(bytes: [u8; BINARY_BYTES], file_bytes: u64) -> Result<Self, Fault> {
        let fault = |field: &str, got: String, expected: &str| {
            Err(Fault::malformed(format!("binary header, {field}"), got, expected))
        };
        let mut header = BinaryHeader { bytes, order: ByteOrder::Big };
        let code = header.i16(binary::FORMAT);
        // A code has a small positive value, so in the other byte order its low byte is 0.
        let is_little = header.u32(binary::ORDER) == ORDER_MARK.swap_bytes() || code & 0xff == 0;
        if is_little && code != 0 {
            header.order = ByteOrder::Little;
        }
        let code = header.i16(binary::FORMAT);
        let Some(format) = SampleFormat::from_code(code) else {
            return fault("format code", code.to_string(), CODES);
        };
        // The major revision is the first byte of the field. Little-endian files of rev 1 have it
        // in the second one.
        let field = header.u16(binary::REVISION);
        let revision = match header.order {
            ByteOrder::Big => field >> 8,
            ByteOrder::Little => (field & 0xff).max(field >> 8),
        };
        let (short_samples, short_interval) = (header.u16(binary::SAMPLES), header.u16(binary::INTERVAL));
        let (mut samples, mut interval) = (i64::from(short_samples), f64::from(short_interval));
        if revision >= 2 {
            let (long_samples, long_interval) =
                (header.i32(binary::LONG_SAMPLES), header.f64(binary::LONG_INTERVAL));
            samples = if long_samples == 0 { samples } else { long_samples.into() };
            interval = if long_interval == 0.0 { interval } else { long_interval };
        }
        if samples <= 0 {
            return fault("number of samples", samples.to_string(), "at least 1");
        }
        if !(interval.is_finite() && interval > 0.0) {
            return fault("sample interval", format!("{interval} us"), "a positive number");
        }
        let texts = if revision == 0 { 0 } else { header.i16(binary::EXTENDED_TEXTS) };
        if texts < 0 {
            return fault("extended textual headers", texts.to_string(), "their number");
        }
        let start = (TEXT_BYTES + BINARY_BYTES + TEXT_BYTES * texts as usize) as u64;
        let trace_bytes = TRACE_HEADER_BYTES as u64 + samples as u64 * format.width() as u64;
        let data_bytes = file_bytes.saturating_sub(start);
        if data_bytes == 0 || !data_bytes.is_multiple_of(trace_bytes) {
            let got = format!("{} after the headers", byte_count(data_bytes));
            let expected =
                format!("traces of {trace_bytes} bytes, {samples} samples of {} each", format.width());
            return Err(Fault::malformed("file", got, expected));
        }
        Ok(Self {
            order: header.order,
            format,
            is_rev0: revision == 0,
            samples: samples as usize,
            short_samples,
            interval,
            short_interval,
            length_unit: if header.i16(binary::LENGTH_UNIT) == FEET { FOOT } else { 1.0 },
            traces: data_bytes / trace_bytes,
            start,
        })
    }
}
