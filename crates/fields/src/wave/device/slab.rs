//! Part of a wave field on a device: consecutive slices with ghost slices on both sides.

use std::ops::Range;
use std::sync::Arc;

use orrery_device::{Arg, Buffer, DeviceError, Queue};

use super::StoredWave;
use super::kernels::{AdvanceKernel, MAX_BLOCKS_Y, uniform_courant, weight_arguments};
use super::layers::{DeviceLayer, ImageSides, LayerBuffers, LayerKernels, SlabPlace};
use super::points::DevicePoints;
use crate::Scalar;
use crate::wave::layout::WaveLayout;
use crate::wave::{LayerMemory, MAX_RADIUS, Medium, SquaredCourant, WaveState};

/// Slices of a wave field. Slices of functions count from the first owned one.
#[derive(Debug)]
pub(super) struct DeviceWaveSlab<R: Scalar> {
    /// Slices of the grid that the slab updates.
    pub(super) owned: Range<usize>,
    pub(super) layout: WaveLayout,
    /// u with ghost nodes. Neighbours on the same device read its borders.
    pub(super) now: Arc<Buffer<R>>,
    /// u one step earlier, which becomes u one step later.
    pub(super) previous: Arc<Buffer<R>>,
    /// v with the layout of u, one value that is not read if it is uniform.
    pub(super) courant: Buffer<R>,
    pub(super) layers: Vec<DeviceLayer<R>>,
    /// Result of a look ahead.
    pub(super) ahead: Option<LookAhead<R>>,
}

/// u at a time within the next step, with the memory of the layers.
type LookAhead<R> = (Arc<Buffer<R>>, Vec<LayerBuffers<R>>);

/// Field that a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepTarget {
    /// The field of the step before, for the next state.
    Previous,
    /// The field of a look ahead, which contains the field of the step before.
    Ahead,
}

/// Everything that a step needs besides the slab.
#[derive(Debug)]
pub(super) struct StepLaunch<'a, R: Scalar> {
    pub(super) queue: &'a Queue,
    pub(super) medium: &'a Medium<R>,
    pub(super) advance: &'a AdvanceKernel,
    pub(super) layers: &'a LayerKernels,
    pub(super) points: &'a DevicePoints<R>,
    pub(super) step: u64,
}

