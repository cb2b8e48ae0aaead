//! Prints the golden hashes of this machine, as lines of `validation/golden.txt`.

use orrery_validation::golden::{EVERY_MACHINE, Machine};

fn main() {
    let machines = Machine::all();
    // The first machine is the CPU with portable code.
    for (run, hash) in machines.first().map(Machine::field_hashes).into_iter().flatten() {
        println!("{EVERY_MACHINE} {run} {hash}");
    }
    for machine in machines {
        for (run, hash) in machine.hashes() {
            println!("{} {run} {hash}", machine.name);
        }
    }
}
