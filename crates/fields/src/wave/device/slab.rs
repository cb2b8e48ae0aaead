//! Part of a wave field on a device: consecutive planes with ghost planes on both sides.

use std::ops::Range;

use orrery_device::{Arg, Buffer, BufferRange, Device, DeviceError, Kernel, Queue};

use super::kernels::{MAX_BLOCKS_Y, uniform_courant, vector_width, weight_arguments};
use super::layers::{LayerBuffers, LayerKernels, SlabLayer, SlabPlace};
use super::layout::DeviceLayout;
use super::points::{Points, SlabPoints};
use super::{StoredWave, WaveDeviceStrategy};
use crate::Scalar;
use crate::wave::{LayerMemory, MAX_RADIUS, Medium, SquaredCourant, WaveState};

/// Planes of a wave field. Planes of functions count from the first owned one.
#[derive(Debug)]
pub(super) struct Slab<R: Scalar> {
    /// Planes of the grid that the slab updates.
    pub(super) owned: Range<usize>,
    pub(super) layout: DeviceLayout,
    /// u with ghost nodes.
    pub(super) now: Buffer<R>,
    /// u one step earlier, which becomes u one step later.
    pub(super) previous: Buffer<R>,
    /// v with the layout of u, one value that is not read if it is uniform.
    pub(super) courant: Buffer<R>,
    pub(super) layers: Vec<SlabLayer<R>>,
    pub(super) points: SlabPoints,
    /// Result of a look ahead, with the memory of the layers.
    pub(super) ahead: Option<(Buffer<R>, Vec<LayerBuffers<R>>)>,
}

/// Field that a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The field of the step before, for the next state.
    Previous,
    /// The field of a look ahead, which contains the field of the step before.
    Ahead,
}

/// Everything that a step of all slabs shares.
#[derive(Debug)]
pub(super) struct StepLaunch<'a, R: Scalar> {
    pub(super) queue: &'a Queue,
    pub(super) medium: &'a Medium<R>,
    pub(super) strategy: &'a WaveDeviceStrategy,
    pub(super) advance: &'a Kernel,
    pub(super) layers: &'a LayerKernels,
    pub(super) points: &'a Points<R>,
    pub(super) step: u64,
}

impl<R: Scalar> Slab<R> {
    /// Uploads the planes `owned` of a state and of the medium.
    pub(super) fn new(
        device: &Device,
        medium: &Medium<R>,
        state: &WaveState<R>,
        owned: Range<usize>,
    ) -> Result<Self, DeviceError> {
        let layout = DeviceLayout::new::<R>(&medium.grid, owned.len());
        let courant = match &medium.squared_courant {
            SquaredCourant::Uniform(_) => device.zeros(1)?,
            SquaredCourant::Field(values) => upload_field(device, &layout, &owned, values)?,
        };
        let mut layers = Vec::new();
        for (index, memory) in state.layers.iter().enumerate() {
            layers.extend(SlabLayer::new(device, medium, index, memory, &owned)?);
        }
        Ok(Self {
            now: upload_field(device, &layout, &owned, &state.now)?,
            previous: upload_field(device, &layout, &owned, &state.previous)?,
            courant,
            layers,
            points: SlabPoints::new(device, medium, &owned, &layout)?,
            ahead: None,
            owned,
            layout,
        })
    }

