//! Images of a plate.
//!
//! The size does not change during a run. The range of colours is that of the first image if no
//! later temperature can leave it. With fluxes or sources, each image has its own range. `[image]`
//! can set one or both ends.

use std::sync::Arc;

use orrery_draw::picture::{
    ColourMap, FieldPicture, FieldSampler, FieldSamples, Image, Palette, RegionKind, RegionMark, TakenMeans,
    ValueRange,
};
use orrery_formats::{Fault, IoError};
use orrery_model::Units;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::record::is_si;
use super::system::HeatSystem;
use crate::blocks::Blocks;
use crate::case::{self, Case, FieldView};
use crate::error::EngineError;
use crate::observers::{Drawing, Painter};
use crate::simulation::Moment;
use crate::system::{System, SystemError};

/// Draws the temperatures of a run.
pub struct FieldPainter {
    sampler: FieldSampler,
    units: Units,
    palette: Palette,
    view: FieldView,
    range: ValueRange,
    /// True if each image gets its own range.
    is_range_auto: bool,
}

/// State of the painter in a checkpoint.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct State {
    pixels: [u32; 2],
    /// Temperatures of the first and the last colour.
    range: [f64; 2],
}

impl FieldPainter {
    /// Creates the painter of a run that starts with the state of `system`.
    pub fn new(case: &Case, system: &HeatSystem) -> Result<Self, SystemError> {
        let (low, high) = system.range()?;
        let range = with_limits(field_view(case), ValueRange::spanning(low, high));
        let mut picture = picture(case, system);
        picture.pixels = case.image.size.field_pixels(&picture, range);
        Ok(Self::from_parts(case, system, picture, range))
    }

    /// Creates the painter of a resumed run. Returns an error if no run can have written `state`.
    pub fn resume(
        case: &Case,
        system: &HeatSystem,
        state: &Map<String, Value>,
        columns: &Blocks,
    ) -> Result<Self, EngineError> {
        let malformed = |got: String, expected: &str| {
            let fault = Fault::malformed("images", got, expected);
            EngineError::Input(IoError { path: columns.path().to_owned(), fault })
        };
        let State { pixels: [width, height], range: [low, high] } =
            serde_json::from_value(Value::Object(state.clone()))
                .map_err(|e| malformed(e.to_string(), "the state of images of a field"))?;
        if !case.image.size.allows((width, height)) {
            return Err(malformed(format!("{width} x {height} pixels"), "those of image.size"));
        }
        if low >= high {
            return Err(malformed(format!("colours from {low:e} to {high:e}"), "an increasing range"));
        }
        let picture = FieldPicture { pixels: (width, height), ..picture(case, system) };
        Ok(Self::from_parts(case, system, picture, ValueRange { low, high }))
    }

    fn from_parts(case: &Case, system: &HeatSystem, picture: FieldPicture, range: ValueRange) -> Self {
        let palette = Palette::for_field(&picture.colours);
        let sampler = FieldSampler::new(Arc::new(picture), range);
        let view = field_view(case);
        let is_range_auto = !system.keeps_range() && (view.low.is_none() || view.high.is_none());
        Self { sampler, units: case.units, palette, view, range, is_range_auto }
    }
}

/// Returns the picture of a case, with a size that fits no plate yet.
fn picture(case: &Case, system: &HeatSystem) -> FieldPicture {
    let pixels = case.image.size.body_pixels();
    let heat = case.heat();
    let colours = ColourMap::from_name(field_view(case).colour_map);
    FieldPicture {
        colours: colours.unwrap_or_else(ColourMap::inferno),
        regions: heat.map(|heat| heat.regions.iter().flat_map(marks).collect()).unwrap_or_default(),
        title: case.name.clone(),
        length_unit: if is_si(&case.units) { "m".into() } else { String::new() },
        quantity: "temperature".into(),
        unit: heat.map(|heat| heat.unit.clone()).unwrap_or_default(),
        ..FieldPicture::new(*system.grid(), system.boundaries().clone(), pixels)
    }
}

/// Returns the outlines of a region: as a source, as another material, or as both.
fn marks(region: &case::Region) -> Vec<RegionMark> {
    let kinds = [
        (region.source.is_some_and(|source| source != 0.0), RegionKind::Source),
        (region.conductivity.or(region.heat_capacity).is_some(), RegionKind::Material),
    ];
    kinds
        .into_iter()
        .filter(|(is_shown, _)| *is_shown)
        .map(|(_, kind)| RegionMark { shape: region.shape, kind })
        .collect()
}

/// Returns the settings of images of a case.
fn field_view(case: &Case) -> FieldView {
    case.heat().map_or(FieldView { colour_map: ColourMap::NAMES[0], low: None, high: None }, |heat| heat.view)
}

/// Returns `range` with the ends that the case gives.
fn with_limits(view: FieldView, range: ValueRange) -> ValueRange {
    let (low, high) = (view.low.unwrap_or(range.low), view.high.unwrap_or(range.high));
    // A field can be entirely beyond the only given end.
    if low < high { ValueRange { low, high } } else { range }
}

/// A captured image of a field.
pub(crate) struct FieldDrawing {
    pub samples: FieldSamples,
    pub picture: Arc<FieldPicture>,
}

impl Drawing for FieldDrawing {
    fn draw(&self) -> Result<Image, EngineError> {
        Ok(self.samples.render(&self.picture)?)
    }
}

impl Painter for FieldPainter {
    fn pixels(&self) -> (u32, u32) {
        self.sampler.picture().pixels
    }

    fn palette(&self) -> &Palette {
        &self.palette
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Drawing>, EngineError> {
        let System::Heat(system) = moment.system else {
            unreachable!("the painter of a field draws the system that created it")
        };
        let time = format!("t = {}", self.units.format_time(moment.time));
        let samples = self.sampler.sample(&time, |weights| {
            let found = system.pixel_means(weights).map_err(|error| error.at(moment.stamp()))?;
            let range = match self.is_range_auto {
                true => with_limits(self.view, ValueRange::spanning(found.min, found.max)),
                false => self.range,
            };
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
        let state = json!(State { pixels: [width, height], range: [self.range.low, self.range.high] });
        state.as_object().cloned().unwrap_or_default()
    }
}
