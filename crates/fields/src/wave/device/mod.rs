//! Acoustic waves on a device, through CUDA or OpenCL.
//!
//! [`DeviceWave`] is the state of a wave field in the memory of one device. It computes the same
//! bits as [`super::reference`], for every [`WaveDeviceStrategy`] and any number of slabs. A step
//! is one launch for all nodes, one per absorbing layer, and small ones for sources, images and
//! receivers. Samples of the receivers stay on the device until they are read.
//!
//! A slab is a range of planes with ghost planes on both sides. Several slabs on one device are not
//! faster than one. They test the update that several devices share: boundary planes first, then
//! their copies to the neighbours, then the interior.

mod kernels;
mod layers;
mod layout;
mod measures;
mod points;
pub mod rungs;
pub mod selftest;
mod slab;
mod strategy;

use std::ops::Range;

use orrery_device::{Buffer, Device, DeviceError, Kernel};
use orrery_model::grid::{PixelMeans, PixelWeights};
use orrery_model::wave::{Side, Sides, WaveGrid};

pub use strategy::{WaveDeviceStrategy, WaveKernel, WaveShape};

use self::kernels::build_advance;
use self::layers::LayerKernels;
use self::layout::DeviceLayout;
use self::measures::{Measures, PlanePart};
use self::points::Points;
use self::slab::{Slab, StepLaunch, Target};
use super::layer::layer_nodes;
use super::{
    GridPlane, LayerMemory, MAX_RADIUS, Medium, SquaredCourant, StoredWave, WaveMeasures, WaveProblem,
    WaveState,
};
use crate::Scalar;
use crate::pixels::{DeviceMeans, StridedNodes, pixel_means_of};

/// State of a wave field on a device.
#[derive(Debug)]
pub struct DeviceWave<R: Scalar> {
    device: Device,
    /// The medium, where a field of v is empty: the slabs have it.
    medium: Medium<R>,
    strategy: WaveDeviceStrategy,
    advance: Kernel,
    layers: LayerKernels,
    points: Points<R>,
    measures: Measures<R>,
    pixel_means: DeviceMeans<R>,
    step: u64,
    /// Slabs in the order of their planes. Together they own all planes.
    slabs: Vec<Slab<R>>,
}

impl<R: Scalar> DeviceWave<R> {
    /// Uploads a medium and a state.
    pub fn new(
        device: &Device,
        medium: Medium<R>,
        state: &WaveState<R>,
        strategy: WaveDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        Self::with_slabs(device, medium, state, strategy, 1)
    }

    /// Uploads a medium and a state in `slab_count` slabs of almost equal size.
    ///
    /// # Panics
    /// If a slab would have fewer than 4 planes, or the first or last one fewer than 8 planes more
    /// than its absorbing layer. In two dimensions there is one slab.
    pub fn with_slabs(
        device: &Device,
        mut medium: Medium<R>,
        state: &WaveState<R>,
        strategy: WaveDeviceStrategy,
        slab_count: usize,
    ) -> Result<Self, DeviceError> {
        let nz = medium.grid.nodes[2];
        let first_plane = |slab: usize| slab * nz / slab_count;
        if slab_count > 1 {
            let thickness = |side| medium.sides.on(side).layer().map_or(0, |layer| layer.thickness);
            let ends = [(first_plane(1), Side::ZMin), (nz - first_plane(slab_count - 1), Side::ZMax)];
            assert!(nz / slab_count >= MAX_RADIUS);
            assert!(ends.iter().all(|&(planes, side)| match thickness(side) {
                0 => true,
                layer => planes >= layer + 2 * MAX_RADIUS,
            }));
        }
        let slabs = (0..slab_count)
            .map(|slab| Slab::new(device, &medium, state, first_plane(slab)..first_plane(slab + 1)))
            .collect::<Result<Vec<_>, _>>()?;
        if let SquaredCourant::Field(values) = &mut medium.squared_courant {
            *values = Vec::new();
        }
        let layers = LayerKernels::new(device, &medium)?;
        for slab in &slabs {
            let planes = 0..slab.owned.len();
            layers.launch_images(device.queue(), &medium, &slab.place(), &slab.now, &planes, 0..3)?;
        }
        Ok(Self {
            advance: build_advance(device, &medium, &strategy)?,
            points: Points::new(device, &medium, state.samples.clone())?,
            measures: Measures::new(device, &medium)?,
            pixel_means: DeviceMeans::new(device)?,
            device: device.clone(),
            medium,
            strategy,
            layers,
            step: state.step,
            slabs,
        })
    }

    /// Returns the bytes of device memory that a field needs, with a look ahead, and without those
    /// of [`pixel_mean_bytes`](crate::pixel_mean_bytes).
    pub fn needed_bytes(grid: &WaveGrid, sides: &Sides, is_variable: bool) -> u64 {
        let field = DeviceLayout::new::<R>(grid, grid.nodes[2]).len() as u64;
        let layers: usize = Sides::used(grid)
            .iter()
            .filter_map(|&side| layer_nodes(grid, sides, side))
            .map(|nodes| nodes.iter().product::<usize>())
            .sum();
        let values = (3 + u64::from(is_variable)) * field + 4 * layers as u64;
        values * size_of::<R>() as u64 + Measures::<R>::needed_bytes(grid)
    }

