#![no_main]

use orrery_engine::case::{Case, CaseSource};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = orrery_fuzz::scratch_file("toml");
    std::fs::write(&path, bytes).expect("the scratch folder is writable");
    if let Err(error) = Case::load_within(&CaseSource::File(path), &[], Some(1 << 30)) {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message:?}");
    }
});
