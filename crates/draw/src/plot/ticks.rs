//! Ranges of axes, and positions and labels of their ticks.
//!
//! Invariant: a [`Range`] is finite and has `low < high`, both positive if it is logarithmic.

/// Range of values of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub low: f64,
    pub high: f64,
    pub log: bool,
}

/// Tick of an axis. A tick without text is a minor tick.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub text: String,
}

/// Largest range of a logarithmic axis in decades. Smaller values are rounding errors.
const MAX_DECADES: f64 = 24.0;

impl Range {
    /// Returns a range that contains all values that the axis can show, with a margin.
    pub fn covering(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter(|v| can_show(*v, log)) {
            (low, high) = (low.min(v), high.max(v));
        }
        if low > high {
            return Self { low: if log { 0.1 } else { 0.0 }, high: 1.0, log };
        }
        if log {
            let (mut a, mut b) = (low.log10(), high.log10());
            a = a.max(b - MAX_DECADES);
            // The range is at least one decade, so that it has ticks.
            let margin = (0.04 * (b - a)).max(0.5 * (1.0 - (b - a)).max(0.0));
            (a, b) = ((a - margin).max(-300.0), (b + margin).min(300.0));
            return Self { low: 10f64.powf(a), high: 10f64.powf(b.max(a + 0.5)), log };
        }
        let is_flat = high - low <= 1e-12 * high.abs().max(low.abs());
        let margin = if is_flat { (0.1 * high.abs()).max(f64::MIN_POSITIVE) } else { 0.04 * (high - low) };
        let margin = if high == 0.0 && low == 0.0 { 1.0 } else { margin };
        // For positive values near zero, the range starts at zero.
        let low = if low > 0.0 && low < 0.3 * high { 0.0 } else { low - margin };
        Self { low, high: high + margin, log }
    }

    /// Returns the position of a value on the axis, 0 at `low` and 1 at `high`, or `None` if the
    /// axis cannot show it.
    pub fn position_of(&self, value: f64) -> Option<f64> {
        if !can_show(value, self.log) {
            return None;
        }
        let (v, a, b) = if self.log {
            (value.log10(), self.low.log10(), self.high.log10())
        } else {
            (value, self.low, self.high)
        };
        let position = (v - a) / (b - a);
        position.is_finite().then_some(position)
    }

    /// Returns about `count` ticks with text, and minor ticks between decades.
    pub fn ticks(&self, count: usize) -> Vec<Tick> {
        if !self.log {
            return self.linear_ticks(count);
        }
        let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
        if last - first < 1 {
            return self.ticks_within_a_decade();
        }
        let label_step = ((last - first) as usize / count.max(1) + 1) as i32;
        let mut ticks = Vec::new();
        for power in first - 1..=last {
            let decade = 10f64.powi(power);
            let text =
                if power.rem_euclid(label_step) == 0 { format_power_of_ten(power) } else { String::new() };
            ticks.push(Tick { value: decade, text });
            if label_step == 1 {
                ticks.extend((2..10).map(|m| Tick { value: f64::from(m) * decade, text: String::new() }));
            }
        }
        ticks.retain(|tick| self.contains(tick.value));
        ticks
    }

    fn ticks_within_a_decade(&self) -> Vec<Tick> {
        let power = self.low.log10().floor() as i32;
        let multiples = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50].into_iter();
        multiples
            .map(|m| {
                let value = f64::from(m) * 10f64.powi(power);
                let labelled = matches!(m, 1 | 2 | 3 | 5 | 10 | 20 | 30 | 50);
                Tick {
                    value,
                    text: if labelled { format_multiple(value, 10f64.powi(power)) } else { String::new() },
                }
            })
            .filter(|tick| self.contains(tick.value))
            .collect()
    }

    fn linear_ticks(&self, target_count: usize) -> Vec<Tick> {
        let rough = (self.high - self.low) / target_count.max(1) as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * decade).find(|s| *s >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        let count = (last - first).clamp(0.0, 100.0) as usize;
        (0..=count)
            .map(|k| {
                let value = (first + k as f64) * step;
                Tick { value, text: format_multiple(value, step) }
            })
            .filter(|tick| tick.value.is_finite() && self.contains(tick.value))
            .collect()
    }

    fn contains(&self, value: f64) -> bool {
        self.position_of(value).is_some_and(|position| (-1e-9..=1.0 + 1e-9).contains(&position))
    }
}