    /// Returns the medium. A field of v is empty, because it is on the device.
    pub fn medium(&self) -> &Medium<R> {
        &self.medium
    }

    /// Returns the medium with v, without the state.
    pub fn into_medium(mut self) -> Result<Medium<R>, DeviceError> {
        if let SquaredCourant::Field(_) = self.medium.squared_courant {
            self.medium.squared_courant = SquaredCourant::Field(self.download(|slab| &slab.courant)?);
        }
        Ok(self.medium)
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
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
        &self.advance
    }

    /// Returns the number of steps since time 0.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Queues `steps` steps. Does not wait.
    pub fn advance(&mut self, steps: u64) -> Result<(), DeviceError> {
        for _ in 0..steps {
            self.queue_step(Target::Previous)?;
            for slab in &mut self.slabs {
                std::mem::swap(&mut slab.now, &mut slab.previous);
            }
            self.step += 1;
            self.queue_samples()?;
        }
        Ok(())
    }

    /// Queues the values at the time `fraction` of a step after the state, from a parabola through
    /// u at three times. The state does not change. The result is [`StoredWave::Ahead`] until the
    /// next call.
    pub fn step_ahead(&mut self, fraction: f64) -> Result<(), DeviceError> {
        for slab in &mut self.slabs {
            slab.prepare_ahead(&self.device)?;
        }
        self.queue_step(Target::Ahead)?;
        for slab in &self.slabs {
            let fields = [&slab.now, &slab.previous];
            let ahead = slab.field(StoredWave::Ahead);
            self.points.launch_interpolation(self.device.queue(), fields, ahead, fraction)?;
        }
        Ok(())
    }

    /// Replaces the state by the result of the last look ahead. There must be one. The step, the
    /// samples and the memory of the layers do not change.
    pub fn end_ahead(&mut self) -> Result<(), DeviceError> {
        for slab in &mut self.slabs {
            slab.end_ahead();
            let planes = 0..slab.owned.len();
            let queue = self.device.queue();
            self.layers.launch_images(queue, &self.medium, &slab.place(), &slab.now, &planes, 0..3)?;
        }
        Ok(())
    }

    /// Queues one step into a field.
    fn queue_step(&mut self, target: Target) -> Result<(), DeviceError> {
        self.points.upload_amplitudes(&self.device, &self.medium, self.step)?;
        let step = StepLaunch {
            queue: self.device.queue(),
            medium: &self.medium,
            strategy: &self.strategy,
            advance: &self.advance,
            layers: &self.layers,
            points: &self.points,
            step: self.step,
        };
        if let [slab] = &self.slabs[..] {
            slab.launch_step(&step, target, 0..slab.owned.len())?;
            return slab.launch_end_images(&step, target);
        }
        let nz = self.medium.grid.nodes[2];
        for slab in &self.slabs {
            let [low, _, high] = split_planes(&slab.owned, nz);
            slab.launch_step(&step, target, low)?;
            slab.launch_step(&step, target, high)?;
        }
        if target == Target::Previous {
            self.copy_ghost_planes()?;
        }
        for slab in &self.slabs {
            let [_, interior, _] = split_planes(&slab.owned, nz);
            slab.launch_step(&step, target, interior)?;
            slab.launch_end_images(&step, target)?;
        }
        Ok(())
    }

    /// Queues copies of new values from boundary planes to the ghost planes of the neighbours.
    fn copy_ghost_planes(&self) -> Result<(), DeviceError> {
        let (queue, ghosts) = (self.device.queue(), MAX_RADIUS as isize);
        for pair in self.slabs.windows(2) {
            let [lower, upper] = pair else { continue };
            let planes = lower.owned.len() as isize;
            queue.copy(
                lower.planes(&lower.previous, planes - ghosts..planes)?,
                upper.planes(&upper.previous, -ghosts..0)?,
            )?;
            queue.copy(
                upper.planes(&upper.previous, 0..ghosts)?,
                lower.planes(&lower.previous, planes..planes + ghosts)?,
            )?;
        }
        Ok(())
    }

    /// Queues the samples of the receivers.
    fn queue_samples(&mut self) -> Result<(), DeviceError> {
        let receivers = self.medium.receivers.len();
        if receivers == 0 {
            return Ok(());
        }
        for slab in &self.slabs {
            self.points.launch_gather(self.device.queue(), &slab.points, &slab.now)?;
        }
        self.points.launch_sums(&self.device, self.device.queue(), receivers)
    }

    /// Waits for the queued steps and returns energy and largest amplitude. The energy is always
    /// that of the state.
    pub fn measures(&self, field: StoredWave) -> Result<WaveMeasures, DeviceError> {
        let queue = self.device.queue();
        for slab in &self.slabs {
            self.measures.launch_energy(queue, &self.medium, slab)?;
            self.measures.launch_largest(queue, slab, slab.field(field))?;
        }
        self.measures.read(queue, &self.medium.grid)
    }

