#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orrery_fuzz::read_field(bytes, "npy", orrery_formats::read_field_npy);
    orrery_fuzz::read_volume("npy", orrery_formats::read_volume_npy);
});
