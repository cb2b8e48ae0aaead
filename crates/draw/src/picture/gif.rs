//! Animated GIF, written frame by frame.
//!
//! Only the rectangle that changed is stored. Unchanged pixels in it are transparent, because LZW
//! compresses long runs of one index well. The file is a complete GIF after every frame, and it can
//! be continued from the state stored in a checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gif::{DisposalMethod, Encoder, Frame, Repeat};
use orrery_formats::{AppendFile, Mark};
use serde::{Deserialize, Serialize};

use super::palette::UNCHANGED;
use super::{Image, Palette, PaletteMatcher, PictureError};

/// Last byte of a GIF.
const TRAILER: &[u8] = b";";
/// Length of the trailer in bytes.
pub const GIF_TRAILER_BYTES: u64 = TRAILER.len() as u64;

/// Writer of an animated GIF.
pub struct GifWriter {
    /// Encoder into memory. Its output is appended to the file.
    encoder: Encoder<Vec<u8>>,
    file: AppendFile,
    path: PathBuf,
    size: (u32, u32),
    matcher: Arc<PaletteMatcher>,
    /// Last frame, as indices of the palette.
    last_frame: Vec<u8>,
    frames: u64,
    frames_per_second: f64,
}

/// A compressed frame of an animation: the rectangle that differs from the frame before. It can be
/// made in any thread.
#[derive(Clone, Debug)]
pub struct GifFrame(Frame<'static>);

impl GifFrame {
    /// Compresses the frame of `size` pixels with these palette indices. `last` has the indices of
    /// the frame before, and is empty for the first frame.
    pub fn compress(size: (u32, u32), indices: &[u8], last: &[u8]) -> Self {
        let mut frame = difference_frame(size, indices, last);
        frame.make_lzw_pre_encoded();
        Self(frame)
    }
}

/// State of an animation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GifMark {
    /// Number of frames.
    pub frames: u64,
    /// State of the file, without its trailer.
    pub file: Mark,
}

impl GifWriter {
    /// Starts an animation of `width` x `height` pixels that repeats forever.
    ///
    /// The rate is at most 50 frames per second: GIF counts time in 1/100 s, and browsers require
    /// at least 2/100 s per frame.
    pub fn create(
        path: &Path,
        width: u32,
        height: u32,
        frames_per_second: f64,
        palette: &Palette,
    ) -> Result<Self, PictureError> {
        let mut encoder = start_encoder(width, height, palette).map_err(PictureError::encoding(path))?;
        let file = AppendFile::create(path, TRAILER, &std::mem::take(encoder.get_mut()))?;
        Ok(Self::from_parts(encoder, file, path, (width, height), frames_per_second, palette))
    }

    /// Opens an animation with these settings to continue at `mark`. `last_frame` is the result of
    /// [`GifWriter::last_frame`] at that time.
    pub fn reopen(
        path: &Path,
        (width, height): (u32, u32),
        frames_per_second: f64,
        palette: &Palette,
        mark: &GifMark,
        last_frame: Vec<u8>,
    ) -> Result<Self, PictureError> {
        let mut encoder = start_encoder(width, height, palette).map_err(PictureError::encoding(path))?;
        // The header is already in the file.
        encoder.get_mut().clear();
        let file = AppendFile::reopen(path, TRAILER, &mark.file)?;
        let writer = Self::from_parts(encoder, file, path, (width, height), frames_per_second, palette);
        let pixels = width as usize * height as usize;
        if last_frame.len() != if mark.frames == 0 { 0 } else { pixels } {
            let reason = format!("{} pixels of the last frame, expected {pixels}", last_frame.len());
            return Err(PictureError::encoding(path)(reason));
        }
        Ok(Self { last_frame, frames: mark.frames, ..writer })
    }

    fn from_parts(
        encoder: Encoder<Vec<u8>>,
        file: AppendFile,
        path: &Path,
        size: (u32, u32),
        frames_per_second: f64,
        palette: &Palette,
    ) -> Self {
        let is_valid = frames_per_second.is_finite() && frames_per_second > 0.0;
        Self {
            encoder,
            file,
            path: path.to_owned(),
            size,
            matcher: Arc::new(PaletteMatcher::new(palette.clone())),
            last_frame: Vec::new(),
            frames: 0,
            frames_per_second: if is_valid { frames_per_second.clamp(0.01, 50.0) } else { 25.0 },
        }
    }

    /// Returns the matcher that converts images to palette indices, for use in other threads.
    pub fn matcher(&self) -> Arc<PaletteMatcher> {
        self.matcher.clone()
    }

