//! Comments and functions of a source file, found by their first characters and their braces.

/// A language with comments that start with two slashes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Language {
    Rust,
    /// The kernel dialect: `.cu` and its preludes.
    Kernel,
}

impl Language {
    pub fn of(name: &str) -> Option<Self> {
        if name.ends_with(".rs") {
            Some(Self::Rust)
        } else if name.ends_with(".cu") || name.ends_with(".h") {
            Some(Self::Kernel)
        } else {
            None
        }
    }
}

/// Consecutive comment lines of one kind, joined. Code blocks of doc comments are left out.
#[derive(Debug, PartialEq)]
pub struct Comment {
    /// The first line, counted from 1.
    pub line: usize,
    pub text: String,
}

impl Comment {
    /// Whether a line holds nothing but a comment.
    pub fn starts(line: &str) -> bool {
        line.trim_start().starts_with("//")
    }
}

/// All comments that have lines of their own.
pub fn comments(text: &str) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let mut open: Option<(&str, bool)> = None; // the marker of the comment above, and whether it is in a code block
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if !Comment::starts(line) {
            open = None;
            continue;
        }
        let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker)).unwrap_or("//");
        let words = line[marker.len()..].trim();
        let is_fence = words.starts_with("```");
        match &mut open {
            Some((above, in_code)) if *above == marker => {
                if is_fence {
                    *in_code = !*in_code;
                } else if !*in_code && let Some(comment) = found.last_mut() {
                    comment.text.push(' ');
                    comment.text.push_str(words);
                }
            }
            _ => {
                open = Some((marker, is_fence));
                found.push(Comment { line: number + 1, text: if is_fence { "" } else { words }.to_owned() });
            }
        }
    }
    found
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// From the signature's first line to the closing brace.
    pub lines: usize,
}

/// The functions of a file outside its test module. A function ends at the first line that closes its
/// braces at the indentation of its signature, which holds for formatted code.
pub fn functions(language: Language, text: &str) -> Vec<Function> {
    let text = match language {
        Language::Rust => text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text),
        Language::Kernel => text,
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let name = match language {
            Language::Rust => rust_function_name(line),
            Language::Kernel => kernel_function_name(&lines[start..]),
        };
        let Some(name) = name else { continue };
        let from_here = &lines[start..];
        // A declaration ends with a semicolon before any brace.
        let signature = from_here.iter().take_while(|line| !line.contains('{'));
        if signature.into_iter().any(|line| line.trim_end().ends_with(';')) {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        let is_one_line = line.contains('{') && line.trim_end().ends_with('}');
        let end = if is_one_line { Some(0) } else { from_here.iter().position(|line| **line == closing) };
        found.extend(end.map(|end| Function { name, lines: end + 1 }));
    }
    found
}

fn rust_function_name(line: &str) -> Option<String> {
    let mut words = line.trim_start();
    const BEFORE: [&str; 8] =
        ["pub ", "pub(crate) ", "pub(super) ", "const ", "unsafe ", "async ", "extern \"C\" ", "default "];
    while let Some(rest) = BEFORE.iter().find_map(|word| words.strip_prefix(word)) {
        words = rest;
    }
    identifier(words.strip_prefix("fn ")?)
}

fn kernel_function_name(lines: &[&str]) -> Option<String> {
    let line = lines.first()?;
    if line.starts_with("KERNEL") {
        // The name may follow on the next line: `KERNEL(BLOCK_SIZE)` and then `name(arguments...`.
        let rest = line.split_once(')').map_or("", |(_, rest)| rest.trim());
        return identifier(if rest.is_empty() { lines.get(1)?.trim() } else { rest });
    }
    let signature = line.strip_prefix("FUNCTION ")?;
    let before = signature.split('(').next()?;
    identifier(before.rsplit([' ', '*']).next()?)
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_lines_are_joined_and_code_blocks_left_out() {
        let text = "//! One\n//! two.\n\n/// Three;\n/// ```\n/// let x = 1;\n/// ```\n/// four.\nfn f() {} // not on its line\n";
        let texts: Vec<_> = comments(text).into_iter().map(|c| (c.line, c.text)).collect();
        assert_eq!(texts, [(1, "One two.".to_owned()), (4, "Three; four.".to_owned())]);
    }

    #[test]
    fn functions_have_their_length_and_tests_are_left_out() {
        let text = "pub fn a(\n    x: u32,\n) -> u32 {\n    x\n}\n\nimpl T {\n    const fn b_c() {}\n    fn declared(&self);\n}\n#[cfg(test)]\nmod tests {\n    fn d() {}\n}\n";
        let found: Vec<_> = functions(Language::Rust, text).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("a".to_owned(), 5), ("b_c".to_owned(), 1)]);
    }

    #[test]
    fn kernels_may_have_their_name_on_the_next_line() {
        let text = "KERNEL(BLOCK_SIZE)\nfill(GLOBAL int* x)\n{\n    x[0] = 1;\n}\nFUNCTION float3* add(float3 a)\n{\n    return a;\n}\n";
        let found: Vec<_> =
            functions(Language::Kernel, text).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("fill".to_owned(), 5), ("add".to_owned(), 4)]);
    }
}