    /// Waits for the queued steps and returns the largest amplitude. NaN if a value is NaN.
    pub fn largest(&self, field: StoredWave) -> Result<f64, DeviceError> {
        let queue = self.device.queue();
        for slab in &self.slabs {
            self.measures.launch_largest(queue, slab, slab.field(field))?;
        }
        self.measures.read_largest(queue)
    }

    /// Waits for the queued steps and returns the values of all nodes.
    pub fn values(&self, field: StoredWave) -> Result<Vec<R>, DeviceError> {
        self.download(|slab| slab.field(field))
    }

    /// Waits for the queued steps and returns the values of a plane of the grid.
    pub fn plane(&self, field: StoredWave, plane: GridPlane) -> Result<Vec<R>, DeviceError> {
        let nodes = self.medium.grid.nodes;
        // The only plane of a two-dimensional grid needs no copy on the device.
        if nodes[plane.normal] == 1 {
            return self.values(field);
        }
        match self.gathered_plane(field, plane) {
            Ok(values) => values.to_vec(),
            Err(DeviceError::OutOfMemory { .. }) => Ok(plane.values_of(nodes, &self.values(field)?)),
            Err(error) => Err(error),
        }
    }

    /// Waits for the queued steps and returns the means of a plane over the pixels of a picture of
    /// it. Without memory for them on the device, they are computed on the host.
    pub fn pixel_means(
        &self,
        field: StoredWave,
        plane: GridPlane,
        weights: &PixelWeights,
    ) -> Result<PixelMeans, DeviceError> {
        let axes = plane.axes();
        let gathered;
        let nodes = match &self.slabs[..] {
            [slab] => {
                let (mut node, strides) = ([0; 3], slab.layout.strides());
                node[plane.normal] = plane.node;
                StridedNodes {
                    buffer: slab.field(field),
                    first: slab.layout.position(node),
                    strides: axes.map(|axis| strides[axis]),
                }
            }
            _ => {
                gathered = self.gathered_plane(field, plane)?;
                let width = self.medium.grid.nodes[axes[0]];
                StridedNodes { buffer: &gathered, first: 0, strides: [1, width] }
            }
        };
        match self.pixel_means.compute(self.device.queue(), nodes, weights)? {
            Some(means) => Ok(means),
            None => Ok(pixel_means_of(&self.plane(field, plane)?, weights)),
        }
    }

    /// Queues copies of the values of a plane to a buffer without ghost nodes.
    fn gathered_plane(&self, field: StoredWave, plane: GridPlane) -> Result<Buffer<R>, DeviceError> {
        let nodes = self.medium.grid.nodes;
        let [right, up] = plane.axes();
        let values = self.device.zeros(nodes[right] * nodes[up])?;
        for slab in &self.slabs {
            let Some(part) = plane.part_in(nodes, &slab.owned) else { continue };
            let strides = slab.layout.strides();
            let part = PlanePart {
                first: slab.layout.position(part.first),
                strides: [strides[right], strides[up]],
                size: part.size,
                target: part.target,
            };
            self.measures.launch_gather(self.device.queue(), slab.field(field), &part, &values)?;
        }
        Ok(values)
    }

    fn download(&self, field: impl Fn(&Slab<R>) -> &Buffer<R>) -> Result<Vec<R>, DeviceError> {
        let mut values = Vec::with_capacity(self.medium.grid.len());
        for slab in &self.slabs {
            slab.download(self.device.queue(), field(slab), &mut values)?;
        }
        Ok(values)
    }

    /// Waits for the queued steps and returns all samples, see [`WaveState::samples`].
    pub fn samples(&self) -> Result<Vec<R>, DeviceError> {
        self.points.download_samples(self.device.queue())
    }

    /// Waits for the queued steps and returns the state in the form that all implementations
    /// exchange.
    pub fn state(&self) -> Result<WaveState<R>, DeviceError> {
        let mut layers = LayerMemory::zeros(&self.medium.grid, &self.medium.sides);
        for slab in &self.slabs {
            slab.download_layers(self.device.queue(), &mut layers)?;
        }
        Ok(WaveState {
            step: self.step,
            now: self.download(|slab| &slab.now)?,
            previous: self.download(|slab| &slab.previous)?,
            layers,
            samples: self.samples()?,
        })
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

/// Splits the planes of a slab, counted from its first one, into those that the neighbour below
/// needs, the interior, and those that the neighbour above needs.
fn split_planes(owned: &Range<usize>, nz: usize) -> [Range<usize>; 3] {
    let n = owned.len();
    let low = if owned.start == 0 { 0 } else { MAX_RADIUS.min(n) };
    let high = if owned.end == nz { n } else { n.saturating_sub(MAX_RADIUS).max(low) };
    [0..low, low..high, high..n]
}
