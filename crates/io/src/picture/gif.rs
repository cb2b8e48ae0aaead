//! Animated GIF, written frame by frame.
//!
//! Only the rectangle that changed is stored, and within it unchanged pixels are transparent: long runs of
//! one index are what LZW likes best. After every frame the file is a whole GIF; it can be taken up again at
//! a frame that a checkpoint saw.

use std::path::{Path, PathBuf};

use gif::{DisposalMethod, Encoder, Frame, Repeat};
use serde::{Deserialize, Serialize};

use super::palette::{Matcher, UNCHANGED};
use super::{Image, Palette, PictureError};
use crate::storage::{AppendFile, Mark};

/// The byte that ends a GIF.
const TRAILER: &[u8] = b";";

/// A growing GIF.
pub struct GifWriter {
    /// Encodes into memory; what it has made goes to the file.
    encoder: Encoder<Vec<u8>>,
    file: AppendFile,
    path: PathBuf,
    size: (u32, u32),
    matcher: Matcher,
    shown: Vec<u8>,
    frames: u64,
    frames_per_second: f64,
}

/// How far an animation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GifMark {
    /// Frames so far.
    pub frames: u64,
    /// The file's part of it.
    pub file: Mark,
}

impl GifWriter {
    /// Starts an endless animation of frames `width` x `height`.
    ///
    /// GIF counts time in 1/100 s and browsers want two of them at least, so 50 frames a second are the most.
    pub fn create(
        path: &Path,
        width: u32,
        height: u32,
        frames_per_second: f64,
        palette: &Palette,
    ) -> Result<Self, PictureError> {
        let mut encoder = encoder(width, height, palette).map_err(PictureError::encoding(path))?;
        let file = AppendFile::create(path, TRAILER, &std::mem::take(encoder.get_mut()))?;
        Ok(Self::with(encoder, file, path, (width, height), frames_per_second, palette))
    }

    /// Takes an animation of these settings up again where `mark` saw it; `shown` is what
    /// [`GifWriter::last_frame`] gave then.
    pub fn reopen(
        path: &Path,
        (width, height): (u32, u32),
        frames_per_second: f64,
        palette: &Palette,
        mark: &GifMark,
        shown: Vec<u8>,
    ) -> Result<Self, PictureError> {
        let mut encoder = encoder(width, height, palette).map_err(PictureError::encoding(path))?;
        // Its head is in the file already.
        encoder.get_mut().clear();
        let file = AppendFile::reopen(path, TRAILER, &mark.file)?;
        let taken_up = Self::with(encoder, file, path, (width, height), frames_per_second, palette);
        let pixels = width as usize * height as usize;
        if shown.len() != if mark.frames == 0 { 0 } else { pixels } {
            let reason = format!("{} pixels of the last frame, expected {pixels}", shown.len());
            return Err(PictureError::encoding(path)(reason));
        }
        Ok(Self { shown, frames: mark.frames, ..taken_up })
    }

    fn with(
        encoder: Encoder<Vec<u8>>,
        file: AppendFile,
        path: &Path,
        size: (u32, u32),
        frames_per_second: f64,
        palette: &Palette,
    ) -> Self {
        let usable = frames_per_second.is_finite() && frames_per_second > 0.0;
        Self {
            encoder,
            file,
            path: path.to_owned(),
            size,
            matcher: Matcher::new(palette.clone()),
            shown: Vec::new(),
            frames: 0,
            frames_per_second: if usable { frames_per_second.clamp(0.01, 50.0) } else { 25.0 },
        }
    }

    /// Appends a frame. One that could not be written may be pushed again.
    pub fn push_frame(&mut self, image: &Image) -> Result<(), PictureError> {
        let got = (image.width, image.height);
        if got != self.size {
            return Err(PictureError::SizeMismatch { what: "a frame", expected: self.size, got });
        }
        let next = self.matcher.indices(image);
        let mut frame = self.difference(&next);
        // Ticks up to the next frame less ticks up to this one: the mean rate is exact.
        let ticks = |frames: u64| (100.0 * frames as f64 / self.frames_per_second).round();
        frame.delay = (ticks(self.frames + 1) - ticks(self.frames)) as u16;
        let encoded = self.encoder.write_frame(&frame);
        let bytes = std::mem::take(self.encoder.get_mut());
        encoded.map_err(PictureError::encoding(&self.path))?;
        self.file.append(&bytes)?;
        self.shown = next;
        self.frames += 1;
        Ok(())
    }

    /// Brings the file to the disk and tells how far it is.
    pub fn sync(&mut self) -> Result<GifMark, PictureError> {
        Ok(GifMark { frames: self.frames, file: self.file.sync()? })
    }

    /// The last frame, as indices of the palette.
    pub fn last_frame(&self) -> &[u8] {
        &self.shown
    }

