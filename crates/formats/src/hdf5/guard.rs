//! Guard around the HDF5 parser. A panic on a hostile file becomes a normal error and is not
//! printed. The parser runs with a stack that is large enough for the deepest nesting that it
//! follows.

use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::thread;

use crate::error::Fault;

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Stack of the parser thread. The parser follows nested datatypes and trees by recursion. A
/// datatype of 64 KiB can be nested 8,192 deep. A tree can be as deep as the read budget has nodes,
/// 16,384. Only the used part of the stack takes memory.
const STACK_BYTES: usize = 256 << 20;

/// Runs `parse` in a new thread. Converts a panic into an error, without printing it.
pub fn without_panics<T: Send>(parse: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    // The panic hook is global to the process. It is wrapped once and prints nothing in parser
    // threads.
    static WRAP_HOOK: Once = Once::new();
    WRAP_HOOK.call_once(|| {
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SILENT.get() {
                default_hook(info);
            }
        }));
    });
    let parse_silently = || {
        SILENT.set(true);
        parse()
    };
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, parse_silently)?;
        parser
            .join()
            .unwrap_or_else(|_| Err(Fault::malformed("content", "invalid HDF5 data", "an intact HDF5 file")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error() {
        let outcome: Result<(), Fault> = without_panics(|| panic!("inside the parser"));
        assert!(outcome.unwrap_err().to_string().contains("an intact HDF5 file"));
        assert!(!SILENT.get());
    }
}
