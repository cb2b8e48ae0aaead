//! Records the git commit for the provenance of outputs, or "unknown" without a repository.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=ORRERY_COMMIT={commit}");
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo:rerun-if-changed={folder}/HEAD");
        println!("cargo:rerun-if-changed={folder}/logs/HEAD");
    }
}
