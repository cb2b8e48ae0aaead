//! From what the user wrote to what is simulated: the case, its presets and its checks. This room turns
//! text into plain data and never touches a device; mistakes are found here, all of them before anything
//! runs.

pub mod case;
