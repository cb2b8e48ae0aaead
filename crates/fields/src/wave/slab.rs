//! Part of a wave field in host memory: consecutive slices with ghost slices on both sides.

use std::ops::Range;

use orrery_cluster::ClusterError;
use orrery_model::wave::Side;
use rayon::prelude::*;

use super::cpu::{CourantPlanes, SliceUpdate, StencilPass, WaveCpuStrategy};
use super::images::{copy_image, write_images};
use super::layer::{has_side, slice_count};
use super::layer_pass::SlabLayer;
use super::layout::{GAP, PaddedField, WaveLayout};
use super::{MAX_RADIUS, Medium, SquaredCourant, WaveState};
use crate::Scalar;
use crate::team::{Neighbours, SlabParts};

/// Slices of a wave field. Slices of functions count from the first owned one.
#[derive(Debug)]
pub struct HostWaveSlab<R> {
    /// Slices of the grid that the slab updates.
    pub owned: Range<usize>,
    pub layout: WaveLayout,
    /// u with ghost nodes.
    pub now: PaddedField<R>,
    /// u one step earlier, which becomes u one step later.
    pub previous: PaddedField<R>,
    /// v, zero at ghost nodes. Empty if it is uniform.
    pub courant: PaddedField<R>,
    pub layers: Vec<SlabLayer<R>>,
}

impl<R: Scalar> HostWaveSlab<R> {
    /// Copies the state and the medium of the slices `owned`, which have values of these slices
    /// only. Ghost slices of neighbours are zero.
    pub fn new(medium: &Medium<R>, state: &WaveState<R>, owned: Range<usize>) -> Self {
        let layout = WaveLayout::on_host(&medium.grid, owned.len());
        let padded = |values: &[R], number| padded(&layout, values, number);
        let courant = match &medium.squared_courant {
            SquaredCourant::Uniform(_) => PaddedField::empty(),
            SquaredCourant::Field(values) => padded(values, 2),
        };
        let layer = |(index, memory)| SlabLayer::new(&layout, index, memory);
        let layers = state.layers.iter().enumerate().filter_map(layer).collect();
        let (now, previous) = (padded(&state.now, 0), padded(&state.previous, 1));
        let mut slab = Self { layout, now, previous, courant, layers, owned };
        slab.write_images(medium);
        slab
    }

    /// Writes the images of u beyond all sides.
    pub fn write_images(&mut self, medium: &Medium<R>) {
        let (layout, slices) = (&self.layout, 0..self.layout.slices());
        let (rows, _) = layout.rows_and_planes(&slices);
        let (range, base) = (layout.slice_range(&slices), layout.band(&rows).start);
        let plane = if layout.is_volume() { layout.plane } else { range.len() };
        self.now[range].par_chunks_mut(plane).for_each(|plane| {
            write_images(layout, &medium.sides, rows.clone(), plane, base);
        });
        self.write_end_images(medium, EndImages::Now);
    }

    /// Computes the new values of all slices in `previous`, with absorption, and with the sources
    /// whose amplitudes are given. Images at the ends are not written.
    pub fn update(&mut self, medium: &Medium<R>, strategy: &WaveCpuStrategy, amplitudes: &[R]) {
        let slices = 0..self.layout.slices();
        let (mut step, next) = self.step(medium, strategy, amplitudes);
        let range = step.layout.slice_range(&slices);
        step.update(slices, &mut next[range], None);
    }

    /// As [`Self::update`], and replaces the ghost slices of the new values by the new values of
    /// the neighbours. The borders are computed first, and sent while the interior is computed.
    pub(super) fn update_with_neighbours(
        &mut self,
        medium: &Medium<R>,
        strategy: &WaveCpuStrategy,
        amplitudes: &[R],
        neighbours: &Neighbours,
    ) -> Result<(), ClusterError> {
        let [low, interior, high] = neighbours.split(self.layout.slices(), MAX_RADIUS);
        let (mut step, next) = self.step(medium, strategy, amplitudes);
        let SlabParts { ghosts, borders: [low_next, high_next], interior: next } =
            SlabParts::split(next, part_starts(step.layout, &interior));
        step.update(low, low_next, None);
        step.update(high, high_next, None);
        neighbours.exchange([low_next, high_next], ghosts, |exchange| {
            // A long message moves after its receiver has called the transport once.
            let mut polled = Ok(true);
            let mut poll = || polled = exchange.poll();
            let halfway: Option<&mut dyn FnMut()> = Some(&mut poll);
            step.update(interior, next, halfway.filter(|_| neighbours.needs_polls()));
            polled.map(|_| ())
        })
    }

