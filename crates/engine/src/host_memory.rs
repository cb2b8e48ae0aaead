//! Check of the memory of the host before anything that grows with the case is allocated.

use std::path::Path;

use orrery_formats::format_bytes;

use crate::error::EngineError;
use crate::system::Size;

/// Fails if a system of this size needs more bytes than are `available`, or if the operating system
/// refuses them. `path` names the file or section with the size.
///
/// The memory is reserved and returned, and not written. The arrays of a run together are at most
/// this large. A refused allocation in the middle of a run would end the program.
pub(crate) fn check_host_memory(
    needed: u64,
    available: u64,
    path: &Path,
    size: Size,
) -> Result<(), EngineError> {
    let (path, text) = (path.to_owned(), format_bytes(needed));
    if needed > available {
        return Err(EngineError::Memory { path, size, needed: text, available: format_bytes(available) });
    }
    let length = usize::try_from(needed).unwrap_or(usize::MAX);
    match Vec::<u8>::new().try_reserve_exact(length) {
        Ok(()) => Ok(()),
        Err(_) => Err(EngineError::OutOfMemory { path, size, needed: text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_above_the_limit_and_refused_memory_are_errors_of_one_line() {
        let size = Size { count: 3, one: "body", many: "bodies" };
        let message = |needed, available| {
            let error = check_host_memory(needed, available, Path::new("[bodies]"), size).unwrap_err();
            assert!(error.is_user_error(), "{error}");
            error.to_string()
        };
        assert!(check_host_memory(1 << 20, 1 << 20, Path::new("[bodies]"), size).is_ok());
        let above = "[bodies]: 3 bodies need 2.0 MiB of memory, 1.0 MiB are available".to_owned();
        assert_eq!(message(2 << 20, 1 << 20), above);
        // More than the address space of any process.
        let refused = "[bodies]: 3 bodies need 4.0 EiB of memory, which the operating system refuses; the limits \
                       of the job or ulimit -v may be too low";
        assert_eq!(message(1 << 62, u64::MAX), refused);
    }
}
