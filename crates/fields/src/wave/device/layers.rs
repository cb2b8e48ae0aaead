//! Absorbing layers and images beyond sides: memory, and launches of `layers.cu`.

use std::ops::Range;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Queue, kernel_source};
use orrery_model::wave::{Side, Sides, WaveGrid};

use super::kernels::{MAX_BLOCKS_Y, build_with, uniform_courant};
use crate::Scalar;
use crate::wave::layer::has_side;
use crate::wave::layout::WaveLayout;
use crate::wave::{LayerCoefficients, LayerMemory, Medium};

// SAFETY: the absorbing kernels access nodes of lines that start on a side, up to n = L + 2 RADIUS,
// which are inside the grid, and ghost nodes beyond the side. The indices of psi and zeta are those
// of the layer's nodes in `slices`, which the slab owns. Images are written to ghost nodes. All
// loops end.
const LAYERS: KernelFile = unsafe { KernelFile::new("layers.cu", kernel_source!("common.cu", "layers.cu")) };

/// Threads per block of lines and images.
const BLOCK_SIZE: u32 = 128;

/// Threads per block of rows, if a line has fewer nodes.
const ROWS_BLOCK_SIZE: u32 = 256;

/// Kernels of the layers of a medium, and of images.
#[derive(Debug)]
pub(super) struct LayerKernels {
    /// One kernel per layer of the medium.
    absorb: Vec<Kernel>,
    write_images: Kernel,
}

/// Returns the threads per line and the lines per block for a layer along x.
fn row_block(thickness: usize, radius: usize) -> [u32; 2] {
    let threads = (thickness + radius).next_multiple_of(8) as u32;
    [threads, (ROWS_BLOCK_SIZE / threads).max(1)]
}

impl LayerKernels {
    pub(super) fn new<R: Scalar>(device: &Device, medium: &Medium<R>) -> Result<Self, DeviceError> {
        let build = |[line_threads, lines]: [u32; 2]| {
            let others = [("BLOCK_SIZE", BLOCK_SIZE), ("LINE_THREADS", line_threads), ("LINES", lines)];
            build_with(device, medium, &LAYERS, &others)
        };
        let absorb = |layer: &LayerCoefficients<R>| match layer.side.axis() {
            0 => build(row_block(layer.thickness(), medium.stencil.radius))?.kernel("absorb_rows"),
            _ => build([0, 0])?.kernel("absorb_lines"),
        };
        Ok(Self {
            absorb: medium.layers.iter().map(absorb).collect::<Result<_, _>>()?,
            write_images: build([0, 0])?.kernel("write_images")?,
        })
    }

    /// Queues the images beyond some sides in some slices of a field, counted from the first one of
    /// the slab. Images at an end of the grid are written if the slices contain that end.
    pub(super) fn launch_images<R: Scalar>(
        &self,
        queue: &Queue,
        medium: &Medium<R>,
        place: &SlabPlace<'_>,
        field: &Buffer<R>,
        slices: &Range<usize>,
        sides: ImageSides,
    ) -> Result<(), DeviceError> {
        for &side in Sides::used(&medium.grid) {
            let is_chosen = match sides {
                ImageSides::All => true,
                ImageSides::Ends => side.axis() == place.layout.slow_axis(),
                ImageSides::Others => side.axis() != place.layout.slow_axis(),
            };
            let Some(sign) = medium.sides.on(side).image_sign() else { continue };
            if !is_chosen || !place.reaches(&medium.grid, side, slices) {
                continue;
            }
            let (layout, [nx, ny, _]) = (place.layout, place.layout.nodes);
            let (rows, planes) = layout.rows_and_planes(slices);
            let [(stride_a, count_a), (stride_b, count_b)] = match side.axis() {
                0 => [(layout.pitch, rows.len()), (layout.plane, planes.len())],
                1 => [(1, nx), (layout.plane, planes.len())],
                _ => [(1, nx), (layout.pitch, ny)],
            };
            let args = [
                field.into(),
                R::from_f64(sign).to_argument(),
                (place.first_node(side, slices) as u64).into(),
                place.inwards(side).into(),
                (stride_a as u64).into(),
                (count_a as i32).into(),
                (stride_b as u64).into(),
                (count_b as i32).into(),
            ];
            let grid = [(count_a as u32).div_ceil(BLOCK_SIZE), count_b.min(MAX_BLOCKS_Y) as u32];
            queue.launch(&self.write_images, grid, BLOCK_SIZE, &args)?;
        }
        Ok(())
    }
}

/// Sides whose images are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageSides {
    All,
    /// Those at the ends of the slices' axis.
    Ends,
    /// The other sides.
    Others,
}

/// Place of a slab in the grid and in its buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabPlace<'a> {
    /// Slices of the grid that the slab owns.
    pub(super) owned: &'a Range<usize>,
    pub(super) layout: &'a WaveLayout,
}

impl SlabPlace<'_> {
    /// Returns the position of a node of the grid, which may be in a ghost slice.
    pub(super) fn position(&self, node: [usize; 3]) -> u64 {
        let (slow, mut in_plane) = (self.layout.slow_axis(), node);
        in_plane[slow] = 0;
        let slice = node[slow] as isize - self.owned.start as isize;
        let offset = slice * self.layout.slice_stride() as isize;
        self.layout.position(in_plane).wrapping_add_signed(offset) as u64
    }

    /// Returns true if some slices of the slab have nodes on a side.
    fn reaches(&self, grid: &WaveGrid, side: Side, slices: &Range<usize>) -> bool {
        has_side(grid, side, &(self.owned.start + slices.start..self.owned.start + slices.end))
    }

    /// Returns the position of the first node of a side within some slices.
    fn first_node(&self, side: Side, slices: &Range<usize>) -> usize {
        let (mut node, slow) = ([0; 3], self.layout.slow_axis());
        node[slow] = slices.start;
        if side.is_max() {
            node[side.axis()] =
                if side.axis() == slow { slices.end - 1 } else { self.layout.nodes[side.axis()] - 1 };
        }
        self.layout.position(node)
    }

    /// Returns the distance to the next node inwards, modulo 2^64.
    fn inwards(&self, side: Side) -> u64 {
        let stride = self.layout.strides()[side.axis()] as u64;
        if side.is_max() { stride.wrapping_neg() } else { stride }
    }
}

