//! Acoustic waves on a device, through CUDA or OpenCL.
//!
//! [`DeviceWave`] is the state of a wave field in the memory of one device: all nodes, or the slab
//! of one rank of a team. It computes the same bits as [`super::reference`], for every
//! [`WaveDeviceStrategy`] and any number of slabs. A step is one launch for all nodes, one per
//! absorbing layer, and small ones for sources, images and receivers. Samples of the receivers stay
//! on the device until they are read.
//!
//! A slab is a range of slices, which are planes, or rows in two dimensions, with ghost slices on
//! both sides.

mod kernels;
mod layers;
mod measures;
mod points;
pub mod selftest;
mod slab;
mod strategy;

use std::ops::Range;
use std::sync::Arc;

use orrery_device::{Buffer, Device, DeviceError, Kernel, Queue};
use orrery_model::grid::{PixelMeans, PixelWeights};
use orrery_model::wave::{Sides, WaveGrid};

pub use kernels::{AdvanceKernel, WAVE_KERNEL_SOURCE};
pub use strategy::{WaveDeviceStrategy, WaveKernel, WaveShape};

use self::kernels::{build_advance, common_definitions};
use self::layers::{ImageSides, LayerKernels};
use self::measures::{PlanePart, WaveMeasureKernels};
use self::points::DevicePoints;
use self::slab::{DeviceWaveSlab, StepLaunch, StepTarget};
use super::energy::{NO_ENERGY, added_energies, energy_scale};
use super::layer::{layer_nodes, slice_count};
use super::layout::WaveLayout;
use super::{
    GridPlane, LayerMemory, MAX_RADIUS, Medium, SquaredCourant, StoredWave, WaveMeasures, WaveProblem,
    WaveState,
};
use crate::Scalar;
use crate::pixels::{DeviceMeans, StridedNodes, pixel_means_of};
use crate::team::DeviceSlab;

/// State of a wave field on a device.
#[derive(Debug)]
pub struct DeviceWave<R: Scalar> {
    device: Device,
    /// The medium, where a field of v is empty: the slab has it.
    medium: Medium<R>,
    strategy: WaveDeviceStrategy,
    advance: AdvanceKernel,
    /// Kernel of borders, if it differs.
    border_kernel: Option<AdvanceKernel>,
    layers: LayerKernels,
    points: DevicePoints<R>,
    measures: WaveMeasureKernels<R>,
    pixel_means: DeviceMeans<R>,
    step: u64,
    slab: DeviceWaveSlab<R>,
}

impl<R: Scalar> DeviceWave<R> {
    /// Uploads a medium and a state of all nodes.
    pub fn new(
        device: &Device,
        medium: Medium<R>,
        state: &WaveState<R>,
        strategy: WaveDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let (owned, receivers) =
            (0..slice_count(&medium.grid), (0..medium.receivers.len()).collect::<Vec<_>>());
        Self::of_slab(device, medium, state, strategy, owned, &receivers)
    }

    /// Uploads the slices `owned`. `medium` and `state` have values of these slices only.
    /// `receivers` are those that are recorded here: all their nodes are in the slices or in ghost
    /// slices.
    pub(super) fn of_slab(
        device: &Device,
        mut medium: Medium<R>,
        state: &WaveState<R>,
        strategy: WaveDeviceStrategy,
        owned: Range<usize>,
        receivers: &[usize],
    ) -> Result<Self, DeviceError> {
        let is_whole = owned.len() == slice_count(&medium.grid);
        let queue = device.queue();
        let slab = DeviceWaveSlab::new(queue, &medium, state, owned)?;
        if let SquaredCourant::Field(values) = &mut medium.squared_courant {
            *values = Vec::new();
        }
        let layers = LayerKernels::new(device, &medium)?;
        let slices = 0..slab.layout.slices();
        layers.launch_images(queue, &medium, &slab.place(), &slab.now, &slices, ImageSides::All)?;
        let samples = state.samples.clone();
        let border_strategy = strategy.for_borders().filter(|_| !is_whole);
        let border_kernel = border_strategy.map(|strategy| build_advance(device, &medium, &strategy));
        Ok(Self {
            border_kernel: border_kernel.transpose()?,
            advance: build_advance(device, &medium, &strategy)?,
            points: DevicePoints::new(device, &medium, &slab.place(), receivers, samples)?,
            measures: WaveMeasureKernels::new(device, &medium, &slab.layout)?,
            pixel_means: DeviceMeans::new(device)?,
            device: device.clone(),
            medium,
            strategy,
            layers,
            step: state.step,
            slab,
        })
    }

