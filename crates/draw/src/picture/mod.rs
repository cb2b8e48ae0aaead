//! Pictures: projected surface density, orbits with trails, and fields on grids, as PNG or animated
//! GIF.
//!
//! A picture of bodies is made in these steps:
//!
//! 1. A [`View`] defines the visible rectangle.
//! 2. [`surface_density`] projects bodies onto it.
//! 3. A [`Scale`] maps densities to brightness. In an animation the first frame sets it for all
//!    frames.
//! 4. [`render_layers`] turns one or several density maps into an [`Image`] with [`Labels`] and a
//!    colour bar.
//! 5. [`write_png`] or a [`GifWriter`] writes the file. [`write_mp4`] makes a film of PNG files.
//!
//! Particles of a fluid are drawn by [`render_spheres`]. A picture of a field is described by a
//! [`FieldPicture`] and drawn by [`render_field`].
//!
//! Text is drawn with a built-in stroke font, so no font needs to be installed.

mod colour;
mod colour_bar;
mod density;
mod density_bar;
mod field;
mod font;
mod gif;
mod image;
mod orbits;
mod overlay;
mod palette;
mod png;
mod render;
mod spheres;
mod stroke;
mod video;
mod view;

use std::path::{Path, PathBuf};

use orrery_model::grid::GridError;
use thiserror::Error;

use orrery_formats::IoError;

pub use colour::ColourMap;
pub use density::{Scale, SurfaceDensity, surface_density};
pub use field::{
    FieldPicture, FieldSampler, FieldSamples, PointKind, PointMark, RegionKind, RegionMark, TakenMeans,
    Underlay, ValueRange, render_field, render_field_file,
};
pub use gif::{GIF_TRAILER_BYTES, GifFrame, GifMark, GifWriter};
pub use image::Image;
pub use orbits::{body_colour, render_orbits};
pub use overlay::Labels;
pub use palette::{Palette, PaletteMatcher};
pub use png::{PngError, encode_png, write_png};
pub use render::{Layer, render_layers};
pub use spheres::{Cuboid, Sphere, SphereLegend, render_spheres};
pub use video::{find_ffmpeg, write_mp4};
pub use view::{BodySelection, Orientation, View};

pub(crate) use font::{Level, text_parts, text_width, write_text};
pub(crate) use stroke::Mask;

/// Error in making a picture.
#[derive(Debug, Error)]
pub enum PictureError {
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The encoder reported an error.
    #[error("{}: cannot be encoded: {reason}", path.display())]
    Encoding {
        /// Path of the file.
        path: PathBuf,
        /// Message of the encoder.
        reason: String,
    },
    /// Frames of an animation, or layers of a picture, differ in size.
    #[error("{what} has {}x{} pixels, expected {}x{}", got.0, got.1, expected.0, expected.1)]
    SizeMismatch {
        /// `a frame` or `a layer`.
        what: &'static str,
        /// Expected width and height.
        expected: (u32, u32),
        /// Width and height found.
        got: (u32, u32),
    },
    /// The grid of a field cannot be drawn.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A field does not fit its grid.
    #[error("the field has {found} values, expected {expected}")]
    FieldLength {
        /// Values found.
        found: usize,
        /// Nodes of the grid.
        expected: usize,
    },
    /// An underlay does not fit the grid of its picture.
    #[error("the underlay has {found} values, expected {expected}")]
    UnderlayLength {
        /// Values found.
        found: usize,
        /// Nodes of the grid.
        expected: usize,
    },
}

impl PictureError {
    pub(crate) fn encoding<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        move |error| Self::Encoding { path: path.to_owned(), reason: error.to_string() }
    }
}
