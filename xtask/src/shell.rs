//! A command line that is run, and shown so that a person can run it again.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What went wrong, and the command to run again where there is one.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub message: String,
    pub rerun: Option<String>,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), rerun: None }
    }
}

/// One command with its arguments and environment.
#[derive(Clone, Debug)]
pub struct Line {
    words: Vec<String>,
    env: Vec<(&'static str, String)>,
    folder: Option<PathBuf>,
}

impl Line {
    /// `text` is split at white space; words that may hold some are added with [`Line::word`].
    pub fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(str::to_owned).collect(), env: Vec::new(), folder: None }
    }

    pub fn word(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_string_lossy().into_owned());
        self
    }

    pub fn with_env(mut self, key: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key, value.as_ref().to_string_lossy().into_owned()));
        self
    }

    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Shows the line, then runs it with its output going where ours goes.
    pub fn run(&self) -> Result<(), Failure> {
        println!("$ {self}");
        let message = match self.command().status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("{}: {status}", self.words[0]),
            Err(error) => format!("{}: {error}", self.words[0]),
        };
        Err(Failure { message, rerun: Some(self.to_string()) })
    }

    /// Whether the command runs and succeeds; nothing is shown.
    pub fn succeeds(&self) -> bool {
        let quiet = self.command().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    }

    /// What the command says on standard output; `None` where it fails.
    pub fn output(&self) -> Option<String> {
        let output = self.command().stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={} ", quoted(value))?;
        }
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        f.write_str(&words.join(" "))
    }
}

/// `word` as a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_a_shell_takes_it() {
        let line = Line::new("cargo doc  --no-deps").with_env("RUSTDOCFLAGS", "-D warnings").word("it's");
        let shown = line.to_string();
        assert_eq!(shown, r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");

        let tell = Line::new("printenv RUSTDOCFLAGS").with_env("RUSTDOCFLAGS", "-D 'w'");
        assert_eq!(Line::new("sh -c").word(tell.to_string()).output().as_deref(), Some("-D 'w'"));
    }

    #[test]
    fn a_failure_says_how_to_run_it_again() {
        let failure = Line::new("sh -c").word("exit 3").run().unwrap_err();
        assert_eq!(failure.message, "sh: exit status: 3");
        assert_eq!(failure.rerun.as_deref(), Some("sh -c 'exit 3'"));

        let failure = Line::new("no-such-program-here").run().unwrap_err();
        assert!(failure.message.starts_with("no-such-program-here: No such file"), "{}", failure.message);
    }
}