    /// Returns the bytes of device memory that a field needs, with a look ahead, and without those
    /// of [`pixel_mean_bytes`](crate::pixels::pixel_mean_bytes).
    pub fn needed_bytes(grid: &WaveGrid, sides: &Sides, is_variable: bool) -> u64 {
        let layout = WaveLayout::on_device::<R>(grid, slice_count(grid));
        let layers: usize = Sides::used(grid)
            .iter()
            .filter_map(|&side| layer_nodes(grid, sides, side))
            .map(|nodes| nodes.iter().product::<usize>())
            .sum();
        let values = (3 + u64::from(is_variable)) * layout.field_len() as u64 + 4 * layers as u64;
        values * size_of::<R>() as u64 + WaveMeasureKernels::<R>::needed_bytes(&layout)
    }

    /// Returns the medium. A field of v is empty, because it is on the device.
    pub fn medium(&self) -> &Medium<R> {
        &self.medium
    }

    /// Returns the medium with v, without the state.
    pub fn into_medium(mut self) -> Result<Medium<R>, DeviceError> {
        if let SquaredCourant::Field(_) = self.medium.squared_courant {
            let values = self.slab.download(self.queue(), &self.slab.courant)?;
            self.medium.squared_courant = SquaredCourant::Field(values);
        }
        Ok(self.medium)
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the queue of the steps.
    pub fn queue(&self) -> &Queue {
        self.device.queue()
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> &WaveDeviceStrategy {
        &self.strategy
    }

    /// Changes the strategy. The next steps have the same bits as with the old one.
    pub fn set_strategy(&mut self, strategy: WaveDeviceStrategy) -> Result<(), DeviceError> {
        self.advance = build_advance(&self.device, &self.medium, &strategy)?;
        self.strategy = strategy;
        Ok(())
    }

    /// Returns the kernel that advances all nodes, with its resources.
    pub fn kernel(&self) -> &Kernel {
        &self.advance.kernel
    }

    /// Returns the definitions of [`WAVE_KERNEL_SOURCE`] for this field, for example `RADIUS`.
    pub fn kernel_definitions(&self) -> Vec<(&'static str, String)> {
        common_definitions(&self.medium)
    }

    /// Replaces the kernel of the strategy by another one until the next call of
    /// [`Self::set_strategy`]. Layers, images, sources and receivers do not change. The borders of
    /// slabs may keep the kernel of the strategy.
    ///
    /// The kernel must update every node of the planes `begin` to `end`. The safety comment of its
    /// file says why it stays within the field, whose ghost nodes reach RADIUS beyond the nodes.
    /// Kernels compare their nodes with the size of a plane, so a wrong tile leaves nodes out.
    pub fn set_advance_kernel(&mut self, kernel: AdvanceKernel) {
        self.advance = kernel;
    }

    /// Returns the number of steps since time 0.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Queues `steps` steps. Does not wait.
    pub fn advance(&mut self, steps: u64) -> Result<(), DeviceError> {
        (0..steps).try_for_each(|_| self.run_pass(()))
    }

    /// Queues the values at the time `fraction` of a step after the state, from a parabola through
    /// u at three times. The state does not change. The result is [`StoredWave::Ahead`] until the
    /// next call.
    pub fn step_ahead(&mut self, fraction: f64) -> Result<(), DeviceError> {
        self.slab.prepare_ahead(self.device.queue())?;
        self.prepare_pass()?;
        self.launch_slices(StepTarget::Ahead, 0..self.slab.layout.slices())?;
        let fields = [&*self.slab.now, &*self.slab.previous];
        let ahead = self.slab.field(StoredWave::Ahead);
        self.points.launch_interpolation(self.queue(), fields, ahead, fraction)
    }

    /// Replaces the state by the result of the last look ahead. There must be one. The step, the
    /// samples and the memory of the layers do not change. Ghost slices of neighbours are not
    /// replaced.
    pub fn end_ahead(&mut self) -> Result<(), DeviceError> {
        self.slab.end_ahead();
        let (slab, slices) = (&self.slab, 0..self.slab.layout.slices());
        let (place, sides) = (slab.place(), ImageSides::All);
        self.layers.launch_images(self.queue(), &self.medium, &place, &slab.now, &slices, sides)
    }

    /// Queues one step of some slices into a field, and the images at the ends. Ghost slices of
    /// neighbours keep their values. The amplitudes of the sources must have been uploaded.
    fn launch_slices(&self, target: StepTarget, slices: Range<usize>) -> Result<(), DeviceError> {
        let step = self.step_launch(self.queue(), &self.advance);
        self.slab.launch_step(&step, target, slices)?;
        self.slab.launch_end_images(&step, target)
    }

    fn step_launch<'a>(&'a self, queue: &'a Queue, advance: &'a AdvanceKernel) -> StepLaunch<'a, R> {
        StepLaunch {
            queue,
            medium: &self.medium,
            advance,
            layers: &self.layers,
            points: &self.points,
            step: self.step,
        }
    }

