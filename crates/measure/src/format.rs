//! Formats numbers for tables, each with a known maximum width.

/// Formats a number with three significant digits in at most seven characters. Numbers below 0.001
/// or from a million on get an exponent, and non-finite ones become `-`.
pub fn format_number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if size == 0.0 => "0".to_owned(),
        _ if !(0.000_995..999_999.5).contains(&size) => format!("{value:.1e}"),
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => drop_zero_decimals(format!("{value:.1}")),
        _ if size >= 0.9995 => drop_zero_decimals(format!("{value:.2}")),
        _ if size >= 0.099_95 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// Removes the decimals of a whole number: `10.0` becomes `10`.
fn drop_zero_decimals(text: String) -> String {
    match text.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// Formats a time in s, ms or µs, for example `9.81 ms`.
pub fn format_seconds(value: f64) -> String {
    let (scale, unit) = match value {
        _ if value >= 0.9995 => (1.0, "s"),
        _ if value >= 0.9995e-3 => (1e3, "ms"),
        _ => (1e6, "µs"),
    };
    format!("{} {unit}", format_number(value * scale))
}

/// Formats a rate with an SI prefix before `unit`, for example `4.09 TB/s` or `60.2 TFLOP/s`.
pub fn format_rate(value: f64, unit: &str) -> String {
    let (scale, prefix) = match value {
        _ if value >= 0.9995e15 => (1e15, "P"),
        _ if value >= 0.9995e12 => (1e12, "T"),
        _ if value >= 0.9995e9 => (1e9, "G"),
        _ if value >= 0.9995e6 => (1e6, "M"),
        _ if value >= 0.9995e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{} {prefix}{unit}", format_number(value / scale))
}

/// Formats a fraction as a percentage, for example 0.134 as `13%`, and `None` as `-`.
pub fn format_percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(
        || "-".to_owned(),
        |fraction| match 100.0 * fraction {
            0.0 => "0%".to_owned(),
            percent if percent < 0.005 => format!("{percent:.0e}%"),
            percent if percent < 0.995 => format!("{percent:.2}%"),
            percent => format!("{percent:.0}%"),
        },
    )
}

/// Formats a count with thousands separators, for example `65,536`.
pub fn format_thousands(value: usize) -> String {
    let text = value.to_string();
    let thousands: Vec<&str> =
        text.as_bytes().rchunks(3).rev().map(|digits| str::from_utf8(digits).unwrap_or_default()).collect();
    thousands.join(",")
}

/// Wraps `text` into lines of at most `width` characters. All lines but the first are indented by
/// two spaces. A longer word gets a line to itself.
pub fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("lines starts with one element");
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

/// Shortens `text` to at most `width` characters. A shortened text ends with `…`.
pub fn truncate_text(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_have_three_digits() {
        let numbers = [0.0, 1.0, 1.5, 9.999, 12.34, 99.99, 437.2, 12_150.0, 3e7, 0.5, 0.0123, 4e-5];
        assert_eq!(
            numbers.map(format_number),
            ["0", "1", "1.50", "10", "12.3", "100", "437", "12150", "3.0e7", "0.500", "0.0123", "4.0e-5"]
        );
        for quarter_power in -40..60 {
            let value = 10f64.powf(f64::from(quarter_power) / 4.0);
            assert!(format_number(value).len() <= 7, "{value}: {}", format_number(value));
        }
        assert_eq!(format_number(f64::NAN), "-");
    }

    #[test]
    fn times_rates_counts_and_percentages_have_units() {
        assert_eq!(
            [9.81e-3, 4.372e-4, 1.2, 2e-8].map(format_seconds),
            ["9.81 ms", "437 µs", "1.20 s", "0.0200 µs"]
        );
        assert_eq!(format_rate(4.09e12, "B/s"), "4.09 TB/s");
        assert_eq!(format_rate(159_397.0, "B/s"), "159 kB/s");
        assert_eq!(format_rate(0.0, "B/s"), "0 B/s");
        assert_eq!(format_rate(66.9e12, "FLOP/s"), "66.9 TFLOP/s");
        assert_eq!([0, 999, 1000, 1_048_576].map(format_thousands), ["0", "999", "1,000", "1,048,576"]);
        let fractions = [Some(0.134), Some(0.0021), Some(2.4e-5), Some(0.0), None];
        assert_eq!(fractions.map(format_percent), ["13%", "0.21%", "2e-3%", "0%", "-"]);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let lines = wrap_text("one two three four", 9);
        assert_eq!(lines, ["one two", "  three", "  four"]);
    }

    #[test]
    fn long_text_is_truncated_with_an_ellipsis() {
        assert_eq!(truncate_text("seven c", 7), "seven c");
        assert_eq!(truncate_text("seven characters", 7), "seven…");
    }
}
