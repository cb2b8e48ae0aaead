#![no_main]

// No extension stands for this format: what does not start like one of its files is taken for another.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| orrery_fuzz::read_snapshot(bytes, "gadget"));
