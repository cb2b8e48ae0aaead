//! Line plots and plots of seismograms, as SVG and PNG from one description.
//!
//! A [`Plot`] is converted once into a layout of lines, markers and texts, which is drawn as SVG or
//! PNG. A plotting crate is not used, because plots must work on machines without fonts, give the
//! same bytes everywhere, and share the line drawing and the font with the pictures. Colours are
//! those of Okabe & Ito (2008), which can be distinguished with every kind of colour vision.

mod layout;
mod names;
mod raster;
mod seismogram;
mod svg;
mod ticks;

use std::path::Path;

use orrery_formats::write_file_atomically;

use crate::picture::{Image, PictureError, write_png};

pub(crate) use layout::{Anchor, INK, Item, LABEL, SMALL, SOFT_INK, TICK};
pub(crate) use raster::draw_item;
pub use seismogram::SeismogramPlot;
pub(crate) use ticks::{Range, format_multiple};

/// Label and scale of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Quantity and unit, for example `r / kpc`. `^{...}` and `_{...}` raise and lower text.
    pub label: String,
    /// Whether the axis is logarithmic. It then shows positive values only.
    pub log: bool,
}

impl Axis {
    /// Returns a linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), log: false }
    }

    /// Returns a logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), log: true }
    }
}

/// Returns a label with a unit in raised powers, for example `density (10^{10} Msun/kpc^{3})` for
/// the unit `1e10 Msun/kpc^3`. The unit may be empty.
pub fn label_with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() {
        return name.to_owned();
    }
    let words = unit.split(' ').map(|word| match word.strip_prefix("1e") {
        Some(power) if power.parse::<i32>().is_ok() => format!("10^{{{power}}}"),
        _ => raise_powers(word),
    });
    format!("{name} ({})", words.collect::<Vec<_>>().join(" "))
}

/// Returns a unit such as `m^2/s` with its powers as raised text: `m^{2}/s`.
pub(crate) fn raise_powers(unit: &str) -> String {
    let mut parts = unit.split('^');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').len();
        match digits {
            0 => text.push_str(&format!("^{part}")),
            _ => text.push_str(&format!("^{{{}}}{}", &part[..digits], &part[digits..])),
        }
    }
    text
}

/// Drawing style of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A line through the points.
    #[default]
    Line,
    /// A dashed line, for example for an expected curve next to a measured one.
    Dashed,
    /// A mark at each point.
    Points,
    /// A mark at each point with the name of the series next to it. The series is not in the
    /// legend.
    Named,
}

/// A named list of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name in the legend. A series with an empty name is not listed.
    pub name: String,
    /// x and y. A point leaves a gap if it is not finite, or not positive on a logarithmic axis.
    pub points: Vec<(f64, f64)>,
    /// Drawing style.
    pub style: Style,
}

impl Series {
    /// Returns a series drawn as a line through `points`.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, style: Style::Line }
    }
}

/// A plot of several series over common axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// Title above the plot.
    pub title: String,
    /// Smaller text below the title. It may be empty.
    pub subtitle: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Series, drawn in order. Later series cover earlier ones.
    pub series: Vec<Series>,
}

/// Size of the SVG. A PNG of this size has the same text size as the SVG.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 480.0;

impl Plot {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        svg::svg_document(&layout::compute_layout(self, WIDTH, HEIGHT), &self.title)
    }

    /// Draws the plot as an image. Text and lines scale with its size.
    pub fn to_image(&self, width: u32, height: u32) -> Image {
        let zoom = (f64::from(width) / WIDTH).min(f64::from(height) / HEIGHT).max(0.1);
        let layout = layout::compute_layout(self, f64::from(width) / zoom, f64::from(height) / zoom);
        raster::draw_layout(&layout, zoom)
    }

    /// Writes the plot as SVG. The write is atomic.
    pub fn write_svg(&self, path: &Path) -> Result<(), PictureError> {
        Ok(write_file_atomically(path, self.to_svg().as_bytes())?)
    }

    /// Writes the plot as a PNG of the given size. The write is atomic.
    pub fn write_png(&self, path: &Path, width: u32, height: u32) -> Result<(), PictureError> {
        write_png(path, &self.to_image(width.max(1), height.max(1)), &[("Title", &self.title)])
    }
}

#[cfg(test)]
mod tests;
