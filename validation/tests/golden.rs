//! Final states have exactly the bits that were recorded.

use orrery_validation::golden::{EVERY_MACHINE, Machine, recorded_hashes};

/// One test for all machines, because the instruction set is a setting of the whole process.
#[test]
fn final_states_have_their_recorded_hashes() {
    let mut compared = 0;
    let of_fields = recorded_hashes(EVERY_MACHINE);
    for machine in Machine::all() {
        assert_eq!(machine.field_hashes(), of_fields, "{}: results of fields have changed", machine.name);
        let recorded = recorded_hashes(&machine.name);
        if recorded.is_empty() {
            println!("skipped: no hashes of bodies are recorded for {}", machine.name);
            continue;
        }
        assert_eq!(machine.hashes(), recorded, "{}: results have changed", machine.name);
        compared += recorded.len();
    }
    // Portable code gives the same bits on every machine.
    assert!(compared > 0, "no hash was compared");
}
