//! Cleans text of others before it is printed: names of files, and words in them. The engine cleans
//! what it records in the same way.

pub use orrery_engine::clean::{clean_line, clean_text, is_unsafe};

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON of serde escapes C0 only. The escapes of the rest are those of JSON.
    #[test]
    fn clean_json_has_the_same_value() {
        let value = serde_json::json!({ "na\u{202e}me": "\u{1b}[31m \u{9b}31m \u{7f}\n", "n": [1, 2] });
        let text = format!("{value:#}");
        let clean = clean_text(&text);
        assert!(!clean.contains(|c: char| is_unsafe(c) && c != '\n'), "{clean}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&clean).unwrap(), value);
    }
}
