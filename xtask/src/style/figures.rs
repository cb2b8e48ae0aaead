//! Style figures: how comments read, how long functions are, how they are named.

use std::fmt;

use super::source::{self, Language};

/// Figures of all sources of one language.
pub struct Figures {
    language: Language,
    comment_words: usize,
    sentences: usize,
    what_sentences: usize,
    vague_sentences: usize,
    semicolons: usize,
    examples: usize,
    long_comment_lines: usize,
    /// Lengths of functions outside tests, ascending.
    function_lines: Vec<usize>,
    one_word_names: usize,
}

impl Figures {
    /// Measures files given as name and text. Functions in files of tests are not counted.
    pub fn of<'a>(language: Language, files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut figures = Self {
            language,
            comment_words: 0,
            sentences: 0,
            what_sentences: 0,
            vague_sentences: 0,
            semicolons: 0,
            examples: 0,
            long_comment_lines: 0,
            function_lines: Vec::new(),
            one_word_names: 0,
        };
        for (name, text) in files {
            figures.add_comments(text);
            if !is_test(name) {
                figures.add_functions(text);
            }
        }
        figures.function_lines.sort_unstable();
        figures
    }

    fn add_comments(&mut self, text: &str) {
        let is_long = |line: &&str| line.trim_start().starts_with("//") && line.chars().count() > 110;
        self.long_comment_lines += text.lines().filter(is_long).count();
        for comment in source::comments(text) {
            let words = without_code(&comment.text);
            self.comment_words += words.split_whitespace().count();
            self.semicolons += words.matches(';').count();
            let lower = words.to_lowercase();
            self.examples +=
                ["for example", "e.g.", "such as"].iter().map(|e| lower.matches(e).count()).sum::<usize>();
            for sentence in words.split(". ").map(str::trim).filter(|sentence| !sentence.is_empty()) {
                let first = sentence.split_whitespace().next().unwrap_or_default();
                self.sentences += 1;
                self.what_sentences += usize::from(first == "What");
                self.vague_sentences += usize::from(["What", "Whoever", "Whether"].contains(&first));
            }
        }
    }

    fn add_functions(&mut self, text: &str) {
        for function in source::functions(self.language, text) {
            self.function_lines.push(function.lines);
            self.one_word_names += usize::from(!function.name.trim_matches('_').contains('_'));
        }
    }

    fn percentile(&self, share: f64) -> usize {
        let last = self.function_lines.len().saturating_sub(1);
        self.function_lines.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
    }
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.contains("/benches/") || name.ends_with("tests.rs")
}

/// A comment without what stands between backquotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let per_thousand = |count: usize| 1000.0 * count as f64 / self.comment_words.max(1) as f64;
        let language = match self.language {
            Language::Rust => "Rust",
            Language::Kernel => "kernels",
        };
        writeln!(
            f,
            "{language}: {} comment words, {} functions",
            self.comment_words,
            self.function_lines.len()
        )?;
        let mut row = |name: &str, value: String| writeln!(f, "  {name:<58} {value:>10}");
        row("sentences that start with What", format!("{:.2}%", share(self.what_sentences, self.sentences)))?;
        row("  ... or Whoever or Whether", format!("{:.2}%", share(self.vague_sentences, self.sentences)))?;
        row("semicolons per 1,000 comment words", format!("{:.1}", per_thousand(self.semicolons)))?;
        row(
            "for example, e.g., such as, per 1,000 comment words",
            format!("{:.1}", per_thousand(self.examples)),
        )?;
        row("comment lines longer than 110 columns", self.long_comment_lines.to_string())?;
        let (median, high) = (self.percentile(0.5), self.percentile(0.95));
        row("function length in lines, median / 95%", format!("{median} / {high}"))?;
        row(
            "one-word function names",
            format!("{:.0}%", share(self.one_word_names, self.function_lines.len())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let text =
            "/// What it is; why `a; b`. Whether so.\nfn one() {}\n\n// Such as this.\nfn two_words() {\n}\n";
        let figures = Figures::of(Language::Rust, [("a.rs", text)].into_iter());
        assert_eq!((figures.sentences, figures.what_sentences, figures.vague_sentences), (3, 1, 2));
        assert_eq!((figures.semicolons, figures.examples, figures.comment_words), (1, 1, 10));
        assert_eq!((figures.function_lines.clone(), figures.one_word_names), (vec![1, 2], 1));
        let tests = Figures::of(Language::Rust, [("crates/a/tests/b.rs", text)].into_iter());
        assert!(tests.function_lines.is_empty() && tests.sentences == 3);
    }
}
