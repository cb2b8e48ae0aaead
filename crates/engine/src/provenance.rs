//! Where an output comes from: enough to make it again.

use std::path::Path;

use orrery_device::Device;
use orrery_io::IoError;
use orrery_model::Species;
use orrery_particles::settings::Precision;
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::device::DeviceStrategy;

use crate::case::{BodiesSource, Case};

/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The git commit it was built from, or "unknown".
pub const COMMIT: &str = env!("ORRERY_COMMIT");

/// The device that computes, in words. How many threads it has changes no bit, and so is not said.
pub fn device(device: Option<&Device>) -> String {
    match device.map(Device::properties) {
        Some(found) => format!("{} ({})", found.backend.as_str(), found.name),
        None => format!("cpu ({})", InstructionSet::best().name()),
    }
}

/// BLAKE3 of a file, in hexadecimal.
pub fn hash_of_file(path: &Path) -> Result<String, IoError> {
    let mut hasher = blake3::Hasher::new();
    let mut file = std::fs::File::open(path).map_err(|e| IoError::from_system(path, e))?;
    std::io::copy(&mut file, &mut hasher).map_err(|e| IoError::from_system(path, e))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The provenance of a run with its solver on a device, as ordered names and texts.
pub fn of_run(
    case: &Case,
    solver: &str,
    device: Option<&Device>,
    strategy: Option<&DeviceStrategy>,
) -> Result<Vec<(String, String)>, IoError> {
    let resolved = case.to_toml();
    let inputs = match case.bodies_file() {
        Some(path) => format!("blake3:{} {}", hash_of_file(&path)?, path.display()),
        None => format!("blake3:{} case", blake3::hash(resolved.as_bytes()).to_hex()),
    };
    let seeds = match &case.bodies {
        BodiesSource::Model(model) => model.seeds(),
        BodiesSource::File(_) => Vec::new(),
    };
    let seed = match seeds.as_slice() {
        [] => "none".to_owned(),
        seeds => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let precision = match case.gravity.precision {
        Precision::Single => "single",
        Precision::Mixed => "mixed",
        Precision::Double => "double",
    };
    let mut texts = vec![
        ("program", format!("orrery {VERSION}")),
        ("commit", COMMIT.to_owned()),
        ("case", resolved),
        ("seed", seed),
        ("device", self::device(device)),
        ("solver", solver.to_owned()),
        ("precision", precision.to_owned()),
        ("inputs", inputs),
    ];
    // Another one gives other last bits.
    texts.extend(strategy.map(|strategy| ("strategy", strategy_text(strategy))));
    Ok(texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect())
}

/// How a device computes forces, in JSON.
pub fn strategy_text(strategy: &DeviceStrategy) -> String {
    serde_json::to_string(strategy).unwrap_or_default()
}

/// What a species is called in reports.
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
