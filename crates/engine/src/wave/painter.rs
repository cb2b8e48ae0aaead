//! Images of waves: a two-dimensional grid, or a plane of a volume. Depth points downwards.
//!
//! Waves become weaker as they spread. Each image therefore has its own range of colours, a quarter
//! of the largest amplitude, unless `[image]` sets it.

use std::sync::Arc;

use orrery_draw::picture::{
    ColourMap, FieldPicture, FieldSampler, Palette, PointKind, PointMark, RegionKind, RegionMark, TakenMeans,
    Underlay, ValueRange,
};
use orrery_formats::{Fault, IoError};
use orrery_model::Units;
use orrery_model::grid::{Boundaries, Boundary, RegionShape};
use orrery_model::wave::{AXIS_NAMES, Side};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::slice::Slice;
use crate::blocks::Blocks;
use crate::case::{Case, FieldView, VelocityRegion, VelocityShape, WaveCase};
use crate::error::EngineError;
use crate::heat::FieldDrawing;
use crate::observers::{Drawing, Painter};
use crate::simulation::Moment;
use crate::system::System;

/// Share of the largest amplitude at which the colours end.
const CLIP: f64 = 0.25;
/// Range of colours of a field that is zero everywhere.
const RANGE_AT_REST: ValueRange = ValueRange { low: -1.0, high: 1.0 };

/// Draws the waves of a run.
pub struct WavePainter {
    sampler: FieldSampler,
    units: Units,
    palette: Palette,
    view: FieldView,
    slice: Slice,
}

/// State of the painter in a checkpoint.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct State {
    pixels: [u32; 2],
}

impl WavePainter {
    /// Creates the painter of a run.
    pub fn new(case: &Case, slice: &Slice) -> Self {
        let mut picture = picture(case, slice, case.image.size.body_pixels());
        picture.pixels = case.image.size.field_pixels(&picture, RANGE_AT_REST);
        Self::from_picture(case, slice, picture)
    }

    /// Creates the painter of a resumed run. Returns an error if no run can have written `state`.
    pub fn resume(
        case: &Case,
        slice: &Slice,
        state: &Map<String, Value>,
        columns: &Blocks,
    ) -> Result<Self, EngineError> {
        let malformed = |got: String, expected: &str| {
            let fault = Fault::malformed("images", got, expected);
            EngineError::Input(IoError { path: columns.path().to_owned(), fault })
        };
        let State { pixels: [width, height] } = serde_json::from_value(Value::Object(state.clone()))
            .map_err(|e| malformed(e.to_string(), "the state of images of waves"))?;
        if !case.image.size.allows((width, height)) {
            return Err(malformed(format!("{width} x {height} pixels"), "those of image.size"));
        }
        Ok(Self::from_picture(case, slice, picture(case, slice, (width, height))))
    }

    fn from_picture(case: &Case, slice: &Slice, picture: FieldPicture) -> Self {
        let palette = Palette::for_picture(&picture);
        let sampler = FieldSampler::new(Arc::new(picture), RANGE_AT_REST);
        Self { sampler, units: case.units, palette, view: field_view(case), slice: slice.clone() }
    }
}

/// Returns the range of colours of a field with this largest amplitude.
fn colour_range(view: FieldView, largest: f64) -> ValueRange {
    let end = if largest > 0.0 { CLIP * largest } else { 1.0 };
    let (low, high) = (view.low.unwrap_or(-end), view.high.unwrap_or(end));
    if low < high { ValueRange { low, high } } else { ValueRange { low: -end, high: end } }
}

/// Returns the settings of images of a case.
fn field_view(case: &Case) -> FieldView {
    let default = FieldView { colour_map: "diverging", low: None, high: None };
    case.wave().map_or(default, |wave| wave.view)
}

/// Returns the picture of a plane with this size.
fn picture(case: &Case, slice: &Slice, pixels: (u32, u32)) -> FieldPicture {
    let wave = case.wave();
    let colours = ColourMap::from_name(field_view(case).colour_map).unwrap_or_else(ColourMap::diverging);
    FieldPicture {
        colours,
        shows_edges: false,
        is_depth_down: slice.is_depth_down(),
        axis_names: slice.axes.map(|axis| AXIS_NAMES[axis]),
        regions: wave.map(|wave| marks(wave, slice)).unwrap_or_default(),
        points: wave.map(|wave| points(wave, slice)).unwrap_or_default(),
        underlay: wave.and_then(|wave| underlay(wave, slice, case.units)),
        title: case.title(),
        length_unit: if case.units == Units::Si { "m".into() } else { String::new() },
        quantity: "u".into(),
        unit: wave.map(|wave| wave.unit.clone()).unwrap_or_default(),
        ..FieldPicture::new(slice.grid, Boundaries::uniform(Boundary::INSULATED), pixels)
    }
}

