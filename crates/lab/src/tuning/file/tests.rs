use super::*;
use crate::test_device;

fn tuning(device: &Device, sizes: &[usize]) -> Tuning {
    let mut tuning = Tuning::new(device);
    for &n in sizes {
        let precision = Precision::Single;
        let strategy = DirectDeviceStrategy::candidates(device, n, precision)[0];
        tuning.put(Entry { n, precision, strategy, seconds: 1e-3 });
    }
    tuning
}

#[test]
fn the_nearest_size_is_taken_within_a_factor_of_four() {
    let Some(device) = test_device() else { return };
    let tuning = tuning(&device, &[1024, 16_384]);
    let chosen = |n| tuning.choose(n, Precision::Single).map(|entry| entry.n);
    assert_eq!(chosen(1024), Some(1024));
    assert_eq!(chosen(256), Some(1024));
    assert_eq!(chosen(255), None);
    assert_eq!(chosen(4000), Some(1024));
    assert_eq!(chosen(4200), Some(16_384));
    assert_eq!(chosen(65_536), Some(16_384));
    assert_eq!(chosen(65_600), None);
    assert_eq!(chosen(0), None);
    assert_eq!(tuning.choose(1024, Precision::Double), None);
}

#[test]
fn what_is_saved_is_loaded_and_added_to() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning/x.json");
    assert_eq!(Tuning::load_at(&path, &device), Ok(None));
    tuning(&device, &[4096]).save_at(&path, &device).unwrap();
    tuning(&device, &[1024]).save_at(&path, &device).unwrap();
    let loaded = Tuning::load_at(&path, &device).unwrap().unwrap();
    assert_eq!(loaded, tuning(&device, &[1024, 4096]));
}

/// Each way to be wrong is noticed, and said in a line that names the file.
#[test]
fn damaged_and_stale_files_are_ignored_with_a_word() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let whole = serde_json::to_string(&tuning(&device, &[1024])).unwrap();
    let driver = serde_json::to_string(&device.properties().driver).unwrap();
    let cases = [
        (String::new(), "damaged"),
        (whole[..whole.len() / 2].to_owned(), "damaged"),
        ("[1, 2]".to_owned(), "damaged"),
        (whole.replace("\"n\":1024", "\"n\":-1"), "damaged"),
        (whole.replace("\"form\":\"tiled\"", "\"form\":\"tensor\""), "damaged (unknown variant `tensor`"),
        (whole.replace("\"layout\":1", "\"layout\":7"), "stale (layout 7, expected 1)"),
        (whole.replace(&driver, "\"another\""), "stale (driver another"),
        (whole.replace(PROGRAM, "0.0.0"), "stale (program 0.0.0"),
        (whole.replace("\"block\":", "\"block\":1"), "stale (its strategy for 1024 bodies"),
    ];
    for (text, why) in cases {
        std::fs::write(&path, &text).unwrap();
        let ignored = Tuning::load_at(&path, &device).expect_err(&text);
        assert!(ignored.why.starts_with(why), "{}: expected {why}", ignored.why);
        let line = ignored.to_string();
        assert!(line.contains("x.json: ignored, ") && !line.contains('\n'), "{line}");
        // Saving over it heals it.
        tuning(&device, &[1024]).save_at(&path, &device).unwrap();
        assert!(Tuning::load_at(&path, &device).unwrap().is_some());
    }
}
