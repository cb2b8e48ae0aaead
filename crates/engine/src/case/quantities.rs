//! Quantities as the user wrote them, for the resolved case.

use std::collections::BTreeMap;

use orrery_model::units::split_quantity;
use orrery_model::{Dimension, Units};

/// The quantities with a unit in a case, by the path of their key. They are its spelling, not its
/// meaning: cases with different spellings are equal.
#[derive(Clone, Debug, Default)]
pub struct WrittenQuantities(BTreeMap<String, String>);

impl PartialEq for WrittenQuantities {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl WrittenQuantities {
    /// Adds a quantity such as `"10Myr"`, as `"10 Myr"`. A plain number is not stored. Returns true
    /// if the text has a unit.
    pub(super) fn insert(&mut self, path: String, text: &str) -> bool {
        let with_unit = split_quantity(text).filter(|(_, unit)| !unit.is_empty());
        if let Some((number, unit)) = with_unit {
            self.0.insert(path, format!("{number} {unit}"));
        }
        with_unit.is_some()
    }

    /// Returns the text of the quantity at `path` if it has the bits of `value`. After a change of
    /// the value there is none.
    pub(super) fn text_of(
        &self,
        path: &str,
        value: f64,
        units: &Units,
        dimension: Dimension,
    ) -> Option<&str> {
        let text = self.0.get(path)?;
        let parsed = units.parse(text, dimension).ok()?;
        (parsed.to_bits() == value.to_bits()).then_some(text)
    }
}
