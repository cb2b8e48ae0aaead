//! Labels of a picture: title, time, a scale bar of a round length, and the directions of the axes.

use orrery_model::{Dimension, Units};

use super::font::{text_width, write_text};
use super::stroke::Mask;
use super::{Image, View};

pub(super) const INK: [u8; 3] = [240, 240, 244];
pub(super) const RIM: [u8; 3] = [4, 4, 10];

/// Labels of a picture. Empty texts are not drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// Text at the top right.
    pub title: String,
    /// Text at the top left, such as `"t = 1.25 Gyr"`.
    pub time: String,
    /// Units of the bodies, for scale bar and colour bar. `None` draws no bars.
    pub units: Option<Units>,
}

impl Labels {
    /// Returns labels without texts and without a bar.
    pub fn none() -> Self {
        Self { title: String::new(), time: String::new(), units: None }
    }

    /// Draws the labels. A view that is not along an axis also gets the directions of the axes.
    /// Returns the right end of everything at the bottom.
    pub(crate) fn draw_labels(&self, image: &mut Image, view: &View) -> f64 {
        let size = text_size(image);
        let margin = 2.0 * size;
        let (width, height) = (f64::from(image.width), f64::from(image.height));
        let mut write_at = |text: &str, x: f64, y: f64| {
            write_text(image, text, [x, y], size, INK, Some(RIM), false);
        };
        write_at(&self.time, margin, margin + size);
        write_at(&self.title, width - margin - text_width(&self.title, size), margin + size);
        let Some(bar) = self.units.and_then(|units| ScaleBar::longest_within(&units, 0.4 * view.half_width))
        else {
            return 0.0;
        };
        let length = bar.length / view.pixel_size();
        let (left, y) = (margin, height - margin);
        let tick = 0.3 * size;
        draw_line(image, &[[left, y - tick], [left, y], [left + length, y], [left + length, y - tick]]);
        let x = (left + 0.5 * (length - text_width(&bar.text, size))).max(left);
        write_text(image, &bar.text, [x, y - 0.75 * size], size, INK, Some(RIM), false);
        if !view.orientation.is_along_axes() {
            draw_axis_directions(image, view);
        }
        (left + length).max(x + text_width(&bar.text, size))
    }
}

impl Labels {
    /// Returns the rectangles (left, top, right, bottom) of the texts at the top, and of everything
    /// at the bottom left.
    pub(super) fn text_areas(&self, image: &Image, view: &View) -> Vec<[f64; 4]> {
        let size = text_size(image);
        let margin = 2.0 * size;
        let (width, height) = (f64::from(image.width), f64::from(image.height));
        let (top, bottom) = (margin - 0.5 * size, margin + 1.5 * size);
        let mut areas = Vec::new();
        if !self.time.is_empty() {
            areas.push([margin, top, margin + text_width(&self.time, size), bottom]);
        }
        if !self.title.is_empty() {
            areas.push([width - margin - text_width(&self.title, size), top, width - margin, bottom]);
        }
        let bar = self.units.and_then(|units| ScaleBar::longest_within(&units, 0.4 * view.half_width));
        if let Some(bar) = bar {
            let length = (bar.length / view.pixel_size()).max(text_width(&bar.text, size));
            // The directions of the axes are above the bar, see `draw_axis_directions`.
            let directions = if view.orientation.is_along_axes() { 0.0 } else { 12.0 * size };
            areas.push([0.0, height - margin - 2.2 * size - directions, margin + length, height]);
        }
        areas
    }
}

/// Draws a line with a rim.
fn draw_line(image: &mut Image, points: &[[f64; 2]]) {
    let size = text_size(image);
    for (grow, colour, opacity) in [(0.1 * size, RIM, 0.6), (0.0, INK, 1.0)] {
        let mut mask = Mask::for_image(image.width, image.height);
        mask.draw_polyline(points, (0.075 * size).max(0.6) + grow);
        image.paint_mask(&mask, colour, opacity);
    }
}

/// Draws the projected unit vectors of x, y and z above the scale bar. A small image has none.
fn draw_axis_directions(image: &mut Image, view: &View) {
    let size = text_size(image);
    let (length, small) = (3.0 * size, 0.85 * size);
    let centre = [2.0 * size + 1.4 * length, f64::from(image.height) - 5.0 * size - 1.4 * length];
    if centre[1] < 0.5 * f64::from(image.height) {
        return;
    }
    let axes =
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|axis| view.orientation.components(axis));
    for ([right, up], name) in axes.into_iter().zip(["x", "y", "z"]) {
        let at = |distance: f64| [centre[0] + distance * right, centre[1] - distance * up];
        draw_line(image, &[centre, at(length)]);
        // A short axis points to the viewer. Its name is not written over the others.
        let shown = right.hypot(up);
        if shown < 0.15 {
            continue;
        }
        // The name is beyond the tip, or beside it if a longer axis has the same direction.
        let is_covered =
            axes.iter().any(|&[r, u]| r.hypot(u) > shown && right * r + up * u > 0.97 * shown * r.hypot(u));
        let [x, y] = if is_covered {
            let [x, y] = at(length);
            [x + 0.9 * size, y]
        } else {
            at(length + 0.8 * size / shown)
        };
        let start = [x - 0.5 * text_width(name, small), y + 0.4 * small];
        write_text(image, name, start, small, INK, Some(RIM), false);
    }
}

/// Height of capitals for an image of this size.
pub(crate) fn text_size(image: &Image) -> f64 {
    (f64::from(image.width.min(image.height)) / 56.0).clamp(7.0, 60.0)
}

