//! Kernels that the sources of the simulator declare, read from the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of a kernel file, and name of a kernel in it.
pub type KernelName = (String, String);

/// Returns the kernels of all kernel files that the crates of the simulator declare with
/// `KernelFile::new("name.cu", include_str!("a.cu"))` or several texts. A file whose text is a
/// named constant is a kernel file with its own name.
pub fn declared_kernels() -> BTreeSet<KernelName> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
    let mut sources = Vec::new();
    for package in fs::read_dir(crates).expect("the folder is readable") {
        add_files(&package.expect("an entry").path().join("src"), &mut sources);
    }
    let (mut kernels, mut used) = (BTreeSet::new(), BTreeSet::new());
    for source in sources.iter().filter(|path| has_extension(path, "rs")) {
        let (text, folder) = (code_of(&read(source)), source.parent().expect("a file in a folder"));
        for arguments in text.split("KernelFile::new(").skip(1).map(in_parentheses) {
            let [name, files @ ..] = &kernel_files_in(arguments)[..] else { continue };
            for file in files {
                let path = fs::canonicalize(folder.join(file)).expect("an included file exists");
                kernels.extend(kernels_in(&read(&path)).map(|kernel| (name.clone(), kernel)));
                used.insert(path);
            }
        }
    }
    for path in sources.iter().filter(|path| has_extension(path, "cu")) {
        if !used.contains(&fs::canonicalize(path).expect("a file")) {
            let name = path.file_name().expect("a file").to_string_lossy();
            kernels.extend(kernels_in(&read(path)).map(|kernel| (name.clone().into_owned(), kernel)));
        }
    }
    kernels
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Adds all files of a folder and its folders.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() { add_files(&path, files) } else { files.push(path) }
    }
}

/// Returns the lines of a Rust file that are not comments.
fn code_of(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the part of `text` before the parenthesis that closes the one before `text`.
fn in_parentheses(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    &text[..end.expect("parentheses are balanced")]
}

/// Returns the string literals that end in ".cu".
fn kernel_files_in(arguments: &str) -> Vec<String> {
    let literals = arguments.split('"').skip(1).step_by(2);
    literals.filter(|literal| literal.ends_with(".cu")).map(str::to_owned).collect()
}

/// Returns the names of the kernels of a text, whose declarations start a line with `KERNEL`, for
/// example `KERNEL_MIN_BLOCKS(T, B) walk(`.
fn kernels_in(text: &str) -> impl Iterator<Item = String> {
    let starts = text.match_indices("KERNEL").filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
    starts.map(|(at, _)| {
        let (_, rest) = text[at..].split_once('(').expect("the block size");
        let after = rest[in_parentheses(rest).len() + 1..].trim_start();
        after.split('(').next().unwrap_or_default().trim_end().to_owned()
    })
}

#[test]
fn declarations_of_kernels_are_found() {
    let text = "// KERNEL(T)\nKERNEL(128) first(int n)\n{\n}\nKERNEL_MIN_BLOCKS(T, f(B))\n    second(\n";
    assert_eq!(kernels_in(text).collect::<Vec<_>>(), ["first", "second"]);
    let arguments = in_parentheses("\"a.cu\", kernel_source!(\"b.cu\", \"../c.cu\")) }; f(\"d.cu\")");
    assert_eq!(kernel_files_in(arguments), ["a.cu", "b.cu", "../c.cu"]);
}
