//! Provenance of an output: the program, case, device and input that are needed to repeat it.

use std::path::Path;

use orrery_device::Device;
use orrery_io::IoError;
use orrery_model::Species;
use orrery_simd::InstructionSet;

use crate::case::{BodiesSource, Case};

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

/// Returns the BLAKE3 hash of a file, in hexadecimal.
pub fn hash_file(path: &Path) -> Result<String, IoError> {
    let mut hasher = blake3::Hasher::new();
    let mut file = std::fs::File::open(path).map_err(|e| IoError::from_system(path, e))?;
    std::io::copy(&mut file, &mut hasher).map_err(|e| IoError::from_system(path, e))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the provenance of a run as ordered pairs of name and text. `method` and `strategy` are
/// those of its system.
pub fn run_provenance(
    case: &Case,
    method: &str,
    device: Option<&Device>,
    strategy: Option<String>,
) -> Result<Vec<(String, String)>, IoError> {
    let resolved = case.to_toml();
    let inputs = match case.bodies_file() {
        Some(path) => format!("blake3:{} {}", hash_file(&path)?, path.display()),
        None => case_hash_text(&resolved),
    };
    let seeds = match &case.bodies {
        BodiesSource::Model(model) => model.seeds(),
        BodiesSource::File(_) => Vec::new(),
    };
    let seed = match seeds.as_slice() {
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
        ("precision", case.gravity.precision.as_str().to_owned()),
        ("inputs", inputs),
    ];
    // Another strategy gives other last bits.
    texts.extend(strategy.map(|strategy| ("strategy", strategy)));
    Ok(texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect())
}

fn case_hash_text(resolved: &str) -> String {
    format!("blake3:{} case", blake3::hash(resolved.as_bytes()).to_hex())
}

/// Returns the recorded hash of the file that a run started from, if `inputs` is the text of such a
/// run and of this path.
pub fn recorded_input_hash<'a>(inputs: &'a str, path: &Path) -> Option<&'a str> {
    let (hash, recorded) = inputs.strip_prefix("blake3:")?.split_once(' ')?;
    (recorded == path.display().to_string()).then_some(hash)
}

/// Replaces the case in the provenance of a run that is extended.
pub fn replace_case(provenance: &mut [(String, String)], case: &Case) {
    let resolved = case.to_toml();
    for (name, text) in provenance {
        match name.as_str() {
            "case" => text.clone_from(&resolved),
            "inputs" if case.bodies_file().is_none() => *text = case_hash_text(&resolved),
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
