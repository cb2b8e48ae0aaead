//! Prints the golden hashes of this machine, as lines of `validation/golden.txt`.

use orrery_validation::golden::Machine;

fn main() {
    for machine in Machine::all() {
        for (run, hash) in machine.hashes() {
            println!("{} {run} {hash}", machine.name);
        }
    }
}
