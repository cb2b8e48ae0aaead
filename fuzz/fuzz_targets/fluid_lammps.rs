#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| orrery_fuzz::read_fluid(bytes, "data"));
