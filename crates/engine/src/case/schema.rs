//! JSON Schema of case files, for editors. It is generated from the declarations of the keys.
//!
//! A case that the program accepts is valid. The reverse does not hold: the schema does not check
//! the range of a quantity with a unit, nor settings against each other. Only keywords that editors
//! for TOML support are used, and no references.

use orrery_model::Dimension;
use orrery_model::units::NAMED_UNITS;
use serde_json::{Map, Value as Json, json};

use super::declare::{DefaultValue, KeySpec, Kind, MAX_INTEGER, Range, SectionSpec, Variant, When, Word};
use super::document::{Location, Value, setting_value};
use super::physics::PhysicsName;
use super::reference::physics_note;
use super::sections::top;
use crate::wall_time;

/// A number at the start of a quantity.
const NUMBER_PATTERN: &str = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?";

/// A number of steps, such as `1500`, `1_500` or `1.5e3`.
const COUNT_PATTERN: &str = r"[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?(?:[eE][+-]?[0-9]+)?";

/// Returns the JSON Schema (draft 2020-12) of case files.
pub fn json_schema() -> Json {
    let mut schema = section_schema(top::SPEC);
    if let Json::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.extend(PhysicsName::ALL.map(physics_condition));
    }
    let head = [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("title", "Orrery case"),
        ("description", "A simulation with Orrery: initial state, physics, time steps and output."),
    ];
    schema.extend(head.map(|(key, text)| (key.to_owned(), json!(text))));
    Json::Object(schema)
}

/// Returns the schema for the cases of one physics.
fn physics_condition(physics: PhysicsName) -> Json {
    let others = PhysicsName::ALL.iter().filter(|name| !name.is_default()).map(|name| name.as_str());
    let is_selected = match physics.is_default() {
        true => {
            let others: Vec<Json> = others.map(|name| json!({ "required": [name] })).collect();
            json!({ "not": { "anyOf": others } })
        }
        false => json!({ "required": [physics.as_str()] }),
    };
    json!({ "if": is_selected, "then": physics_restrictions(top::SPEC, physics) })
}

/// Returns the schema of a section in the cases of one physics, without the part that is the same
/// for all: the keys that it must have, those that it cannot have, and those of another type.
fn physics_restrictions(spec: &'static SectionSpec, physics: PhysicsName) -> Map<String, Json> {
    let declared: Vec<_> = spec.common_keys().collect();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in &declared {
        let Some(own) = spec.keys_of(physics).find(|own| own.name == key.name) else {
            properties.insert(key.name.to_owned(), json!(false));
            continue;
        };
        if matches!(own.default, DefaultValue::Required) && !required.contains(&own.name) {
            required.push(own.name);
        }
        let has_namesake = declared.iter().filter(|other| other.name == key.name).count() > 1;
        let restriction = match own.kind {
            Kind::Section(below) => Json::Object(physics_restrictions(below, physics)),
            _ if has_namesake => key_schema(own, spec.defaults_from),
            _ => json!({}),
        };
        if restriction != json!({}) {
            properties.insert(key.name.to_owned(), restriction);
        }
    }
    let parts = [("properties", json!(properties)), ("required", json!(required))];
    let parts = parts.into_iter().filter(|(_, part)| *part != json!({}) && *part != json!([]));
    let mut schema: Map<String, Json> = parts.map(|(name, part)| (name.to_owned(), part)).collect();
    if !schema.is_empty() {
        schema.insert("type".to_owned(), json!("object"));
    }
    schema
}

fn section_schema(spec: &'static SectionSpec) -> Map<String, Json> {
    let variants = (spec.variants)();
    let common: Vec<_> = spec.common_keys().collect();
    let mut schema = keys_schema(spec, &common);
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("description".to_owned(), json!(spec.meaning));
    if !variants.is_empty() {
        add_variants(&mut schema, spec, &variants);
    }
    schema
}

