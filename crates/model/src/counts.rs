//! Counts and numbers in messages.

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
