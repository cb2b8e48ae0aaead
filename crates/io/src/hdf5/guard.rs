//! A panic of the HDF5 parser on a hostile file becomes an error of ours, and stays silent; and the parser has
//! the stack that the deepest nesting it follows takes.

use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::thread;

use crate::error::Fault;

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// A datatype of 64 KiB nests 8,192 deep, and a tree as deep as the budget of its reader has nodes: 16,384.
/// Both are followed by recursion. Only what is used of it becomes memory.
const STACK_BYTES: usize = 256 << 20;

/// Runs `parse`; a panic inside is neither printed nor passed on.
pub fn without_panics<T: Send>(parse: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
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
    let silently = || {
        SILENT.set(true);
        parse()
    };
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, silently)?;
        parser.join().unwrap_or_else(|_| {
            Err(Fault::malformed("content", "bytes that no HDF5 reader understands", "an intact HDF5 file"))
        })
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
