//! Waves from the columns of a checkpoint.

use orrery_fields::wave::WaveField;
use orrery_fields::{FieldColumn, NamedColumn};
use orrery_formats::{Fault, IoError};
use orrery_model::Precision;

use super::METHOD;
use super::start::{build_problem, fixed_step, host_bytes, size_of};
use super::system::{WaveSystem, column_names};
use crate::blocks::Blocks;
use crate::case::WaveCase;
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::input_files::InputFiles;
use crate::system::{Dynamics, SavedSystem};

impl WaveSystem {
    /// Restores a field on the host from the columns of a checkpoint, which may be hostile.
    pub(crate) fn restore(
        saved: &SavedSystem<'_>,
        wave: &WaveCase,
        columns: &mut Blocks,
    ) -> Result<Self, EngineError> {
        let &SavedSystem { path, case, count, method, limits, stamp } = saved;
        let malformed = |context: &str, got: String, expected: &str| {
            EngineError::Input(IoError {
                path: path.to_owned(),
                fault: Fault::malformed(context, got, expected),
            })
        };
        let size = size_of(wave);
        if count as u64 != size.count {
            return Err(malformed(
                "header",
                crate::heat::node_count(count as u64).to_string(),
                "the number in the case",
            ));
        }
        if method != METHOD {
            return Err(malformed("solver", method.to_owned(), METHOD));
        }
        let needed = host_bytes(case, wave, false);
        check_host_memory(needed, limits.memory, path, size)?;
        let mut taken = Vec::new();
        for name in column_names(wave) {
            let values = match wave.precision {
                Precision::Single => FieldColumn::Single(columns.take_singles(name)?),
                _ => FieldColumn::Double(columns.take_reals(name)?),
            };
            taken.push(NamedColumn { name: name.to_owned(), values });
        }
        let files = InputFiles::new(limits);
        let problem = build_problem(case, wave, &files)?;
        let field = WaveField::restore(&problem, fixed_step(case), stamp.step, taken)
            .map_err(|error| malformed("a column", error.to_string(), "the state of waves"))?;
        let system = Self::new(field, case, wave, &problem, files.into_hashes());
        system.check_finite().map_err(|error| malformed("a column", error.to_string(), "finite values"))?;
        Ok(system)
    }
}
