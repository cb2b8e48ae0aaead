//! `presets`, `init` and `schema`.

use std::path::PathBuf;

use orrery_engine::case::{self, find_preset, presets};
use orrery_formats::write_file_atomically;

use crate::args::InitArgs;
use crate::failure::{Failure, check_new_output};
use crate::print::{print_line, print_lines};

/// Prints the names and descriptions of the presets.
pub fn list_presets() {
    let width = presets().iter().map(|preset| preset.name.len()).max().unwrap_or(0);
    for preset in presets() {
        print_line!("{:<width$}  {}", preset.name, preset.description);
    }
}

/// Prints the JSON Schema of case files.
pub fn print_schema() {
    print_lines(&format!("{:#}", case::json_schema()));
}

/// Writes the case file of a preset.
pub fn write_preset(arguments: &InitArgs) -> Result<(), Failure> {
    let name = &arguments.preset;
    let Some(found) = find_preset(name) else {
        let nearest = case::nearest_word(name, presets().iter().map(|preset| preset.name));
        let hint = nearest.map_or_else(
            || "orrery presets lists all presets".to_owned(),
            |nearest| format!("did you mean '{nearest}'?"),
        );
        return Err(Failure::Usage(format!("no preset is called '{name}'; {hint}")));
    };
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.toml")));
    check_new_output(&path, arguments.force)?;
    write_file_atomically(&path, found.text.as_bytes()).map_err(Failure::Output)?;
    print_line!("wrote {}; run it with: orrery run {0}", path.display());
    Ok(())
}