/// Adds the variants of a section. A condition per variant gives better messages in editors than a
/// list of alternatives, which only says that none of them fits.
fn add_variants(schema: &mut Map<String, Json>, spec: &'static SectionSpec, variants: &[Variant]) {
    let mut selectors: Vec<&str> = variants.iter().map(|variant| variant.when.key()).collect();
    selectors.dedup();
    let required: Vec<Json> = selectors.iter().map(|key| json!({ "required": [key] })).collect();
    schema.insert("oneOf".to_owned(), json!(required));
    let conditions = variants.iter().map(|variant| variant_condition(spec, variant, variants));
    if let Json::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.extend(conditions);
    }
    // The variants restrict these names. They are listed for completion.
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        for key in variants.iter().flat_map(|variant| variant.keys.iter().copied().flatten()) {
            properties.entry(key.name).or_insert_with(|| json!({}));
        }
    }
}

/// Returns the schema for one variant: if it is selected, the section has the common keys without
/// the selectors of the other variants, and the keys of the variant.
fn variant_condition(spec: &'static SectionSpec, variant: &Variant, all: &[Variant]) -> Json {
    let selector = variant.when.key();
    let is_foreign = |key: &str| key != selector && all.iter().any(|other| other.when.key() == key);
    let common = spec.common_keys().filter(|key| !is_foreign(key.name));
    let keys: Vec<_> = common.chain(variant.keys.iter().copied().flatten()).collect();
    let condition = match variant.when {
        When::Is(key, word) => json!({ "properties": { key: { "const": word } }, "required": [key] }),
        When::Has(key) => json!({ "required": [key] }),
    };
    json!({ "if": condition, "then": keys_schema(spec, &keys) })
}

