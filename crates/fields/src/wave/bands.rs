//! Division of a step on the CPU into tasks: bands of rows in chunks of planes.

use std::ops::Range;

use super::LayerCoefficients;
use super::column_pass::{ColumnLayer, ColumnWindow};
use super::layer_pass::{RowLayer, SlabLayer};
use super::layout::WaveLayout;
use crate::Scalar;

/// Divides a range into `count` parts of almost equal size, at least one.
pub fn divided(range: Range<usize>, count: usize) -> Vec<Range<usize>> {
    let count = count.max(1);
    let start = |part: usize| range.start + part * range.len() / count;
    (0..count).map(|part| start(part)..start(part + 1)).collect()
}

/// Returns the range of parts that follow one another.
fn joined(parts: &[Range<usize>]) -> Range<usize> {
    parts[0].start..parts[parts.len() - 1].end
}

/// Rows of one band in consecutive planes.
#[derive(Debug)]
pub struct BandTask<'a, R> {
    /// First plane.
    pub first_plane: usize,
    /// Rows of the band.
    pub rows: Range<usize>,
    /// The band in each plane.
    pub pieces: Vec<BandPiece<'a, R>>,
    /// Parts of the absorbing layers at z_min and z_max. Their first rows are those of the band.
    pub along_z: [Option<RowLayer<'a, R>>; 2],
}

/// A band in one plane.
#[derive(Debug)]
pub struct BandPiece<'a, R> {
    /// New values: the part [`WaveLayout::band`] of the plane.
    pub next: &'a mut [R],
    /// Parts of the absorbing layers at x_min and x_max.
    pub along_x: [Option<ColumnLayer<'a, R>>; 2],
    /// Absorbing layers at y_min and y_max, if the band contains them.
    pub along_y: [Option<RowLayer<'a, R>>; 2],
}

/// Tasks of all bands in all chunks. The bands of a chunk follow each other.
pub struct Tasks<'a, R> {
    layout: &'a WaveLayout,
    bands: Vec<Range<usize>>,
    /// Consecutive ranges of planes.
    chunks: Vec<Range<usize>>,
    tasks: Vec<BandTask<'a, R>>,
}

impl<'a, R: Scalar> Tasks<'a, R> {
    /// Returns tasks without layers. `next` are the new values of all bands in all chunks.
    pub fn new(
        layout: &'a WaveLayout,
        bands: Vec<Range<usize>>,
        chunks: Vec<Range<usize>>,
        next: &'a mut [R],
    ) -> Self {
        let mut tasks = Vec::with_capacity(chunks.len() * bands.len());
        let mut planes = next.chunks_mut(layout.plane);
        for chunk in &chunks {
            let first = tasks.len();
            tasks.extend(bands.iter().map(|rows| BandTask {
                first_plane: chunk.start,
                rows: rows.clone(),
                pieces: Vec::with_capacity(chunk.len()),
                along_z: [None, None],
            }));
            for mut rest in planes.by_ref().take(chunk.len()) {
                for task in &mut tasks[first..] {
                    let next = rest
                        .split_off_mut(..layout.band(&task.rows).len())
                        .expect("bands are parts of a plane");
                    task.pieces.push(BandPiece { next, along_x: [None, None], along_y: [None, None] });
                }
            }
        }
        Self { layout, bands, chunks, tasks }
    }

    /// Adds the parts of a layer to the tasks. `window` is that of a layer along x.
    pub fn add_layer(
        &mut self,
        layer: &'a mut SlabLayer<R>,
        coefficients: &'a LayerCoefficients<R>,
        window: Option<&'a ColumnWindow<R>>,
    ) {
        let [_, ny, nz] = self.layout.nodes;
        let side = coefficients.side;
        let end = usize::from(side.is_max());
        let (rows, planes) = (joined(&self.bands), joined(&self.chunks));
        let slices = if self.layout.is_volume() { &planes } else { &rows };
        let is_at_end = if side.is_max() { slices.end == self.layout.slices() } else { slices.start == 0 };
        if side.axis() == self.layout.slow_axis() && !is_at_end {
            return;
        }
        if side.axis() == 2 {
            let first = if side.is_max() { self.tasks.len() - self.bands.len() } else { 0 };
            let mut values = layer.all_rows();
            for task in self.tasks[first..].iter_mut().take(self.bands.len()) {
                let rows = values.split_off_rows(task.rows.len() * coefficients.thickness());
                task.along_z[end] = Some(RowLayer::new(coefficients, rows, nz));
            }
            return;
        }
        let mut values = layer.by_plane(planes, ny);
        let band_count = self.bands.len();
        for (chunk, tasks) in self.chunks.iter().zip(self.tasks.chunks_mut(band_count)) {
            for (k, mut values) in values.by_ref().take(chunk.len()).enumerate() {
                if let Some(window) = window {
                    // In two dimensions the bands may start after the first row.
                    values.split_off_rows(rows.start);
                    for task in &mut *tasks {
                        let values = values.split_off_rows(task.rows.len());
                        task.pieces[k].along_x[end] =
                            Some(ColumnLayer { layer: coefficients, window, values });
                    }
                } else {
                    let band = if side.is_max() { band_count - 1 } else { 0 };
                    tasks[band].pieces[k].along_y[end] = Some(RowLayer::new(coefficients, values, ny));
                }
            }
        }
    }

    /// Returns the tasks.
    pub fn into_vec(self) -> Vec<BandTask<'a, R>> {
        self.tasks
    }
}
