//! Tests of the public interface. All files of this folder are modules of one program.

#![cfg(target_os = "linux")]

mod children;
mod common;
mod mpi;
