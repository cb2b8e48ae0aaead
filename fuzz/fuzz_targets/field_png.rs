#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| orrery_fuzz::read_field(bytes, "png", orrery_formats::read_field_png));
