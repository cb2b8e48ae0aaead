//! Golden hashes: the final states of short runs, as bits.
//!
//! A hash covers the bodies (masses, ids, positions, velocities and accelerations) or the field
//! (temperatures) in the last checkpoint of a whole run. It changes when any of those bits changes.
//! A refactoring must leave all hashes alone, and an intended change of results is visible as
//! changed lines of `golden.txt`.
//!
//! Bits depend on the hardware and on the compiler of device kernels, so each hash belongs to a
//! [`Machine`]. A machine without recorded hashes is skipped with a message. The bits of fields are
//! the same everywhere, so their hashes are those of [`EVERY_MACHINE`]. This command prints the
//! lines for all machines found here:
//!
//! ```text
//! cargo run --release -p orrery-validation --bin golden
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use orrery_device::{Device, DeviceChoice, DeviceKind};
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::compute_device::DeviceRequest;
use orrery_engine::control::Control;
use orrery_engine::run::{Output, Replace, run};
use orrery_formats::{Block, Limits, read_checkpoint};
use orrery_model::Precision;
use orrery_simd::InstructionSet;

/// Returns the recorded hashes of `machine`, by name of the run.
pub fn recorded_hashes(machine: &str) -> BTreeMap<String, String> {
    let lines = include_str!("../golden.txt").lines().filter(|line| !line.starts_with('#'));
    let of_machine = lines.filter_map(|line| line.strip_prefix(machine)?.strip_prefix(' ')?.split_once(' '));
    of_machine.map(|(run, hash)| (run.to_owned(), hash.to_owned())).collect()
}

/// Name in `golden.txt` of the hashes that all machines have.
pub const EVERY_MACHINE: &str = "every-machine";

/// Runs of fields: name, preset and settings.
const FIELD_RUNS: [(&str, &str, &[&str]); 4] = [
    ("sine-decay-double", "sine-decay", &["time.end=0.0005"]),
    ("sine-decay-single", "sine-decay", &["time.end=0.0005", "heat.precision=single"]),
    ("chip-double", "chip", &["time.end=\"0.5 ms\""]),
    ("hot-plate-single", "hot-plate", &["time.end=\"100 ms\"", "heat.precision=single"]),
];

/// Presets with the settings that make them short. They run on the CPU.
const PRESETS: [(&str, &[&str]); 6] = [
    ("galaxy-collision", &["time.end=\"5 Myr\""]),
    ("plummer", &["time.end=0.05"]),
    ("cold-collapse", &["time.end=0.02"]),
    ("solar-system", &["time.end=\"80 days\""]),
    ("figure-eight", &["time.end=0.5"]),
    ("pythagorean", &["time.end=2.0"]),
];

/// Runs of the preset `plummer` on a device, in each precision: name, solver and number of bodies.
/// Few and many bodies use different kernels of the direct sum.
const DEVICE_RUNS: [(&str, &str, usize); 3] =
    [("direct-1000", "direct", 1000), ("direct-10000", "direct", 10_000), ("tree-10000", "tree", 10_000)];

/// Hardware and kernel compiler, on which the last bits depend.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The name in `golden.txt`, such as `cpu-avx2-GenuineIntel`.
    pub name: String,
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    Cpu(InstructionSet),
    Device(DeviceChoice),
}

impl Machine {
    /// Lists the CPU with each of its instruction sets, and every device with f64.
    pub fn all() -> Vec<Self> {
        let cpus =
            InstructionSet::available().map(|set| Self { name: cpu_name(set), target: Target::Cpu(set) });
        let devices = Device::list().devices.into_iter().filter(|device| device.properties().has_f64);
        let devices = devices.map(|device| {
            let properties = device.properties();
            let (backend, driver) = (properties.backend, &properties.driver);
            let name = match properties.kind {
                // PoCL compiles for the CPU that it finds and splits sums over its cores.
                DeviceKind::Cpu => {
                    let cpu = cpu_name(InstructionSet::best());
                    format!("{backend}-{driver}-{}-units-{cpu}", properties.sm_count)
                }
                DeviceKind::Gpu | DeviceKind::Other => {
                    format!("{backend}-{}-{}", properties.name, properties.compiler)
                }
            };
            let choice = device.label().parse().expect("a label names its device");
            Self { name: join_words(&name), target: Target::Device(choice) }
        });
        cpus.chain(devices).collect()
    }