    /// Waits for the queued steps and returns energy and largest amplitude. The energy is always
    /// that of the state.
    pub fn measures(&self, field: StoredWave) -> Result<WaveMeasures, DeviceError> {
        let energy = added_energies(NO_ENERGY, &self.part_energies()?);
        let largest = self.largest(field)?;
        Ok(WaveMeasures { energy: energy_scale(&self.medium.grid) * energy, largest })
    }

    /// Waits for the queued steps and returns the energies of the parts of slices, without their
    /// factor.
    pub(super) fn part_energies(&self) -> Result<Vec<f64>, DeviceError> {
        self.measures.launch_energy(self.queue(), &self.medium, &self.slab)?;
        self.measures.read_energies(self.queue())
    }

    /// Waits for the queued steps and returns the largest amplitude. NaN if a value is NaN.
    pub fn largest(&self, field: StoredWave) -> Result<f64, DeviceError> {
        self.measures.launch_largest(self.queue(), &self.slab, self.slab.field(field))?;
        self.measures.read_largest(self.queue())
    }

    /// Waits for the queued steps and returns the values of all nodes of the slab.
    pub fn values(&self, field: StoredWave) -> Result<Vec<R>, DeviceError> {
        self.slab.download(self.queue(), self.slab.field(field))
    }

    /// Waits for the queued steps and returns the values of a plane of the grid in the slab.
    pub fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<Vec<R>, DeviceError> {
        let Some(plane) = plane.in_slices(&self.medium.grid, &self.slab.owned) else { return Ok(Vec::new()) };
        // The only plane of a two-dimensional grid needs no copy on the device.
        let nodes = self.slab.layout.nodes;
        if nodes[plane.normal] == 1 {
            return self.values(field);
        }
        match self.gathered_rows(field, plane, 0..nodes[plane.axes()[1]]) {
            Err(DeviceError::OutOfMemory { .. }) => Ok(plane.values_of(nodes, &self.values(field)?)),
            other => other,
        }
    }

    /// Waits for the queued steps and returns some rows of the part of a plane in the slab.
    pub(super) fn plane_rows(
        &self,
        field: StoredWave,
        plane: GridPlane,
        rows: Range<usize>,
    ) -> Result<Vec<R>, DeviceError> {
        match plane.in_slices(&self.medium.grid, &self.slab.owned) {
            Some(plane) => self.gathered_rows(field, plane, rows),
            None => Ok(Vec::new()),
        }
    }

    /// Waits for the queued steps and returns the means of the part of a plane in the slab over
    /// pixels. `weights` are those of its nodes. Without memory for the means on the device, they
    /// are computed on the host.
    pub fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, DeviceError> {
        let here = plane.in_slices(&self.medium.grid, &self.slab.owned);
        let part = self.plane_part(here.expect("the slab has nodes of the plane"));
        let nodes = StridedNodes { buffer: self.slab.field(field), first: part.first, strides: part.strides };
        match self.pixel_means.compute(self.queue(), nodes, weights)? {
            Some(means) => Ok(means),
            None => Ok(pixel_means_of(&self.plane(field, plane)?, weights)),
        }
    }