    pub(super) fn place(&self) -> SlabPlace<'_> {
        SlabPlace { owned: &self.owned, layout: &self.layout }
    }

    /// Returns the buffer of a field. The look ahead must exist.
    pub(super) fn field(&self, field: StoredWave) -> &Buffer<R> {
        match (field, &self.ahead) {
            (StoredWave::State, _) => &self.now,
            (StoredWave::Ahead, Some((ahead, _))) => ahead,
            (StoredWave::Ahead, None) => panic!("no look ahead came before"),
        }
    }

    /// Queues copies of the step before and of the memory of the layers to those of the look ahead.
    pub(super) fn prepare_ahead(&mut self, device: &Device) -> Result<(), DeviceError> {
        if self.ahead.is_none() {
            let memories = self.layers.iter().map(|layer| layer.memory.zeros_like(device));
            self.ahead = Some((device.zeros(self.now.len())?, memories.collect::<Result<_, _>>()?));
        }
        if let Some((ahead, memories)) = &self.ahead {
            device.queue().copy(&self.previous, ahead)?;
            for (memory, layer) in memories.iter().zip(&self.layers) {
                memory.copy_from(device.queue(), &layer.memory)?;
            }
        }
        Ok(())
    }

    /// Replaces the state by the result of the last look ahead. The old state becomes that of the
    /// step before.
    pub(super) fn end_ahead(&mut self) {
        let (ahead, _) = self.ahead.take().expect("a look ahead came before");
        self.previous = std::mem::replace(&mut self.now, ahead);
    }

    /// Queues the new values of `planes` with absorption, sources and images along x and y. Layers
    /// along z take part if `planes` contain them.
    pub(super) fn launch_step(
        &self,
        step: &StepLaunch<'_, R>,
        target: Target,
        planes: Range<usize>,
    ) -> Result<(), DeviceError> {
        if planes.is_empty() {
            return Ok(());
        }
        let next = self.target(target);
        let StepLaunch { queue, medium, layers, points, .. } = *step;
        self.launch_advance(step, next, &planes)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let memory = match (target, &self.ahead) {
                (Target::Ahead, Some((_, memories))) => &memories[number],
                _ => &layer.memory,
            };
            let fields = [&self.now, &self.courant];
            layer.launch(queue, layers, medium, &self.place(), fields, next, memory, &planes)?;
        }
        points.launch_sources(queue, medium, &self.points, [next, &self.courant], &planes, step.step)?;
        layers.launch_images(queue, medium, &self.place(), next, &planes, 0..2)
    }

    /// Queues the images along z of the new values. All planes must have new values, and ghost
    /// planes those of the neighbours.
    pub(super) fn launch_end_images(
        &self,
        step: &StepLaunch<'_, R>,
        target: Target,
    ) -> Result<(), DeviceError> {
        let (next, planes) = (self.target(target), 0..self.owned.len());
        step.layers.launch_images(step.queue, step.medium, &self.place(), next, &planes, 2..3)
    }

    fn target(&self, target: Target) -> &Buffer<R> {
        match target {
            Target::Previous => &self.previous,
            Target::Ahead => self.field(StoredWave::Ahead),
        }
    }

    /// Queues the stencil for all nodes of `planes`.
    fn launch_advance(
        &self,
        step: &StepLaunch<'_, R>,
        next: &Buffer<R>,
        planes: &Range<usize>,
    ) -> Result<(), DeviceError> {
        let (medium, strategy, layout) = (step.medium, step.strategy, &self.layout);
        assert!(planes.end <= self.owned.len(), "planes of another slab");
        // In two dimensions the kernels march along y, and a row takes the place of a plane.
        let is_volume = medium.grid.dimensions() == 3;
        let (march, rows, range, axes) = match is_volume {
            true => (layout.plane, layout.nodes[1], planes.clone(), [2, 1, 0]),
            false => (layout.pitch, 1, 0..layout.nodes[1], [1, 2, 0]),
        };
        let chunk =
            (strategy.planes_per_chunk as usize).min(range.len()).max(range.len().div_ceil(MAX_BLOCKS_Y));
        let mut args: Vec<Arg<'_>> = vec![
            (&self.now).into(),
            next.into(),
            (&self.courant).into(),
            uniform_courant(medium).to_argument(),
        ];
        args.extend(weight_arguments(medium, axes));
        args.push((layout.position([0, 0, 0]) as u64).into());
        args.push((march as u64).into());
        for number in [layout.pitch, layout.nodes[0], rows, range.start, range.end, chunk] {
            args.push((number as i32).into());
        }
        let [width, height] = strategy.tile(vector_width::<R>());
        let tiles = (layout.nodes[0] as u32).div_ceil(width) * (rows as u32).div_ceil(height);
        let grid = [tiles, range.len().div_ceil(chunk) as u32];
        step.queue.launch(step.advance, grid, strategy.block_size(), &args)
    }

    /// Returns the elements of a field with some planes, which may be ghost planes.
    pub(super) fn planes<'a>(
        &self,
        field: &'a Buffer<R>,
        planes: Range<isize>,
    ) -> Result<BufferRange<'a, R>, DeviceError> {
        let start = |k: isize| (k + self.layout.ghost_planes as isize) as usize * self.layout.plane;
        field.range(start(planes.start)..start(planes.end))
    }

    /// Waits for the queue and appends the values of the owned nodes of a field.
    pub(super) fn download(
        &self,
        queue: &Queue,
        field: &Buffer<R>,
        values: &mut Vec<R>,
    ) -> Result<(), DeviceError> {
        let DeviceLayout { nodes: [nx, ny, planes], pitch, plane, .. } = self.layout;
        let mut padded = vec![R::default(); plane];
        for k in 0..planes as isize {
            queue.read(self.planes(field, k..k + 1)?, &mut padded)?;
            for row in padded.chunks_exact(pitch).skip(MAX_RADIUS).take(ny) {
                values.extend_from_slice(&row[..nx]);
            }
        }
        Ok(())
    }

    /// Waits for the queue and copies the memory of the layers to that of the whole grid.
    pub(super) fn download_layers(
        &self,
        queue: &Queue,
        layers: &mut [LayerMemory<R>],
    ) -> Result<(), DeviceError> {
        self.layers.iter().try_for_each(|layer| layer.download(queue, layers))
    }
}

/// Uploads planes of a grid, with those of neighbouring slabs as ghost planes.
fn upload_field<R: Scalar>(
    device: &Device,
    layout: &DeviceLayout,
    owned: &Range<usize>,
    values: &[R],
) -> Result<Buffer<R>, DeviceError> {
    let DeviceLayout { nodes: [nx, ny, _], pitch, plane, ghost_planes } = *layout;
    let field = device.zeros(layout.len())?;
    let first = owned.start.saturating_sub(ghost_planes);
    let end = (owned.end + ghost_planes).min(values.len() / (nx * ny));
    let mut padded = vec![R::default(); plane];
    for (k, nodes) in (first..end).zip(values[first * nx * ny..].chunks_exact(nx * ny)) {
        for (row, nodes) in padded.chunks_exact_mut(pitch).skip(MAX_RADIUS).zip(nodes.chunks_exact(nx)) {
            row[..nx].copy_from_slice(nodes);
        }
        let start = (k + ghost_planes - owned.start) * plane;
        device.queue().write(field.range(start..start + plane)?, &padded)?;
    }
    Ok(field)
}