/// Scale bar. Its length is 1, 2 or 5 times a power of ten, in a common unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaleBar {
    /// Length in the units of the bodies.
    pub length: f64,
    pub text: String,
}

impl ScaleBar {
    /// Returns the longest bar up to `limit`, or `None` if `limit` is not positive and finite.
    pub fn longest_within(units: &Units, limit: f64) -> Option<Self> {
        if !limit.is_normal() || limit <= 0.0 {
            return None;
        }
        let (unit, name) = readable_unit(units, limit);
        let round = round_down(limit / unit)?;
        // Round values print exactly: as many decimals as the power of ten asks for.
        let decimals = (-(round.log10() + 1e-9).floor()).max(0.0) as usize;
        let number = if (1e-3..1e5).contains(&round) {
            format!("{round:.decimals$}")
        } else {
            format_scientific(round)
        };
        Some(Self { length: round * unit, text: format!("{number} {name}").trim_end().to_owned() })
    }
}

/// Formats one digit and a power of ten, for example `"2·10^{6}"` for 2e6.
fn format_scientific(value: f64) -> String {
    let power = (value.log10() + 1e-9).floor();
    let factor = (value / 10f64.powi(power as i32)).round();
    if factor == 1.0 { format!("10^{{{power}}}") } else { format!("{factor}\u{b7}10^{{{power}}}") }
}

/// Returns the size and name of the unit in which a length is easiest to read. Parsecs are used
/// down to 0.05, because an astronomical unit is 200,000 times smaller.
fn readable_unit(units: &Units, length: f64) -> (f64, &'static str) {
    const OF_GALAXIES: &[(&str, f64)] =
        &[("Mpc", 1.0), ("kpc", 1.0), ("pc", 0.05), ("au", 0.01), ("km", 0.0)];
    const OF_ATOMS: &[(&str, f64)] = &[("µm", 1.0), ("nm", 1.0), ("Å", 0.0)];
    let candidates = if *units == Units::Real { OF_ATOMS } else { OF_GALAXIES };
    candidates
        .iter()
        .copied()
        .find_map(|(name, smallest)| {
            let one = units.parse(&format!("1 {name}"), Dimension::Length).ok()?;
            (length >= smallest * one).then_some((one, name))
        })
        .unwrap_or((1.0, ""))
}

/// Rounds down to the next of 1, 2, 5 x 10^k. Returns `None` for a value that is not positive and
/// finite.
fn round_down(value: f64) -> Option<f64> {
    if !value.is_normal() || value <= 0.0 {
        return None;
    }
    let power = value.log10().floor() as i32;
    let decade = |p: i32| if p >= 0 { 10f64.powi(p) } else { 1.0 / 10f64.powi(-p) };
    let steps = [5.0, 2.0, 1.0];
    let rounded = steps.into_iter().map(|s| s * decade(power)).find(|round| *round <= value * (1.0 + 1e-12));
    Some(rounded.unwrap_or_else(|| 5.0 * decade(power - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Orientation;

    #[test]
    fn bars_have_round_lengths_below_the_limit() {
        for k in -300..300 {
            let limit = 1.37f64.powi(k);
            let Some(bar) = ScaleBar::longest_within(&Units::NBody, limit) else { continue };
            assert!(bar.length <= limit * 1.000_001 && bar.length > limit / 2.6, "{limit}: {bar:?}");
            let leading = bar.length / 10f64.powf(bar.length.log10().floor());
            let near = [1.0, 2.0, 5.0, 10.0].iter().any(|r| (leading / r - 1.0).abs() < 1e-6);
            assert!(near, "{limit}: {bar:?}");
        }
    }

    #[test]
    fn bars_use_readable_units() {
        let text = |units, limit| ScaleBar::longest_within(&units, limit).unwrap().text;
        assert_eq!(text(Units::Galactic, 13.0), "10 kpc");
        assert_eq!(text(Units::Galactic, 0.03), "20 pc");
        assert_eq!(text(Units::Galactic, 3000.0), "2 Mpc");
        assert_eq!(text(Units::Solar, 0.6), "0.5 au");
        assert_eq!(text(Units::Real, 30.0), "2 nm");
        assert_eq!(text(Units::Real, 6.0), "5 Å");
        assert_eq!(text(Units::NBody, 0.3), "0.2");
        assert_eq!(text(Units::NBody, 3e7), "2\u{b7}10^{7}");
        assert_eq!(ScaleBar::longest_within(&Units::NBody, 0.0), None);
        assert_eq!(ScaleBar::longest_within(&Units::NBody, f64::NAN), None);
    }

    /// A view along an axis has no directions. Otherwise they are above the scale bar at the left.
    #[test]
    fn rotated_views_show_the_directions_of_the_axes() {
        let drawn_pixels = |orientation, pixels: (u32, u32)| {
            let view = View { centre: [0.0; 3], half_width: 1.0, orientation, pixels };
            let mut image = Image::filled(pixels.0, pixels.1, [0; 3]);
            let labels = Labels { units: Some(Units::NBody), ..Labels::none() };
            let end = labels.draw_labels(&mut image, &view);
            assert!(end > 0.0 && end < 0.5 * f64::from(pixels.0), "{end}");
            image.rgb.chunks_exact(3).filter(|pixel| **pixel == INK).count()
        };
        let tilted = Orientation::from_angles(0.5, 0.4);
        for pixels in [(320, 320), (640, 640), (1920, 1080)] {
            assert!(drawn_pixels(tilted, pixels) > drawn_pixels(Orientation::XY, pixels) + 20, "{pixels:?}");
        }
        assert_eq!(drawn_pixels(tilted, (64, 64)), drawn_pixels(Orientation::XY, (64, 64)));
    }
}