    /// Replaces the ghost slices of u by the values of the neighbours.
    pub(super) fn exchange_ghosts(&mut self, neighbours: &Neighbours) -> Result<(), ClusterError> {
        let [_, interior, _] = neighbours.split(self.layout.slices(), MAX_RADIUS);
        SlabParts::split(&mut self.now, part_starts(&self.layout, &interior)).exchange_ghosts(neighbours)
    }

    /// Writes the images beyond the sides at the ends of the slices' axis. All slices must have
    /// been updated.
    pub fn write_end_images(&mut self, medium: &Medium<R>, field: EndImages) {
        let values = match field {
            EndImages::Now => &mut self.now,
            EndImages::Next => &mut self.previous,
        };
        let (layout, last) = (&self.layout, self.layout.slices() as isize - 1);
        let axis = 2 * layout.slow_axis();
        for (side, end, outwards) in [(Side::ALL[axis], 0, -1), (Side::ALL[axis + 1], last, 1)] {
            let sign = medium.sides.on(side).image_sign();
            let Some(sign) = sign.filter(|_| has_side(&medium.grid, side, &self.owned)) else { continue };
            for r in 1..=MAX_RADIUS as isize {
                let [to, from] = [end + r * outwards, end - r * outwards].map(|k| layout.slice_start(k));
                copy_image(values, from, to, layout.slice_start(1) - layout.slice_start(0), sign);
            }
        }
    }

    /// Returns the rows of the owned slices: their position in the padded field, and j and k from
    /// the first row of the slab.
    pub fn rows(&self) -> impl ParallelIterator<Item = (usize, [usize; 2])> + '_ {
        let [_, ny, planes] = self.layout.nodes;
        (0..planes * ny).into_par_iter().map(move |row| {
            let (j, k) = (row % ny, row / ny);
            (self.layout.row(j, k), [j, k])
        })
    }

    /// Returns the values of the owned nodes of a padded field.
    pub fn values_of(&self, field: &[R]) -> Vec<R> {
        let [nx, ny, planes] = self.layout.nodes;
        let mut values = Vec::with_capacity(nx * ny * planes);
        for row in 0..ny * planes {
            values.extend_from_slice(&field[self.layout.row(row % ny, row / ny)..][..nx]);
        }
        values
    }

    /// Returns u at a node of the grid, which may be in a ghost slice.
    pub fn value(&self, [i, j, k]: [usize; 3]) -> R {
        let local = |slice: usize| slice as isize - self.owned.start as isize;
        let (j, k) = if self.layout.is_volume() { (j as isize, local(k)) } else { (local(j), 0) };
        let plane = (k + self.layout.ghost_planes as isize) as usize * self.layout.plane;
        let row = (j + MAX_RADIUS as isize) as usize * self.layout.pitch + GAP;
        self.now[plane + row + i]
    }

    /// Returns the step from u and the field that it replaces.
    fn step<'a>(
        &'a mut self,
        medium: &'a Medium<R>,
        strategy: &'a WaveCpuStrategy,
        amplitudes: &'a [R],
    ) -> (SlabStep<'a, R>, &'a mut [R]) {
        let Self { layout, now, previous, courant, layers, owned } = self;
        let courant = courant_planes(medium, courant);
        let (stencil, sides) = (&medium.stencil, &medium.sides);
        let pass = StencilPass { layout, stencil, sides, courant, u: &now[..] };
        let first = owned.start;
        (SlabStep { medium, strategy, amplitudes, first, layout, pass, layers }, &mut previous[..])
    }
}

