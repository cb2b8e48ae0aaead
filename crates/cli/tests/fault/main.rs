//! Faults: killed processes, failing storage, lost power, two runs in one folder, signals.
//!
//! One property runs through all of them: whatever stopped a run, `orrery run CASE --out DIR --resume` goes on
//! with it, and the folder ends up with the bytes that a run which nothing disturbed leaves there.
//!
//! The tests marked `ignored` are the full versions: every call, a thousand kills. The table of
//! docs/reliability.md comes from `cargo test --release -p orrery --test fault -- --ignored --nocapture`.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod kills;
mod power;
mod requests;
mod scenario;
mod storage;
