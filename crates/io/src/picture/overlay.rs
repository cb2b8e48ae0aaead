//! Labels of a picture: title, time, and a scale bar of a round length.

use orrery_model::{Dimension, Units};

use super::font::{text_width, write_text};
use super::stroke::Mask;
use super::{Image, View};

const INK: [u8; 3] = [240, 240, 244];
const RIM: [u8; 3] = [4, 4, 10];

/// Labels of a picture. Empty texts are not drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// Text at the top right.
    pub title: String,
    /// Text at the top left, such as `"t = 1.25 Gyr"`.
    pub time: String,
    /// Units of the bodies, for the scale bar. `None` draws no bar.
    pub units: Option<Units>,
}

impl Labels {
    /// Returns labels without texts and without a bar.
    pub fn none() -> Self {
        Self { title: String::new(), time: String::new(), units: None }
    }

    pub(crate) fn draw_labels(&self, image: &mut Image, view: &View) {
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
            return;
        };
        let length = bar.length / view.pixel_size();
        let (left, y) = (margin, height - margin);
        let (w, h) = (image.width, image.height);
        for (grow, colour, opacity) in [(0.1 * size, RIM, 0.6), (0.0, INK, 1.0)] {
            let mut mask = Mask::for_image(w, h);
            let pen = (0.075 * size).max(0.6) + grow;
            let tick = 0.3 * size;
            mask.draw_polyline(
                &[[left, y - tick], [left, y], [left + length, y], [left + length, y - tick]],
                pen,
            );
            image.paint_mask(&mask, colour, opacity);
        }
        let x = left + 0.5 * (length - text_width(&bar.text, size));
        write_text(image, &bar.text, [x.max(left), y - 0.75 * size], size, INK, Some(RIM), false);
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
    let candidates = [("Mpc", 1.0), ("kpc", 1.0), ("pc", 0.05), ("au", 0.01), ("km", 0.0)];
    candidates
        .into_iter()
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
        assert_eq!(text(Units::NBody, 0.3), "0.2");
        assert_eq!(text(Units::NBody, 3e7), "2\u{b7}10^{7}");
        assert_eq!(ScaleBar::longest_within(&Units::NBody, 0.0), None);
        assert_eq!(ScaleBar::longest_within(&Units::NBody, f64::NAN), None);
    }
}
