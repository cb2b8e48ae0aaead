//! Tests of the scheme against exact solutions, with the reference implementation.
