//! Where an axis is marked, and what is written there.
//!
//! Invariant: a [`Range`] is finite and has `low < high`, both positive if it is logarithmic.

/// The values an axis spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub low: f64,
    pub high: f64,
    pub log: bool,
}

/// A mark; one without text is a minor one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub text: String,
}

/// Widest logarithmic axis: what lies further below the top than this is round-off or a stray zero.
const MOST_DECADES: f64 = 24.0;

impl Range {
    /// Around all values that the axis can show, with a little room.
    pub fn around(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter(|v| shows(*v, log)) {
            (low, high) = (low.min(v), high.max(v));
        }
        if low > high {
            return Self { low: if log { 0.1 } else { 0.0 }, high: 1.0, log };
        }
        if log {
            let (mut a, mut b) = (low.log10(), high.log10());
            a = a.max(b - MOST_DECADES);
            // A decade at least, so that there is something to mark.
            let room = (0.04 * (b - a)).max(0.5 * (1.0 - (b - a)).max(0.0));
            (a, b) = ((a - room).max(-300.0), (b + room).min(300.0));
            return Self { low: 10f64.powf(a), high: 10f64.powf(b.max(a + 0.5)), log };
        }
        let flat = high - low <= 1e-12 * high.abs().max(low.abs());
        let room = if flat { (0.1 * high.abs()).max(f64::MIN_POSITIVE) } else { 0.04 * (high - low) };
        let room = if high == 0.0 && low == 0.0 { 1.0 } else { room };
        // Positive values that come near zero are best read against it.
        let low = if low > 0.0 && low < 0.3 * high { 0.0 } else { low - room };
        Self { low, high: high + room, log }
    }

    /// Where a value lies, 0 at `low` and 1 at `high`; `None` if the axis cannot show it.
    pub fn place(&self, value: f64) -> Option<f64> {
        if !shows(value, self.log) {
            return None;
        }
        let (v, a, b) = if self.log {
            (value.log10(), self.low.log10(), self.high.log10())
        } else {
            (value, self.low, self.high)
        };
        let place = (v - a) / (b - a);
        place.is_finite().then_some(place)
    }

    /// About `wanted` marks with text, and minor ones between decades.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        if !self.log {
            return self.linear_ticks(wanted);
        }
        let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
        if last - first < 1 {
            return self.ticks_within_a_decade();
        }
        let every = ((last - first) as usize / wanted.max(1) + 1) as i32;
        let mut ticks = Vec::new();
        for power in first - 1..=last {
            let decade = 10f64.powi(power);
            let text = if power.rem_euclid(every) == 0 { power_of_ten(power) } else { String::new() };
            ticks.push(Tick { value: decade, text });
            if every == 1 {
                ticks.extend((2..10).map(|m| Tick { value: f64::from(m) * decade, text: String::new() }));
            }
        }
        ticks.retain(|tick| self.holds(tick.value));
        ticks
    }

    fn ticks_within_a_decade(&self) -> Vec<Tick> {
        let power = self.low.log10().floor() as i32;
        let multiples = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50].into_iter();
        multiples
            .map(|m| {
                let value = f64::from(m) * 10f64.powi(power);
                let labelled = matches!(m, 1 | 2 | 3 | 5 | 10 | 20 | 30 | 50);
                Tick { value, text: if labelled { plain(value, 10f64.powi(power)) } else { String::new() } }
            })
            .filter(|tick| self.holds(tick.value))
            .collect()
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<Tick> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * decade).find(|s| *s >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        let count = (last - first).clamp(0.0, 100.0) as usize;
        (0..=count)
            .map(|k| {
                let value = (first + k as f64) * step;
                Tick { value, text: plain(value, step) }
            })
            .filter(|tick| tick.value.is_finite() && self.holds(tick.value))
            .collect()
    }

    fn holds(&self, value: f64) -> bool {
        self.place(value).is_some_and(|place| (-1e-9..=1.0 + 1e-9).contains(&place))
    }
}

/// Whether an axis can show the value. Beyond 1e300 the arithmetic of ranges would overflow.
pub(super) fn shows(value: f64, log: bool) -> bool {
    value.abs() <= 1e300 && (!log || value > 0.0)
}

fn power_of_ten(power: i32) -> String {
    match power {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ => format!("10^{{{power}}}").replace('-', "\u{2212}"),
    }
}

/// A multiple of `step` with the digits that the step needs, as a power of ten where it would be long.
fn plain(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    let size = value.abs().max(step);
    let text = if value.abs() < 1e-9 * step {
        "0".to_owned()
    } else if (1e-4..1e6).contains(&size) {
        format!("{value:.decimals$}")
    } else {
        let power = (size.log10() + 1e-9).floor() as i32;
        // In two halves: 10^-power alone may overflow.
        let factor = value / 10f64.powi(power / 2) / 10f64.powi(power - power / 2);
        let digits = (f64::from(power) - (step.log10() + 1e-9).floor()).clamp(0.0, 6.0) as usize;
        format!("{factor:.digits$}\u{b7}10^{{{power}}}")
    };
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64, log: bool) -> Vec<String> {
        let ticks = Range { low, high, log }.ticks(6);
        ticks.into_iter().map(|t| t.text).filter(|t| !t.is_empty()).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(texts(0.0, 10.0, false), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(texts(-0.13, 0.31, false), ["\u{2212}0.1", "0", "0.1", "0.2", "0.3"]);
        assert_eq!(texts(2e-6, 5e-3, true), ["10^{\u{2212}5}", "10^{\u{2212}4}", "10^{\u{2212}3}"]);
        assert_eq!(texts(0.4, 6.0, true), ["0.5", "1.0", "2.0", "3.0", "5.0"]);
        assert_eq!(
            texts(0.0, 3e8, false),
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
    fn ranges_are_finite_and_not_empty() {
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
                let range = Range::around(values.iter().copied(), log);
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
