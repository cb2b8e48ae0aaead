//! Results as JSON, in a file or on standard output.

use std::path::Path;

use orrery_formats::write_file_atomically;
use serde_json::Value;

use crate::args::JsonArgs;
use crate::failure::{Failure, check_new_output};
use crate::print;

/// Place for the JSON of a command.
#[derive(Clone, Copy, Debug)]
pub enum JsonTarget<'a> {
    /// No JSON was requested.
    None,
    /// A file that is written at the end of the command.
    File(&'a Path),
    /// Standard output, where nothing else is printed.
    StandardOutput,
}

impl<'a> JsonTarget<'a> {
    /// Checks the target before any work is done. Without `force`, an existing file is refused. For
    /// standard output, the other text of the command is suppressed from now on.
    pub fn prepare(path: Option<&'a Path>, force: bool) -> Result<Self, Failure> {
        match path {
            None => Ok(Self::None),
            Some(path) if path == Path::new("-") => {
                print::suppress_text();
                Ok(Self::StandardOutput)
            }
            Some(path) => check_new_output(path, force).map(|()| Self::File(path)),
        }
    }

    /// Writes the results. `value` is called only if JSON was requested.
    pub fn write(self, value: impl FnOnce() -> Value) -> Result<(), Failure> {
        match self {
            Self::None => Ok(()),
            Self::File(path) => {
                write_file_atomically(path, format!("{:#}\n", value()).as_bytes()).map_err(Failure::Output)
            }
            Self::StandardOutput => {
                print::write_stdout_result(format_args!("{:#}", value()));
                Ok(())
            }
        }
    }
}

impl JsonArgs {
    /// Checks the target of the flags, see [`JsonTarget::prepare`].
    pub fn prepare(&self) -> Result<JsonTarget<'_>, Failure> {
        JsonTarget::prepare(self.json.as_deref(), self.force)
    }
}
