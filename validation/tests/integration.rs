//! Physics tests of whole simulations. README.md lists their results. Every file of this folder is
//! a module, except for golden.rs.

mod close_binary;
mod collapse;
mod conservation;
mod determinism;
mod device;
mod disc;
mod equilibrium;
mod fluid;
mod fluid_lammps;
mod forces;
mod heat;
mod heat_materials;
mod heat_steady;
mod orbits;
mod shared_functions;
mod solar_system;
mod spheres;
mod wave;
mod wave_dispersion;
mod wave_sides;
mod wave_sources;
