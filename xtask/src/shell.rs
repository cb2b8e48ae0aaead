//! Command lines that are run, and printed in a form that can be pasted into a shell.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Error message, and the command that reproduces the error if there is one.
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

/// A program with its arguments, environment variables and working directory.
#[derive(Clone, Debug)]
pub struct CommandLine {
    words: Vec<String>,
    env: Vec<(&'static str, String)>,
    folder: Option<PathBuf>,
}

impl CommandLine {
    /// Splits `text` at white space into the program and its arguments. Add arguments that may
    /// contain white space, such as paths, with [`CommandLine::arg`].
    pub fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(str::to_owned).collect(), env: Vec::new(), folder: None }
    }

    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
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

    fn to_command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Prints the command line and runs it. The command inherits standard output and error.
    pub fn run(&self) -> Result<(), Failure> {
        println!("$ {self}");
        let message = match self.to_command().status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("{}: {status}", self.words[0]),
            Err(error) => format!("{}: {error}", self.words[0]),
        };
        Err(Failure { message, rerun: Some(self.to_string()) })
    }

    /// Runs the command and prints the command line and its output when it has ended.
    pub fn run_and_print_later(&self) -> Result<(), Failure> {
        let output = self.to_command().stdin(Stdio::null()).output();
        println!("$ {self}");
        let message = match output {
            Ok(output) => {
                print!("{}", String::from_utf8_lossy(&output.stdout));
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
                if output.status.success() {
                    return Ok(());
                }
                format!("{}: {}", self.words[0], output.status)
            }
            Err(error) => format!("{}: {error}", self.words[0]),
        };
        Err(Failure { message, rerun: Some(self.to_string()) })
    }

    /// Runs the command without output and returns whether it succeeded.
    pub fn succeeds(&self) -> bool {
        let status =
            self.to_command().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// Runs the command and returns its standard output without surrounding white space. Returns
    /// `None` if it fails.
    pub fn output(&self) -> Option<String> {
        let output = self.to_command().stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={} ", quote_word(value))?;
        }
        let words: Vec<String> = self.words.iter().map(|word| quote_word(word)).collect();
        f.write_str(&words.join(" "))
    }
}

/// Quotes `word` so that a shell reads it as a single word.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_printed_in_shell_syntax() {
        let line =
            CommandLine::new("cargo doc  --no-deps").with_env("RUSTDOCFLAGS", "-D warnings").arg("it's");
        assert_eq!(line.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");

        let print = CommandLine::new("printenv RUSTDOCFLAGS").with_env("RUSTDOCFLAGS", "-D 'w'");
        assert_eq!(CommandLine::new("sh -c").arg(print.to_string()).output().as_deref(), Some("-D 'w'"));
    }

    #[test]
    fn failure_contains_the_command_to_run_again() {
        let failure = CommandLine::new("sh -c").arg("exit 3").run().unwrap_err();
        assert_eq!(failure.message, "sh: exit status: 3");
        assert_eq!(failure.rerun.as_deref(), Some("sh -c 'exit 3'"));
        assert_eq!(CommandLine::new("sh -c").arg("exit 3").run_and_print_later().unwrap_err(), failure);

        let failure = CommandLine::new("no-such-program-here").run().unwrap_err();
        assert!(failure.message.starts_with("no-such-program-here: No such file"), "{}", failure.message);
    }
}
