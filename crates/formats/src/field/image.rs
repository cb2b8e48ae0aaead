//! Grey values of PNG images.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use orrery_model::Precision;
use png::{BitDepth, ColorType, Decoder, DecodingError, Reader, Transformations};

use super::{FieldData, allocate_values};
use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::regular::open_input;
use crate::text::{MAX_QUOTED_CHARS, byte_count, shorten_for_message};

/// Largest compression ratio of deflate: 258 bytes take at least two bits.
const MAX_COMPRESSION: u64 = 1032;

/// Weights of red, green and blue in a grey value (Rec. 709).
const LUMA: [f64; 3] = [0.2126, 0.7152, 0.0722];

/// Reads an image as a field of grey values from 0 (black) to 1 (white), one node per pixel.
///
/// The top row of the image is the north edge. Colours are converted to grey with the weights of
/// Rec. 709. Transparency is ignored.
pub fn read_field_png(path: &Path, limits: &Limits) -> Result<FieldData, IoError> {
    read(path, limits).map_err(|fault| fault.in_file(path))
}

fn read(path: &Path, limits: &Limits) -> Result<FieldData, Fault> {
    let (file, file_bytes) = open_input(path)?;
    let mut decoder = Decoder::new(BufReader::new(file));
    // The image itself is checked below. This limits chunks of metadata.
    decoder.set_limits(png::Limits { bytes: limits.memory.min(64 << 20) as usize });
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(decoding_fault)?;
    let (nx, ny) = (reader.info().width as usize, reader.info().height as usize);
    let mut pixels = allocate_pixels(&reader, file_bytes, limits)?;
    let (colour, depth) = reader.output_color_type();
    let row_bytes = reader.output_line_size(nx as u32).unwrap_or(usize::MAX);
    reader.next_frame(&mut pixels).map_err(decoding_fault)?;
    reader.finish().map_err(decoding_fault)?;
    let mut values = allocate_values(limits, (nx * ny) as u64, pixels.len() as u64)?;
    for row in pixels.chunks_exact(row_bytes).rev() {
        let sample_bytes = if depth == BitDepth::Sixteen { 2 } else { 1 };
        values.extend(
            row.chunks_exact(sample_bytes * colour.samples()).map(|pixel| grey_value(pixel, colour, depth)),
        );
    }
    Ok(FieldData { nx, ny, precision: Precision::Double, values })
}

/// Returns memory for the decoded image. Its size, which the header announces, must be possible for
/// a file of `file_bytes`.
fn allocate_pixels(
    reader: &Reader<BufReader<File>>,
    file_bytes: u64,
    limits: &Limits,
) -> Result<Vec<u8>, Fault> {
    let info = reader.info();
    let (width, height) = (u64::from(info.width), u64::from(info.height));
    let raw_row_bytes = (width * info.bits_per_pixel() as u64).div_ceil(8) + 1;
    if raw_row_bytes.saturating_mul(height) > file_bytes.saturating_mul(MAX_COMPRESSION) {
        let expected = format!("no more than fit into a file of {}", byte_count(file_bytes));
        return Err(Fault::malformed("image", format!("{width} x {height} pixels"), expected));
    }
    let bytes = reader.output_buffer_size().map_or(u64::MAX, |bytes| bytes as u64);
    let values = width.saturating_mul(height);
    let needed = values.saturating_mul(8).saturating_add(bytes);
    if needed > limits.memory {
        return Err(Fault::ValuesMemory { values, needed, limit: limits.memory });
    }
    let mut pixels = Vec::new();
    pixels
        .try_reserve_exact(bytes as usize)
        .map_err(|_| Fault::System(std::io::ErrorKind::OutOfMemory.into()))?;
    pixels.resize(bytes as usize, 0);
    Ok(pixels)
}

/// Returns the grey value of a pixel, from 0 to 1.
fn grey_value(pixel: &[u8], colour: ColorType, depth: BitDepth) -> f64 {
    let sample = |k: usize| match depth {
        BitDepth::Sixteen => f64::from(u16::from_be_bytes([pixel[2 * k], pixel[2 * k + 1]])) / 65535.0,
        _ => f64::from(pixel[k]) / 255.0,
    };
    match colour {
        ColorType::Rgb | ColorType::Rgba => (0..3).map(|k| LUMA[k] * sample(k)).sum(),
        _ => sample(0),
    }
}

fn decoding_fault(error: DecodingError) -> Fault {
    match error {
        DecodingError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Fault::System(error)
        }
        DecodingError::IoError(_) => {
            Fault::malformed("image", "a file that ends too early", "an intact PNG image")
        }
        error => {
            let text = error.to_string();
            let text = shorten_for_message(text.trim_end_matches('.'), MAX_QUOTED_CHARS);
            Fault::malformed("image", format!("\"{text}\""), "an intact PNG image")
        }
    }
}
