//! Logs of OpenCL compilers.

/// Prefix of NVIDIA's messages: `<kernel>:142:12: error`. Its compiler ignores the file and line of
/// `#line` directives and counts the lines of the whole text.
const WHOLE_TEXT: &str = "<kernel>:";

/// Replaces lines of the whole text by file and line, for example `<kernel>:142` by `wrong.cu:4`.
pub(super) fn with_file_names(log: &str, text: &str) -> String {
    let mut named = String::with_capacity(log.len());
    let mut rest = log;
    while let Some(start) = rest.find(WHOLE_TEXT) {
        let after = &rest[start + WHOLE_TEXT.len()..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        named.push_str(&rest[..start]);
        match after[..digits].parse().ok().and_then(|line| file_and_line(text, line)) {
            Some((file, line)) => named.push_str(&format!("{file}:{line}")),
            None => named.push_str(&rest[start..start + WHOLE_TEXT.len() + digits]),
        }
        rest = &after[digits..];
    }
    named + rest
}

/// Returns the file and the line within it of a line of the whole text, counted from 1.
fn file_and_line(text: &str, line: usize) -> Option<(&str, usize)> {
    let mut found = None;
    for (index, content) in text.lines().enumerate().take(line.checked_sub(1)?) {
        if let Some(directive) = content.strip_prefix("#line ") {
            let (first, file) = directive.split_once(' ')?;
            found = Some((file.trim_matches('"'), first.parse::<usize>().ok()?, index));
        }
    }
    let (file, first, directive) = found?;
    Some((file, first + line - directive - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_whole_text_become_lines_of_files() {
        let text = "// prelude\n#define A 1\n#line 1 \"a.cu\"\nfirst\nsecond\n#line 1 \"b.cu\"\nfirst\n";
        let log = "<kernel>:5:12: error: x\n<kernel>:7: y\n<kernel>:2:1: z\n<kernel>: w";
        let expected = "a.cu:2:12: error: x\nb.cu:1: y\n<kernel>:2:1: z\n<kernel>: w";
        assert_eq!(with_file_names(log, text), expected);
        assert_eq!(with_file_names("test.cu:3: error", text), "test.cu:3: error");
    }
}
