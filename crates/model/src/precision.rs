//! Arithmetic of the computations.

use serde::{Deserialize, Serialize};

/// Arithmetic of the forces. The state is always f64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// f32 coordinates, products and sums.
    Single,
    /// f32 products. Coordinates are relative to a nearby centre, which is subtracted in f64, and
    /// differences of near pairs are taken in f64. Sums in f64.
    #[default]
    Mixed,
    /// f64 throughout.
    Double,
}

impl Precision {
    /// All precisions, narrowest first.
    pub const ALL: [Self; 3] = [Self::Single, Self::Mixed, Self::Double];

    /// Returns the name in case files, flags and output, for example "mixed".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Mixed => "mixed",
            Self::Double => "double",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_name_is_the_name_of_case_files() {
        for precision in Precision::ALL {
            let json = format!("\"{}\"", precision.as_str());
            assert_eq!(serde_json::to_string(&precision).unwrap(), json);
            assert_eq!(serde_json::from_str::<Precision>(&json).unwrap(), precision);
        }
    }
}
