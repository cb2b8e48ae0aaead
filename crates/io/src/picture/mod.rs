//! What users look at: projected surface density, orbits with their trails, as PNG or animated GIF.
//!
//! The way of a picture: a [`View`] says what is seen; [`surface_density`] projects bodies onto it; a
//! [`Scale`], fixed by the first frame of an animation, says which densities are dark and bright; [`render_layers`]
//! turns one or several such maps into an [`Image`] with [`Labels`]; [`write_png`] or a [`GifWriter`] keep it.
//! Text is drawn with a stroke font of our own, so no font needs to be installed.

mod colour;
mod density;
mod font;
mod gif;
mod image;
mod orbits;
mod overlay;
mod palette;
mod png;
mod render;
mod stroke;
mod view;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::IoError;

pub use colour::ColourMap;
pub use density::{Scale, SurfaceDensity, surface_density};
pub use gif::{GifMark, GifWriter};
pub use image::Image;
pub use orbits::{body_colour, render_orbits};
pub use overlay::Labels;
pub use palette::Palette;
pub use png::write_png;
pub use render::{Layer, render_layers};
pub use view::{BodySelection, View};

pub(crate) use font::{Level, parts as text_parts, text_width, write_text};
pub(crate) use stroke::Mask;

/// What can go wrong between bodies and a picture's file.
#[derive(Debug, Error)]
pub enum PictureError {
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The encoder refused.
    #[error("{}: cannot be encoded: {reason}", path.display())]
    Encoding {
        /// Which file.
        path: PathBuf,
        /// Its reason.
        reason: String,
    },
    /// Pictures of one animation, or layers of one picture, differ in size.
    #[error("{what} has {}x{} pixels, expected {}x{}", got.0, got.1, expected.0, expected.1)]
    SizeMismatch {
        /// A frame or a layer.
        what: &'static str,
        /// Width and height wanted.
        expected: (u32, u32),
        /// Width and height found.
        got: (u32, u32),
    },
}

impl PictureError {
    pub(crate) fn encoding<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        move |error| Self::Encoding { path: path.to_owned(), reason: error.to_string() }
    }
}