    fn difference(&self, next: &[u8]) -> Frame<'static> {
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        let changed = |i: usize| self.shown.is_empty() || self.shown[i] != next[i];
        let (mut left, mut right, mut top, mut bottom) = (width, 0, height, 0);
        for i in (0..next.len()).filter(|&i| changed(i)) {
            let (x, y) = (i % width, i / width);
            (left, right, top, bottom) = (left.min(x), right.max(x), top.min(y), bottom.max(y));
        }
        if left > right {
            // Nothing changed: GIF still wants a pixel.
            (left, right, top, bottom) = (0, 0, 0, 0);
        }
        let buffer: Vec<u8> = (top..=bottom)
            .flat_map(|y| (left..=right).map(move |x| y * width + x))
            .map(|i| if changed(i) { next[i] } else { UNCHANGED })
            .collect();
        Frame {
            dispose: DisposalMethod::Keep,
            transparent: Some(UNCHANGED),
            left: left as u16,
            top: top as u16,
            width: (right - left + 1) as u16,
            height: (bottom - top + 1) as u16,
            buffer: buffer.into(),
            ..Frame::default()
        }
    }
}

/// An encoder that has written the head of the file.
fn encoder(width: u32, height: u32, palette: &Palette) -> Result<Encoder<Vec<u8>>, String> {
    let side = |pixels: u32| {
        u16::try_from(pixels).map_err(|_| format!("{pixels} pixels a side, expected at most 65535"))
    };
    let mut encoder =
        Encoder::new(Vec::new(), side(width)?, side(height)?, &palette.bytes()).map_err(|e| e.to_string())?;
    encoder.set_repeat(Repeat::Infinite).map_err(|e| e.to_string())?;
    Ok(encoder)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::picture::ColourMap;

    #[test]
    fn frames_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.gif");
        let map = ColourMap::ember();
        let mut writer = GifWriter::create(&path, 40, 30, 30.0, &Palette::from_colour_maps(&[&map])).unwrap();
        let mut image = Image::filled(40, 30, map.srgb(0.0));
        for step in 0..4 {
            // The last frame repeats the one before.
            let at = 3 * (40 * 10 + 5 + step.min(2));
            image.rgb[at..at + 3].copy_from_slice(&map.srgb(0.5));
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
        assert_eq!(ticks, 13, "4 frames at 30 a second are 13.3 hundredths");
        for (decoded, wanted) in canvas.chunks_exact(4).zip(image.rgb.chunks_exact(3)) {
            assert!((0..3).all(|c| decoded[c].abs_diff(wanted[c]) <= 6), "{decoded:?} {wanted:?}");
        }
    }

    #[test]
    fn a_misfit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.gif");
        let palette = Palette::from_colour_maps(&[&ColourMap::ember()]);
        assert!(GifWriter::create(&path, 70_000, 4, 25.0, &palette).is_err());
        assert!(!path.exists());
        let mut writer = GifWriter::create(&path, 4, 4, f64::NAN, &palette).unwrap();
        let error = writer.push_frame(&Image::filled(4, 5, [0; 3])).unwrap_err();
        assert_eq!(error.to_string(), "a frame has 4x5 pixels, expected 4x4");
    }

    /// An animation taken up again is, to the byte, one that was never put down.
    #[test]
    fn it_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole.gif"), folder.path().join("parts.gif"));
        let map = ColourMap::ember();
        let palette = Palette::from_colour_maps(&[&map]);
        let frame = |k: usize| {
            let mut image = Image::filled(12, 9, map.srgb(0.0));
            image.rgb[3 * (7 * k)..][..3].copy_from_slice(&map.srgb(0.8));
            image
        };
        let mut writer = GifWriter::create(&whole, 12, 9, 30.0, &palette).unwrap();
        (0..6).for_each(|k| writer.push_frame(&frame(k)).unwrap());

        let mut writer = GifWriter::create(&parts, 12, 9, 30.0, &palette).unwrap();
        (0..3).for_each(|k| writer.push_frame(&frame(k)).unwrap());
        let (mark, shown) = (writer.sync().unwrap(), writer.last_frame().to_vec());
        writer.push_frame(&frame(8)).unwrap();
        drop(writer);
        assert_eq!(fs::read(&parts).unwrap().last(), Some(&b';'));
        let mut writer = GifWriter::reopen(&parts, (12, 9), 30.0, &palette, &mark, shown).unwrap();
        (3..6).for_each(|k| writer.push_frame(&frame(k)).unwrap());
        assert_eq!(fs::read(&whole).unwrap(), fs::read(&parts).unwrap());
        assert!(GifWriter::reopen(&parts, (12, 9), 30.0, &palette, &mark, Vec::new()).is_err());
    }
}