    /// Runs all bodies on this machine and returns the hash of each run by its name.
    ///
    /// The instruction set is a setting of the whole process, so two machines cannot run at the
    /// same time.
    ///
    /// # Panics
    /// If a run fails.
    pub fn hashes(&self) -> BTreeMap<String, String> {
        match self.target {
            Target::Cpu(set) => {
                InstructionSet::limit_to(set);
                let hashes = PRESETS.iter().map(|(preset, sets)| {
                    ((*preset).to_owned(), final_state_hash(preset, &owned(sets), DeviceChoice::Cpu))
                });
                let hashes = hashes.collect();
                InstructionSet::limit_to(InstructionSet::Avx512);
                hashes
            }
            Target::Device(choice) => {
                let mut hashes = BTreeMap::new();
                for (name, solver, n) in DEVICE_RUNS {
                    for precision in Precision::ALL.map(Precision::as_str) {
                        let sets = [
                            format!("bodies.n={n}"),
                            format!("gravity.solver={solver}"),
                            format!("gravity.precision={precision}"),
                            "time.end=0.01".to_owned(),
                        ];
                        let hash = final_state_hash("plummer", &sets, choice);
                        hashes.insert(format!("{name}-{precision}"), hash);
                    }
                }
                hashes
            }
        }
    }

    /// Runs all fields on this machine and returns the hash of each run by its name.
    ///
    /// # Panics
    /// If a run fails.
    pub fn field_hashes(&self) -> BTreeMap<String, String> {
        let choice = match self.target {
            Target::Cpu(set) => {
                InstructionSet::limit_to(set);
                DeviceChoice::Cpu
            }
            Target::Device(choice) => choice,
        };
        let hash = |(name, preset, sets): (&str, &str, &[&str])| {
            (name.to_owned(), final_state_hash(preset, &owned(sets), choice))
        };
        let hashes = FIELD_RUNS.into_iter().map(hash).collect();
        InstructionSet::limit_to(InstructionSet::Avx512);
        hashes
    }
}

fn owned(sets: &[&str]) -> Vec<String> {
    sets.iter().map(|&set| set.to_owned()).collect()
}

/// Returns the name of the CPU with instruction set `set`. Vendors differ in the estimate of the
/// reciprocal square root.
fn cpu_name(set: InstructionSet) -> String {
    match set {
        InstructionSet::Portable => "cpu-portable".to_owned(),
        InstructionSet::Avx2 | InstructionSet::Avx512 => {
            let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let vendor = info.lines().find_map(|line| line.strip_prefix("vendor_id")?.split(':').nth(1));
            let vendor = vendor.map_or("unknown", str::trim);
            join_words(&format!("cpu-{}-{vendor}", set.name()))
        }
    }
}

fn join_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("-")
}

/// Runs a case in a temporary folder and hashes the state of its last checkpoint.
fn final_state_hash(preset: &str, sets: &[String], choice: DeviceChoice) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Pictures do not change the state.
    let pictures = ["image.size=64", "output.image_every=0", "output.plots=false"];
    let sets = [&owned(&pictures), sets].concat();
    let case = CaseSource::from_argument(preset).and_then(|source| Case::load(&source, &sets));
    let case = case.unwrap_or_else(|error| panic!("{error}"));
    let output = Output { folder: folder.path().join("run"), replace: Replace::Nothing };
    let control = Control { device: DeviceRequest { choice, tuned: None }, ..Control::default() };
    run(&case, &output, &control, |_| {}).unwrap_or_else(|error| panic!("{preset} {sets:?}: {error}"));
    let columns = if case.heat().is_some() { 1 } else { 11 };
    hash_state(&output.folder.join("checkpoints"), columns)
}

/// Hashes those columns of the newest checkpoint in `folder` that belong to the state, with their
/// names. There must be `expected` of them: the temperature, or mass, id and three vectors.
fn hash_state(folder: &Path, expected: usize) -> String {
    let files =
        fs::read_dir(folder).expect("a folder of checkpoints").map(|entry| entry.expect("an entry").path());
    let newest = files.max().expect("a checkpoint");
    let checkpoint = read_checkpoint(&newest, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    let is_of_state = |name: &str| {
        ["mass", "id", "position", "velocity", "acceleration", "temperature"]
            .contains(&name.split('.').next().unwrap_or(name))
    };
    let mut hasher = blake3::Hasher::new();
    let mut columns = 0;
    for (name, block) in checkpoint.blocks.iter().filter(|(name, _)| is_of_state(name)) {
        columns += 1;
        hasher.update(name.as_bytes());
        match block {
            Block::Reals(numbers) => hasher.update(&bytes_of(numbers.iter().map(|x| x.to_bits()))),
            Block::Integers(numbers) => hasher.update(&bytes_of(numbers.iter().copied())),
            Block::Bytes(bytes) => hasher.update(bytes),
            Block::Singles(numbers) => {
                hasher.update(&bytes_of(numbers.iter().map(|x| u64::from(x.to_bits()))))
            }
        };
    }
    assert_eq!(columns, expected);
    hasher.finalize().to_hex()[..16].to_owned()
}

fn bytes_of(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}