    /// Appends a frame. A frame that could not be written may be pushed again.
    pub fn push_frame(&mut self, image: &Image) -> Result<(), PictureError> {
        self.check_size((image.width, image.height))?;
        self.push_indices((image.width, image.height), &self.matcher.dithered_indices(image))
    }

    /// Appends a frame of this size that [`GifWriter::matcher`] has converted to palette indices. A
    /// frame that could not be written may be pushed again.
    pub fn push_indices(&mut self, size: (u32, u32), indices: &[u8]) -> Result<(), PictureError> {
        self.check_size(size)?;
        let frame = GifFrame::compress(size, indices, &self.last_frame);
        self.push_compressed(&frame, indices)
    }

    /// Appends a frame that was compressed from `indices` and [`GifWriter::last_frame`]. A frame
    /// that could not be written may be pushed again.
    pub fn push_compressed(&mut self, frame: &GifFrame, indices: &[u8]) -> Result<(), PictureError> {
        let mut frame = frame.0.clone();
        // The delay is a difference of rounded times, so the mean rate is exact.
        let ticks = |frames: u64| (100.0 * frames as f64 / self.frames_per_second).round();
        frame.delay = (ticks(self.frames + 1) - ticks(self.frames)) as u16;
        let encoded = self.encoder.write_lzw_pre_encoded_frame(&frame);
        let bytes = std::mem::take(self.encoder.get_mut());
        encoded.map_err(PictureError::encoding(&self.path))?;
        self.file.append(&bytes)?;
        self.last_frame.clear();
        self.last_frame.extend_from_slice(indices);
        self.frames += 1;
        Ok(())
    }

    fn check_size(&self, got: (u32, u32)) -> Result<(), PictureError> {
        let expected = self.size;
        if got == expected {
            Ok(())
        } else {
            Err(PictureError::SizeMismatch { what: "a frame", expected, got })
        }
    }

    /// Syncs the file to disk and returns the state of the animation.
    pub fn sync(&mut self) -> Result<GifMark, PictureError> {
        Ok(GifMark { frames: self.frames, file: self.file.sync()? })
    }

    /// Returns the last frame, as indices of the palette.
    pub fn last_frame(&self) -> &[u8] {
        &self.last_frame
    }
}

/// Returns the part of the frame `next` that differs from the last frame, which is empty before the
/// first one.
fn difference_frame(size: (u32, u32), next: &[u8], last_frame: &[u8]) -> Frame<'static> {
    let (width, height) = (size.0 as usize, size.1 as usize);
    let is_first = last_frame.is_empty();
    let (mut columns, mut lines) = (width..0, height..0);
    for (y, row) in next.chunks_exact(width).enumerate() {
        let last = if is_first { &[][..] } else { &last_frame[y * width..][..width] };
        if is_first {
            columns = 0..width;
        } else if row == last {
            continue;
        } else {
            let differs = |x: &usize| row[*x] != last[*x];
            columns.start = (0..width).find(differs).unwrap_or(width).min(columns.start);
            columns.end = (0..width).rev().find(differs).map_or(0, |x| x + 1).max(columns.end);
        }
        lines = lines.start.min(y)..y + 1;
    }
    if columns.is_empty() {
        // Nothing changed, but a GIF frame needs at least one pixel.
        (columns, lines) = (0..1, 0..1);
    }
    let mut buffer = Vec::with_capacity(columns.len() * lines.len());
    for y in lines.clone() {
        let row = &next[y * width..][columns.clone()];
        if is_first {
            buffer.extend_from_slice(row);
        } else {
            let last = &last_frame[y * width..][columns.clone()];
            buffer.extend(row.iter().zip(last).map(|(&a, &b)| if a == b { UNCHANGED } else { a }));
        }
    }
    Frame {
        dispose: DisposalMethod::Keep,
        transparent: Some(UNCHANGED),
        left: columns.start as u16,
        top: lines.start as u16,
        width: columns.len() as u16,
        height: lines.len() as u16,
        buffer: buffer.into(),
        ..Frame::default()
    }
}

