//! What is written over a picture: title, time, a scale bar of round length.

use orrery_model::{Dimension, Units};

use super::font::{text_width, write_text};
use super::stroke::Mask;
use super::{Image, View};

const INK: [u8; 3] = [240, 240, 244];
const RIM: [u8; 3] = [4, 4, 10];

/// Texts for a picture; empty ones are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// At the top right.
    pub title: String,
    /// At the top left, such as `"t = 1.25 Gyr"`.
    pub time: String,
    /// The bodies' units of length, for the scale bar; `None` draws no bar.
    pub units: Option<Units>,
}

impl Labels {
    /// No texts and no bar.
    pub fn none() -> Self {
        Self { title: String::new(), time: String::new(), units: None }
    }

    pub(crate) fn draw(&self, image: &mut Image, view: &View) {
        let size = text_size(image);
        let margin = 2.0 * size;
        let (width, height) = (f64::from(image.width), f64::from(image.height));
        let mut put = |text: &str, x: f64, y: f64| {
            write_text(image, text, [x, y], size, INK, Some(RIM), false);
        };
        put(&self.time, margin, margin + size);
        put(&self.title, width - margin - text_width(&self.title, size), margin + size);
        let Some(bar) = self.units.and_then(|units| ScaleBar::fitting(&units, 0.4 * view.half_width)) else {
            return;
        };
        let length = bar.length / view.pixel_size();
        let (left, y) = (margin, height - margin);
        let (w, h) = (image.width, image.height);
        for (grow, colour, opacity) in [(0.1 * size, RIM, 0.6), (0.0, INK, 1.0)] {
            let mut mask = Mask::whole(w, h);
            let pen = (0.075 * size).max(0.6) + grow;
            let tick = 0.3 * size;
            mask.polyline(&[[left, y - tick], [left, y], [left + length, y], [left + length, y - tick]], pen);
            image.paint(&mask, colour, opacity);
        }
        let x = left + 0.5 * (length - text_width(&bar.text, size));
        write_text(image, &bar.text, [x.max(left), y - 0.75 * size], size, INK, Some(RIM), false);
    }
}

/// Height of capitals for an image of this size.
pub(crate) fn text_size(image: &Image) -> f64 {
    (f64::from(image.width.min(image.height)) / 56.0).clamp(7.0, 60.0)
}

/// A bar whose length is 1, 2 or 5 times a power of ten of a unit that people use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaleBar {
    /// In the bodies' units.
    pub length: f64,
    pub text: String,
}

impl ScaleBar {
    /// The longest bar up to `limit`; `None` where that is no length.
    pub fn fitting(units: &Units, limit: f64) -> Option<Self> {
        if !limit.is_normal() || limit <= 0.0 {
            return None;
        }
        let (unit, name) = unit_for(units, limit);
        let round = round_down(limit / unit)?;
        // Round values print exactly: as many decimals as the power of ten asks for.
        let decimals = (-(round.log10() + 1e-9).floor()).max(0.0) as usize;
        let number =
            if (1e-3..1e5).contains(&round) { format!("{round:.decimals$}") } else { scientific(round) };
        Some(Self { length: round * unit, text: format!("{number} {name}").trim_end().to_owned() })
    }
}

/// `"2·10^{6}"` for 2e6.
fn scientific(value: f64) -> String {
    let power = (value.log10() + 1e-9).floor();
    let factor = (value / 10f64.powi(power as i32)).round();
    if factor == 1.0 { format!("10^{{{power}}}") } else { format!("{factor}\u{b7}10^{{{power}}}") }
}

/// The unit, as a multiple of the bodies' own, in which a length reads best. Parsecs are kept down to 0.05,
/// since an astronomical unit is 200,000 times smaller.
fn unit_for(units: &Units, length: f64) -> (f64, &'static str) {
    let ladder = [("Mpc", 1.0), ("kpc", 1.0), ("pc", 0.05), ("au", 0.01), ("km", 0.0)];
    ladder
        .into_iter()
        .find_map(|(name, least)| {
            let one = units.parse(&format!("1 {name}"), Dimension::Length).ok()?;
            (length >= least * one).then_some((one, name))
        })
        .unwrap_or((1.0, ""))
}

/// The largest of 1, 2, 5 x 10^k up to `value`.
fn round_down(value: f64) -> Option<f64> {
    if !value.is_normal() || value <= 0.0 {
        return None;
    }
    let power = value.log10().floor() as i32;
    let decade = |p: i32| if p >= 0 { 10f64.powi(p) } else { 1.0 / 10f64.powi(-p) };
    let steps = [5.0, 2.0, 1.0];
    let fitting = steps.into_iter().map(|s| s * decade(power)).find(|round| *round <= value * (1.0 + 1e-12));
    Some(fitting.unwrap_or_else(|| 5.0 * decade(power - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_round_and_fit() {
        for k in -300..300 {
            let limit = 1.37f64.powi(k);
            let Some(bar) = ScaleBar::fitting(&Units::NBody, limit) else { continue };
            assert!(bar.length <= limit * 1.000_001 && bar.length > limit / 2.6, "{limit}: {bar:?}");
            let leading = bar.length / 10f64.powf(bar.length.log10().floor());
            let near = [1.0, 2.0, 5.0, 10.0].iter().any(|r| (leading / r - 1.0).abs() < 1e-6);
            assert!(near, "{limit}: {bar:?}");
        }
    }

    #[test]
    fn bars_read_well() {
        let text = |units, limit| ScaleBar::fitting(&units, limit).unwrap().text;
        assert_eq!(text(Units::Galactic, 13.0), "10 kpc");
        assert_eq!(text(Units::Galactic, 0.03), "20 pc");
        assert_eq!(text(Units::Galactic, 3000.0), "2 Mpc");
        assert_eq!(text(Units::Solar, 0.6), "0.5 au");
        assert_eq!(text(Units::NBody, 0.3), "0.2");
        assert_eq!(text(Units::NBody, 3e7), "2\u{b7}10^{7}");
        assert_eq!(ScaleBar::fitting(&Units::NBody, 0.0), None);
        assert_eq!(ScaleBar::fitting(&Units::NBody, f64::NAN), None);
    }
}
