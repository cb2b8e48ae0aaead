//! Initial conditions.
