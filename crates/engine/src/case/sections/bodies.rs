//! `[bodies]`: a model with its parameters, or a file.

use std::path::PathBuf;

use super::models::{self, Model, Reader};
use crate::case::reader::{Problems, Section, list};
use crate::case::resolved::Writer;

/// Where a case's bodies come from.
#[derive(Clone, Debug, PartialEq)]
pub enum BodiesSource {
    /// Made by the program.
    Model(Model),
    /// A snapshot, as the case names it; see [`Case::bodies_file`](crate::case::Case::bodies_file).
    File(PathBuf),
}

impl BodiesSource {
    pub(in crate::case) fn write(&self, w: &mut Writer) {
        match self {
            Self::File(path) => w.string("file", &path.to_string_lossy()),
            Self::Model(model) => {
                w.string("model", model.name());
                model.write(w);
            }
        }
    }
}

/// `eps` is the softening that the forces will have: a galaxy is set up in equilibrium with it.
pub(in crate::case) fn read(section: &Section<'_>, eps: f64) -> BodiesSource {
    let file = section.string("file");
    let model = section.choice("model", models::READERS);
    match (section.has("model"), section.has("file")) {
        (true, true) => section.refuse("file", " stands beside model, expected one of them"),
        (false, true) => {
            finish(section, "a file");
            return BodiesSource::File(file.unwrap_or_default().into());
        }
        (false, false) => section.lacks("[bodies] has neither model nor file, expected one of them"),
        (true, false) => {}
    }
    let Some(model) = model else {
        models::READERS.iter().flat_map(|&(_, read)| keys_of(read)).for_each(|key| section.ask(key));
        section.finish();
        return BodiesSource::File(PathBuf::new());
    };
    let model = model(section, eps);
    finish(section, model.name());
    BodiesSource::Model(model)
}

/// Reports the keys that `owner` does not have; some belong to (other) models.
fn finish(section: &Section<'_>, owner: &str) {
    section.finish_with(|key| {
        let has_key = |&&(_, read): &&(&str, Reader)| keys_of(read).contains(&key);
        let others = list(models::READERS.iter().filter(has_key).map(|&(name, _)| name));
        (!others.is_empty()).then(|| format!("key '{key}' is for {others}, not for {owner}"))
    });
}

/// What a model asks for, seen by reading it from an empty section.
fn keys_of(read: Reader) -> Vec<&'static str> {
    let problems = Problems::default();
    let empty = Section::root(&[], &problems);
    read(&empty, 0.0);
    empty.asked()
}
