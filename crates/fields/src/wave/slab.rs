//! Part of a wave field in host memory: consecutive planes with ghost planes on both sides.

use std::ops::Range;

use orrery_model::wave::{Side, Sides};
use rayon::prelude::*;

use super::cpu::{CourantPlanes, StencilPass, WaveCpuStrategy};
use super::images::{copy_image, write_images};
use super::layer_pass::SlabLayer;
use super::layout::{Layout, PaddedField};
use super::{MAX_RADIUS, Medium, SquaredCourant, WaveState};
use crate::Scalar;

/// Planes of a wave field. Positions and planes count from the first owned plane.
#[derive(Debug)]
pub struct Slab<R> {
    /// Planes of the grid that the slab updates.
    pub owned: Range<usize>,
    pub layout: Layout,
    /// u with ghost nodes.
    pub now: PaddedField<R>,
    /// u one step earlier, which becomes u one step later.
    pub previous: PaddedField<R>,
    /// v, zero at ghost nodes. Empty if it is uniform.
    pub courant: PaddedField<R>,
    pub layers: Vec<SlabLayer<R>>,
}

impl<R: Scalar> Slab<R> {
    /// Copies the planes `owned` of a state and of the medium.
    pub fn new(medium: &Medium<R>, state: &WaveState<R>, owned: Range<usize>) -> Self {
        let layout = Layout::new(&medium.grid, owned.len());
        let padded = |values: &[R], number| padded(&layout, &owned, values, number);
        let courant = match &medium.squared_courant {
            SquaredCourant::Uniform(_) => PaddedField::empty(),
            SquaredCourant::Field(values) => padded(values, 2),
        };
        let layer = |(index, memory)| SlabLayer::new(&medium.grid, index, memory, &owned);
        let layers = state.layers.iter().enumerate().filter_map(layer).collect();
        let mut slab = Self {
            layout,
            now: padded(&state.now, 0),
            previous: padded(&state.previous, 1),
            courant,
            layers,
            owned: owned.clone(),
        };
        slab.write_images(medium);
        slab
    }

    /// Writes the images of u beyond all sides.
    pub fn write_images(&mut self, medium: &Medium<R>) {
        write_plane_images(medium, &self.layout, 0..self.owned.len(), &mut self.now);
        self.write_end_images(medium, EndImages::Now);
    }

    /// Computes the new values of `planes` in `previous`, with absorption, and with the sources
    /// whose amplitudes are given. Layers along z take part if `planes` contain the side.
    pub fn update(
        &mut self,
        medium: &Medium<R>,
        strategy: &WaveCpuStrategy,
        amplitudes: &[R],
        planes: Range<usize>,
    ) {
        if planes.is_empty() {
            return;
        }
        let Self { layout, now, previous, courant, layers, owned } = self;
        let courant = courant_planes(medium, courant);
        let (stencil, sides) = (&medium.stencil, &medium.sides);
        let pass = StencilPass { layout, stencil, sides, courant, u: &now[..] };
        pass.run(strategy, planes.clone(), previous, layers, &medium.layers);
        if let Some(planes) = inject(medium, &pass, owned.start, amplitudes, planes, previous) {
            write_plane_images(medium, layout, planes, previous);
        }
    }

    /// Writes the images beyond the sides along z. All planes must have been updated.
    pub fn write_end_images(&mut self, medium: &Medium<R>, field: EndImages) {
        let values = match field {
            EndImages::Now => &mut self.now,
            EndImages::Next => &mut self.previous,
        };
        let Layout { plane, ghost_planes, nodes, .. } = self.layout;
        if ghost_planes == 0 {
            return;
        }
        let start = |k: usize| k * plane;
        if self.owned.start == 0
            && let Some(sign) = medium.sides.z_min.image_sign()
        {
            for r in 1..=MAX_RADIUS {
                let [to, from] = [ghost_planes - r, ghost_planes + r].map(start);
                copy_image(values, from, to, plane, sign);
            }
        }
        if self.owned.end == medium.grid.nodes[2]
            && let Some(sign) = medium.sides.z_max.image_sign()
        {
            let last = ghost_planes + nodes[2] - 1;
            for r in 1..=MAX_RADIUS {
                let [to, from] = [last + r, last - r].map(start);
                copy_image(values, from, to, plane, sign);
            }
        }
    }

