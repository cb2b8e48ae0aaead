//! Compiles the kernels of the simulator with NVRTC, without a GPU. The kernels that runs use by
//! default become machine code for compute capability 9.0 and 7.5, and their local memory is
//! checked. The candidates of the tuner and the self-test become PTX for 9.0, which takes two
//! thirds of the time. Primitives with code for 8.0 and later are also compiled for 8.0.
//!
//! PoCL, on which the other tests run on a machine without a GPU, takes other branches than CUDA
//! for shuffles, votes and tickets. Each list builds solvers and primitives on a device that
//! compiles kernels, checks the arguments of launches and does not run them, so their results have
//! no meaning. A test fails if a kernel does not compile, if a launch does not match a kernel, if
//! machine code uses local memory without being in [`ALLOWED_LOCAL_MEMORY`], and if a kernel that
//! the sources declare is in no list.

mod fields;
mod fluids;
mod gravity;
mod local_memory;
mod primitives;
mod sources;

use std::collections::BTreeSet;

use orrery_device::testing::{CompileOnlyCuda, compile_only_cuda, ptx_only_cuda};
use orrery_device::{Device, ceiling};
use rayon::prelude::*;

use crate::{MeasureError, selftest};
use local_memory::ALLOWED_LOCAL_MEMORY;
use sources::{KernelName, declared_kernels};

type ListResult = Result<(), MeasureError>;

/// Kernels that are compiled on one device.
struct KernelList {
    name: &'static str,
    open: fn() -> Option<CompileOnlyCuda>,
    compile: fn(&Device) -> ListResult,
    /// Least number of kernels, with all their strategies and definitions.
    min_kernels: usize,
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

fn ampere_ptx() -> Option<CompileOnlyCuda> {
    ptx_only_cuda((8, 0))
}

const fn list(
    name: &'static str,
    open: fn() -> Option<CompileOnlyCuda>,
    compile: fn(&Device) -> ListResult,
    min_kernels: usize,
) -> KernelList {
    KernelList { name, open, compile, min_kernels }
}

/// All lists. Other default kernels have the same code and the same constants for 8.0 as for 7.5
/// or 9.0.
const LISTS: [KernelList; 20] = [
    list("fluids for 9.0", hopper, fluids::compile_variants, 96),
    list("waves for 9.0", hopper, fields::compile_all_default_waves, 70),
    list("heat for 9.0", hopper, fields::compile_all_default_heat, 30),
    list("trees for 9.0", hopper, gravity::compile_default_trees, 30),
    list("direct sums for 9.0", hopper, gravity::compile_default_direct_sums, 15),
    list("bodies for 9.0", hopper, gravity::compile_bodies, 15),
    list("bodies on two ranks for 9.0", hopper, gravity::compile_shared_bodies, 15),
    list("primitives for 9.0", hopper, primitives::compile_defaults, 14),
    list("fields for 7.5", turing, fields::compile_some_defaults, 30),
    list("trees for 7.5", turing, gravity::compile_default_trees, 30),
    list("direct sums for 7.5", turing, gravity::compile_default_direct_sums, 15),
    list("bodies for 7.5", turing, gravity::compile_bodies, 15),
    list("primitives for 7.5", turing, primitives::compile_defaults, 14),
    list("primitives for 8.0", ampere_ptx, primitives::compile_defaults, 14),
    list("other direct sums", hopper_ptx, gravity::compile_other_direct_sums, 15),
    list("other trees", hopper_ptx, gravity::compile_other_trees, 60),
    list("other primitives", hopper_ptx, primitives::compile_others, 45),
    list("other fields", hopper_ptx, fields::compile_others, 60),
    list("fluids on two ranks", hopper_ptx, fluids::compile_parts, 74),
    list("device checks and ceilings", hopper_ptx, compile_device_checks, 10),
];

/// The self-test of the device layer, and the ceilings.
fn compile_device_checks(device: &Device) -> ListResult {
    ceiling::measure(device)?;
    ceiling::measure_caches(device)?;
    let summary = selftest::run_checks(&selftest::simulator_checks(), device, "device: ", &mut |_| ());
    for (name, message) in &summary.failures {
        assert!(!message.contains("compile"), "{name}: {message}");
    }
    Ok(())
}

/// Compiles a list and checks its kernels. Returns their files and names, or `None` without NVRTC.
fn compile_list(list: &KernelList) -> Option<Vec<KernelName>> {
    let cuda = (list.open)()?;
    if let Err(error) = (list.compile)(&cuda.device) {
        panic!("{}: {error}", list.name);
    }
    println!("{}", list.name);
    cuda.check_kernels(list.min_kernels, &ALLOWED_LOCAL_MEMORY);
    Some(cuda.kernels().into_iter().map(|kernel| (kernel.file, kernel.name)).collect())
}

/// Compiles all lists. A kernel of the simulator that no list compiles fails the test.
#[test]
fn kernels_of_the_simulator_compile_for_cuda() {
    let compiled: Option<Vec<_>> = LISTS.par_iter().with_max_len(1).map(compile_list).collect();
    let Some(compiled) = compiled else { return };
    let compiled: BTreeSet<KernelName> = compiled.into_iter().flatten().collect();
    let declared = declared_kernels();
    let missing: Vec<_> = declared.difference(&compiled).collect();
    assert!(missing.is_empty(), "no list compiles {missing:?}: add the kernels to a list of this module");
    // A kernel of a text constant is also in the kernel files that contain the constant.
    let is_declared = |kernel: &str| declared.iter().any(|(_, name)| name == kernel);
    let unknown: Vec<_> = compiled.iter().filter(|(_, kernel)| !is_declared(kernel)).collect();
    assert!(unknown.is_empty(), "not found in the sources of the kernels: {unknown:?}");
}

/// Takes a minute.
#[test]
#[ignore = "most candidates of the tuner differ only in constants"]
fn all_candidates_of_the_tuner_compile_for_hopper() {
    compile_list(&list("all candidates", hopper, gravity::compile_all_candidates, 300));
}
