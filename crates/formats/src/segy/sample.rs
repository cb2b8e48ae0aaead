//! Formats of samples.

use orrery_model::Precision;

use super::header::ByteOrder;

/// Formats that can be read. Others are rare: 4-bit gain codes, integers of 1, 3 and 8 bytes, f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFormat {
    /// Code 1: IBM floating point, 4 bytes.
    Ibm,
    /// Code 2: integer of 4 bytes.
    Int32,
    /// Code 3: integer of 2 bytes.
    Int16,
    /// Code 5: IEEE f32.
    Ieee,
}

/// Codes of the formats, for messages.
pub const CODES: &str = "1 (IBM float), 2 (i32), 3 (i16) or 5 (IEEE f32)";

impl SampleFormat {
    /// Returns the format with this code.
    pub fn from_code(code: i16) -> Option<Self> {
        match code {
            1 => Some(Self::Ibm),
            2 => Some(Self::Int32),
            3 => Some(Self::Int16),
            5 => Some(Self::Ieee),
            _ => None,
        }
    }

    /// Bytes of a sample.
    pub fn width(self) -> usize {
        if self == Self::Int16 { 2 } else { 4 }
    }

    /// Returns the smaller precision that has all values of the format. The range of IBM numbers
    /// exceeds that of f32.
    pub fn precision(self) -> Precision {
        match self {
            Self::Ieee | Self::Int16 => Precision::Single,
            Self::Ibm | Self::Int32 => Precision::Double,
        }
    }

    /// Appends the samples in `bytes`, which are complete. Every value is exact in f64.
    pub fn append(self, bytes: &[u8], order: ByteOrder, samples: &mut Vec<f64>) {
        if self == Self::Int16 {
            samples.extend(
                bytes
                    .chunks_exact(2)
                    .map(|word| f64::from(i16::from_be_bytes(order.to_big_endian([word[0], word[1]])))),
            );
            return;
        }
        samples.extend(bytes.chunks_exact(4).map(|word| {
            let word = u32::from_be_bytes(order.to_big_endian([word[0], word[1], word[2], word[3]]));
            match self {
                Self::Ibm => ibm_value(word),
                Self::Int32 => f64::from(word as i32),
                _ => f64::from(f32::from_bits(word)),
            }
        }));
    }
}

/// Returns the value of an IBM number: a sign, an exponent e of 7 bits and a fraction f of 24 bits
/// give ±f 2^-24 16^(e - 64).
fn ibm_value(word: u32) -> f64 {
    let exponent = (word >> 24 & 0x7f) as i32;
    let size = f64::from(word & 0x00ff_ffff) * 2f64.powi(4 * (exponent - 64) - 24);
    if word >> 31 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known values, and both ends of the range. 0.1 is rounded to 24 bits.
    #[test]
    fn ibm_numbers_have_their_values() {
        for (word, value) in [
            (0x0000_0000, 0.0),
            (0x4110_0000, 1.0),
            (0xc276_a000, -118.625),
            (0x4019_999a, f64::from(0x0019_999a) / f64::from(1 << 24)),
            (0x7fff_ffff, (1.0 - 2f64.powi(-24)) * 2f64.powi(252)),
            (0x0010_0000, 2f64.powi(-260)),
            // A fraction that is not normalised.
            (0x4600_0001, 1.0),
        ] {
            assert_eq!(ibm_value(word), value, "{word:x}");
        }
    }

    #[test]
    fn samples_are_read_in_both_byte_orders() {
        let mut samples = Vec::new();
        SampleFormat::Int16.append(&[0xff, 0xfe], ByteOrder::Big, &mut samples);
        SampleFormat::Int16.append(&[0xfe, 0xff], ByteOrder::Little, &mut samples);
        SampleFormat::Int32.append(&[0x80, 0, 0, 0], ByteOrder::Big, &mut samples);
        SampleFormat::Ieee.append(&1.5f32.to_le_bytes(), ByteOrder::Little, &mut samples);
        SampleFormat::Ibm.append(&0x4110_0000u32.to_le_bytes(), ByteOrder::Little, &mut samples);
        assert_eq!(samples, [-2.0, -2.0, -2147483648.0, 1.5, 1.0]);
    }
}
