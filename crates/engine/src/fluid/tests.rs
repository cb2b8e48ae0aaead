//! Tests of fluids as a system.
