//! Tests of the public interface of `orrery-particles`. Every file of this folder is a module.

mod degenerate;
mod device;
mod fluid_team;
mod potential;
mod team;
mod threads;
