//! Compiles the kernels of the laboratory with NVRTC, without a GPU.
//!
//! The rungs of all ladders become PTX for compute capability 9.0, in a list that follows from the
//! registry. Kernels that no rung has are in [`OTHERS`]. The default strategies of the primitives
//! become machine code for 9.0 and 7.5, and their local memory is checked. PTX takes two thirds of
//! the time.
//!
//! PoCL, on which the other tests run on a machine without a GPU, takes other branches than CUDA
//! for shuffles, votes and tickets. A list builds rungs and primitives on a device that compiles
//! kernels, checks the arguments of launches and does not run them, so results have no meaning. It
//! fails if a kernel does not compile, if a launch does not match a kernel, and if machine code
//! uses local memory without being in [`ALLOWED_LOCAL_MEMORY`].

mod experiments;
mod primitives;
mod rungs;

use std::collections::BTreeSet;
use std::path::Path;

use orrery_device::Device;
use orrery_device::testing::{AllowedLocalMemory, CompileOnlyCuda, compile_only_cuda, ptx_only_cuda};
use orrery_measure::MeasureError;
use rayon::prelude::*;

use crate::ladder::LADDERS;

const ALLOWED_LOCAL_MEMORY: [AllowedLocalMemory; 1] = [AllowedLocalMemory {
    file: "pressure.cu",
    kernel: "update_values",
    definitions: &["MAX_REGISTERS=32"],
    max_bytes: 512,
    reason: "the experiment measures what spilled registers cost",
}];

/// Number of elements.
const ELEMENTS: usize = 5000;

type ListResult = Result<(), MeasureError>;

/// Kernels that no rung has: those of sweeps, and of the primitives for other elements, shapes and
/// strategies.
struct KernelList {
    name: &'static str,
    open: fn() -> Option<CompileOnlyCuda>,
    compile: fn(&Device) -> ListResult,
}

const fn list(
    name: &'static str,
    open: fn() -> Option<CompileOnlyCuda>,
    compile: fn(&Device) -> ListResult,
) -> KernelList {
    KernelList { name, open, compile }
}

fn turing() -> Option<CompileOnlyCuda> {
    compile_only_cuda((7, 5))
}

fn hopper() -> Option<CompileOnlyCuda> {
    compile_only_cuda((9, 0))
}

fn hopper_ptx() -> Option<CompileOnlyCuda> {
    ptx_only_cuda((9, 0))
}

const OTHERS: [KernelList; 15] = [
    list("defaults of primitives for 7.5", turing, primitives::compile_defaults),
    list("defaults of primitives for 9.0", hopper, primitives::compile_defaults),
    list("registers and loads in flight", hopper, experiments::compile_occupancy),
    list("candidates of primitives", hopper_ptx, primitives::compile_candidates),
    list("labels", hopper_ptx, primitives::compile_labels),
    list("matrix products", hopper_ptx, primitives::compile_products),
    list("integer sums", hopper_ptx, primitives::compile_integer_sums),
    list("steps of the course", hopper_ptx, rungs::compile_course_steps),
    list("waves in two dimensions and in f64", hopper_ptx, rungs::compile_waves),
    list("forces on a range", hopper_ptx, rungs::compile_ranges),
    list("patterns of copies", hopper_ptx, experiments::compile_patterns),
    list("atomics and votes", hopper_ptx, experiments::compile_atomics),
    list("counted lanes and bodies of branches", hopper_ptx, experiments::compile_branches),
    list("loops, segments and calls", hopper_ptx, experiments::compile_loops_and_segments),
    list("latencies and ordered sums", hopper_ptx, experiments::compile_arithmetic),
];

/// Kernel functions: file and name.
type KernelNames = BTreeSet<(String, String)>;

/// Compiles a list and returns its kernels.
fn compile_list(
    cuda: &CompileOnlyCuda,
    name: &str,
    compile: impl FnOnce(&Device) -> ListResult,
) -> KernelNames {
    if let Err(error) = compile(&cuda.device) {
        panic!("{name}: {error}");
    }
    cuda.check_kernels(1, &ALLOWED_LOCAL_MEMORY);
    cuda.kernels().into_iter().map(|kernel| (kernel.file, kernel.name)).collect()
}

/// Compiles the rungs of all ladders and the other kernels, in parallel. Returns `None` without
/// NVRTC.
fn compile_all() -> Option<KernelNames> {
    let ladders = LADDERS.par_iter().with_max_len(1).filter(|entry| !entry.rungs.is_empty()).map(|entry| {
        let run = |device: &Device| entry.rungs.iter().try_for_each(|set| (set.run_once)(device));
        Some(compile_list(&hopper_ptx()?, entry.name, run))
    });
    let compile = |other: &KernelList| Some(compile_list(&(other.open)()?, other.name, other.compile));
    let others = OTHERS.par_iter().with_max_len(1).map(compile);
    ladders.chain(others).try_reduce(KernelNames::new, |mut all, names| {
        all.extend(names);
        Some(all)
    })
}

/// Returns the kernel functions that the files of a folder declare.
fn declared_kernels(folder: &Path, found: &mut KernelNames) {
    for entry in folder.read_dir().expect("a folder of sources") {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            declared_kernels(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "cu") {
            let file = path.file_name().expect("a file name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("a kernel file");
            found.extend(kernel_names(&text).into_iter().map(|name| (file.clone(), name)));
        }
    }
}

/// Returns the names after `KERNEL(...)`, `KERNEL_2D(...)` and `KERNEL_MIN_BLOCKS(...)` at the
/// start of a line.
fn kernel_names(text: &str) -> Vec<String> {
    let starts = text.match_indices("KERNEL").filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
    let name_after = |(at, _): (usize, &str)| {
        let (_, after_macro) = text[at..].split_once(')')?;
        let (name, _) = after_macro.split_once('(')?;
        Some(name.trim().to_owned())
    };
    starts.filter_map(name_after).collect()
}

#[test]
fn names_of_kernels_are_read() {
    let text = "// KERNEL(1) none(\nKERNEL(BLOCK_SIZE) first(int n)\n{\n}\n\nKERNEL_2D(32, 8)\nsecond(int n)\n{\n}\n";
    assert_eq!(kernel_names(text), ["first", "second"]);
}

/// A rung that is not in the registry, or a kernel that neither a rung nor [`OTHERS`] builds, is in
/// the sources and not among the compiled kernels. Kernels of a file that is a part of another one
/// are known by their names.
#[test]
fn every_kernel_of_the_laboratory_compiles_for_hopper() {
    let Some(compiled) = compile_all() else { return };
    let mut declared = KernelNames::new();
    declared_kernels(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut declared);
    assert!(declared.len() > 80, "{declared:?}");
    let files: BTreeSet<&String> = compiled.iter().map(|(file, _)| file).collect();
    let names: BTreeSet<&String> = compiled.iter().map(|(_, name)| name).collect();
    let is_missing = |(file, name): &&(String, String)| match files.contains(file) {
        true => !compiled.contains(&(file.clone(), name.clone())),
        false => !names.contains(name),
    };
    let missing: Vec<_> = declared.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "not compiled: {missing:?}");
}
