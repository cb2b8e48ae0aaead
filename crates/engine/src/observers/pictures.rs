//! Images of the run, `images/image_0000.png` and so on, and `animation.gif`. The painter of the
//! system captures their data, and a worker draws and encodes them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orrery_io::picture::{GifMark, GifWriter, Image, Palette, PaletteMatcher, encode_png};
use orrery_io::{Block, make_folder, write_file_atomically};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Recorder, lock_file};
use crate::blocks::Blocks;
use crate::case::Case;
use crate::error::EngineError;
use crate::folder::{ANIMATION, IMAGES};
use crate::pipeline::Job;
use crate::simulation::Moment;
use crate::system::System;

/// An image that is still to be drawn, in any thread.
pub trait Drawing: Send {
    /// Draws the image. Further calls give the same image.
    fn draw(&self) -> Result<Image, EngineError>;
}

/// Captures the images of one kind of system.
pub trait Painter: Send {
    /// Returns the width and height of the images.
    fn pixels(&self) -> (u32, u32);

    /// Returns the colours of the animation.
    fn palette(&self) -> &Palette;

    /// Copies the data of an image of the state at `moment`. The first call may set the scale of
    /// all later images.
    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Drawing>, EngineError>;

    /// Returns about the bytes of a captured image.
    fn captured_bytes(&self) -> u64;

    /// Returns the number of steps between two calls of [`collect`](Self::collect). `None` if they
    /// are not needed.
    fn collect_every(&self) -> Option<u64> {
        None
    }

    /// Collects data between two images, for example points of orbits.
    fn collect(&mut self, _moment: &Moment) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns the state for the header of a checkpoint.
    fn state(&self) -> Map<String, Value>;

    /// Returns the part of the state that is too large for the header of a checkpoint.
    fn columns(&self) -> Vec<(String, Block)> {
        Vec::new()
    }
}

pub struct Pictures {
    folder: PathBuf,
    painter: Box<dyn Painter>,
    texts: Arc<Vec<(String, String)>>,
    animation: Arc<Mutex<GifWriter>>,
    matcher: Arc<PaletteMatcher>,
    /// Images captured since the start of the run.
    captured: usize,
}

/// State of the images in a checkpoint. Larger data is in the columns from
/// [`Pictures::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(super) written: usize,
    pub(super) animation: GifMark,
    /// State of the painter.
    #[serde(flatten)]
    pub(super) painter: Map<String, Value>,
}

impl Pictures {
    /// Creates the images of a new run of `system`.
    pub fn create(
        case: &Case,
        system: &System,
        folder: &Path,
        provenance: &[(String, String)],
    ) -> Result<Self, EngineError> {
        let painter = system.new_painter(case)?;
        let animation = create_animation(case, folder, painter.as_ref())?;
        Self::from_parts(folder, provenance, painter, animation, 0)
    }

    /// Continues the images from the state in a checkpoint. `restart` creates a new animation.
    pub fn resume(
        case: &Case,
        system: &System,
        folder: &Path,
        provenance: &[(String, String)],
        state: &State,
        blocks: &mut Blocks,
        restart: bool,
    ) -> Result<Self, EngineError> {
        let painter = system.resumed_painter(case, &state.painter, blocks)?;
        let frame = blocks.take_bytes("frame")?;
        let animation = if restart {
            create_animation(case, folder, painter.as_ref())?
        } else {
            let (path, speed) = (folder.join(ANIMATION), f64::from(case.image.frames_per_second));
            GifWriter::reopen(&path, painter.pixels(), speed, painter.palette(), &state.animation, frame)?
        };
        Self::from_parts(folder, provenance, painter, animation, state.written)
    }

    fn from_parts(
        folder: &Path,
        provenance: &[(String, String)],
        painter: Box<dyn Painter>,
        animation: GifWriter,
        written: usize,
    ) -> Result<Self, EngineError> {
        let folder = folder.join(IMAGES.folder);
        make_folder(&folder).map_err(EngineError::Output)?;
        let matcher = animation.matcher();
        let (texts, animation) = (Arc::new(provenance.to_vec()), Arc::new(Mutex::new(animation)));
        Ok(Self { folder, painter, texts, animation, matcher, captured: written })
    }

    fn image_path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}{number:04}.png", IMAGES.prefix))
    }

    /// Lists the images that were written and no longer exist.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        (0..self.captured).map(|number| self.image_path(number)).filter(|path| !path.exists()).collect()
    }

    /// Writes the animation to the disk and returns the state. All images must be written.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        let animation = lock_file(&self.animation).sync()?;
        Ok(State { written: self.captured, animation, painter: self.painter.state() })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint. All images
    /// must be written.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let frame = lock_file(&self.animation).last_frame().to_vec();
        let mut blocks = vec![("frame".to_owned(), Block::Bytes(frame))];
        blocks.extend(self.painter.columns());
        blocks
    }

    /// Returns the number of steps between two calls of [`Pictures::collect`].
    pub fn collect_every(&self) -> Option<u64> {
        self.painter.collect_every()
    }

    /// Collects data between two images.
    pub fn collect(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.painter.collect(moment)
    }

    /// Writes the animation to the disk.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        lock_file(&self.animation).sync()?;
        Ok(())
    }
}

fn create_animation(case: &Case, folder: &Path, painter: &dyn Painter) -> Result<GifWriter, EngineError> {
    let ((width, height), speed) = (painter.pixels(), f64::from(case.image.frames_per_second));
    Ok(GifWriter::create(&folder.join(ANIMATION), width, height, speed, painter.palette())?)
}

impl Recorder for Pictures {
    fn needed_bytes(&self, _moment: &Moment) -> u64 {
        let (width, height) = self.painter.pixels();
        // Image, its palette indices and the encoded file.
        self.painter.captured_bytes() + 7 * u64::from(width) * u64::from(height)
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Job>, EngineError> {
        let drawing = self.painter.capture(moment)?;
        let path = self.image_path(self.captured);
        self.captured += 1;
        Ok(Box::new(ImageJob {
            drawing,
            path,
            texts: self.texts.clone(),
            matcher: self.matcher.clone(),
            animation: self.animation.clone(),
            encoded: None,
            is_image_written: false,
        }))
    }
}

/// Draws an image, writes it and adds it to the animation.
struct ImageJob {
    drawing: Box<dyn Drawing>,
    path: PathBuf,
    texts: Arc<Vec<(String, String)>>,
    matcher: Arc<PaletteMatcher>,
    animation: Arc<Mutex<GifWriter>>,
    encoded: Option<EncodedImage>,
    is_image_written: bool,
}

struct EncodedImage {
    png: Vec<u8>,
    size: (u32, u32),
    /// Palette indices of the pixels.
    indices: Vec<u8>,
}

impl Job for ImageJob {
    fn prepare(&mut self) -> Result<(), EngineError> {
        let image = self.drawing.draw()?;
        let texts: Vec<_> = self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let png = encode_png(&image, &texts).map_err(|error| error.in_file(&self.path))?;
        let indices = self.matcher.dithered_indices(&image);
        self.encoded = Some(EncodedImage { png, size: (image.width, image.height), indices });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), EngineError> {
        let Some(EncodedImage { png, size, indices }) = &self.encoded else { return Ok(()) };
        // After an error in the animation, only the animation is tried again.
        if !self.is_image_written {
            write_file_atomically(&self.path, png).map_err(EngineError::Output)?;
            self.is_image_written = true;
        }
        Ok(lock_file(&self.animation).push_indices(*size, indices)?)
    }
}
