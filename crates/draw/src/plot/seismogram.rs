//! Plots of seismograms: time downwards, traces side by side at their offsets.
//!
//! Amplitudes are clipped at a percentile of their sizes, so that the direct wave does not hide
//! reflections. If the offsets of neighbours do not increase, as along a borehole, the horizontal
//! axis is the number of the receiver.

use std::path::Path;

use orrery_formats::Seismogram;
use orrery_formats::write_file_atomically;

use super::layout::{Item, PlotLayout, VerticalAxis, add_frame};
use super::ticks::Range;
use super::{Axis, HEIGHT, Plot, WIDTH, raster, svg};
use crate::picture::{Image, PictureError, write_png};

const INK: [u8; 3] = [20, 22, 26];
/// Smallest distance of wiggles in units of the plot. Of more traces, every n-th is drawn.
const MIN_TRACE_DISTANCE: f64 = 6.0;
/// Largest deflection of a wiggle in units of the distance of traces.
const DEFLECTION: f64 = 1.4;
/// Line width of wiggles.
const LINE_WIDTH: f64 = 0.7;
/// Largest number of values from which the percentile is computed.
const MAX_RANKED: usize = 1 << 20;

/// A plot of a seismogram.
#[derive(Clone, Debug)]
pub struct SeismogramPlot<'a> {
    /// Title above the plot.
    pub title: String,
    /// Smaller text below the title. It may be empty.
    pub subtitle: String,
    /// Unit of lengths, such as `m`. It may be empty.
    pub length_unit: String,
    /// Unit of times.
    pub time_unit: String,
    /// Percentile of the sizes of all amplitudes at which they are clipped, from 0 to 100.
    pub percentile: f64,
    /// Traces to draw.
    pub shot: &'a Seismogram,
}

impl<'a> SeismogramPlot<'a> {
    /// Returns a plot in metres and seconds that clips amplitudes at their 98th percentile.
    pub fn new(shot: &'a Seismogram) -> Self {
        Self {
            title: format!("Shot {}", shot.shot),
            subtitle: String::new(),
            length_unit: "m".to_owned(),
            time_unit: "s".to_owned(),
            percentile: 98.0,
            shot,
        }
    }

    /// Returns the wiggle plot as an SVG document.
    pub fn to_svg(&self) -> String {
        svg::svg_document(&self.wiggle_layout([WIDTH, HEIGHT]), &self.title)
    }

    /// Draws the wiggle plot as an image. Text and lines scale with its size.
    pub fn to_image(&self, width: u32, height: u32) -> Image {
        let (zoom, size) = zoom_of(width, height);
        raster::draw_layout(&self.wiggle_layout(size), zoom)
    }

    /// Draws amplitudes as grey values: positive ones are dark and negative ones are bright.
    pub fn to_grey_image(&self, width: u32, height: u32) -> Image {
        let (zoom, size) = zoom_of(width, height);
        let section = self.layout(size, 0.5);
        let mut image = raster::draw_layout(&section.plot, zoom);
        section.paint_grey(self, &mut image, zoom);
        image
    }

    /// Writes the wiggle plot as SVG. The write is atomic.
    pub fn write_svg(&self, path: &Path) -> Result<(), PictureError> {
        Ok(write_file_atomically(path, self.to_svg().as_bytes())?)
    }

    /// Writes the wiggle plot as a PNG of the given size. The write is atomic.
    pub fn write_png(&self, path: &Path, width: u32, height: u32) -> Result<(), PictureError> {
        write_png(path, &self.to_image(width.max(1), height.max(1)), &[("Title", &self.title)])
    }

    /// Writes the grey-scale plot as a PNG of the given size. The write is atomic.
    pub fn write_grey_png(&self, path: &Path, width: u32, height: u32) -> Result<(), PictureError> {
        write_png(path, &self.to_grey_image(width.max(1), height.max(1)), &[("Title", &self.title)])
    }

    /// Returns the positions of the traces on the horizontal axis, ascending, and its label.
    fn positions(&self) -> (Vec<f64>, String) {
        let count = self.shot.receivers.len();
        let offsets: Vec<f64> = (0..count).map(|k| self.shot.offset(k)).collect();
        if offsets.windows(2).all(|pair| pair[0] < pair[1]) {
            return (offsets, with_unit("offset", &self.length_unit));
        }
        ((1..=count).map(|k| k as f64).collect(), "receiver".to_owned())
    }

