//! Speed of the wave solver on the CPU.
fn main() {}
