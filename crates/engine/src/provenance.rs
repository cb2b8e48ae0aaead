//! Provenance of an output: the program, case, device and input that are needed to repeat it.

use std::path::Path;

use orrery_device::Device;
use orrery_formats::{IoError, hash_file};
use orrery_model::Species;
use orrery_simd::InstructionSet;

use crate::case::Case;
use crate::clean::clean_line;
use crate::input_files::InputHashes;

/// Version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Git commit of the build, or "unknown".
pub const COMMIT: &str = env!("ORRERY_COMMIT");

/// Method in the provenance of initial conditions, for which nothing was computed.
pub const NO_SOLVER: &str = "none";

/// Describes the device, or the CPU if there is none. The number of threads is left out because it
/// does not affect results.
pub fn device_text(device: Option<&Device>) -> String {
    match device.map(Device::properties) {
        Some(found) => format!("{} ({})", found.backend.as_str(), found.name),
        None => format!("cpu ({})", InstructionSet::best().name()),
    }
}

/// Returns the provenance of a run as ordered pairs of name and text. `method` and `strategy` are
/// those of its system. `read` are the hashes of the files that it has read. Other files are hashed
/// now.
pub fn run_provenance(
    case: &Case,
    method: &str,
    device: Option<&Device>,
    strategy: Option<String>,
    read: Option<&InputHashes>,
) -> Result<Vec<(String, String)>, IoError> {
    let resolved = case.to_toml();
    let files: Vec<String> =
        case.input_files().iter().map(|path| input_text(path, read)).collect::<Result<_, _>>()?;
    let inputs = if files.is_empty() { case_hash_text(&resolved) } else { files.join("; ") };
    let seed = match case.physics.seeds().as_slice() {
        [] => "none".to_owned(),
        seeds => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut texts = vec![
        ("program", format!("orrery {VERSION}")),
        ("commit", COMMIT.to_owned()),
        ("case", resolved),
        ("seed", seed),
        ("device", device_text(device)),
        ("solver", method.to_owned()),
        ("precision", case.physics.precision().as_str().to_owned()),
        ("inputs", inputs),
    ];
    // Another strategy gives other last bits.
    texts.extend(strategy.map(|strategy| ("strategy", strategy)));
    // All texts but the case are lines of `provenance.txt`. Names of files may contain anything.
    let clean = |name: &str, text: String| match name {
        "case" => text,
        _ => clean_line(&text).into_owned(),
    };
    Ok(texts.into_iter().map(|(name, text)| (name.to_owned(), clean(name, text))).collect())
}

fn case_hash_text(resolved: &str) -> String {
    format!("blake3:{} case", blake3::hash(resolved.as_bytes()).to_hex())
}

/// Returns the hash and the path of an input file.
fn input_text(path: &Path, read: Option<&InputHashes>) -> Result<String, IoError> {
    Ok(format!("blake3:{} {}", known_hash(path, read)?, path.display()))
}

/// Returns the hash of a file: that of the bytes that were read, or else of its present bytes.
pub(crate) fn known_hash(path: &Path, read: Option<&InputHashes>) -> Result<String, IoError> {
    read.and_then(|read| read.of(path)).map_or_else(|| hash_file(path), |hash| Ok(hash.to_owned()))
}

/// Returns the recorded hash of the file at `path`, if `inputs` is the text of a run that started
/// from it.
pub fn recorded_input_hash<'a>(inputs: &'a str, path: &Path) -> Option<&'a str> {
    let path = path.display().to_string();
    let path = clean_line(&path);
    let mut files =
        inputs.strip_prefix("blake3:")?.split("; blake3:").filter_map(|text| text.split_once(' '));
    // Earlier versions recorded the path as it is.
    files.find(|(_, recorded)| clean_line(recorded) == path).map(|(hash, _)| hash)
}

/// Replaces the case in the provenance of a run that is extended.
pub fn replace_case(provenance: &mut [(String, String)], case: &Case) {
    let resolved = case.to_toml();
    for (name, text) in provenance {
        match name.as_str() {
            "case" => text.clone_from(&resolved),
            "inputs" if case.input_files().is_empty() => *text = case_hash_text(&resolved),
            _ => {}
        }
    }
}

/// Returns the name of a species for reports.
pub fn species_name(species: Species) -> &'static str {
    match species {
        Species::Gas => "gas",
        Species::Halo => "halo",
        Species::Disc => "disc",
        Species::Bulge => "bulge",
        Species::Stars => "stars",
        Species::Boundary => "boundary",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_each_input_file_is_found() {
        let inputs = "blake3:aa11 /data/a b.xyz; blake3:bb22 /data/c.npy";
        let hash_of = |path: &str| recorded_input_hash(inputs, Path::new(path));
        assert_eq!([hash_of("/data/a b.xyz"), hash_of("/data/c.npy")], [Some("aa11"), Some("bb22")]);
        assert_eq!(hash_of("/data/d.npy"), None);
        assert_eq!(recorded_input_hash("blake3:cc33 case", Path::new("/data/c.npy")), None);
    }

    #[test]
    fn the_hash_of_a_file_with_control_characters_is_found() {
        let path = Path::new("/data/a\nprogram: evil\u{1b}[31m.xyz");
        // As it is written, and as earlier versions wrote it.
        for recorded in ["/data/a\\nprogram: evil\\u001b[31m.xyz", "/data/a\nprogram: evil\u{1b}[31m.xyz"] {
            assert_eq!(recorded_input_hash(&format!("blake3:aa11 {recorded}"), path), Some("aa11"));
        }
    }
}
