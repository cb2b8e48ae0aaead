//! Settings `KEY=VALUE` of the command line, which change the tree of a case.
//!
//! A path has the names of sections and keys, such as `gravity.theta`. An entry of a list has its
//! index from 1, such as `wave.source[2].x` or `heat.west.profile[1]`, or its `name`, such as
//! `lennard_jones.species.Ar.epsilon`.

use super::document::{Entry, Location, Value, one_line, setting_value};
use super::reader::{item_path, join_with_or};

/// A part of a path.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// A section, a key, or the name of an entry of a list.
    Key(&'a str),
    /// An index, from 1.
    Index(usize),
}

/// Largest number of steps of a path. Those of a case have at most six, and each one is a call.
const MAX_STEPS: usize = 64;

/// Replaces the value of the setting in the tree. Sections that do not exist are added.
pub(super) fn apply_setting(root: &mut Vec<Entry>, set: &str, location: &Location) -> Result<(), String> {
    const EXPECTED: &str = "expected KEY=VALUE such as gravity.theta=0.5";
    let (path, written) = set.split_once('=').ok_or(EXPECTED)?;
    let mut steps = Vec::new();
    for part in path.split('.') {
        push_steps(&mut steps, part.trim()).ok_or(EXPECTED)?;
    }
    if steps.len() > MAX_STEPS {
        return Err(format!("the path has {} parts, {EXPECTED}", steps.len()));
    }
    let (value, text) = setting_value(written.trim(), location);
    let setting = Setting { location, value, text };
    set_in_table(root, &steps, String::new(), setting)
}

/// Adds the steps of a part such as `source[2]`. `None` if it is malformed.
fn push_steps<'a>(steps: &mut Vec<Step<'a>>, part: &'a str) -> Option<()> {
    let (key, indices) = part.split_once('[').map_or((part, None), |(key, rest)| (key.trim(), Some(rest)));
    if key.is_empty() {
        return None;
    }
    steps.push(Step::Key(key));
    for index in indices.into_iter().flat_map(|indices| indices.split('[')) {
        let number = index.trim().strip_suffix(']')?.trim();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too large is an index beyond the end.
        steps.push(Step::Index(is_number.then(|| number.parse().unwrap_or(usize::MAX))?));
    }
    Some(())
}

/// The new value.
struct Setting<'a> {
    location: &'a Location,
    value: Value,
    text: String,
}

impl Setting<'_> {
    fn into_entry(self, key: &str) -> Entry {
        let Self { location, value, text } = self;
        entry_at(location, key, value, text)
    }
}

fn entry_at(location: &Location, key: &str, value: Value, text: String) -> Entry {
    Entry { key: key.to_owned(), key_location: location.clone(), location: location.clone(), value, text }
}

