//! The cases inside the program: files beside this crate's source, as `orrery init` writes them.

use std::sync::LazyLock;

use super::document::{self, Value};

/// A case that comes with the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its description, as its text gives it.
    pub description: String,
    /// The case file.
    pub text: &'static str,
}

/// All presets, the first to try first.
pub fn presets() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        let texts = [
            ("galaxy-collision", include_str!("../../presets/galaxy-collision.toml")),
            ("plummer", include_str!("../../presets/plummer.toml")),
            ("cold-collapse", include_str!("../../presets/cold-collapse.toml")),
            ("solar-system", include_str!("../../presets/solar-system.toml")),
            ("figure-eight", include_str!("../../presets/figure-eight.toml")),
            ("pythagorean", include_str!("../../presets/pythagorean.toml")),
        ];
        texts.into_iter().map(|(name, text)| Preset { name, description: description(text), text }).collect()
    });
    &PRESETS
}

/// The preset called `name`.
pub fn preset(name: &str) -> Option<&'static Preset> {
    presets().iter().find(|preset| preset.name == name)
}

fn description(text: &str) -> String {
    let entries = document::parse("preset", text.as_bytes(), &[]).unwrap_or_default();
    let description = entries.into_iter().find(|entry| entry.key == "description");
    match description.map(|entry| entry.value) {
        Some(Value::String(line)) => line,
        _ => String::new(),
    }
}
