//! Every file of `bad-cases` is rejected with the message that it expects. The message is the rest
//! of the first line after `# expect: `, or the content of the `.expect` file of the same name if
//! the case is not text.

use std::fs;
use std::path::Path;

use orrery_engine::case::{Case, CaseSource};

/// Memory of the machine for which the cases are checked.
const AVAILABLE: Option<u64> = Some(16 << 30);

fn expected_message(path: &Path) -> String {
    let sibling = path.with_extension("expect");
    if sibling.exists() {
        return fs::read_to_string(sibling).unwrap().trim_end().to_owned();
    }
    let text = fs::read_to_string(path).unwrap();
    let first = text.lines().next().unwrap_or_default();
    first
        .strip_prefix("# expect: ")
        .unwrap_or_else(|| panic!("{}: no '# expect: '", path.display()))
        .to_owned()
}

#[test]
fn each_bad_case_is_rejected_with_its_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-cases");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    assert!(paths.len() >= 170, "only {} bad cases", paths.len());

    let mut differences = Vec::new();
    for path in paths {
        let label = format!("{}:", path.display());
        let got = match Case::load_within(&CaseSource::File(path.clone()), &[], AVAILABLE) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string().strip_prefix(&label).expect("names its file").to_owned(),
        };
        let name = path.file_stem().unwrap().to_string_lossy();
        if got != expected_message(&path) || got.contains('\n') {
            differences.push(format!("{name}\t{got}"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
