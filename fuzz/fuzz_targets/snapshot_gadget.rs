#![no_main]

// This format has no extension. Bytes that do not start like a GADGET file are read as another
// format.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| orrery_fuzz::read_snapshot(bytes, "gadget"));
