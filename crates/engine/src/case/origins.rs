//! Places in the case file of the values that are checked after it was read, for messages: files,
//! and the entries of lists.

use std::collections::BTreeMap;

use super::Case;
use super::document::{CaseError, Location};
use crate::error::EngineError;

/// Locations of files and of entries of lists by their paths, such as `heat.west.file` or
/// `wave.source[2]`. They are not part of the meaning of a case: cases with different ones are
/// equal.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Name of the file or preset.
    label: String,
    locations: BTreeMap<String, Location>,
}

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origins {
    /// Adds a location.
    pub(super) fn insert(&mut self, path: String, location: Location) {
        self.locations.insert(path, location);
    }

    /// Sets the name of the file or preset.
    pub(super) fn with_label(self, label: &str) -> Self {
        Self { label: label.to_owned(), ..self }
    }
}

impl Case {
    /// Adds the line of the value at `path` to an error about it. An error of the machine, or of a
    /// value that is in no case file, remains as it is.
    pub(crate) fn error_at(&self, path: &str, error: EngineError) -> EngineError {
        let location = self.origins.locations.get(path);
        match (location, &error) {
            (None, _) | (_, EngineError::Case(_)) => error,
            (Some(_), _) if !error.is_user_error() => error,
            (Some(location), _) => EngineError::Case(CaseError {
                label: self.origins.label.clone(),
                location: location.clone(),
                message: error.to_string(),
            }),
        }
    }
}