/// Returns the outlines of walls and the inner edges of absorbing layers. The velocities of other
/// regions are under the waves.
fn marks(wave: &WaveCase, slice: &Slice) -> Vec<RegionMark> {
    let is_outlined = |region: &&VelocityRegion| region.velocity.is_none() || !wave.slice.shows_velocity;
    let outline = |region: &VelocityRegion| {
        let shape = match region.shape {
            VelocityShape::Box { corner, size } => {
                RegionShape::Rectangle { corner: slice.project(corner), size: slice.project(size) }
            }
            VelocityShape::Ball { centre, radius } => {
                RegionShape::Disc { centre: slice.project(centre), radius }
            }
        };
        RegionMark { shape, kind: RegionKind::Material }
    };
    wave.regions.iter().filter(is_outlined).map(outline).chain(interior(wave, slice)).collect()
}

/// Returns the part of the plane between absorbing layers. `None` if there are none.
fn interior(wave: &WaveCase, slice: &Slice) -> Option<RegionMark> {
    let thickness = |axis: usize, is_max: bool| {
        let side = Side::ALL[2 * axis + usize::from(is_max)];
        wave.sides.on(side).layer().map_or(0.0, |layer| layer.thickness as f64 * wave.grid.spacing[axis])
    };
    let low = slice.axes.map(|axis| thickness(axis, false));
    let high = slice.axes.map(|axis| thickness(axis, true));
    if low == [0.0; 2] && high == [0.0; 2] {
        return None;
    }
    let size = [0, 1].map(|k| wave.grid.extent(slice.axes[k]) - low[k] - high[k]);
    Some(RegionMark { shape: RegionShape::Rectangle { corner: low, size }, kind: RegionKind::Interior })
}

/// Returns the sources of the shot and the receivers, projected onto the plane.
fn points(wave: &WaveCase, slice: &Slice) -> Vec<PointMark> {
    let mark = |kind| move |position| PointMark { position: slice.project(position), kind };
    let sources = wave.shot_sources().map(|(_, source)| source.position).map(mark(PointKind::Source));
    let receivers = wave.receivers.iter().flat_map(|line| line.positions()).map(mark(PointKind::Receiver));
    sources.chain(receivers).collect()
}

/// Returns the velocities of the plane as shades. `None` if they are uniform.
fn underlay(wave: &WaveCase, slice: &Slice, units: Units) -> Option<Underlay> {
    let velocity = slice.velocity.as_ref().filter(|_| wave.slice.shows_velocity)?;
    // Walls have an outline. Their velocity would make all others equal.
    let shown = |&value: &f64| if value <= slice.wall_velocity { f64::NAN } else { value };
    let values: Vec<f64> = velocity.iter().map(shown).collect();
    Underlay::from_values(&values, "velocity", if units == Units::Si { "m/s" } else { "" })
}

impl Painter for WavePainter {
    fn pixels(&self) -> (u32, u32) {
        self.sampler.picture().pixels
    }

    fn palette(&self) -> &Palette {
        &self.palette
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Drawing>, EngineError> {
        let System::Wave(system) = moment.system else {
            unreachable!("the painter of waves draws the system that created it")
        };
        let (time, plane) = (format!("t = {}", self.units.format_time(moment.time)), self.slice.plane());
        let samples = self.sampler.sample(&time, |weights| {
            let found = system.pixel_means(plane, weights).map_err(|error| error.at(moment.stamp()))?;
            let range = colour_range(self.view, found.min.abs().max(found.max.abs()));
            Ok::<_, EngineError>(TakenMeans { has_nan: found.has_nan(), means: found.means, range })
        })?;
        Ok(Box::new(FieldDrawing { samples, picture: self.sampler.picture().clone() }))
    }

    fn captured_bytes(&self) -> u64 {
        let (width, height) = self.pixels();
        8 * u64::from(width) * u64::from(height)
    }

    fn state(&self) -> Map<String, Value> {
        let (width, height) = self.pixels();
        json!(State { pixels: [width, height] }).as_object().cloned().unwrap_or_default()
    }
}