fn keys_schema(spec: &SectionSpec, keys: &[&'static KeySpec]) -> Map<String, Json> {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    let mut conditions = Vec::new();
    for key in keys {
        if is_always_required(key.name, keys) && !required.contains(&key.name) {
            required.push(key.name);
        }
        if let Some((selector, word)) = key.only_with {
            conditions.push(json!({
                "if": { "properties": { selector: { "const": word } }, "required": [selector] },
                "else": { "properties": { key.name: false } },
            }));
        }
        let of_key = key_schema(key, spec.defaults_from);
        let merged = match properties.remove(key.name) {
            // Another physics has a key of this name.
            Some(other) => any_of([other, of_key]),
            None => of_key,
        };
        properties.insert(key.name.to_owned(), merged);
    }
    let mut schema = Map::new();
    schema.insert("properties".to_owned(), Json::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if !conditions.is_empty() {
        schema.insert("allOf".to_owned(), json!(conditions));
    }
    schema
}

/// Returns true if the key is required in the cases of every physics.
fn is_always_required(name: &str, keys: &[&'static KeySpec]) -> bool {
    let is_required = |key: &&KeySpec| matches!(key.default, DefaultValue::Required);
    let named = || keys.iter().copied().filter(|key| key.name == name);
    PhysicsName::ALL.iter().all(|&physics| named().any(|key| key.applies_to(physics) && is_required(&key)))
}

/// Returns the schema of a key. `defaults_from` is the section that has the values of missing keys.
fn key_schema(spec: &KeySpec, defaults_from: Option<&str>) -> Json {
    let mut schema = kind_schema(spec.kind);
    if let Kind::Section(_) = spec.kind {
        return schema;
    }
    let default = match (spec.default, defaults_from) {
        (DefaultValue::Written(_), Some(section)) => format!(" Default: as in [{section}]."),
        (DefaultValue::Derived(text), _) => format!(" Default: {}.", text.replace('`', "")),
        _ => String::new(),
    };
    if let (Some(text), None) = (spec.default_text(), defaults_from) {
        schema["default"] = default_json(text);
    }
    let owners = physics_note(spec).map_or(String::new(), |note| format!(" {note}"));
    schema["description"] = json!(format!("{}{owners}{default}", spec.meaning.replace('`', "")));
    schema
}

fn default_json(text: &str) -> Json {
    match setting_value(text, &Location::Whole).0 {
        Value::Integer(i) => json!(i64::try_from(i).unwrap_or(i64::MAX)),
        Value::Float(x) => json!(x),
        Value::String(text) => json!(text),
        Value::Boolean(value) => json!(value),
        Value::Datetime | Value::Array(_) | Value::Table(_) => Json::Null,
    }
}

fn kind_schema(kind: Kind) -> Json {
    match kind {
        Kind::Text | Kind::File => json!({ "type": "string" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Word(list) => {
            let words: Vec<&str> = list.words().iter().map(|word| word.word).collect();
            json!({ "type": "string", "enum": words })
        }
        Kind::Integer { least, most: MAX_INTEGER } => json!({ "type": "integer", "minimum": least }),
        Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::PixelSize { least, most } => any_of([
            json!({ "type": "integer", "minimum": least, "maximum": most }),
            string_schema(&format!(r"^\s*{COUNT_PATTERN}\s*x\s*{COUNT_PATTERN}\s*$")),
        ]),
        Kind::Point(list) => {
            let length = any_of([range_schema(Range::Any), quantity_schema(&[Dimension::Length])]);
            let point = json!({ "type": "array", "items": length, "minItems": 3, "maxItems": 3 });
            any_of([point, kind_schema(Kind::Word(list))])
        }
        Kind::Number { range, or: None } => range_schema(range),
        Kind::Number { range, or } => any_of([range_schema(range)].into_iter().chain(or.map(word_schema))),
        Kind::Quantity { range, or, .. } => {
            let forms = [range_schema(range), quantity_schema(&kind.dimensions())];
            any_of(forms.into_iter().chain(or.map(word_schema)))
        }
        Kind::Interval => any_of(interval_forms()),
        Kind::CheckpointInterval => any_of(interval_forms().into_iter().chain([wall_clock_schema()])),
        Kind::Quantities { least, dimensions } => {
            let item = any_of([range_schema(Range::Any), quantity_schema(dimensions)]);
            json!({ "type": "array", "items": item, "minItems": least })
        }
        Kind::Section(spec) => Json::Object(section_schema(spec)),
        Kind::Sections(spec) => json!({ "type": "array", "items": section_schema(spec) }),
    }
}

fn any_of(forms: impl IntoIterator<Item = Json>) -> Json {
    json!({ "anyOf": forms.into_iter().collect::<Vec<_>>() })
}

fn range_schema(range: Range) -> Json {
    match range {
        Range::Any => json!({ "type": "number" }),
        Range::Positive => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Range::NotNegative => json!({ "type": "number", "minimum": 0 }),
        Range::UpTo(max) => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": max }),
        Range::BelowOne => json!({ "type": "number", "minimum": 0, "exclusiveMaximum": 1 }),
        Range::Between { least, most } => json!({ "type": "number", "minimum": least, "maximum": most }),
    }
}

fn word_schema(word: Word) -> Json {
    json!({ "const": word.word, "description": word.meaning.replace('`', "") })
}

/// Returns the schema of a string with a unit of one of the dimensions. Of products of units only
/// the characters are checked.
fn quantity_schema(dimensions: &[Dimension]) -> Json {
    let unit = if dimensions.iter().all(|dimension| dimension.has_plain_units()) {
        let units = NAMED_UNITS.iter().filter(|unit| dimensions.contains(&unit.dimension));
        units.flat_map(|unit| unit.names.iter().copied()).collect::<Vec<_>>().join("|")
    } else {
        r"[/(1A-Za-zµμÅÅ][-−A-Za-zµμÅÅ0-9²³¹⁴⁵⁶⁷⁸⁹⁻()/*·^\s]*".to_owned()
    };
    string_schema(&format!(r"^\s*{NUMBER_PATTERN}\s*(?:{unit})?\s*$"))
}

fn interval_forms() -> Vec<Json> {
    vec![
        range_schema(Range::NotNegative),
        quantity_schema(&[Dimension::Time]),
        string_schema(&format!(r"^\s*{COUNT_PATTERN}\s*steps?\s*$")),
    ]
}

fn wall_clock_schema() -> Json {
    let units = wall_time::unit_names().collect::<Vec<_>>().join("|");
    string_schema(&format!(r"^\s*(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)\s*(?:{units})\s*)+$"))
}

fn string_schema(pattern: &str) -> Json {
    json!({ "type": "string", "pattern": pattern })
}
