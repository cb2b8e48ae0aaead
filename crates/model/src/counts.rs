//! Counts in messages.

/// Returns `count` with the noun in the singular or plural.
///
/// ```
/// assert_eq!(orrery_model::format_count(1, "body", "bodies"), "1 body");
/// assert_eq!(orrery_model::format_count(0, "body", "bodies"), "0 bodies");
/// ```
pub fn format_count(count: u64, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}
