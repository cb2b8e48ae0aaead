//! Fault tests: killed processes, failing storage, power cuts, two runs in one folder, signals.
//!
//! All of them test the same property. Whatever stopped a run, `orrery run CASE --out DIR --resume`
//! resumes it, and the folder then has the same bytes as that of an undisturbed run.
//!
//! The ignored tests are the full versions, such as all failures at every call or a thousand kills.
//! `cargo test --release -p orrery --test integration fault:: -- --ignored --nocapture` prints the
//! figures for the table of docs/reliability.md.
#![cfg(target_os = "linux")]

mod disk;
mod extensions;
mod kills;
mod log;
mod power;
mod ranks;
mod requests;
mod scenario;
mod storage;
