//! Presets: case files in this crate, which `orrery init` writes.

use std::sync::LazyLock;

use super::document::{self, Value};

/// A case that is part of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// The `description` of its case.
    pub description: String,
    /// Text of the case file.
    pub text: &'static str,
}

/// Returns all presets. The first is the one to try first.
pub fn presets() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        let texts = [
            ("galaxy-collision", include_str!("../../presets/galaxy-collision.toml")),
            ("plummer", include_str!("../../presets/plummer.toml")),
            ("cold-collapse", include_str!("../../presets/cold-collapse.toml")),
            ("solar-system", include_str!("../../presets/solar-system.toml")),
            ("figure-eight", include_str!("../../presets/figure-eight.toml")),
            ("pythagorean", include_str!("../../presets/pythagorean.toml")),
            ("hot-plate", include_str!("../../presets/hot-plate.toml")),
            ("sine-decay", include_str!("../../presets/sine-decay.toml")),
            ("chip", include_str!("../../presets/chip.toml")),
            ("two-layer-shot", include_str!("../../presets/two-layer-shot.toml")),
            ("salt-dome", include_str!("../../presets/salt-dome.toml")),
            ("wave-3d", include_str!("../../presets/wave-3d.toml")),
            ("ripple-tank", include_str!("../../presets/ripple-tank.toml")),
            ("lj-melt", include_str!("../../presets/lj-melt.toml")),
            ("argon", include_str!("../../presets/argon.toml")),
            ("droplet", include_str!("../../presets/droplet.toml")),
            ("lj-2d", include_str!("../../presets/lj-2d.toml")),
            ("kob-andersen", include_str!("../../presets/kob-andersen.toml")),
        ];
        texts
            .into_iter()
            .map(|(name, text)| Preset { name, description: preset_description(text), text })
            .collect()
    });
    &PRESETS
}

/// Returns the preset with this name.
pub fn find_preset(name: &str) -> Option<&'static Preset> {
    presets().iter().find(|preset| preset.name == name)
}

fn preset_description(text: &str) -> String {
    let entries = document::parse_document("preset", text.as_bytes(), &[]).unwrap_or_default();
    let description = entries.into_iter().find(|entry| entry.key == "description");
    match description.map(|entry| entry.value) {
        Some(Value::String(line)) => line,
        _ => String::new(),
    }
}