    fn wiggle_layout(&self, size: [f64; 2]) -> PlotLayout {
        // Of many traces not all are drawn, and deflections grow with the distance of those.
        let traces_per_unit = self.shot.receivers.len() as f64 / size[0];
        let margin = DEFLECTION * (1.3 * MIN_TRACE_DISTANCE * traces_per_unit).max(1.0);
        self.layout(size, margin).with_wiggles(self)
    }

    /// Returns the layout with a horizontal margin in units of the distance of traces.
    fn layout(&self, size: [f64; 2], margin: f64) -> SectionLayout {
        let (positions, x_label) = self.positions();
        let (first, last) =
            (positions.first().copied().unwrap_or(0.0), positions.last().copied().unwrap_or(1.0));
        let spaces = positions.len().saturating_sub(1).max(1) as f64;
        let distance = if last > first { (last - first) / spaces } else { 1.0 };
        let times = self.shot.sample_count();
        let end = self.shot.time(times.saturating_sub(1));
        let x = Range { low: first - margin * distance, high: last + margin * distance, log: false };
        let y = Range { low: self.shot.start, high: end.max(self.shot.start + self.shot.dt), log: false };
        let heading = Plot {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            x: Axis::linear(x_label),
            y: Axis::linear(with_unit("t", &self.time_unit)),
            series: Vec::new(),
        };
        let mut items = Vec::new();
        let (x_ticks, y_ticks) = (x.ticks((size[0] / 105.0) as usize), y.ticks((size[1] / 60.0) as usize));
        let frame = add_frame(&heading, [&x_ticks, &y_ticks], [x, y], VerticalAxis::Down, size, &mut items);
        let plot = PlotLayout { width: size[0], height: size[1], frame, items, curves: Vec::new() };
        SectionLayout { plot, x, positions, distance, clip: self.clip() }
    }

    /// Returns the amplitude at which values are clipped, positive.
    fn clip(&self) -> f64 {
        let stride = self.shot.samples.len().div_ceil(MAX_RANKED).max(1);
        let sizes = self.shot.samples.iter().step_by(stride).map(|value| value.abs());
        let mut sizes: Vec<f64> = sizes.filter(|size| size.is_finite()).collect();
        if sizes.is_empty() {
            return 1.0;
        }
        let rank = (self.percentile.clamp(0.0, 100.0) / 100.0 * (sizes.len() - 1) as f64).round() as usize;
        let (_, &mut at_rank, above) = sizes.select_nth_unstable_by(rank, f64::total_cmp);
        // Before most receivers have seen the wave, most values are 0.
        let largest = above.iter().fold(at_rank, |largest, &size| largest.max(size));
        match (at_rank > 0.0, largest > 0.0) {
            (true, _) => at_rank,
            (false, true) => largest,
            _ => 1.0,
        }
    }
}

/// A plot without its traces, and the position of the traces in it.
struct SectionLayout {
    plot: PlotLayout,
    x: Range,
    /// Position of each trace on the horizontal axis.
    positions: Vec<f64>,
    /// Mean distance of the traces on the horizontal axis.
    distance: f64,
    clip: f64,
}

impl SectionLayout {
    /// Returns the layout with a line and filled positive lobes for each trace.
    fn with_wiggles(self, plot: &SeismogramPlot) -> PlotLayout {
        let [left, top, right, bottom] = self.plot.frame;
        let unit = (right - left) / (self.x.high - self.x.low);
        let stride = (MIN_TRACE_DISTANCE / (self.distance * unit)).ceil().max(1.0) as usize;
        let deflection = DEFLECTION * self.distance * unit * stride as f64;
        // Two values per unit of height are more than a screen shows.
        let rows = (2.0 * (bottom - top)).max(2.0) as usize;
        let mut curves = Vec::new();
        for (k, &position) in self.positions.iter().enumerate().step_by(stride) {
            let base = left + (position - self.x.low) * unit;
            let values = thinned(plot.shot.trace(k), rows);
            let height = |place: f64| top + place * (bottom - top);
            let points: Vec<[f64; 2]> = values
                .iter()
                .map(|&(place, value)| {
                    [base + deflection * (value / self.clip).clamp(-1.0, 1.0), height(place)]
                })
                .collect();
            curves.push(Item::Area { points: positive_lobes(&points, base), colour: INK });
            curves.push(Item::Line { points, colour: INK, width: LINE_WIDTH, dashed: false });
        }
        PlotLayout { curves, ..self.plot }
    }

