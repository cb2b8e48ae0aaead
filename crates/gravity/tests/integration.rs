//! Tests of the public interface of `orrery-gravity`. Every file of this folder is a module.

mod degenerate;
mod device;
mod potential;
mod team;
mod threads;
