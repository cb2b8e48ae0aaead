//! Every file of `bad-cases` is refused with the one line that it expects: the rest of its first line after
//! `# expect: `, or the sibling `.expect` file where the case itself is not text.

use std::fs;
use std::path::Path;

use orrery_engine::case::{Case, CaseSource};

/// Memory of the machine that the cases are checked for.
const AVAILABLE: Option<u64> = Some(16 << 30);

fn expected(path: &Path) -> String {
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
fn each_is_refused_with_its_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-cases");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    assert!(paths.len() >= 170, "only {} bad cases", paths.len());

    let mut surprises = Vec::new();
    for path in paths {
        let label = format!("{}:", path.display());
        let got = match Case::load_within(&CaseSource::File(path.clone()), &[], AVAILABLE) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string().strip_prefix(&label).expect("names its file").to_owned(),
        };
        let name = path.file_stem().unwrap().to_string_lossy();
        if got != expected(&path) || got.contains('\n') {
            surprises.push(format!("{name}\t{got}"));
        }
    }
    assert!(surprises.is_empty(), "{} differ:\n{}", surprises.len(), surprises.join("\n"));
}
