use super::*;
use crate::test_device;

fn example_tuning(device: &Device, sizes: &[usize]) -> Tuning {
    let mut tuning = Tuning::new(device);
    for &n in sizes {
        let precision = Precision::Single;
        let strategy = DirectDeviceStrategy::candidates(device, n, precision)[0];
        tuning.insert_entry(Entry { n, precision, strategy, seconds: 1e-3 });
    }
    tuning
}

#[test]
fn nearest_size_within_a_factor_of_four_is_used() {
    let Some(device) = test_device() else { return };
    let tuning = example_tuning(&device, &[1024, 16_384]);
    let nearest_size = |n| tuning.nearest_entry(n, Precision::Single).map(|entry| entry.n);
    assert_eq!(nearest_size(1024), Some(1024));
    assert_eq!(nearest_size(256), Some(1024));
    assert_eq!(nearest_size(255), None);
    assert_eq!(nearest_size(4000), Some(1024));
    assert_eq!(nearest_size(4200), Some(16_384));
    assert_eq!(nearest_size(65_536), Some(16_384));
    assert_eq!(nearest_size(65_600), None);
    assert_eq!(nearest_size(0), None);
    assert_eq!(tuning.nearest_entry(1024, Precision::Double), None);
}

#[test]
fn saved_entries_are_merged_with_the_existing_file() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning/x.json");
    assert_eq!(Tuning::load_from(&path, &device), Ok(None));
    example_tuning(&device, &[4096]).save_to(&path, &device).unwrap();
    example_tuning(&device, &[1024]).save_to(&path, &device).unwrap();
    let loaded = Tuning::load_from(&path, &device).unwrap().unwrap();
    assert_eq!(loaded, example_tuning(&device, &[1024, 4096]));
}

#[test]
fn damaged_and_stale_files_are_ignored_with_a_one_line_reason() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let valid = serde_json::to_string(&example_tuning(&device, &[1024])).unwrap();
    let driver = serde_json::to_string(&device.properties().driver).unwrap();
    let cases = [
        (String::new(), "damaged"),
        (valid[..valid.len() / 2].to_owned(), "damaged"),
        ("[1, 2]".to_owned(), "damaged"),
        (valid.replace("\"form\":\"tiled\"", "\"form\":\"tensor\""), "damaged (unknown variant `tensor`"),
        (valid.replace("\"n\":1024", "\"n\":-1"), "damaged"),
        (valid.replace("\"layout\":1", "\"layout\":7"), "stale (layout 7, expected 1)"),
        (valid.replace(&driver, "\"another\""), "stale (driver another"),
        (valid.replace(PROGRAM, "0.0.0"), "stale (program 0.0.0"),
        (valid.replace("\"block\":", "\"block\":1"), "stale (its strategy for 1024 bodies"),
    ];
    for (text, expected) in cases {
        std::fs::write(&path, &text).unwrap();
        let ignored = Tuning::load_from(&path, &device).expect_err(&text);
        assert!(ignored.reason.starts_with(expected), "{}: expected {expected}", ignored.reason);
        let message = ignored.to_string();
        assert!(message.contains("x.json: ignored, ") && !message.contains('\n'), "{message}");
        // Saving replaces the unusable file.
        example_tuning(&device, &[1024]).save_to(&path, &device).unwrap();
        assert!(Tuning::load_from(&path, &device).unwrap().is_some());
    }
}
