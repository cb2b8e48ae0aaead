//! Images of waves: a two-dimensional grid, or a plane of a volume. Depth points downwards.
//!
//! Waves become weaker as they spread. Each image therefore has its own range of colours, a quarter
//! of the largest amplitude, unless `[image]` sets it.

use orrery_fields::heat::FieldColumn;
use orrery_io::picture::{
    ColourMap, FieldPicture, Image, Palette, RegionKind, RegionMark, ValueRange, render_field,
};
use orrery_io::{Fault, IoError};
use orrery_model::Units;
use orrery_model::grid::{Boundaries, Boundary, RegionShape};
use orrery_model::wave::AXIS_NAMES;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::slice::Slice;
use crate::blocks::Blocks;
use crate::case::{Case, FieldView, VelocityShape, WaveCase};
use crate::error::EngineError;
use crate::observers::Painter;
use crate::simulation::Moment;
use crate::system::System;

/// Share of the largest amplitude at which the colours end.
const CLIP: f64 = 0.25;

/// Draws the waves of a run.
pub struct WavePainter {
    picture: FieldPicture,
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
        let mut painter = Self::with_pixels(case, slice, (case.image.size, case.image.size));
        let range = ValueRange { low: -1.0, high: 1.0 };
        painter.picture.pixels = painter.picture.fitted_pixels(case.image.size, range);
        painter
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
        let sizes = 1..=case.image.size.max(2);
        if !sizes.contains(&width) || !sizes.contains(&height) {
            return Err(malformed(format!("{width} x {height} pixels"), "at most image.size"));
        }
        Ok(Self::with_pixels(case, slice, (width, height)))
    }

    fn with_pixels(case: &Case, slice: &Slice, pixels: (u32, u32)) -> Self {
        let default = FieldView { colour_map: "diverging", low: None, high: None };
        let wave = case.wave();
        let view = wave.map_or(default, |wave| wave.view);
        let colours = ColourMap::from_name(view.colour_map).unwrap_or_else(ColourMap::diverging);
        let picture = FieldPicture {
            colours,
            shows_edges: false,
            is_depth_down: slice.is_depth_down(),
            axis_names: slice.axes.map(|axis| AXIS_NAMES[axis]),
            regions: wave.map(|wave| marks(wave, slice)).unwrap_or_default(),
            title: case.name.clone(),
            length_unit: if case.units == Units::Si { "m".into() } else { String::new() },
            quantity: "u".into(),
            unit: wave.map(|wave| wave.unit.clone()).unwrap_or_default(),
            ..FieldPicture::new(slice.grid, Boundaries::uniform(Boundary::INSULATED), pixels)
        };
        let palette = Palette::for_field(&picture.colours);
        Self { picture, units: case.units, palette, view, slice: slice.clone() }
    }

    fn render<T: Copy + Into<f64> + Send + Sync>(
        &self,
        values: &[T],
        time: &str,
    ) -> Result<Image, EngineError> {
        let values = self.slice.values(values);
        let largest = values.iter().fold(0.0, |largest: f64, &value| largest.max(value.into().abs()));
        let end = if largest > 0.0 { CLIP * largest } else { 1.0 };
        let (low, high) = (self.view.low.unwrap_or(-end), self.view.high.unwrap_or(end));
        let range = if low < high { ValueRange { low, high } } else { ValueRange { low: -end, high: end } };
        Ok(render_field(&values, &self.picture, range, time)?)
    }
}

/// Returns the outlines of regions and layers, and small discs at sources.
fn marks(wave: &WaveCase, slice: &Slice) -> Vec<RegionMark> {
    let flat = |position| slice.project(position);
    let regions = wave.regions.iter().map(|region| {
        let shape = match region.shape {
            VelocityShape::Box { corner, size } => {
                RegionShape::Rectangle { corner: flat(corner), size: flat(size) }
            }
            VelocityShape::Ball { centre, radius } => RegionShape::Disc { centre: flat(centre), radius },
        };
        RegionMark { shape, kind: RegionKind::Material }
    });
    let radius = 0.006 * wave.grid.extent(slice.axes[0]).max(wave.grid.extent(slice.axes[1]));
    let sources = wave.shot_sources().map(|source| {
        let shape = RegionShape::Disc { centre: flat(source.position), radius };
        RegionMark { shape, kind: RegionKind::Source }
    });
    regions.chain(sources).collect()
}

impl Painter for WavePainter {
    fn pixels(&self) -> (u32, u32) {
        self.picture.pixels
    }

    fn palette(&self) -> &Palette {
        &self.palette
    }

    fn draw(&mut self, moment: &Moment) -> Result<Image, EngineError> {
        let System::Wave(system) = moment.system else {
            unreachable!("the painter of waves draws the system that created it")
        };
        let column = system.column().map_err(|error| error.at(moment.stamp()))?;
        let time = format!("t = {}", self.units.format_time(moment.time));
        match &column {
            FieldColumn::Single(values) => self.render(values, &time),
            FieldColumn::Double(values) => self.render(values, &time),
        }
    }

    fn state(&self) -> Map<String, Value> {
        let (width, height) = self.picture.pixels;
        json!(State { pixels: [width, height] }).as_object().cloned().unwrap_or_default()
    }
}
