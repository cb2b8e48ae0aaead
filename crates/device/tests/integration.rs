//! Tests of the public interface of `orrery-device`. Every file of this folder is a module.

mod buffers;
mod cache;
mod choices;
mod common;
mod constants;
mod host_access;
mod kernels;
mod parallel;
mod pitched;
mod prelude;
mod textures;
