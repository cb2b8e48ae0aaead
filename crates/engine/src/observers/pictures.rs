//! Images of the run, `images/image_0000.png` and so on, and `animation.gif`. The painter of the
//! system captures their data, and a worker draws and encodes them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use orrery_draw::picture::{GifFrame, GifMark, GifWriter, Image, Palette, PaletteMatcher, encode_png};
use orrery_formats::{Block, make_folder, write_file_atomically};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Recorder, lock_file};
use crate::blocks::Blocks;
use crate::case::{AnimationFormat, Case};
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
    /// `None` for a case without an animation.
    animation: Option<Animation>,
    /// Images captured since the start of the run.
    captured: usize,
}

/// The animation of a run, and its conversion of images to palette indices.
#[derive(Clone)]
struct Animation {
    file: Arc<Mutex<GifWriter>>,
    matcher: Arc<PaletteMatcher>,
    /// The last frame that was captured.
    last_frame: Arc<SharedFrame>,
}

impl Animation {
    fn new(file: GifWriter) -> Self {
        let (matcher, last_frame) = (file.matcher(), SharedFrame::default());
        last_frame.set(Arc::new(file.last_frame().to_vec()));
        Self { file: Arc::new(Mutex::new(file)), matcher, last_frame: Arc::new(last_frame) }
    }
}

/// Palette indices of a frame, once a worker has computed them. The next frame is compressed as the
/// difference to them. Without this, all frames would be compressed one after the other when they
/// are written, which takes longer than many workers need to draw them.
#[derive(Default)]
struct SharedFrame {
    indices: Mutex<Option<Arc<Vec<u8>>>>,
    is_known: Condvar,
}

impl SharedFrame {
    /// Longest time to wait for the worker that draws the frame before. It has started earlier.
    const LONGEST_WAIT: Duration = Duration::from_millis(20);

    fn set(&self, indices: Arc<Vec<u8>>) {
        *lock_file(&self.indices) = Some(indices);
        self.is_known.notify_all();
    }

    /// Returns the indices. `None` if they are not known soon, for example after an error.
    fn wait(&self) -> Option<Arc<Vec<u8>>> {
        let is_missing = |indices: &mut Option<_>| indices.is_none();
        let known =
            self.is_known.wait_timeout_while(lock_file(&self.indices), Self::LONGEST_WAIT, is_missing);
        known.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// State of the images in a checkpoint. Larger data is in the columns from
/// [`Pictures::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub(super) written: usize,
    /// `None` for a case without an animation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) animation: Option<GifMark>,
    /// State of the painter.
    #[serde(flatten)]
    pub(super) painter: Map<String, Value>,
}

impl State {
    /// Returns the number of frames of the animation.
    pub(super) fn frames(&self) -> u64 {
        self.animation.as_ref().map_or(0, |animation| animation.frames)
    }
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
        let animation = match &state.animation {
            None => None,
            Some(mark) => {
                let frame = blocks.take_bytes("frame")?;
                let (path, speed) = (folder.join(ANIMATION), f64::from(case.image.frames_per_second));
                match restart {
                    true => create_animation(case, folder, painter.as_ref())?,
                    false => Some(GifWriter::reopen(
                        &path,
                        painter.pixels(),
                        speed,
                        painter.palette(),
                        mark,
                        frame,
                    )?),
                }
            }
        };
        Self::from_parts(folder, provenance, painter, animation, state.written)
    }

    fn from_parts(
        folder: &Path,
        provenance: &[(String, String)],
        painter: Box<dyn Painter>,
        animation: Option<GifWriter>,
        written: usize,
    ) -> Result<Self, EngineError> {
        let folder = folder.join(IMAGES.folder);
        make_folder(&folder).map_err(EngineError::Output)?;
        let (texts, animation) = (Arc::new(provenance.to_vec()), animation.map(Animation::new));
        Ok(Self { folder, painter, texts, animation, captured: written })
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
        let animation =
            self.animation.as_ref().map(|animation| lock_file(&animation.file).sync()).transpose()?;
        Ok(State { written: self.captured, animation, painter: self.painter.state() })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint. All images
    /// must be written.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let frame = |animation: &Animation| lock_file(&animation.file).last_frame().to_vec();
        let frame =
            self.animation.iter().map(|animation| ("frame".to_owned(), Block::Bytes(frame(animation))));
        frame.chain(self.painter.columns()).collect()
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
        if let Some(animation) = &self.animation {
            lock_file(&animation.file).sync()?;
        }
        Ok(())
    }
}

/// Creates the animation if the case wants one.
fn create_animation(
    case: &Case,
    folder: &Path,
    painter: &dyn Painter,
) -> Result<Option<GifWriter>, EngineError> {
    if case.image.animation == AnimationFormat::None {
        return Ok(None);
    }
    let ((width, height), speed) = (painter.pixels(), f64::from(case.image.frames_per_second));
    Ok(Some(GifWriter::create(&folder.join(ANIMATION), width, height, speed, painter.palette())?))
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
        let frame = Arc::new(SharedFrame::default());
        let animation = self.animation.clone();
        if let Some(animation) = &mut self.animation {
            animation.last_frame = frame.clone();
        }
        Ok(Box::new(ImageJob {
            drawing,
            path,
            texts: self.texts.clone(),
            animation,
            frame,
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
    /// The animation, with the frame before this one.
    animation: Option<Animation>,
    /// The frame of this image, for the next one.
    frame: Arc<SharedFrame>,
    encoded: Option<EncodedImage>,
    is_image_written: bool,
}

struct EncodedImage {
    png: Vec<u8>,
    size: (u32, u32),
    /// Palette indices of the pixels. Empty without an animation.
    indices: Arc<Vec<u8>>,
    /// `None` if the frame before was not known in time. The frame is then compressed when it is
    /// written.
    frame: Option<GifFrame>,
}

impl Job for ImageJob {
    fn prepare(&mut self) -> Result<(), EngineError> {
        let image = self.drawing.draw()?;
        let size = (image.width, image.height);
        // The next frame needs the indices, so they come first.
        let indices = match &self.animation {
            Some(animation) => animation.matcher.dithered_indices(&image),
            None => Vec::new(),
        };
        let indices = Arc::new(indices);
        self.frame.set(indices.clone());
        let texts: Vec<_> = self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let png = encode_png(&image, &texts).map_err(|error| error.in_file(&self.path))?;
        let last_frame = self.animation.as_ref().and_then(|animation| animation.last_frame.wait());
        let frame = last_frame.map(|last| GifFrame::compress(size, &indices, &last));
        self.encoded = Some(EncodedImage { png, size, indices, frame });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), EngineError> {
        let Some(EncodedImage { png, size, indices, frame }) = &self.encoded else { return Ok(()) };
        // After an error in the animation, only the animation is tried again.
        if !self.is_image_written {
            write_file_atomically(&self.path, png).map_err(EngineError::Output)?;
            self.is_image_written = true;
        }
        match (&self.animation, frame) {
            (Some(animation), Some(frame)) => Ok(lock_file(&animation.file).push_compressed(frame, indices)?),
            (Some(animation), None) => Ok(lock_file(&animation.file).push_indices(*size, indices)?),
            (None, _) => Ok(()),
        }
    }
}
