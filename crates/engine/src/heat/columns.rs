//! A plate from the columns of a checkpoint.

use orrery_fields::FieldColumn;
use orrery_fields::heat::HeatField;
use orrery_formats::{Fault, IoError};
use orrery_model::{Precision, format_count};

use super::start::build_problem;
use super::system::{BASE, COLUMN, HeatSystem, PlateFacts};
use super::{METHOD, node_count};
use crate::blocks::Blocks;
use crate::case::HeatCase;
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::input_files::InputFiles;
use crate::system::{Dynamics, SavedSystem};

impl HeatSystem {
    /// Restores a field on the host from the columns of a checkpoint, which may be hostile.
    pub(crate) fn restore(
        saved: &SavedSystem<'_>,
        heat: &HeatCase,
        columns: &mut Blocks,
    ) -> Result<Self, EngineError> {
        let &SavedSystem { path, case, count, method, limits, .. } = saved;
        let malformed = |context: &str, got: String, expected: &str| {
            EngineError::Input(IoError {
                path: path.to_owned(),
                fault: Fault::malformed(context, got, expected),
            })
        };
        let nodes = (heat.grid.nx as u64).saturating_mul(heat.grid.ny as u64);
        if count as u64 != nodes {
            return Err(malformed("header", node_count(count as u64).to_string(), "the number in the case"));
        }
        if method != METHOD {
            return Err(malformed("solver", method.to_owned(), METHOD));
        }
        let needed = PlateFacts::host_bytes(heat, false);
        check_host_memory(needed, limits.memory, path, node_count(nodes))?;
        let column = match heat.precision {
            Precision::Single => FieldColumn::Single(columns.take_singles(COLUMN)?),
            _ => FieldColumn::Double(columns.take_reals(COLUMN)?),
        };
        // Before memory is allocated for the properties of the nodes.
        if column.len() != count {
            let found = format_count(column.len() as u64, "value", "values");
            return Err(malformed(COLUMN, found, "one value per node"));
        }
        // A checkpoint without a base temperature has 0, also one of an older version.
        let base = match columns.reals_len(BASE) {
            None => 0.0,
            Some(1) if heat.precision == Precision::Single => {
                let base = columns.take_reals(BASE)?[0];
                if !base.is_finite() || f64::from(base as f32) != base {
                    return Err(malformed(BASE, base.to_string(), "a number of f32"));
                }
                base
            }
            Some(found) => {
                let found = format_count(found as u64, "value", "values");
                return Err(malformed(BASE, found, "one value, in single precision only"));
            }
        };
        let files = InputFiles::new(limits);
        let problem = build_problem(case, heat, &files)?;
        let field = HeatField::restore(&problem, column, None)
            .map_err(|error| malformed("a column", error.to_string(), "one value per node"))?
            .with_base(base);
        let system = Self::new(field, PlateFacts::new(case, heat, &problem), files.into_hashes());
        system.check_finite().map_err(|error| malformed(COLUMN, error.to_string(), "finite numbers"))?;
        Ok(system)
    }
}
