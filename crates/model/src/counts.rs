//! Counts and numbers in messages, and counts that users write.

/// Returns `count` with the noun in the singular or plural.
///
/// ```
/// assert_eq!(orrery_model::format_count(1, "body", "bodies"), "1 body");
/// assert_eq!(orrery_model::format_count(0, "body", "bodies"), "0 bodies");
/// ```
pub fn format_count(count: u64, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// Returns the number with all its digits, in scientific notation if it is very small or very
/// large.
///
/// ```
/// assert_eq!(orrery_model::short_number(0.25), "0.25");
/// assert_eq!(orrery_model::short_number(1e300), "1e300");
/// ```
pub fn short_number(value: f64) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-4..1e15).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

/// Returns the number rounded to four significant digits, for messages.
///
/// ```
/// assert_eq!(orrery_model::four_digits(1.0 / 3.0), "0.3333");
/// assert_eq!(orrery_model::four_digits(123456.0), "123500");
/// ```
pub fn four_digits(value: f64) -> String {
    short_number(format!("{value:.3e}").parse().unwrap_or(value))
}

/// Returns the exact value of decimal digits with optional underscores, fraction and exponent, or
/// `None` if it is not a whole number below 2^64. Seeds use all 64 bits, which f64 cannot hold.
///
/// ```
/// assert_eq!(orrery_model::whole_number("1.5e3"), Some(1500));
/// assert_eq!(orrery_model::whole_number("1_000"), Some(1000));
/// assert_eq!(orrery_model::whole_number("1.5"), None);
/// ```
pub fn whole_number(text: &str) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = plain_digits(whole)?;
    let fraction = if fraction.is_empty() { String::new() } else { plain_digits(fraction)? };
    digits.push_str(&fraction);
    let zeros = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    if zeros >= 0 {
        return digits.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(zeros.unsigned_abs())?);
    }
    let cut = digits.len().checked_sub(zeros.unsigned_abs() as usize)?;
    let (kept, dropped) = digits.split_at(cut);
    if dropped.bytes().all(|digit| digit == b'0') { kept.parse().ok() } else { None }
}

/// Returns the digits without underscores. An underscore must be between two digits, as in TOML.
fn plain_digits(text: &str) -> Option<String> {
    let groups: Vec<&str> = text.split('_').collect();
    let is_digits = |group: &&str| !group.is_empty() && group.bytes().all(|c| c.is_ascii_digit());
    groups.iter().all(is_digits).then(|| groups.concat())
}