/// Returns true if an axis can show the value. Above 1e300 the arithmetic of ranges would overflow.
pub(super) fn can_show(value: f64, log: bool) -> bool {
    value.abs() <= 1e300 && (!log || value > 0.0)
}

fn format_power_of_ten(power: i32) -> String {
    match power {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ => format!("10^{{{power}}}").replace('-', "\u{2212}"),
    }
}

/// Formats a multiple of `step` with the digits that the step requires. Very large and small values
/// get a power of ten.
pub(crate) fn format_multiple(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    let size = value.abs().max(step);
    let text = if value.abs() < 1e-9 * step {
        "0".to_owned()
    } else if (1e-4..1e6).contains(&size) {
        format!("{value:.decimals$}")
    } else {
        let power = (size.log10() + 1e-9).floor() as i32;
        // Divide in two steps, because 10^-power alone can overflow.
        let factor = value / 10f64.powi(power / 2) / 10f64.powi(power - power / 2);
        let digits = (f64::from(power) - (step.log10() + 1e-9).floor()).clamp(0.0, 6.0) as usize;
        format!("{factor:.digits$}\u{b7}10^{{{power}}}")
    };
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick_texts(low: f64, high: f64, log: bool) -> Vec<String> {
        let ticks = Range { low, high, log }.ticks(6);
        ticks.into_iter().map(|t| t.text).filter(|t| !t.is_empty()).collect()
    }

    #[test]
    fn ticks_are_at_round_values() {
        assert_eq!(tick_texts(0.0, 10.0, false), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(tick_texts(-0.13, 0.31, false), ["\u{2212}0.1", "0", "0.1", "0.2", "0.3"]);
        assert_eq!(tick_texts(2e-6, 5e-3, true), ["10^{\u{2212}5}", "10^{\u{2212}4}", "10^{\u{2212}3}"]);
        assert_eq!(tick_texts(0.4, 6.0, true), ["0.5", "1.0", "2.0", "3.0", "5.0"]);
        assert_eq!(
            tick_texts(0.0, 3e8, false),
            [
                "0",
                "5\u{b7}10^{7}",
                "1.0\u{b7}10^{8}",
                "1.5\u{b7}10^{8}",
                "2.0\u{b7}10^{8}",
                "2.5\u{b7}10^{8}",
                "3.0\u{b7}10^{8}"
            ]
        );
    }

    #[test]
    fn ranges_are_finite_and_have_ticks() {
        let extremes = [
            vec![],
            vec![f64::NAN, f64::INFINITY],
            vec![0.0],
            vec![5.0; 3],
            vec![-1e308, 1e308],
            vec![1e-310, 1e308],
            vec![-3.0, 0.0],
            vec![1e15, 1e15 + 1.0],
            vec![f64::MAX],
            vec![f64::MIN_POSITIVE],
        ];
        for values in extremes {
            for log in [false, true] {
                let range = Range::covering(values.iter().copied(), log);
                assert!(
                    range.low.is_finite() && range.high.is_finite() && range.low < range.high,
                    "{values:?}"
                );
                assert!(!log || range.low > 0.0, "{values:?}");
                let ticks = range.ticks(6);
                assert!(ticks.len() < 150, "{values:?}: {}", ticks.len());
                assert!(ticks.iter().any(|t| !t.text.is_empty()), "{values:?} {range:?}");
            }
        }
    }
}
