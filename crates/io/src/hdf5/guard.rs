//! A panic of the HDF5 parser on a hostile file becomes an error of ours, and stays silent.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::error::Fault;

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `parse`; a panic inside is neither printed nor passed on.
pub fn without_panics<T>(parse: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    // The hook belongs to the whole process, so it is wrapped once and asks the thread whether to speak.
    static WRAP_HOOK: Once = Once::new();
    WRAP_HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SILENT.get() {
                usual(info);
            }
        }));
    });
    let before = SILENT.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(parse));
    SILENT.set(before);
    outcome.unwrap_or_else(|_| {
        Err(Fault::malformed("content", "bytes that no HDF5 reader understands", "an intact HDF5 file"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let outcome: Result<(), Fault> = without_panics(|| panic!("inside the parser"));
        assert!(outcome.unwrap_err().to_string().contains("an intact HDF5 file"));
        assert!(!SILENT.get());
    }
}
