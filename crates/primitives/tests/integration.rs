//! Tests of the public interface of `orrery-primitives`. Every file of this folder is a module.

mod common;
mod reduce;
mod scan;
mod sort;
