//! Images of the run, `images/image_0000.png` and so on, and `animation.gif`. The painter of the
//! system draws them.

use std::path::{Path, PathBuf};

use orrery_io::picture::{GifMark, GifWriter, Image, Palette, write_png};
use orrery_io::{Block, make_folder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Observer;
use crate::blocks::Blocks;
use crate::case::Case;
use crate::error::EngineError;
use crate::folder::{ANIMATION, IMAGES};
use crate::simulation::Moment;
use crate::system::System;

/// Draws the images of one kind of system.
pub trait Painter: Send {
    /// Returns the width and height of the images.
    fn pixels(&self) -> (u32, u32);

    /// Returns the colours of the animation.
    fn palette(&self) -> &Palette;

    /// Draws the state at `moment`. The first call may set the scale of all later images.
    fn draw(&mut self, moment: &Moment) -> Result<Image, EngineError>;

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
    texts: Vec<(String, String)>,
    animation: GifWriter,
    written: usize,
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
        Ok(Self { folder, painter, texts: provenance.to_vec(), animation, written })
    }

    fn image_path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}{number:04}.png", IMAGES.prefix))
    }

    /// Lists the images that were written and no longer exist.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        (0..self.written).map(|number| self.image_path(number)).filter(|path| !path.exists()).collect()
    }

    /// Writes the animation to the disk and returns the state.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        let animation = self.animation.sync()?;
        Ok(State { written: self.written, animation, painter: self.painter.state() })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let mut blocks = vec![("frame".to_owned(), Block::Bytes(self.animation.last_frame().to_vec()))];
        blocks.extend(self.painter.columns());
        blocks
    }
}

fn create_animation(case: &Case, folder: &Path, painter: &dyn Painter) -> Result<GifWriter, EngineError> {
    let ((width, height), speed) = (painter.pixels(), f64::from(case.image.frames_per_second));
    Ok(GifWriter::create(&folder.join(ANIMATION), width, height, speed, painter.palette())?)
}

impl Observer for Pictures {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let image = self.painter.draw(moment)?;
        let texts: Vec<_> = self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        write_png(&self.image_path(self.written), &image, &texts)?;
        self.animation.push_frame(&image)?;
        self.written += 1;
        Ok(())
    }

    fn collect_every(&self) -> Option<u64> {
        self.painter.collect_every()
    }

    fn collect(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.painter.collect(moment)
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.animation.sync()?;
        Ok(())
    }
}