/// Applies a setting below a section. `path` is that of the section.
fn set_in_table(
    table: &mut Vec<Entry>,
    steps: &[Step<'_>],
    path: String,
    setting: Setting<'_>,
) -> Result<(), String> {
    let Some((&Step::Key(key), rest)) = steps.split_first() else {
        return Err(format!("'{path}' is a section, expected a key such as {path}.KEY"));
    };
    if rest.is_empty() {
        table.retain(|entry| entry.key != key);
        table.push(setting.into_entry(key));
        return Ok(());
    }
    let below = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let index = match table.iter().position(|entry| entry.key == key) {
        Some(index) => index,
        None if matches!(rest[0], Step::Index(_)) => {
            return Err(format!("the case has no list '{}'", one_line(&below)));
        }
        None => {
            table.push(entry_at(setting.location, key, Value::Table(Vec::new()), String::new()));
            table.len() - 1
        }
    };
    set_below(&mut table[index], rest, below, setting)
}

/// Applies a setting below an entry, or to it if there are no further steps. `path` is that of the
/// entry.
fn set_below(
    entry: &mut Entry,
    steps: &[Step<'_>],
    path: String,
    setting: Setting<'_>,
) -> Result<(), String> {
    let kind = entry.value.kind();
    match (&mut entry.value, steps) {
        (_, []) => {
            *entry = setting.into_entry(&entry.key);
            Ok(())
        }
        (Value::Table(inner), _) => set_in_table(inner, steps, path, setting),
        (Value::Array(items), [step, rest @ ..]) => {
            let index = item_index(items, *step, &path)?;
            if let ([], Step::Key(name)) = (rest, step) {
                return Err(format!(
                    "'{path}.{name}' is a section, expected a key such as {path}.{name}.KEY"
                ));
            }
            set_below(&mut items[index], rest, item_path(&path, index), setting)
        }
        (_, [Step::Key(_), ..]) => Err(format!("'{path}' is {kind}, expected a section")),
        (_, [Step::Index(_), ..]) => Err(format!("'{path}' is {kind}, expected a list")),
    }
}

/// Returns the index, from 0, of an entry of the list at `path`.
fn item_index(items: &[Entry], step: Step<'_>, path: &str) -> Result<usize, String> {
    let range = match items.len() {
        0 => return Err(format!("the list '{path}' is empty")),
        1 => format!("{path}[1], its only entry"),
        count => format!("{path}[1] to {path}[{count}]"),
    };
    match step {
        Step::Index(index) => {
            let is_entry = (1..=items.len()).contains(&index);
            is_entry.then(|| index - 1).ok_or_else(|| {
                format!("'{path}[{index}]' does not exist, expected {range}: indices start at 1")
            })
        }
        Step::Key(name) => {
            let found = items.iter().position(|item| name_of(item) == Some(name));
            found.ok_or_else(|| {
                let names: Vec<&str> = items.iter().filter_map(name_of).take(MAX_LISTED_NAMES).collect();
                let name = one_line(name);
                match names.is_empty() {
                    true => format!("'{path}' is a list, expected an index: {range}"),
                    false => format!(
                        "'{path}' has no entry with the name {name}, expected {}, or an index: {range}",
                        join_with_or(names.into_iter())
                    ),
                }
            })
        }
    }
}

const MAX_LISTED_NAMES: usize = 10;

/// Returns the value of the key `name` of a section in a list.
fn name_of(item: &Entry) -> Option<&str> {
    let Value::Table(entries) = &item.value else { return None };
    entries.iter().find_map(|entry| match &entry.value {
        Value::String(name) if entry.key == "name" => Some(name.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::document::parse_document;
    use super::*;

    const TEXT: &str = "[[wave.source]]\nx = 1\n[[wave.source]]\nx = 2\nname = \"second\"\n[heat]\n\
                        profile = [1, 2, 3]\nempty = []\n";

    fn parse(set: &str) -> Result<Vec<Entry>, String> {
        parse_document("case", TEXT.as_bytes(), &[set.to_owned()]).map_err(|error| error.to_string())
    }

    /// Returns the texts of the values at a path of keys and of indices from 0.
    fn text_at(entries: &[Entry], path: &[&str]) -> String {
        let [key, rest @ ..] = path else { return String::new() };
        let entry = match key.parse::<usize>() {
            Ok(index) => &entries[index],
            Err(_) => entries.iter().find(|entry| entry.key == *key).unwrap(),
        };
        match (&entry.value, rest) {
            (_, []) => entry.text.clone(),
            (Value::Table(inner) | Value::Array(inner), rest) => text_at(inner, rest),
            _ => panic!("{path:?}"),
        }
    }

    #[test]
    fn entries_of_lists_are_set_by_index_from_1_or_by_name() {
        let source = |set: &str, index: &str| text_at(&parse(set).unwrap(), &["wave", "source", index, "x"]);
        assert_eq!(
            (source("wave.source[1].x=7", "0"), source("wave.source[1].x=7", "1")),
            ("7".into(), "2".into())
        );
        assert_eq!(source("wave.source[2].x=7", "1"), "7");
        assert_eq!(source(" wave . source[ 2 ] . x = 7 ", "1"), "7");
        assert_eq!(source("wave.source.second.x=7", "1"), "7");
        let entries = parse("heat.profile[3]=9").unwrap();
        assert_eq!(text_at(&entries, &["heat", "profile", "2"]), "9");
        // A key that an entry does not have is added.
        let entries = parse("wave.source[1].shot=4").unwrap();
        assert_eq!(text_at(&entries, &["wave", "source", "0", "shot"]), "4");
    }

    /// Without a limit, a long path overflows the stack.
    #[test]
    fn a_path_of_very_many_parts_is_refused() {
        for path in [vec!["a"; 60_001].join("."), format!("a{}", "[1]".repeat(60_000))] {
            let error = parse(&format!("{path}=1")).unwrap_err();
            assert!(
                error.ends_with("the path has 60001 parts, expected KEY=VALUE such as gravity.theta=0.5")
            );
            assert!(error.len() < 500 && error.lines().count() == 1, "{error}");
        }
        assert!(parse(&format!("{}=1", vec!["a"; MAX_STEPS].join("."))).is_ok());
    }

    #[test]
    fn entries_that_do_not_exist_are_named() {
        for (set, expected) in [
            (
                "wave.source[3].x=7",
                "'wave.source[3]' does not exist, expected wave.source[1] to wave.source[2]: indices start at 1",
            ),
            (
                "wave.source[0].x=7",
                "'wave.source[0]' does not exist, expected wave.source[1] to wave.source[2]: indices start at 1",
            ),
            ("wave.source[99999999999999999999].x=7", "indices start at 1"),
            (
                "wave.source.first.x=7",
                "'wave.source' has no entry with the name first, expected second, or an index: wave.source[1] to wave.source[2]",
            ),
            (
                "wave.source.second=7",
                "'wave.source.second' is a section, expected a key such as wave.source.second.KEY",
            ),
            (
                "heat.profile.x=7",
                "'heat.profile' is a list, expected an index: heat.profile[1] to heat.profile[3]",
            ),
            ("heat.empty[1]=7", "the list 'heat.empty' is empty"),
            ("wave.region[1].x=7", "the case has no list 'wave.region'"),
            ("heat[1]=7", "'heat' is a section, expected a key such as heat.KEY"),
            ("heat.profile[1].x=7", "'heat.profile[1]' is an integer, expected a section"),
            ("heat.profile[1][1]=7", "'heat.profile[1]' is an integer, expected a list"),
            ("wave.source[].x=7", "expected KEY=VALUE"),
            ("wave.source[-1].x=7", "expected KEY=VALUE"),
            ("wave.source[1.x=7", "expected KEY=VALUE"),
            ("[1].x=7", "expected KEY=VALUE"),
        ] {
            let error = parse(set).expect_err(set);
            assert!(
                error.contains(expected) && error.starts_with(&format!("--set {set}: ")),
                "{set}: {error}"
            );
        }
    }
}
