//! `presets` and `init`.

use std::path::PathBuf;

use orrery_engine::case::{self, preset, presets};
use orrery_io::write_file_atomically;

use crate::failure::{Failure, check_new_output};
use crate::say::say;

/// Prints the presets.
pub fn list() {
    let width = presets().iter().map(|preset| preset.name.len()).max().unwrap_or(0);
    for preset in presets() {
        say!("{:<width$}  {}", preset.name, preset.description);
    }
}

/// Writes a preset's text to a file.
pub fn init(name: &str, output: Option<PathBuf>, force: bool) -> Result<(), Failure> {
    let Some(found) = preset(name) else {
        let nearest = case::nearest(name, presets().iter().map(|preset| preset.name));
        let hint = nearest
            .map_or_else(|| "see orrery presets".to_owned(), |nearest| format!("did you mean '{nearest}'?"));
        return Err(Failure::Usage(format!("no preset is called '{name}'; {hint}")));
    };
    let path = output.unwrap_or_else(|| PathBuf::from(format!("{name}.toml")));
    check_new_output(&path, force)?;
    write_file_atomically(&path, found.text.as_bytes()).map_err(Failure::Output)?;
    say!("wrote {}; run it with: orrery run {0}", path.display());
    Ok(())
}
