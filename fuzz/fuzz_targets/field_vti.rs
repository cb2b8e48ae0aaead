#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orrery_fuzz::read_field(bytes, "vti", |path, limits| {
        orrery_formats::read_field_vti(path, limits).map(|(data, _)| data)
    });
    orrery_fuzz::read_volume("vti", |path, limits| {
        orrery_formats::read_volume_vti(path, limits).map(|(data, _)| data)
    });
});
