//! Variables of the environment that the libraries read, and with which the program would crash.

use std::env;
use std::ops::RangeInclusive;

use orrery_formats::format_bytes;

use crate::commands::check_thread_count;
use crate::failure::Failure;

/// Bytes of a stack with which threads work. The smaller is the default of Rust, with which all
/// tests run.
const STACK_BYTES: RangeInclusive<u64> = 2 << 20..=1 << 30;

/// Refuses a number of threads that cannot be started, and stacks that overflow or do not fit into
/// memory.
pub fn check() -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for name in ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"] {
        check_threads(name, &variable(name), cores)?;
    }
    check_stack(&variable("RUST_MIN_STACK"))
}

/// Returns the value of a variable, or no text.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The thread pool ignores a value that is not a number, and 0 means one thread per core.
fn check_threads(name: &str, value: &str, cores: usize) -> Result<(), Failure> {
    value.parse().map_or(Ok(()), |threads| check_thread_count(&format!("{name}={value}"), threads, cores))
}

/// Rust ignores a value that is not a number.
fn check_stack(value: &str) -> Result<(), Failure> {
    match value.parse() {
        Ok(bytes) if !STACK_BYTES.contains(&bytes) => {
            let [least, most] = [STACK_BYTES.start(), STACK_BYTES.end()].map(|bytes| format_bytes(*bytes));
            Err(Failure::Usage(format!(
                "RUST_MIN_STACK={value}: expected {} to {} ({least} to {most}), or no such variable",
                STACK_BYTES.start(),
                STACK_BYTES.end()
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_that_cannot_be_started_are_refused() {
        let message = |value| check_threads("RAYON_NUM_THREADS", value, 2).unwrap_err().to_string();
        for value in ["999999", "17", "18446744073709551615"] {
            let expected = format!(
                "RAYON_NUM_THREADS={value}: this process may use 2 cores, expected at most 16 threads; without it \
                 there is one per core"
            );
            assert_eq!(message(value), expected);
        }
        for value in ["", "0", "1", "16", "-1", "all", "99999999999999999999"] {
            assert!(check_threads("RAYON_NUM_THREADS", value, 2).is_ok(), "{value}");
        }
    }

    #[test]
    fn stacks_that_overflow_or_do_not_fit_are_refused() {
        for value in ["0", "1", "2097151", "1073741825", "18446744073709551615"] {
            let expected = format!(
                "RUST_MIN_STACK={value}: expected 2097152 to 1073741824 (2.0 MiB to 1.0 GiB), or no such variable"
            );
            assert_eq!(check_stack(value).unwrap_err().to_string(), expected);
        }
        for value in ["", "2097152", "8388608", "1073741824", "-1", "2 MiB"] {
            assert!(check_stack(value).is_ok(), "{value}");
        }
    }
}
