//! Cleans text of others before it is printed or recorded as a line: names of files, and words in
//! them.
//!
//! A terminal executes control characters, for example to change the title of its window, to hide
//! lines or to type text. Bidirectional controls let a terminal show a name in another order. Both
//! are replaced by their escapes `\\u001b`, which JSON, TOML and Rust read as the same character.

use std::borrow::Cow;

/// Replaces control characters and bidirectional controls by their escapes. Line ends and tabs are
/// kept.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    replace(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
}

/// Does the same as [`clean_text`], and replaces line ends as well: the result is one line.
pub fn clean_line(text: &str) -> Cow<'_, str> {
    replace(text, |c| is_unsafe(c) && c != '\t')
}

/// Returns true if a terminal does more with this character than to show it.
pub fn is_unsafe(c: char) -> bool {
    // C0, delete and C1.
    c.is_control()
        || matches!(
            c,
            // Arabic letter mark, marks, embeddings, overrides and isolates of the bidirectional
            // algorithm.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separator, and the byte order mark, which is invisible.
            | '\u{2028}' | '\u{2029}' | '\u{feff}'
        )
}

fn replace(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_replaced(c) => clean.push(c),
            '\n' => clean.push_str("\\n"),
            '\r' => clean.push_str("\\r"),
            c => clean.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_by_their_escapes() {
        for (text, expected) in [
            ("red \u{1b}[31m, title \u{1b}]0;x\u{7}", "red \\u001b[31m, title \\u001b]0;x\\u0007"),
            ("C1 \u{9b}31m, delete \u{7f}, nul \0", "C1 \\u009b31m, delete \\u007f, nul \\u0000"),
            ("a\u{202e}b\u{2066}c\u{200f}d\u{61c}e", "a\\u202eb\\u2066c\\u200fd\\u061ce"),
            ("a\u{2028}b\u{feff}", "a\\u2028b\\ufeff"),
            ("back\u{8}space\rstart", "back\\u0008space\\rstart"),
            ("10 µm, Å, 銀河, שלום, é, 🪐, \t|", "10 µm, Å, 銀河, שלום, é, 🪐, \t|"),
        ] {
            assert_eq!(clean_text(text), expected);
            assert_eq!(clean_line(text), expected);
        }
    }

    #[test]
    fn only_a_line_loses_its_line_ends() {
        assert_eq!(clean_text("two\nlines\u{1b}"), "two\nlines\\u001b");
        assert_eq!(clean_line("two\nlines\u{1b}"), "two\\nlines\\u001b");
    }
}