/// psi and zeta of a layer, with the order of [`LayerMemory`].
#[derive(Debug)]
pub(super) struct LayerBuffers<R: Scalar> {
    psi: Buffer<R>,
    zeta: Buffer<R>,
}

impl<R: Scalar> LayerBuffers<R> {
    /// Allocates memory for a look ahead.
    pub(super) fn zeros_like(&self, device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { psi: device.zeros(self.psi.len())?, zeta: device.zeros(self.zeta.len())? })
    }

    /// Queues a copy.
    pub(super) fn copy_from(&self, queue: &Queue, other: &Self) -> Result<(), DeviceError> {
        queue.copy(&other.psi, &self.psi)?;
        queue.copy(&other.zeta, &self.zeta)
    }
}

/// Part of a layer in a slab.
#[derive(Debug)]
pub(super) struct DeviceLayer<R: Scalar> {
    /// Number of the layer in the medium.
    index: usize,
    /// a, then b.
    coefficients: Buffer<R>,
    pub(super) memory: LayerBuffers<R>,
}

impl<R: Scalar> DeviceLayer<R> {
    /// Uploads the slab's part of layer `index`, `None` if there is none.
    pub(super) fn new(
        device: &Device,
        medium: &Medium<R>,
        index: usize,
        memory: &LayerMemory<R>,
    ) -> Result<Option<Self>, DeviceError> {
        if memory.psi.is_empty() {
            return Ok(None);
        }
        let layer = &medium.layers[index];
        let buffers = LayerBuffers { psi: device.upload(&memory.psi)?, zeta: device.upload(&memory.zeta)? };
        let coefficients = device.upload(&[&layer.a[..], &layer.b[..]].concat())?;
        Ok(Some(Self { index, coefficients, memory: buffers }))
    }

    /// Waits for the queue and copies the memory to that of its layer.
    pub(super) fn download(&self, queue: &Queue, layers: &mut [LayerMemory<R>]) -> Result<(), DeviceError> {
        let target = &mut layers[self.index];
        queue.read(&self.memory.psi, &mut target.psi)?;
        queue.read(&self.memory.zeta, &mut target.zeta)
    }

    /// Queues the update of the layer's memory and of the new values `next` in some slices.
    /// `fields` are u and v.
    #[expect(clippy::too_many_arguments, reason = "the parts of a slab and of a step")]
    pub(super) fn launch(
        &self,
        queue: &Queue,
        kernels: &LayerKernels,
        medium: &Medium<R>,
        place: &SlabPlace<'_>,
        [u, courant]: [&Buffer<R>; 2],
        next: &Buffer<R>,
        memory: &LayerBuffers<R>,
        slices: &Range<usize>,
    ) -> Result<(), DeviceError> {
        let layer = &medium.layers[self.index];
        let (side, thickness, layout) = (layer.side, layer.thickness(), place.layout);
        if !place.reaches(&medium.grid, side, slices) {
            return Ok(());
        }
        let mut args: Vec<Arg<'_>> = vec![
            u.into(),
            next.into(),
            courant.into(),
            uniform_courant(medium).to_argument(),
            (&memory.psi).into(),
            (&memory.zeta).into(),
            (&self.coefficients).into(),
            (thickness as i32).into(),
        ];
        args.extend(layer.first.map(Scalar::to_argument));
        args.push(layer.second_centre.to_argument());
        args.extend(layer.second.map(Scalar::to_argument));
        args.push((place.first_node(side, slices) as u64).into());
        args.push(place.inwards(side).into());
        let ([nx, ny, _], (rows, planes)) = (layout.nodes, layout.rows_and_planes(slices));
        let (rows, planes) = (rows.len(), planes.len());
        let kernel = &kernels.absorb[self.index];
        if side.axis() == 0 {
            args.push((layout.pitch as i32).into());
            args.push((layout.plane as u64).into());
            args.push((rows as i32).into());
            args.push((planes as i32).into());
            args.push(((slices.start * layout.slice_rows() * thickness) as u64).into());
            let [line_threads, lines] = row_block(thickness, medium.stencil.radius);
            let grid = [(rows as u32).div_ceil(lines), planes.min(MAX_BLOCKS_Y) as u32];
            return queue.launch(kernel, grid, line_threads * lines, &args);
        }
        let is_at_end = side.axis() == layout.slow_axis();
        let is_whole = !is_at_end || slices.len() >= thickness + medium.stencil.radius;
        assert!(is_whole, "slices of a part of a layer");
        let first_line = if is_at_end { 0 } else { slices.start };
        let (other, lines, memory_first, memory_normal, memory_other) = match side.axis() {
            1 => (layout.plane, planes, first_line * thickness * nx, nx, thickness * nx),
            _ => (layout.pitch, ny, 0, ny * nx, nx),
        };
        args.push((other as u64).into());
        args.push((nx as i32).into());
        args.push((lines as i32).into());
        args.extend([memory_first, memory_normal, memory_other].map(|index| Arg::from(index as u64)));
        let grid = [(nx as u32).div_ceil(BLOCK_SIZE), lines.min(MAX_BLOCKS_Y) as u32];
        queue.launch(kernel, grid, BLOCK_SIZE, &args)
    }
}
