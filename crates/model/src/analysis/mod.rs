//! What can be measured of a system of bodies.
