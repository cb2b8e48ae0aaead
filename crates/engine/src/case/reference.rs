//! The page docs/reference/case.md: every key of a case, generated from the declarations.

use orrery_model::Dimension;
use orrery_model::units::NAMED_UNITS;

use super::declare::{DefaultValue, KeySpec, Kind, MAX_INTEGER, Range, SectionSpec, When, Word};
use super::document::{Location, setting_value};
use super::sections::top;

const INTRODUCTION: &str = r#"# Case files

<!-- Generated from crates/engine/src/case/sections by `cargo xtask reference`. Do not edit. -->

A case file is a [TOML](https://toml.io) file. It describes one simulation: the initial state, the physics, the time steps and the
output. The physics is selected by the sections that are present: `[bodies]`, with or without `[gravity]`, is about bodies that attract one
another, `[heat]` is heat conduction in a plate, `[wave]` is acoustic waves, and `[lennard_jones]` is a fluid of particles. `orrery init PRESET`
writes a case to start from, `orrery run CASE.toml --dry-run` prints a case with all defaults, and
`--set KEY=VALUE` replaces a key, such as `--set time.end="2 Gyr"`. An entry of a list has an index from 1, such as
`--set 'wave.source[2].x=100'` or `--set 'heat.west.profile[1]=20'`, or its `name`, such as `--set lennard_jones.species.Ar.epsilon="120 K"`.
A key that is not listed here is an error.

`orrery schema` prints a JSON Schema of case files. After `orrery schema > case.schema.json`, a case file with the first line
`#:schema ./case.schema.json` is checked and its keys are completed by editors with [Taplo](https://taplo.tamasfe.dev), for example VS Code
with the extension Even Better TOML.

| type | value |
|---|---|
| string | text, such as `"a star cluster"` |
| path | text, the path of a file |
| boolean | `true` or `false` |
| word | one of the listed strings |
| integer | whole number, such as `1500`, `1_500` or `1.5e3` |
| number | number without a unit, such as `0.5` |
| quantity | number in the units of the case, or a string with one of the [units](#units) of its dimension, such as `"10 Myr"` |
| interval | simulated time, as a quantity, or steps, such as `"100 steps"` |

Numbers must be finite. The column "unit" has the dimension of a quantity.
"#;

const UNITS_INTRODUCTION: &str = r#"
## Units

A plain number is in the units of the case (`units`). A string such as `"8 kpc"`, `"8kpc"` or `"2.4e11 Msun"` has its own unit, which
is converted. Other dimensions have products of these units: `"220 km/s"`, `"401 W/(m K)"`, `"1.17e-4 m^2/s"` or `"1.17e-4 m²/s"`, `"0.6 1/s"`
or `"0.6 s^-1"`. A `/` divides by the one factor after it, so `W/m/K` is `W/(m K)`, and `W/m K`, which has two readings, is refused. With
`units = "nbody"`, `"none"` and `"lj"`, which have no physical scale, only angles can have units. An energy can be given as a temperature,
which is multiplied by Boltzmann's constant.

| dimension | unit in SI |
|---|---|
DIMENSIONS

| unit | dimension | value in SI |
|---|---|---|
"#;

/// Returns the page in Markdown.
pub fn reference_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    write_section(&mut page, "", "Top level", top::SPEC, "");
    let dimensions: Vec<String> = Dimension::ALL
        .iter()
        .filter(|dimension| !dimension.has_plain_units() && **dimension != Dimension::Power)
        .map(|dimension| format!("| {dimension} | `{}` |", dimension.si_unit()))
        .collect();
    page.push_str(&UNITS_INTRODUCTION.replace("DIMENSIONS", &dimensions.join("\n")));
    for unit in NAMED_UNITS {
        // Names that look like the one before, with another character for µ or Å, are left out.
        let is_lookalike = |name: &&&str| name.contains(['\u{3bc}', '\u{212b}']);
        let names = unit.names.iter().filter(|name| !is_lookalike(name));
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let si = unit.dimension.si_unit();
        let value = unit.si_value;
        let value = if (1e-3..1e5).contains(&value) { value.to_string() } else { format!("{value:e}") };
        page.push_str(&format!("| {} | {} | {value} {si} |\n", names.join(", "), unit.dimension));
    }
    page
}

/// Writes the section of a key, its variants and the sections below it.
fn write_section_of(page: &mut String, path: &str, key: &KeySpec) {
    let (spec, title) = match key.kind {
        Kind::Section(spec) => (spec, format!("`[{path}]`")),
        Kind::Sections(spec) => (spec, format!("`[[{path}]]`")),
        _ => return,
    };
    let owners = physics_note(key).map_or(String::new(), |note| format!(" {note}"));
    write_section(page, path, &title, spec, &owners);
}

/// Writes a section, its variants and the sections below it. `path` is empty for the top level.
fn write_section(page: &mut String, path: &str, title: &str, spec: &'static SectionSpec, owners: &str) {
    page.push_str(&format!("\n## {title}\n\n{}{owners}\n", spec.meaning));
    if let Some(section) = spec.defaults_from {
        let parent = path.rsplit_once('.').map_or(String::new(), |(parent, _)| format!("{parent}."));
        page.push_str(&format!("\nMissing keys are as in `[{parent}{section}]`.\n"));
    }
    let keys: Vec<_> = spec.common_keys().collect();
    write_keys(page, &keys, spec.defaults_from);
    let mut sections = sections_of(&keys);
    for variant in (spec.variants)() {
        let condition = match variant.when {
            When::Is(key, word) => format!("{title} with `{key} = \"{word}\"`"),
            When::Has(key) => format!("{title} with `{key}`"),
        };
        let mut meaning = variant.meaning.to_owned();
        meaning[..1].make_ascii_uppercase();
        page.push_str(&format!("\n### {condition}\n\n{}.\n", meaning.trim_end_matches('.')));
        let keys: Vec<_> = variant.keys.iter().copied().flatten().collect();
        match keys.is_empty() {
            true => page.push_str("\nThere are no further keys.\n"),
            false => write_keys(page, &keys, None),
        }
        sections.extend(sections_of(&keys));
    }
    for key in sections {
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        write_section_of(page, &below, key);
    }
}

/// Returns the keys that are sections.
fn sections_of(keys: &[&'static KeySpec]) -> Vec<&'static KeySpec> {
    let is_section = |key: &&&KeySpec| matches!(key.kind, Kind::Section(_) | Kind::Sections(_));
    keys.iter().filter(is_section).copied().collect()
}

/// Returns the sentence that names the physics of a key, if it is not for all.
pub(super) fn physics_note(key: &KeySpec) -> Option<String> {
    let owners: Vec<&str> = key.only_for.iter().map(|physics| physics.as_str()).collect();
    (!owners.is_empty()).then(|| format!("Only for {}.", owners.join(" and ")))
}

/// Writes a table of keys and the meanings of their words.
fn write_keys(page: &mut String, keys: &[&'static KeySpec], defaults_from: Option<&str>) {
    page.push_str("\n| key | type | unit | range | default | meaning |\n|---|---|---|---|---|---|\n");
    for key in keys {
        let Some(kind) = type_name(key.kind) else { continue };
        let default = match (key.default, defaults_from) {
            (DefaultValue::Required, _) => "required".to_owned(),
            (DefaultValue::Written(_), Some(section)) => format!("as in `{section}`"),
            (DefaultValue::Written(text), None) => {
                format!("`{}`", setting_value(text, &Location::Whole).1)
            }
            (DefaultValue::Derived(text), _) => text.to_owned(),
        };
        let condition = key
            .only_with
            .map_or(String::new(), |(other, word)| format!(" Only with `{other} = \"{word}\"`."));
        let owners = physics_note(key).map_or(String::new(), |note| format!(" {note}"));
        page.push_str(&format!(
            "| `{}` | {kind} | {} | {} | {default} | {}{condition}{owners} |\n",
            key.name,
            unit_name(key.kind),
            range_text(key),
            key.meaning
        ));
    }
    let sections = sections_of(keys);
    if !sections.is_empty() {
        let names: Vec<String> = sections.iter().map(|key| format!("`{}`", key.name)).collect();
        page.push_str(&format!("\nSections: {}.\n", names.join(", ")));
    }
    for key in keys {
        let words = match key.kind {
            Kind::Word(list) | Kind::Point(list) => list.words(),
            Kind::Number { or: Some(word), .. } | Kind::Quantity { or: Some(word), .. } => vec![word],
            _ => continue,
        };
        let owners = match key.only_for {
            [] => String::new(),
            only => {
                format!(" ({})", only.iter().map(|physics| physics.as_str()).collect::<Vec<_>>().join(", "))
            }
        };
        page.push_str(&format!("\n`{}`{owners}:\n\n", key.name));
        for Word { word, meaning } in words {
            page.push_str(&format!("- `\"{word}\"`: {meaning}\n"));
        }
    }
}

/// Returns the name of the type. `None` for a section.
fn type_name(kind: Kind) -> Option<String> {
    let or_word = |or: Option<Word>| or.map_or(String::new(), |or| format!(" or `\"{}\"`", or.word));
    Some(match kind {
        Kind::Text => "string".to_owned(),
        Kind::File => "path".to_owned(),
        Kind::Boolean => "boolean".to_owned(),
        Kind::Word(_) => "word".to_owned(),
        Kind::Integer { .. } => "integer".to_owned(),
        Kind::PixelSize { .. } => "integer or string such as `\"1920x1080\"`".to_owned(),
        Kind::Point(_) => "list of three quantities, or word".to_owned(),
        Kind::Number { or, .. } => format!("number{}", or_word(or)),
        Kind::Quantity { or, .. } => format!("quantity{}", or_word(or)),
        Kind::Interval => "interval".to_owned(),
        Kind::CheckpointInterval => "interval or wall-clock time".to_owned(),
        Kind::Quantities { least, .. } => format!("list of at least {least} quantities"),
        Kind::Section(_) | Kind::Sections(_) => return None,
    })
}

fn unit_name(kind: Kind) -> String {
    let names: Vec<String> = kind.dimensions().iter().map(Dimension::to_string).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" or ") }
}

fn range_text(key: &KeySpec) -> String {
    let code = |text: String| format!("`{text}`");
    match key.kind {
        Kind::Number { range: Range::Any, .. } | Kind::Quantity { range: Range::Any, .. } => "-".to_owned(),
        Kind::Number { range, .. } | Kind::Quantity { range, .. } => code(range.condition_on(key.name)),
        Kind::Interval | Kind::CheckpointInterval => code(Range::NotNegative.condition_on(key.name)),
        Kind::Integer { least, most: MAX_INTEGER } => code(format!("{} >= {least}", key.name)),
        Kind::Integer { least, most } => code(format!("{least} <= {} <= {most}", key.name)),
        Kind::PixelSize { least, most } => code(format!("{least} <= pixels <= {most}")),
        Kind::Word(list) | Kind::Point(list) => {
            let words: Vec<String> = list.words().iter().map(|word| format!("`\"{}\"`", word.word)).collect();
            words.join(", ")
        }
        Kind::Text
        | Kind::File
        | Kind::Boolean
        | Kind::Quantities { .. }
        | Kind::Section(_)
        | Kind::Sections(_) => "-".to_owned(),
    }
}
