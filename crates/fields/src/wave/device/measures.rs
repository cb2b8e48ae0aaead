//! Energy and largest amplitude of a wave field on a device: launches `measures.cu`.

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Queue, kernel_source};
use orrery_model::wave::{Side, SideCondition, Sides};

use super::kernels::{MAX_BLOCKS_Y, build_with, uniform_courant, weight_arguments};
use super::slab::DeviceWaveSlab;
use crate::Scalar;
use crate::wave::Medium;
use crate::wave::layer::has_side;
use crate::wave::layout::WaveLayout;

// SAFETY: the kernels read nodes that the slab owns and their neighbours, and write one result per
// part and slice, for which `WaveMeasureKernels` allocates memory. `gather_plane` reads nodes of a
// plane and writes as many values, for which its caller allocates memory. All loops end.
const MEASURES: KernelFile =
    unsafe { KernelFile::new("wave_measures.cu", kernel_source!("common.cu", "measures.cu")) };

/// Threads per block.
const BLOCK_SIZE: u32 = 256;

/// Parts of a slice, if it has as many rows. Fixed, because they determine the order of a sum.
const PARTS: usize = 64;

/// Part of a plane of nodes in the memory of a slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanePart {
    /// Position of the first node.
    pub(super) first: usize,
    /// Distances between neighbours along both axes of the plane.
    pub(super) strides: [usize; 2],
    /// Nodes along both axes.
    pub(super) size: [usize; 2],
}

/// The kernels, and buffers for their results.
#[derive(Debug)]
pub(super) struct WaveMeasureKernels<R: Scalar> {
    measure_energy: Kernel,
    measure_largest: Kernel,
    gather_plane: Kernel,
    /// Parts per slice.
    parts: usize,
    /// Results of all parts of all slices of the slab.
    energies: Buffer<f64>,
    largest: Buffer<R>,
}

impl<R: Scalar> WaveMeasureKernels<R> {
    /// Compiles the kernels, for a slab with this layout.
    pub(super) fn new(device: &Device, medium: &Medium<R>, layout: &WaveLayout) -> Result<Self, DeviceError> {
        let module = build_with(device, medium, &MEASURES, &[("BLOCK_SIZE", BLOCK_SIZE)])?;
        let parts = PARTS.min(layout.slice_rows());
        let results = parts * layout.slices();
        Ok(Self {
            measure_energy: module.kernel("measure_energy")?,
            measure_largest: module.kernel("measure_largest")?,
            gather_plane: module.kernel("gather_plane")?,
            parts,
            energies: device.zeros(results)?,
            largest: device.zeros(results)?,
        })
    }

    /// Returns the bytes of the result buffers.
    pub(super) fn needed_bytes(layout: &WaveLayout) -> u64 {
        (PARTS.min(layout.slice_rows()) * layout.slices() * (8 + size_of::<R>())) as u64
    }

    /// Queues the largest amplitude of a field of a slab.
    pub(super) fn launch_largest(
        &self,
        queue: &Queue,
        slab: &DeviceWaveSlab<R>,
        field: &Buffer<R>,
    ) -> Result<(), DeviceError> {
        let mut args: Vec<Arg<'_>> = vec![field.into()];
        args.extend(self.place_arguments(slab));
        args.push((&self.largest).into());
        queue.launch(&self.measure_largest, self.blocks(slab), BLOCK_SIZE, &args)
    }

    /// Queues the energy of the state of a slab.
    pub(super) fn launch_energy(
        &self,
        queue: &Queue,
        medium: &Medium<R>,
        slab: &DeviceWaveSlab<R>,
    ) -> Result<(), DeviceError> {
        let slow = slab.layout.slow_axis();
        let is_rigid = |side: &&Side| {
            *medium.sides.on(**side) == SideCondition::Rigid && has_side(&medium.grid, **side, &slab.owned)
        };
        // Two bits for x, two for the rows of a slice and two for the slices.
        let bit = |side: Side| if side.axis() == slow { 4 + i32::from(side.is_max()) } else { side as i32 };
        let rigid: i32 = Sides::used(&medium.grid).iter().filter(is_rigid).map(|&side| 1 << bit(side)).sum();
        let mut args: Vec<Arg<'_>> = vec![
            (&*slab.now).into(),
            (&*slab.previous).into(),
            (&slab.courant).into(),
            uniform_courant(medium).to_argument(),
        ];
        args.extend(weight_arguments(medium, if slow == 2 { [2, 1, 0] } else { [1, 2, 0] }));
        args.extend(self.place_arguments(slab));
        args.push(rigid.into());
        args.push((&self.energies).into());
        queue.launch(&self.measure_energy, self.blocks(slab), BLOCK_SIZE, &args)
    }

    /// Queues the copy of a part of a plane to `target`.
    pub(super) fn launch_gather(
        &self,
        queue: &Queue,
        field: &Buffer<R>,
        part: &PlanePart,
        target: &Buffer<R>,
    ) -> Result<(), DeviceError> {
        let PlanePart { first, strides: [right, up], size: [width, height] } = *part;
        let args = [
            field.into(),
            (first as u64).into(),
            (right as u64).into(),
            (up as u64).into(),
            (width as i32).into(),
            (height as i32).into(),
            target.into(),
        ];
        let grid = [(width as u32).div_ceil(BLOCK_SIZE), height.min(MAX_BLOCKS_Y) as u32];
        queue.launch(&self.gather_plane, grid, BLOCK_SIZE, &args)
    }

    /// Returns the arguments from `first` to `slices`.
    fn place_arguments(&self, slab: &DeviceWaveSlab<R>) -> [Arg<'static>; 6] {
        let layout = &slab.layout;
        let int = |number: usize| Arg::from(number as i32);
        [
            (layout.position([0, 0, 0]) as u64).into(),
            (layout.slice_stride() as u64).into(),
            int(layout.pitch),
            int(layout.nodes[0]),
            int(layout.slice_rows()),
            int(layout.slices()),
        ]
    }

    fn blocks(&self, slab: &DeviceWaveSlab<R>) -> [u32; 2] {
        [self.parts as u32, slab.owned.len().min(MAX_BLOCKS_Y) as u32]
    }

    /// Waits for the energies of all parts, in their order, without their factor.
    pub(super) fn read_energies(&self, queue: &Queue) -> Result<Vec<f64>, DeviceError> {
        let mut energies = vec![0.0; self.energies.len()];
        queue.read(&self.energies, &mut energies)?;
        Ok(energies)
    }

    /// Waits for the largest amplitude. NaN if a value is NaN.
    pub(super) fn read_largest(&self, queue: &Queue) -> Result<f64, DeviceError> {
        let mut largest = vec![R::default(); self.largest.len()];
        queue.read(&self.largest, &mut largest)?;
        let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
        Ok(largest.iter().fold(0.0, |largest, value| larger(largest, value.to_f64())))
    }
}
