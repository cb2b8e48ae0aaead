//! Bodies as columns of a checkpoint, and back.

use orrery_formats::{Block, Column, Fault, IoError};
use orrery_gravity::bodies::{Bodies, BodiesError};
use orrery_gravity::settings::{GravitySettings, SolverChoice};
use orrery_model::{Particles, Species, Vec3s, format_count};

use super::{GravitySystem, body_count};
use crate::blocks::{Blocks, repeated_id};
use crate::case::{BYTES_PER_BODY, GravityCase};
use crate::error::EngineError;
use crate::host_memory::check_host_memory;
use crate::system::{ColumnValues, SavedSystem, StateColumn};

/// Returns the columns of the state: positions, velocities and accelerations, and the jerks if they
/// are known. Masses, ids and species do not change during a run.
pub fn state_columns(bodies: &Bodies) -> Result<Vec<StateColumn<'_>>, BodiesError> {
    let particles = bodies.particles()?;
    let species = particles.species.iter().map(|&species| species as u8).collect();
    let constant = |name, values| StateColumn { name, values, is_constant: true };
    let mut columns = vec![
        constant("mass", ColumnValues::Borrowed(Column::Reals(&particles.mass))),
        constant("id", ColumnValues::Borrowed(Column::Integers(&particles.id))),
        constant("species", ColumnValues::Owned(Block::Bytes(species))),
    ];
    let vectors = [
        (["position.x", "position.y", "position.z"], Some(&particles.position)),
        (["velocity.x", "velocity.y", "velocity.z"], Some(&particles.velocity)),
        (["acceleration.x", "acceleration.y", "acceleration.z"], Some(bodies.acceleration()?)),
        (["jerk.x", "jerk.y", "jerk.z"], bodies.known_jerk()?),
    ];
    for (names, vectors) in vectors {
        let Some(Vec3s { x, y, z }) = vectors else { continue };
        columns.extend(names.into_iter().zip([x, y, z]).map(|(name, component)| StateColumn {
            name,
            values: ColumnValues::Borrowed(Column::Reals(component)),
            is_constant: false,
        }));
    }
    Ok(columns)
}

impl GravitySystem {
    /// Restores bodies on the host from the columns of a checkpoint, which may be hostile.
    pub(crate) fn restore(
        saved: &SavedSystem<'_>,
        gravity: &GravityCase,
        columns: &mut Blocks,
    ) -> Result<Self, EngineError> {
        let &SavedSystem { path, count, method, limits, .. } = saved;
        let malformed = |context: &str, got: String, expected: &str| {
            EngineError::Input(IoError {
                path: path.to_owned(),
                fault: Fault::malformed(context, got, expected),
            })
        };
        if count == 0 || gravity.body_count().is_some_and(|expected| expected != count as u64) {
            return Err(malformed("header", body_count(count as u64).to_string(), "the number in the case"));
        }
        let needed = (count as u64).saturating_mul(BYTES_PER_BODY);
        check_host_memory(needed, limits.memory, path, body_count(count as u64))?;
        let species = columns.take_bytes("species")?;
        let species =
            species.iter().map(|&k| Species::ALL.get(usize::from(k)).copied()).collect::<Option<_>>();
        let particles = Particles {
            position: columns.take_vectors("position")?,
            velocity: columns.take_vectors("velocity")?,
            mass: columns.take_reals("mass")?,
            id: columns.take_integers("id")?,
            species: species
                .ok_or_else(|| malformed("block 'species'", "an unknown species".to_owned(), "0 to 5"))?,
        };
        let acceleration = columns.take_vectors("acceleration")?;
        let jerk = columns.take_vectors_if_any("jerk")?;
        let vectors =
            [Some(&particles.position), Some(&particles.velocity), Some(&acceleration), jerk.as_ref()];
        let lengths = vectors.into_iter().flatten().flat_map(|v| [v.x.len(), v.y.len(), v.z.len()]);
        let others = [particles.mass.len(), particles.id.len(), particles.species.len()];
        if let Some(length) = lengths.chain(others).find(|length| *length != count) {
            let got = format_count(length as u64, "entry", "entries");
            return Err(malformed("a column", got, &count.to_string()));
        }
        if let Some(mass) = particles.mass.iter().find(|mass| **mass < 0.0) {
            return Err(malformed("block 'mass'", mass.to_string(), "masses of at least 0"));
        }
        if let Some(id) = repeated_id(&particles.id) {
            return Err(malformed("block 'id'", format!("{id} twice"), "different numbers"));
        }
        // The solver of the run, even if the limits of `auto` change in a later version.
        let solver = match method {
            "direct" => SolverChoice::Direct,
            "tree" => SolverChoice::Tree,
            other => return Err(malformed("solver", other.to_owned(), "direct or tree")),
        };
        let settings = GravitySettings { solver, ..gravity.settings };
        let bodies = Bodies::restore(particles, acceleration, jerk, &settings);
        bodies.check_finite().map_err(|e| malformed("bodies", e.to_string(), "finite numbers"))?;
        Ok(Self::new(bodies, gravity.integrator))
    }
}
