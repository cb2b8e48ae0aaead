//! PNG files with provenance in text chunks.

use std::path::Path;

use orrery_formats::write_file_atomically;
use thiserror::Error;

use super::{Image, PictureError};

/// Compression of all images. A run may write hundreds of them while it computes.
const COMPRESSION: png::Compression = png::Compression::Fast;

/// Writes the image atomically, with `texts` (keyword and value) as iTXt chunks in UTF-8.
///
/// A keyword has 1 to 79 Latin-1 characters, such as Title, Author, Description, Software or
/// Comment, which are registered by PNG.
pub fn write_png(path: &Path, image: &Image, texts: &[(&str, &str)]) -> Result<(), PictureError> {
    // Encode in memory first. After that, only the operating system can cause an error.
    let bytes = encode_png(image, texts).map_err(|error| error.in_file(path))?;
    Ok(write_file_atomically(path, &bytes)?)
}

/// Returns the bytes that [`write_png`] writes.
pub fn encode_png(image: &Image, texts: &[(&str, &str)]) -> Result<Vec<u8>, PngError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, image.width, image.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(COMPRESSION);
    for (keyword, text) in texts {
        encoder.add_itxt_chunk((*keyword).to_owned(), (*text).to_owned())?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&image.rgb)?;
    writer.finish()?;
    Ok(bytes)
}

/// Error in encoding a PNG, for example an invalid keyword.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct PngError(#[from] png::EncodingError);

impl PngError {
    /// Names the file that was to be written.
    pub fn in_file(self, path: &Path) -> PictureError {
        PictureError::encoding(path)(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::BufReader;

    use super::*;

    #[test]
    fn pixels_and_texts_are_preserved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let mut image = Image::filled(7, 3, [1, 2, 3]);
        image.rgb.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 37 % 256) as u8);
        let texts = [("Software", "orrery 0.1"), ("Case", "name = \"Δ\"\nn = 3")];
        write_png(&path, &image, &texts).unwrap();

        let mut reader = png::Decoder::new(BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut rgb).unwrap();
        assert_eq!((frame.width, frame.height, frame.color_type), (7, 3, png::ColorType::Rgb));
        assert_eq!(rgb, image.rgb);
        let found = &reader.info().utf8_text;
        for (chunk, (keyword, text)) in found.iter().zip(texts) {
            assert_eq!((chunk.keyword.as_str(), chunk.get_text().unwrap().as_str()), (keyword, text));
        }
        assert_eq!(found.len(), 2);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn error_names_the_file_and_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let error = write_png(&path, &Image::filled(1, 1, [0; 3]), &[("", "no keyword")]).unwrap_err();
        assert!(error.to_string().contains("picture.png"), "{error}");
        let missing = folder.path().join("no such folder").join("a.png");
        let error = write_png(&missing, &Image::filled(1, 1, [0; 3]), &[]).unwrap_err();
        assert!(error.to_string().contains("a.png"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