/// Returns an encoder that has written the header of the file.
fn start_encoder(width: u32, height: u32, palette: &Palette) -> Result<Encoder<Vec<u8>>, String> {
    let side = |pixels: u32| {
        u16::try_from(pixels).map_err(|_| format!("a side of {pixels} pixels, expected at most 65535"))
    };
    let mut encoder = Encoder::new(Vec::new(), side(width)?, side(height)?, &palette.gif_bytes())
        .map_err(|e| e.to_string())?;
    encoder.set_repeat(Repeat::Infinite).map_err(|e| e.to_string())?;
    Ok(encoder)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::picture::ColourMap;

    #[test]
    fn frames_are_preserved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.gif");
        let map = ColourMap::ember();
        let mut writer = GifWriter::create(&path, 40, 30, 30.0, &Palette::from_colour_maps(&[&map])).unwrap();
        let mut image = Image::filled(40, 30, map.srgb_colour(0.0));
        for step in 0..4 {
            // The last frame is equal to the previous one.
            let at = 3 * (40 * 10 + 5 + step.min(2));
            image.rgb[at..at + 3].copy_from_slice(&map.srgb_colour(0.5));
            writer.push_frame(&image).unwrap();
        }
        writer.sync().unwrap();

        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(File::open(&path).unwrap()).unwrap();
        assert_eq!((decoder.width(), decoder.height()), (40, 30));
        let (mut canvas, mut sizes, mut ticks) = (vec![0u8; 40 * 30 * 4], Vec::new(), 0);
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            let width = usize::from(frame.width);
            for (i, pixel) in frame.buffer.chunks_exact(4).enumerate().filter(|(_, p)| p[3] > 0) {
                let (x, y) = (usize::from(frame.left) + i % width, usize::from(frame.top) + i / width);
                canvas[4 * (40 * y + x)..][..4].copy_from_slice(pixel);
            }
            sizes.push((frame.width, frame.height));
            ticks += frame.delay;
        }
        assert_eq!(sizes, [(40, 30), (1, 1), (1, 1), (1, 1)]);
        assert_eq!(ticks, 13, "4 frames at 30 per second take 13.3 hundredths of a second");
        for (decoded, expected) in canvas.chunks_exact(4).zip(image.rgb.chunks_exact(3)) {
            assert!((0..3).all(|c| decoded[c].abs_diff(expected[c]) <= 6), "{decoded:?} {expected:?}");
        }
    }

    #[test]
    fn wrong_sizes_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.gif");
        let palette = Palette::from_colour_maps(&[&ColourMap::ember()]);
        assert!(GifWriter::create(&path, 70_000, 4, 25.0, &palette).is_err());
        assert!(!path.exists());
        let mut writer = GifWriter::create(&path, 4, 4, f64::NAN, &palette).unwrap();
        let error = writer.push_frame(&Image::filled(4, 5, [0; 3])).unwrap_err();
        assert_eq!(error.to_string(), "a frame has 4x5 pixels, expected 4x4");
    }

    /// The bytes are the same as without the interruption.
    #[test]
    fn reopened_animation_continues_at_the_mark() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole.gif"), folder.path().join("parts.gif"));
        let map = ColourMap::ember();
        let palette = Palette::from_colour_maps(&[&map]);
        let frame = |k: usize| {
            let mut image = Image::filled(12, 9, map.srgb_colour(0.0));
            image.rgb[3 * (7 * k)..][..3].copy_from_slice(&map.srgb_colour(0.8));
            image
        };
        let mut writer = GifWriter::create(&whole, 12, 9, 30.0, &palette).unwrap();
        (0..6).for_each(|k| writer.push_frame(&frame(k)).unwrap());

        let mut writer = GifWriter::create(&parts, 12, 9, 30.0, &palette).unwrap();
        (0..3).for_each(|k| writer.push_frame(&frame(k)).unwrap());
        let (mark, last_frame) = (writer.sync().unwrap(), writer.last_frame().to_vec());
        writer.push_frame(&frame(8)).unwrap();
        drop(writer);
        assert_eq!(fs::read(&parts).unwrap().last(), Some(&b';'));
        let mut writer = GifWriter::reopen(&parts, (12, 9), 30.0, &palette, &mark, last_frame).unwrap();
        (3..6).for_each(|k| writer.push_frame(&frame(k)).unwrap());
        assert_eq!(fs::read(&whole).unwrap(), fs::read(&parts).unwrap());

        // Frames that another thread has compressed, in any order.
        let indices: Vec<_> = (0..6).map(|k| writer.matcher().dithered_indices(&frame(k))).collect();
        let last = |k: usize| if k == 0 { &[][..] } else { &indices[k - 1] };
        let mut frames: Vec<_> =
            (0..6).rev().map(|k| GifFrame::compress((12, 9), &indices[k], last(k))).collect();
        frames.reverse();
        let compressed = folder.path().join("compressed.gif");
        let mut writer = GifWriter::create(&compressed, 12, 9, 30.0, &palette).unwrap();
        (0..6).for_each(|k| writer.push_compressed(&frames[k], &indices[k]).unwrap());
        assert_eq!(fs::read(&whole).unwrap(), fs::read(&compressed).unwrap());
        assert!(GifWriter::reopen(&parts, (12, 9), 30.0, &palette, &mark, Vec::new()).is_err());
    }
}
