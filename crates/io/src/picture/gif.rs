//! Animated GIF, written frame by frame.
//!
//! Only the rectangle that changed is stored, and within it unchanged pixels are transparent: long runs of
//! one index are what LZW likes best.

use std::path::Path;

use gif::{DisposalMethod, Encoder, Frame, Repeat};

use super::palette::{Matcher, UNCHANGED};
use super::{Image, Palette, PictureError};
use crate::pending::PendingFile;

/// A GIF on its way. It appears under its name at [`GifWriter::finish`]; dropped before, it leaves nothing.
pub struct GifWriter {
    encoder: Encoder<PendingFile>,
    path: std::path::PathBuf,
    size: (u32, u32),
    matcher: Matcher,
    shown: Vec<u8>,
    frames: u64,
    frames_per_second: f64,
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
        let side = |pixels: u32| {
            u16::try_from(pixels).map_err(|_| format!("{pixels} pixels a side, expected at most 65535"))
        };
        let (w, h) =
            side(width).and_then(|w| Ok((w, side(height)?))).map_err(PictureError::encoding(path))?;
        let file = PendingFile::create(path).map_err(PictureError::io(path))?;
        let mut encoder = Encoder::new(file, w, h, &palette.bytes()).map_err(PictureError::encoding(path))?;
        encoder.set_repeat(Repeat::Infinite).map_err(PictureError::encoding(path))?;
        let usable = frames_per_second.is_finite() && frames_per_second > 0.0;
        Ok(Self {
            encoder,
            path: path.to_owned(),
            size: (width, height),
            matcher: Matcher::new(palette.clone()),
            shown: Vec::new(),
            frames: 0,
            frames_per_second: if usable { frames_per_second.clamp(0.01, 50.0) } else { 25.0 },
        })
    }

    /// Appends a frame.
    pub fn push(&mut self, image: &Image) -> Result<(), PictureError> {
        let got = (image.width, image.height);
        if got != self.size {
            return Err(PictureError::SizeMismatch { what: "a frame", expected: self.size, got });
        }
        let next = self.matcher.indices(image);
        let mut frame = self.difference(&next);
        // Ticks up to the next frame less ticks up to this one: the mean rate is exact.
        let ticks = |frames: u64| (100.0 * frames as f64 / self.frames_per_second).round();
        frame.delay = (ticks(self.frames + 1) - ticks(self.frames)) as u16;
        self.encoder.write_frame(&frame).map_err(PictureError::encoding(&self.path))?;
        self.shown = next;
        self.frames += 1;
        Ok(())
    }

    /// Completes the file. Without a frame there is no animation: an error, and no file.
    pub fn finish(self) -> Result<(), PictureError> {
        if self.frames == 0 {
            return Err(PictureError::encoding(&self.path)("an animation needs one frame at least"));
        }
        let file = self.encoder.into_inner().map_err(PictureError::encoding(&self.path))?;
        file.finish().map_err(PictureError::io(&self.path))
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::picture::ColourMap;

    #[test]
    fn frames_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.gif");
        let map = ColourMap::ember();
        let mut writer = GifWriter::create(&path, 40, 30, 30.0, &Palette::of_maps(&[&map])).unwrap();
        let mut image = Image::filled(40, 30, map.srgb(0.0));
        for step in 0..4 {
            // The last frame repeats the one before.
            let at = 3 * (40 * 10 + 5 + step.min(2));
            image.rgb[at..at + 3].copy_from_slice(&map.srgb(0.5));
            writer.push(&image).unwrap();
        }
        assert!(!path.exists());
        writer.finish().unwrap();

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
    fn misuse_is_an_error_that_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.gif");
        let palette = Palette::of_maps(&[&ColourMap::ember()]);
        let mut writer = GifWriter::create(&path, 4, 4, f64::NAN, &palette).unwrap();
        let error = writer.push(&Image::filled(4, 5, [0; 3])).unwrap_err();
        assert_eq!(error.to_string(), "a frame has 4x5 pixels, expected 4x4");
        assert!(writer.finish().unwrap_err().to_string().contains("run.gif"));
        assert!(GifWriter::create(&path, 70_000, 4, 25.0, &palette).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