    /// Returns the place of a plane of the slab in its memory.
    fn plane_part(&self, plane: GridPlane) -> PlanePart {
        let (layout, axes, mut node) = (&self.slab.layout, plane.axes(), [0; 3]);
        node[plane.normal] = plane.node;
        PlanePart {
            first: layout.position(node),
            strides: axes.map(|axis| layout.strides()[axis]),
            size: axes.map(|axis| layout.nodes[axis]),
        }
    }

    /// Copies some rows of a plane of the slab to a buffer without ghost nodes, and downloads it.
    fn gathered_rows(
        &self,
        field: StoredWave,
        plane: GridPlane,
        rows: Range<usize>,
    ) -> Result<Vec<R>, DeviceError> {
        let PlanePart { first, strides, size } = self.plane_part(plane);
        assert!(rows.end <= size[1], "rows of the plane");
        let part = PlanePart { first: first + rows.start * strides[1], strides, size: [size[0], rows.len()] };
        let mut values = vec![R::default(); size[0] * rows.len()];
        let gathered = self.device.zeros(values.len())?;
        self.measures.launch_gather(self.queue(), self.slab.field(field), &part, &gathered)?;
        self.queue().read(&gathered, &mut values)?;
        Ok(values)
    }

    /// Waits for the queued steps and returns all samples, see [`WaveState::samples`].
    pub fn samples(&self) -> Result<Vec<R>, DeviceError> {
        self.points.download_samples(self.queue())
    }

    /// Waits for the queued steps and returns the state in the form that all implementations
    /// exchange.
    pub fn state(&self) -> Result<WaveState<R>, DeviceError> {
        let (Medium { grid, sides, .. }, slab) = (&self.medium, &self.slab);
        let mut layers = LayerMemory::zeros_of_slab(grid, sides, &slab.owned);
        slab.download_layers(self.queue(), &mut layers)?;
        Ok(WaveState {
            step: self.step,
            now: slab.download(self.queue(), &slab.now)?,
            previous: slab.download(self.queue(), &slab.previous)?,
            layers,
            samples: self.samples()?,
        })
    }
}

impl<R: Scalar> DeviceSlab for DeviceWave<R> {
    type Number = R;
    type Pass = ();

    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<Buffer<R>> {
        &self.slab.now
    }

    fn next(&self) -> &Arc<Buffer<R>> {
        &self.slab.previous
    }

    fn slices(&self) -> [usize; 2] {
        [self.slab.layout.slices(), MAX_RADIUS]
    }

    fn border_ranges(&self) -> [Range<usize>; 2] {
        self.slab.layout.border_ranges()
    }

    fn ghost_ranges(&self) -> [Range<usize>; 2] {
        self.slab.layout.ghost_ranges()
    }

    fn prepare_pass(&mut self) -> Result<(), DeviceError> {
        self.points.upload_amplitudes(&self.device, &self.medium, self.step)
    }

    fn launch_interior(&mut self, _pass: (), slices: Range<usize>) -> Result<(), DeviceError> {
        self.launch_slices(StepTarget::Previous, slices)
    }

    fn launch_border(&mut self, queue: &Queue, _pass: (), slices: Range<usize>) -> Result<(), DeviceError> {
        let step = self.step_launch(queue, self.border_kernel.as_ref().unwrap_or(&self.advance));
        self.slab.launch_step(&step, StepTarget::Previous, slices)
    }

    fn finish_pass(&mut self) {
        std::mem::swap(&mut self.slab.now, &mut self.slab.previous);
        self.step += 1;
    }

    /// Samples of the receivers, which may read ghost slices.
    fn launch_after_pass(&mut self, queue: &Queue) -> Result<(), DeviceError> {
        self.points.launch_samples(&self.device, queue, &self.slab.now)
    }
}

impl WaveShape {
    /// Returns the shape of a problem.
    pub fn of_problem(problem: &WaveProblem) -> Self {
        Self::new(problem.grid(), problem.order().radius(), problem.precision())
    }

    /// Returns the shape of the problem of a medium.
    pub fn of_medium<R: Scalar>(medium: &Medium<R>) -> Self {
        Self::new(&medium.grid, medium.stencil.radius, R::PRECISION)
    }
}