/// A step of a slab.
struct SlabStep<'a, R> {
    medium: &'a Medium<R>,
    strategy: &'a WaveCpuStrategy,
    /// Amplitudes of all sources.
    amplitudes: &'a [R],
    /// First slice of the slab.
    first: usize,
    layout: &'a WaveLayout,
    pass: StencilPass<'a, R>,
    layers: &'a mut [SlabLayer<R>],
}

impl<R: Scalar> SlabStep<'_, R> {
    /// Computes the new values of `slices`. `next` has their values of the step before and nothing
    /// else. Layers at the ends take part if `slices` contain the side. `halfway` is called after
    /// half of the work.
    fn update(&mut self, slices: Range<usize>, next: &mut [R], halfway: Option<&mut dyn FnMut()>) {
        if slices.is_empty() {
            return;
        }
        let (layers, coefficients) = (&mut *self.layers, &self.medium.layers[..]);
        let update = SliceUpdate { slices: slices.clone(), next: &mut *next, layers, coefficients };
        self.pass.run(self.strategy, update, halfway);
        self.inject(slices, next);
    }

    /// Adds the sources to the new values of some slices, and writes the images of slices with
    /// sources again.
    fn inject(&self, slices: Range<usize>, next: &mut [R]) {
        let Self { medium, layout, .. } = self;
        let slice_nodes = medium.grid.len() / slice_count(&medium.grid);
        let sources = &medium.sources;
        let index =
            |slice: usize| sources.nodes.partition_point(|&node| node < (self.first + slice) * slice_nodes);
        let entries = index(slices.start)..index(slices.end);
        if entries.is_empty() {
            return;
        }
        let slice_of = |entry: usize| sources.nodes[entry] / slice_nodes - self.first;
        let start = layout.slice_start(slices.start as isize);
        for entry in entries.clone() {
            let mut node = medium.grid.node(sources.nodes[entry]);
            node[layout.slow_axis()] -= self.first;
            let position = layout.position(node);
            let v = self.pass.courant.at(position);
            let next = &mut next[position - start];
            *next = v.fused_mul_add(sources.sum(entry, self.amplitudes), *next);
        }
        for slice in slice_of(entries.start)..slice_of(entries.end - 1) + 1 {
            let range = layout.slice_range(&(slice..slice + 1));
            let (rows, _) = layout.rows_and_planes(&(slice..slice + 1));
            let base = layout.band(&rows).start;
            write_images(
                layout,
                &medium.sides,
                rows,
                &mut next[range.start - start..range.end - start],
                base,
            );
        }
    }
}

/// Returns the positions at which the parts of a padded field around the slices `interior` start,
/// for [`SlabParts::split`].
fn part_starts(layout: &WaveLayout, interior: &Range<usize>) -> [usize; 6] {
    let (ghosts, slices) = (MAX_RADIUS as isize, layout.slices() as isize);
    let starts = [-ghosts, 0, interior.start as isize, interior.end as isize, slices, slices + ghosts];
    starts.map(|slice| layout.slice_start(slice))
}

/// Returns v of a slab with this field.
pub(super) fn courant_planes<'a, R: Scalar>(medium: &Medium<R>, field: &'a [R]) -> CourantPlanes<'a, R> {
    match &medium.squared_courant {
        SquaredCourant::Uniform(v) => CourantPlanes::Uniform(*v),
        SquaredCourant::Field(_) => CourantPlanes::Field(field),
    }
}

/// Field whose images [`HostWaveSlab::write_end_images`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndImages {
    /// u at the time of the step.
    Now,
    /// The new values.
    Next,
}

/// Copies the values of all nodes of a slab into a padded field.
fn padded<R: Scalar>(layout: &WaveLayout, values: &[R], number: usize) -> PaddedField<R> {
    let [nx, ny, planes] = layout.nodes;
    assert_eq!(values.len(), nx * ny * planes, "values of the slices of the slab");
    let mut field = PaddedField::zeros(layout, number);
    for (row, values) in values.chunks_exact(nx).enumerate() {
        field[layout.row(row % ny, row / ny)..][..nx].copy_from_slice(values);
    }
    field
}
