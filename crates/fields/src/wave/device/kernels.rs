//! Compiles the kernels of waves.

use orrery_device::{Arg, Device, DeviceError, Kernel, KernelFile, Math, Module, kernel_source};

use super::{WaveDeviceStrategy, WaveKernel};
use crate::Scalar;
use crate::wave::{Medium, SquaredCourant};

// SAFETY: the kernels access nodes of the planes `begin` to `end`, and their neighbours at
// distances up to RADIUS, vectors and rows that end within the gap after a row, and ghost rows.
// `WaveLayout` has all of them. Rows and planes start at multiples of 128 bytes and threads at
// multiples of a vector, so vectors are aligned. `DeviceWaveSlab::launch_advance` passes planes
// that the slab owns. All loops end.
const COLUMNS: KernelFile =
    unsafe { KernelFile::new("columns.cu", kernel_source!("common.cu", "columns.cu")) };

// SAFETY: as above. Copies are limited to the ghost nodes of the planes that a chunk needs, at
// multiples of 16 bytes. The launch has the dynamic shared memory of
// `WaveDeviceStrategy::dynamic_shared`.
const RING: KernelFile = unsafe { KernelFile::new("ring.cu", kernel_source!("common.cu", "ring.cu")) };

/// Text that comes before every kernel of waves (`common.cu`): the arithmetic of a step, and
/// `ADVANCE_PARAMETERS`, the parameters of a kernel that advances a field. An [`AdvanceKernel`] of
/// another crate starts with it.
/// [`DeviceWave::kernel_definitions`](super::DeviceWave::kernel_definitions) has its definitions.
pub const WAVE_KERNEL_SOURCE: &str = kernel_source!("common.cu");

/// Kernel that advances all nodes of a field, with its launch parameters. Runs use the kernel of
/// their [`WaveDeviceStrategy`]. Another one can be compared with it in the same field, see
/// [`DeviceWave::set_advance_kernel`](super::DeviceWave::set_advance_kernel).
#[derive(Clone, Debug)]
pub struct AdvanceKernel {
    /// Kernel with the parameters `ADVANCE_PARAMETERS` of [`WAVE_KERNEL_SOURCE`].
    pub kernel: Kernel,
    /// Nodes of a block along x and y.
    pub tile: [u32; 2],
    /// Threads per block.
    pub block_size: u32,
    /// Planes that a block marches through.
    pub planes_per_chunk: u32,
}

/// Returns the definitions that all kernels have.
pub(super) fn common_definitions<R: Scalar>(medium: &Medium<R>) -> Vec<(&'static str, String)> {
    let is_variable = matches!(medium.squared_courant, SquaredCourant::Field(_));
    vec![
        ("REAL", R::KERNEL_NAME.to_owned()),
        ("IS_DOUBLE", u32::from(size_of::<R>() == 8).to_string()),
        ("RADIUS", medium.stencil.radius.to_string()),
        ("VECTOR", format!("{}{}", R::KERNEL_NAME, vector_width::<R>())),
        ("VECTOR_WIDTH", vector_width::<R>().to_string()),
        ("IS_VARIABLE", u32::from(is_variable).to_string()),
        ("DIMENSIONS", medium.grid.dimensions().to_string()),
    ]
}

/// Compiles the kernel of a strategy.
pub(super) fn build_advance<R: Scalar>(
    device: &Device,
    medium: &Medium<R>,
    strategy: &WaveDeviceStrategy,
) -> Result<AdvanceKernel, DeviceError> {
    let mut definitions = common_definitions(medium);
    definitions.extend([
        ("THREADS_X", strategy.threads_x.to_string()),
        ("THREADS_Y", strategy.threads_y.to_string()),
        ("ROWS", strategy.rows_per_thread.to_string()),
        ("AHEAD", strategy.planes_ahead.to_string()),
        ("UNROLLED_PLANES", strategy.unrolled_planes.to_string()),
        ("MIN_BLOCKS", strategy.min_blocks_per_sm.to_string()),
    ]);
    let (file, function) = match strategy.kernel {
        WaveKernel::Columns => (&COLUMNS, "advance_columns"),
        WaveKernel::Ring => (&RING, "advance_ring"),
    };
    let is_variable = matches!(medium.squared_courant, SquaredCourant::Field(_));
    let shared = strategy.dynamic_shared(medium.stencil.radius as u32, is_variable, size_of::<R>() as u32);
    let module = device.build(file, &definitions, Math::Precise)?;
    Ok(AdvanceKernel {
        kernel: module.kernel_with_shared(function, shared)?,
        tile: strategy.tile(vector_width::<R>()),
        block_size: strategy.threads_x * strategy.threads_y,
        planes_per_chunk: strategy.planes_per_chunk,
    })
}

/// Compiles a file with the common definitions and others.
pub(super) fn build_with<R: Scalar>(
    device: &Device,
    medium: &Medium<R>,
    file: &KernelFile<'_>,
    others: &[(&'static str, u32)],
) -> Result<Module, DeviceError> {
    let mut definitions = common_definitions(medium);
    definitions.extend(others.iter().map(|&(name, value)| (name, value.to_string())));
    device.build(file, &definitions, Math::Precise)
}

/// Numbers in a vector of 16 bytes.
pub(super) fn vector_width<R>() -> u32 {
    (16 / size_of::<R>()) as u32
}

/// Returns the arguments `centre` and the weights of three axes.
pub(super) fn weight_arguments<R: Scalar>(medium: &Medium<R>, axes: [usize; 3]) -> Vec<Arg<'static>> {
    let stencil = &medium.stencil;
    let weights = axes.into_iter().flat_map(|axis| stencil.neighbours[axis]);
    std::iter::once(stencil.centre).chain(weights).map(Scalar::to_argument).collect()
}

/// Returns the uniform v, or zero if v is a field.
pub(super) fn uniform_courant<R: Scalar>(medium: &Medium<R>) -> R {
    match &medium.squared_courant {
        SquaredCourant::Uniform(v) => *v,
        SquaredCourant::Field(_) => R::default(),
    }
}

/// Largest number of blocks along y.
pub(super) const MAX_BLOCKS_Y: usize = 65_535;
