//! Physics tests of whole simulations. README.md lists their results. Every file of this folder is a
//! module.

mod collapse;
mod conservation;
mod determinism;
mod device;
mod disc;
mod equilibrium;
mod forces;
mod golden;
mod orbits;
mod solar_system;
mod spheres;
