//! Line plots, as SVG and PNG from one description.
//!
//! A [`Plot`] is laid out once into a scene of lines, markers and texts; the SVG and the PNG draw that same
//! scene. Written here rather than taken from a crate because it must work on a machine with no fonts at all,
//! give the same bytes everywhere and share its pen and letters with the pictures. Colours are those of Okabe &
//! Ito (2008), which stay apart for every kind of colour vision.

mod layout;
mod names;
mod raster;
mod svg;
mod ticks;

use std::path::Path;

use crate::picture::{Image, PictureError, write_png};
use crate::storage::write_file_atomically;

/// How an axis is labelled and divided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it measures, with its unit. `^{...}` and `_{...}` raise and lower.
    pub label: String,
    /// Whether it is logarithmic; values up to zero are then left out.
    pub log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), log: true }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A line through the points.
    #[default]
    Line,
    /// A dashed line, for what is expected rather than measured.
    Dashed,
    /// A mark at each point.
    Points,
    /// A mark at each point with the series' name beside it, which then is not in the legend.
    Named,
}

/// Points that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend; a nameless series is not in it.
    pub name: String,
    /// x and y. What is not finite, or not positive on a logarithmic axis, leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
}

impl Series {
    /// A line through `points`.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, style: Style::Line }
    }
}

/// A plot of several series over common axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// Above the plot.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, the first lowest.
    pub series: Vec<Series>,
}

/// Size of the SVG, and the size at which the PNG's letters have their natural height.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 480.0;

impl Plot {
    /// The plot as an SVG document.
    pub fn to_svg(&self) -> String {
        svg::document(&layout::scene(self, WIDTH, HEIGHT), &self.title)
    }

    /// The plot as pixels; letters and lines grow with the image.
    pub fn to_image(&self, width: u32, height: u32) -> Image {
        let zoom = (f64::from(width) / WIDTH).min(f64::from(height) / HEIGHT).max(0.1);
        raster::image(&layout::scene(self, f64::from(width) / zoom, f64::from(height) / zoom), zoom)
    }

    /// Writes the SVG; the file appears when it is complete.
    pub fn write_svg(&self, path: &Path) -> Result<(), PictureError> {
        Ok(write_file_atomically(path, self.to_svg().as_bytes())?)
    }

    /// Writes a PNG of the given size.
    pub fn write_png(&self, path: &Path, width: u32, height: u32) -> Result<(), PictureError> {
        write_png(path, &self.to_image(width.max(1), height.max(1)), &[("Title", &self.title)])
    }
}

#[cfg(test)]
mod tests;
