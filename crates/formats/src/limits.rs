//! Memory limit of the readers, and the only place where they allocate memory for bodies.
//!
//! A reader calls [`Limits::allocate_bodies`] once. At that point the length of the file has
//! confirmed the number of bodies, and nothing that grows with this number has been allocated. The
//! call counts the peak memory of a body during reading: 65 bytes of columns, and what the format
//! needs in addition. Buffers of a fixed size are not counted.

use std::collections::TryReserveError;
use std::io;

use orrery_model::Particles;

use crate::error::Fault;

/// Bytes per body in all columns: position and velocity 24 each, mass and id 8 each, species 1.
pub(crate) const COLUMN_BYTES: u64 = 65;

/// Largest provenance in a file, in bytes. A case file is far smaller.
pub(crate) const MAX_PROVENANCE_BYTES: u64 = 4 << 20;
/// Largest number of names in provenance.
pub(crate) const MAX_PROVENANCE_NAMES: usize = 1000;

/// Checks that provenance of this size, in bytes and names, can be read back.
pub(crate) fn check_provenance(bytes: u64, names: usize) -> Result<(), Fault> {
    if bytes > MAX_PROVENANCE_BYTES {
        let expected = format!("at most {}", format_bytes(MAX_PROVENANCE_BYTES));
        return Err(Fault::malformed("provenance", format_bytes(bytes), expected));
    }
    if names > MAX_PROVENANCE_NAMES {
        return Err(Fault::malformed(
            "provenance",
            format!("{names} names"),
            format!("at most {MAX_PROVENANCE_NAMES}"),
        ));
    }
    Ok(())
}

/// Limits for reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory for the bodies of the file.
    pub memory: u64,
}

impl Limits {
    /// No memory limit. Only the length of the file limits the number of bodies.
    pub const fn unbounded() -> Self {
        Self { memory: u64::MAX }
    }

    /// Returns empty columns with memory for `bodies`.
    ///
    /// Fails if `bodies` times `bytes_per_body` plus `extra_bytes` exceeds the limit.
    pub(crate) fn allocate_bodies(
        &self,
        bodies: u64,
        bytes_per_body: u64,
        extra_bytes: u64,
    ) -> Result<Particles, Fault> {
        let n = self.check_bodies(bodies, bytes_per_body, extra_bytes)?;
        reserve_columns(n).map_err(out_of_memory)
    }

    /// Returns the number of bodies as an index, if they fit the limit. Each takes
    /// `bytes_per_body`, and all together `extra_bytes` in addition.
    pub(crate) fn check_bodies(
        &self,
        bodies: u64,
        bytes_per_body: u64,
        extra_bytes: u64,
    ) -> Result<usize, Fault> {
        let needed = bodies.saturating_mul(bytes_per_body).saturating_add(extra_bytes);
        if needed > self.memory {
            return Err(Fault::Memory { bodies, needed, limit: self.memory });
        }
        usize::try_from(bodies).map_err(out_of_memory)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::unbounded()
    }
}

/// Returns an empty column with memory for `n` values, or an error if the system has no memory
/// left.
pub(crate) fn reserve_column<T>(n: usize) -> Result<Vec<T>, Fault> {
    let mut column = Vec::new();
    column.try_reserve_exact(n).map_err(out_of_memory)?;
    Ok(column)
}

fn out_of_memory<E>(_: E) -> Fault {
    Fault::System(io::ErrorKind::OutOfMemory.into())
}

/// Reserves memory for `n` bodies. Unlike [`Particles::with_capacity`], it returns an error if the
/// system has no memory left and does not abort the process.
fn reserve_columns(n: usize) -> Result<Particles, TryReserveError> {
    let mut bodies = Particles::default();
    for column in [&mut bodies.position, &mut bodies.velocity] {
        column.x.try_reserve_exact(n)?;
        column.y.try_reserve_exact(n)?;
        column.z.try_reserve_exact(n)?;
    }
    bodies.mass.try_reserve_exact(n)?;
    bodies.id.try_reserve_exact(n)?;
    bodies.species.try_reserve_exact(n)?;
    Ok(bodies)
}

/// Formats a number of bytes for output, for example `1.5 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (bytes.max(1).ilog2() / 10) as usize;
    format!("{:.1} {}", bytes as f64 / 1024f64.powi(power as i32), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_exact_to_the_byte() {
        let limits = Limits { memory: 650 };
        assert_eq!(limits.allocate_bodies(10, COLUMN_BYTES, 0).unwrap().mass.capacity(), 10);
        let error = limits.allocate_bodies(10, COLUMN_BYTES, 1).unwrap_err().to_string();
        assert_eq!(error, "10 bodies need 651.0 B of memory, the limit is 650.0 B");
        let error = Limits { memory: 2 << 30 }.allocate_bodies(181_704_000, COLUMN_BYTES, 0).unwrap_err();
        assert_eq!(error.to_string(), "181704000 bodies need 11.0 GiB of memory, the limit is 2.0 GiB");
    }

    #[test]
    fn more_memory_than_any_machine_has_is_an_error() {
        let error = Limits::unbounded().allocate_bodies(u64::MAX / 8, COLUMN_BYTES, 0).unwrap_err();
        assert_eq!(error.to_string(), "out of memory");
    }
}
