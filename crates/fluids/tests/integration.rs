//! Tests of the public interface of `orrery-fluids`. Every file of this folder is a module.

mod team;