    /// Returns the planes of `field` as stored, with their ghost rows. Planes below 0 and above the
    /// last one are ghost planes.
    pub fn stored_planes(&self, planes: Range<isize>) -> Range<usize> {
        let position = |k: isize| (k + self.layout.ghost_planes as isize) as usize * self.layout.plane;
        position(planes.start)..position(planes.end)
    }

    /// Calls `visit` for all rows of the owned planes, with their position in the padded field and
    /// their index in the grid.
    pub fn rows(&self) -> impl ParallelIterator<Item = (usize, [usize; 2])> + '_ {
        let [_, ny, planes] = self.layout.nodes;
        (0..planes * ny).into_par_iter().map(move |row| {
            let (j, k) = (row % ny, row / ny);
            (self.layout.row(j, k), [j, k])
        })
    }

    /// Appends the values of the owned nodes of a padded field.
    pub fn append_to(&self, field: &[R], values: &mut Vec<R>) {
        let [nx, ny, planes] = self.layout.nodes;
        for k in 0..planes {
            for j in 0..ny {
                values.extend_from_slice(&field[self.layout.row(j, k)..][..nx]);
            }
        }
    }
}

/// Returns v of a slab with this field.
pub(super) fn courant_planes<'a, R: Scalar>(medium: &Medium<R>, field: &'a [R]) -> CourantPlanes<'a, R> {
    match &medium.squared_courant {
        SquaredCourant::Uniform(v) => CourantPlanes::Uniform(*v),
        SquaredCourant::Field(_) => CourantPlanes::Field(field),
    }
}

/// Field whose images [`Slab::write_end_images`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndImages {
    /// u at the time of the step.
    Now,
    /// The new values.
    Next,
}

/// Copies planes of a grid into a padded field, including those of neighbouring slabs as ghost
/// planes.
fn padded<R: Scalar>(layout: &Layout, owned: &Range<usize>, values: &[R], number: usize) -> PaddedField<R> {
    let [nx, ny, _] = layout.nodes;
    let mut field = PaddedField::zeros(layout, number);
    let first = owned.start.saturating_sub(layout.ghost_planes);
    let end = (owned.end + layout.ghost_planes).min(values.len() / (nx * ny));
    for k in first..end {
        for j in 0..ny {
            let at = (k + layout.ghost_planes - owned.start) * layout.plane + layout.row_in_plane(j);
            field[at..][..nx].copy_from_slice(&values[(k * ny + j) * nx..][..nx]);
        }
    }
    field
}

/// Writes the images beyond the sides along x and y in some planes.
fn write_plane_images<R: Scalar>(medium: &Medium<R>, layout: &Layout, planes: Range<usize>, field: &mut [R]) {
    let ny = layout.nodes[1];
    layout.planes_mut(planes, field).par_chunks_mut(layout.plane).for_each(|plane| {
        write_images(layout, &medium.sides, 0..ny, plane, 0);
    });
}

/// Adds the sources to the new values of some planes, and returns the planes with sources. `first`
/// is the first plane of the slab.
fn inject<R: Scalar>(
    medium: &Medium<R>,
    pass: &StencilPass<R>,
    first: usize,
    amplitudes: &[R],
    planes: Range<usize>,
    next: &mut [R],
) -> Option<Range<usize>> {
    let plane_nodes = medium.grid.nodes[0] * medium.grid.nodes[1];
    let sources = &medium.sources;
    let index = |plane: usize| sources.nodes.partition_point(|&node| node < (first + plane) * plane_nodes);
    let entries = index(planes.start)..index(planes.end);
    let plane_of = |entry: usize| sources.nodes[entry] / plane_nodes - first;
    for entry in entries.clone() {
        let [i, j, k] = medium.grid.node(sources.nodes[entry]);
        let position = pass.layout.position([i, j, k - first]);
        let v = pass.courant.at(position);
        next[position] = v.fused_mul_add(sources.sum(entry, amplitudes), next[position]);
    }
    (!entries.is_empty()).then(|| plane_of(entries.start)..plane_of(entries.end - 1) + 1)
}

/// Returns the fewest planes that the first and the last of several slabs must own.
pub(super) fn min_end_planes(sides: &Sides) -> usize {
    let thickness = |side| sides.on(side).layer().map_or(0, |layer| layer.thickness);
    let layer = thickness(Side::ZMin).max(thickness(Side::ZMax));
    if layer == 0 { 1 } else { layer + 2 * MAX_RADIUS }
}
