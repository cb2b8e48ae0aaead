//! Units, ticks and names of the axes and the colour bar.

use crate::picture::text_width;
use crate::plot::{Range, SMALL, format_multiple};

/// Tick of an axis: position from 0 to 1, and label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AxisTick {
    pub position: f64,
    pub text: String,
}

/// Values along an axis of the plate or the colour bar, in the unit of the labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AxisScale {
    low: f64,
    high: f64,
    /// Name and unit, for example `"x (mm)"`.
    pub name: String,
}

impl AxisScale {
    /// Returns the axis of a length from 0.
    pub fn for_length(name: &str, length: f64, longest: f64, unit: &str) -> Self {
        if unit != "m" {
            return Self::with_power_of_ten(name, 0.0, length, longest, unit);
        }
        let units = [("km", 1e3), ("m", 1.0), ("cm", 1e-2), ("mm", 1e-3), ("\u{b5}m", 1e-6), ("nm", 1e-9)];
        match units.into_iter().find(|(_, size)| longest >= *size) {
            Some((unit, size)) if longest < 1e8 => {
                Self { low: 0.0, high: length / size, name: name_with_unit(name, unit) }
            }
            _ => Self::with_power_of_ten(name, 0.0, length, longest, unit),
        }
    }

    /// Returns an axis whose values are divided by a power of ten if the `largest` one is very
    /// large or small. The power is written before the unit.
    pub fn with_power_of_ten(name: &str, low: f64, high: f64, largest: f64, unit: &str) -> Self {
        if (1e-3..1e5).contains(&largest) {
            return Self { low, high, name: name_with_unit(name, unit) };
        }
        let power = (largest.log10() + 1e-9).floor() as i32;
        // Divide in two steps, because 10^-power alone can overflow.
        let scaled = |value: f64| value / 10f64.powi(power / 2) / 10f64.powi(power - power / 2);
        let unit = format!("10^{{{power}}} {unit}").replace('-', "\u{2212}");
        Self { low: scaled(low), high: scaled(high), name: name_with_unit(name, unit.trim_end()) }
    }

    /// Returns the ticks of an axis of this length, as many as there is space for their labels.
    pub fn ticks(&self, length: f64, is_horizontal: bool) -> Vec<AxisTick> {
        let range = Range { low: self.low, high: self.high, log: false };
        let tick =
            |value: f64, text: String| range.position_of(value).map(|position| AxisTick { position, text });
        let fits = |ticks: &[AxisTick]| {
            ticks.windows(2).all(|pair| {
                let needed = if is_horizontal {
                    0.5 * (text_width(&pair[0].text, SMALL) + text_width(&pair[1].text, SMALL)) + 9.0
                } else {
                    SMALL + 6.0
                };
                (pair[1].position - pair[0].position) * length >= needed
            })
        };
        let most = ((length / if is_horizontal { 55.0 } else { 38.0 }) as usize).clamp(1, 8);
        for count in (1..=most).rev() {
            let ticks: Vec<_> =
                range.ticks(count).into_iter().filter_map(|t| tick(t.value, t.text)).collect();
            if ticks.len() >= 2 && fits(&ticks) {
                return ticks;
            }
        }
        let texts = format_ends(self.low, self.high);
        let ends: Vec<_> =
            [self.low, self.high].into_iter().zip(texts).filter_map(|(end, text)| tick(end, text)).collect();
        if fits(&ends) { ends } else { Vec::new() }
    }
}

/// Formats the ends of a range, with two digits of their difference.
pub(super) fn format_ends(low: f64, high: f64) -> [String; 2] {
    let digit = 10f64.powf((high - low).log10().floor() - 1.0);
    [low, high].map(|end| format_multiple(end, digit))
}

fn name_with_unit(name: &str, unit: &str) -> String {
    match (name, unit) {
        (name, "") => name.to_owned(),
        ("", unit) => unit.to_owned(),
        (name, unit) => format!("{name} ({unit})"),
    }
}
