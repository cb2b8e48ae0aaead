//! Numbers as people read them, at a width that is known.

/// Three significant digits, no exponent between 0.001 and a million: at most seven characters.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if size == 0.0 => "0".to_owned(),
        _ if !(0.000_995..999_999.5).contains(&size) => format!("{value:.1e}"),
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => trimmed(format!("{value:.1}")),
        _ if size >= 0.9995 => trimmed(format!("{value:.2}")),
        _ if size >= 0.099_95 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A whole number needs no decimals.
fn trimmed(text: String) -> String {
    match text.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// `9.81 ms`, `437 µs`, `1.20 s`.
pub fn seconds(value: f64) -> String {
    let (scale, unit) = match value {
        _ if value >= 0.9995 => (1.0, "s"),
        _ if value >= 0.9995e-3 => (1e3, "ms"),
        _ => (1e6, "µs"),
    };
    format!("{} {unit}", digits(value * scale))
}

/// A rate with the prefix it needs: `4.09 TB/s`, `60.2 TFLOP/s`.
pub fn rate_of(value: f64, unit: &str) -> String {
    let (scale, prefix) = match value {
        _ if value >= 0.9995e15 => (1e15, "P"),
        _ if value >= 0.9995e12 => (1e12, "T"),
        _ if value >= 0.9995e9 => (1e9, "G"),
        _ if value >= 0.9995e6 => (1e6, "M"),
        _ => (1.0, ""),
    };
    format!("{} {prefix}{unit}", digits(value / scale))
}

/// `13%`, `0.02%`; `-` where there is nothing to compare with.
pub fn share(value: Option<f64>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |share| match 100.0 * share {
            percent if percent < 0.0005 => format!("{percent:.0e}%"),
            percent if percent < 0.995 => format!("{percent:.2}%"),
            percent => format!("{percent:.0}%"),
        },
    )
}

/// `65,536`.
pub fn count(value: usize) -> String {
    let text = value.to_string();
    let groups: Vec<&str> =
        text.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

/// The words of `text` on lines of at most `width`, all but the first indented by two.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("begins with one line");
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("  {word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        let shown = [0.0, 1.0, 1.5, 9.999, 12.34, 99.99, 437.2, 12_150.0, 3e7, 0.5, 0.0123, 4e-5].map(digits);
        assert_eq!(
            shown,
            ["0", "1", "1.50", "10", "12.3", "100", "437", "12150", "3.0e7", "0.500", "0.0123", "4.0e-5"]
        );
        for power in -40..60 {
            let value = 10f64.powf(f64::from(power) / 4.0);
            assert!(digits(value).len() <= 7, "{value}: {}", digits(value));
        }
        assert_eq!(digits(f64::NAN), "-");
    }

    #[test]
    fn times_rates_and_counts() {
        assert_eq!([9.81e-3, 4.372e-4, 1.2, 2e-8].map(seconds), ["9.81 ms", "437 µs", "1.20 s", "0.0200 µs"]);
        assert_eq!(rate_of(4.09e12, "B/s"), "4.09 TB/s");
        assert_eq!(rate_of(66.9e12, "FLOP/s"), "66.9 TFLOP/s");
        assert_eq!([0, 999, 1000, 1_048_576].map(count), ["0", "999", "1,000", "1,048,576"]);
        assert_eq!([Some(0.134), Some(0.0021), None].map(share), ["13%", "0.21%", "-"]);
    }

    #[test]
    fn words_are_wrapped_between_words() {
        let lines = wrapped("one two three four", 9);
        assert_eq!(lines, ["one two", "  three", "  four"]);
    }
}