    /// Paints the amplitudes over the frame, linear between traces and averaged over the samples of
    /// a row.
    fn paint_grey(&self, plot: &SeismogramPlot, image: &mut Image, zoom: f64) {
        let [left, top, right, bottom] = self.plot.frame.map(|edge| edge * zoom);
        // The axes are on the left and at the bottom.
        let columns = left.floor() as usize + 1..(right.floor() as usize).min(image.width as usize);
        let rows = top.floor() as usize..(bottom.floor() as usize).min(image.height as usize);
        let samples = plot.shot.sample_count();
        let neighbours: Vec<_> = columns
            .clone()
            .map(|column| {
                let place = (column as f64 + 0.5 - left) / (right - left);
                self.neighbours_of(self.x.low + place * (self.x.high - self.x.low))
            })
            .collect();
        for row in rows {
            let edge = |row: usize| (row as f64 - top) / (bottom - top) * (samples - 1) as f64;
            let (from, to) = (edge(row), edge(row + 1));
            let mean = |k: usize| mean_between(plot.shot.trace(k), from, to);
            // Neighbouring columns have the same traces.
            let mut known = (usize::MAX, 0.0);
            let mut value_of = |k: usize| {
                if known.0 != k {
                    known = (k, mean(k));
                }
                known.1
            };
            for (column, &(k, weight)) in columns.clone().zip(&neighbours) {
                let value = match weight {
                    0.0 => value_of(k),
                    _ => (1.0 - weight) * value_of(k) + weight * mean(k + 1),
                };
                let shade = 0.5 - 0.5 * (value / self.clip).clamp(-1.0, 1.0);
                let at = 3 * (row * image.width as usize + column);
                image.rgb[at..at + 3].fill((255.0 * shade).round() as u8);
            }
        }
    }

    /// Returns the trace at or before a position and the weight of the next one.
    fn neighbours_of(&self, position: f64) -> (usize, f64) {
        let next = self.positions.partition_point(|&p| p <= position);
        match (next.checked_sub(1), self.positions.get(next)) {
            (Some(k), Some(after)) => (k, (position - self.positions[k]) / (after - self.positions[k])),
            (Some(k), None) => (k, 0.0),
            _ => (0, 0.0),
        }
    }
}

fn zoom_of(width: u32, height: u32) -> (f64, [f64; 2]) {
    let zoom = (f64::from(width) / WIDTH).min(f64::from(height) / HEIGHT).max(0.1);
    (zoom, [f64::from(width) / zoom, f64::from(height) / zoom])
}

fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name} / {unit}") }
}

/// Returns at most about `rows` values of a trace with their places from 0 to 1: of each group of
/// neighbours the one with the largest size. Values that are not finite become 0.
fn thinned(trace: &[f64], rows: usize) -> Vec<(f64, f64)> {
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    let last = trace.len().saturating_sub(1).max(1) as f64;
    let group = trace.len().div_ceil(rows).max(1);
    let mut values = Vec::with_capacity(trace.len() / group + 1);
    for (k, part) in trace.chunks(group).enumerate() {
        let largest = part
            .iter()
            .enumerate()
            .max_by(|a, b| finite(*a.1).abs().total_cmp(&finite(*b.1).abs()))
            .map(|(n, &value)| ((k * group + n) as f64 / last, finite(value)));
        values.extend(largest);
    }
    values
}

/// Returns a polygon of the parts of a line at the right of `base`.
fn positive_lobes(points: &[[f64; 2]], base: f64) -> Vec<[f64; 2]> {
    let mut lobes = Vec::with_capacity(points.len() + 2);
    lobes.extend(points.first().map(|p| [base, p[1]]));
    for (k, &[x, y]) in points.iter().enumerate() {
        if let Some(&[before, above]) = k.checked_sub(1).and_then(|k| points.get(k))
            && (before - base) * (x - base) < 0.0
        {
            let t = (base - before) / (x - before);
            lobes.push([base, above + t * (y - above)]);
        }
        lobes.push([x.max(base), y]);
    }
    lobes.extend(points.last().map(|p| [base, p[1]]));
    lobes
}

/// Returns the mean of the samples between two places in units of samples, or the interpolated
/// value in their middle if there is none. NaN counts as 0.
fn mean_between(trace: &[f64], from: f64, to: f64) -> f64 {
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    let last = trace.len() - 1;
    let (first, end) = (from.ceil().max(0.0) as usize, (to.ceil().max(0.0) as usize).min(trace.len()));
    if first + 1 < end {
        return trace[first..end].iter().map(|&value| finite(value)).sum::<f64>() / (end - first) as f64;
    }
    let middle = (0.5 * (from + to)).clamp(0.0, last as f64);
    let below = (middle.floor() as usize).min(last);
    let t = middle - below as f64;
    (1.0 - t) * finite(trace[below]) + t * finite(trace[(below + 1).min(last)])
}
