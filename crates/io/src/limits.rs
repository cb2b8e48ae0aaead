//! How much memory a reader may take, and the one place where it makes room for bodies.
//!
//! A reader calls [`Limits::room_for`] once, after the length of the file has borne out the number of bodies
//! and before it allocates anything that grows with it. What it counts is what a body takes at the peak of
//! reading (65 bytes of columns, and what a format needs besides); buffers of a fixed size are not counted.

use std::collections::TryReserveError;
use std::io;

use orrery_model::Particles;

use crate::error::Fault;

/// The columns of one body: position and velocity 24 bytes each, mass and id 8, species 1.
pub(crate) const COLUMN_BYTES: u64 = 65;

/// Provenance as a file has it, in bytes: a case is far below.
pub(crate) const LONGEST_TEXT: u64 = 4 << 20;
/// Names in provenance.
pub(crate) const MOST_NAMES: usize = 1000;

/// `Ok` for provenance that reads back: as `bytes` in a file, and under so many names.
pub(crate) fn check_provenance(bytes: u64, names: usize) -> Result<(), Fault> {
    if bytes > LONGEST_TEXT {
        let expected = format!("at most {}", format_bytes(LONGEST_TEXT));
        return Err(Fault::malformed("provenance", format_bytes(bytes), expected));
    }
    if names > MOST_NAMES {
        return Err(Fault::malformed(
            "provenance",
            format!("{names} names"),
            format!("at most {MOST_NAMES}"),
        ));
    }
    Ok(())
}

/// What a file may take up while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory for its bodies.
    pub memory: u64,
}

impl Limits {
    /// No limit but what the length of the file allows.
    pub const fn unbounded() -> Self {
        Self { memory: u64::MAX }
    }

    /// Columns for `bodies`, empty, where `bytes_each` for every body and `besides` in all are allowed.
    pub(crate) fn room_for(&self, bodies: u64, bytes_each: u64, besides: u64) -> Result<Particles, Fault> {
        let needed = bodies.saturating_mul(bytes_each).saturating_add(besides);
        if needed > self.memory {
            return Err(Fault::Memory { bodies, needed, limit: self.memory });
        }
        let reserved = usize::try_from(bodies).ok().map(reserve).and_then(Result::ok);
        reserved.ok_or_else(|| Fault::System(io::ErrorKind::OutOfMemory.into()))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::unbounded()
    }
}

/// Unlike [`Particles::with_capacity`], a refusal of the system is an error here, not the end of the process.
fn reserve(n: usize) -> Result<Particles, TryReserveError> {
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

/// Bytes for people: `1.5 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (bytes.max(1).ilog2() / 10) as usize;
    format!("{:.1} {}", bytes as f64 / 1024f64.powi(power as i32), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_to_the_byte() {
        let limits = Limits { memory: 650 };
        assert_eq!(limits.room_for(10, COLUMN_BYTES, 0).unwrap().mass.capacity(), 10);
        let refusal = limits.room_for(10, COLUMN_BYTES, 1).unwrap_err().to_string();
        assert_eq!(refusal, "10 bodies need 651.0 B of memory, the limit is 650.0 B");
        let refusal = Limits { memory: 2 << 30 }.room_for(181_704_000, COLUMN_BYTES, 0).unwrap_err();
        assert_eq!(refusal.to_string(), "181704000 bodies need 11.0 GiB of memory, the limit is 2.0 GiB");
    }

    #[test]
    fn what_no_machine_has_is_an_error_too() {
        let refusal = Limits::unbounded().room_for(u64::MAX / 8, COLUMN_BYTES, 0).unwrap_err();
        assert_eq!(refusal.to_string(), "out of memory");
    }
}