impl<R: Scalar> DeviceWaveSlab<R> {
    /// Uploads the state and the medium of the slices `owned`, which have values of these slices
    /// only. Ghost slices are zero. The queue must be the one that uses the slab first.
    pub(super) fn new(
        queue: &Queue,
        medium: &Medium<R>,
        state: &WaveState<R>,
        owned: Range<usize>,
    ) -> Result<Self, DeviceError> {
        let (device, layout) = (queue.device(), WaveLayout::on_device::<R>(&medium.grid, owned.len()));
        let courant = match &medium.squared_courant {
            SquaredCourant::Uniform(_) => device.zeros(1)?,
            SquaredCourant::Field(values) => upload_field(queue, &layout, values)?,
        };
        let mut layers = Vec::new();
        for (index, memory) in state.layers.iter().enumerate() {
            layers.extend(DeviceLayer::new(device, medium, index, memory)?);
        }
        Ok(Self {
            now: Arc::new(upload_field(queue, &layout, &state.now)?),
            previous: Arc::new(upload_field(queue, &layout, &state.previous)?),
            courant,
            layers,
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
    pub(super) fn prepare_ahead(&mut self, queue: &Queue) -> Result<(), DeviceError> {
        if self.ahead.is_none() {
            let device = queue.device();
            let memories = self.layers.iter().map(|layer| layer.memory.zeros_like(device));
            let memories = memories.collect::<Result<_, _>>()?;
            self.ahead = Some((Arc::new(device.zeros(self.now.len())?), memories));
        }
        if let Some((ahead, memories)) = &self.ahead {
            queue.copy(&*self.previous, &**ahead)?;
            for (memory, layer) in memories.iter().zip(&self.layers) {
                memory.copy_from(queue, &layer.memory)?;
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

    /// Queues the new values of `slices` with absorption and sources, and the images beyond the
    /// sides that are not at the ends. Layers at the ends take part if `slices` contain them.
    pub(super) fn launch_step(
        &self,
        step: &StepLaunch<'_, R>,
        target: StepTarget,
        slices: Range<usize>,
    ) -> Result<(), DeviceError> {
        if slices.is_empty() {
            return Ok(());
        }
        let next = self.target(target);
        let StepLaunch { queue, medium, layers, points, .. } = *step;
        self.launch_advance(step, next, &slices)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let memory = match (target, &self.ahead) {
                (StepTarget::Ahead, Some((_, memories))) => &memories[number],
                _ => &layer.memory,
            };
            let fields = [&*self.now, &self.courant];
            layer.launch(queue, layers, medium, &self.place(), fields, next, memory, &slices)?;
        }
        points.launch_sources(queue, medium, [next, &self.courant], &slices, step.step)?;
        layers.launch_images(queue, medium, &self.place(), next, &slices, ImageSides::Others)
    }

    /// Queues the images at the ends of the new values. The slices next to them must have new
    /// values.
    pub(super) fn launch_end_images(
        &self,
        step: &StepLaunch<'_, R>,
        target: StepTarget,
    ) -> Result<(), DeviceError> {
        let (next, slices) = (self.target(target), 0..self.layout.slices());
        step.layers.launch_images(step.queue, step.medium, &self.place(), next, &slices, ImageSides::Ends)
    }

    fn target(&self, target: StepTarget) -> &Buffer<R> {
        match target {
            StepTarget::Previous => &self.previous,
            StepTarget::Ahead => self.field(StoredWave::Ahead),
        }
    }

    /// Queues the stencil for all nodes of `slices`.
    fn launch_advance(
        &self,
        step: &StepLaunch<'_, R>,
        next: &Buffer<R>,
        slices: &Range<usize>,
    ) -> Result<(), DeviceError> {
        let (medium, advance, layout) = (step.medium, step.advance, &self.layout);
        assert!(slices.end <= layout.slices(), "slices of another slab");
        // The kernels march from slice to slice.
        let (rows, axes) = (layout.slice_rows(), if layout.is_volume() { [2, 1, 0] } else { [1, 2, 0] });
        let chunk =
            (advance.planes_per_chunk as usize).min(slices.len()).max(slices.len().div_ceil(MAX_BLOCKS_Y));
        let mut args: Vec<Arg<'_>> = vec![
            (&*self.now).into(),
            next.into(),
            (&self.courant).into(),
            uniform_courant(medium).to_argument(),
        ];
        args.extend(weight_arguments(medium, axes));
        args.push((layout.position([0, 0, 0]) as u64).into());
        args.push((layout.slice_stride() as u64).into());
        for number in [layout.pitch, layout.nodes[0], rows, slices.start, slices.end, chunk] {
            args.push((number as i32).into());
        }
        let [width, height] = advance.tile;
        let tiles = (layout.nodes[0] as u32).div_ceil(width) * (rows as u32).div_ceil(height);
        let grid = [tiles, slices.len().div_ceil(chunk) as u32];
        step.queue.launch(&advance.kernel, grid, advance.block_size, &args)
    }

    /// Waits for the queue and returns the values of the owned nodes of a field.
    pub(super) fn download(&self, queue: &Queue, field: &Buffer<R>) -> Result<Vec<R>, DeviceError> {
        let WaveLayout { nodes: [nx, ny, planes], pitch, plane, ghost_planes, .. } = self.layout;
        let mut values = Vec::with_capacity(nx * ny * planes);
        let mut padded = vec![R::default(); plane];
        for k in ghost_planes..ghost_planes + planes {
            queue.read(field.range(k * plane..(k + 1) * plane)?, &mut padded)?;
            for row in padded.chunks_exact(pitch).skip(MAX_RADIUS).take(ny) {
                values.extend_from_slice(&row[..nx]);
            }
        }
        Ok(values)
    }

    /// Waits for the queue and copies the memory of the layers to `layers`.
    pub(super) fn download_layers(
        &self,
        queue: &Queue,
        layers: &mut [LayerMemory<R>],
    ) -> Result<(), DeviceError> {
        self.layers.iter().try_for_each(|layer| layer.download(queue, layers))
    }
}

/// Uploads the values of all nodes of a slab.
fn upload_field<R: Scalar>(
    queue: &Queue,
    layout: &WaveLayout,
    values: &[R],
) -> Result<Buffer<R>, DeviceError> {
    let WaveLayout { nodes: [nx, ny, planes], pitch, plane, ghost_planes, .. } = *layout;
    assert_eq!(values.len(), nx * ny * planes, "values of the slices of the slab");
    let field = queue.device().zeros(layout.field_len())?;
    let mut padded = vec![R::default(); plane];
    for (k, nodes) in (ghost_planes..).zip(values.chunks_exact(nx * ny)) {
        for (row, nodes) in padded.chunks_exact_mut(pitch).skip(MAX_RADIUS).zip(nodes.chunks_exact(nx)) {
            row[..nx].copy_from_slice(nodes);
        }
        queue.write(field.range(k * plane..(k + 1) * plane)?, &padded)?;
    }
    Ok(field)
}
