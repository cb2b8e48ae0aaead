//! Images of a fluid: its box, and the particles as shaded spheres.
//!
//! The view and the scale of the colours do not change during a run, so that images can be
//! compared.

use std::sync::Arc;

use orrery_draw::picture::{
    ColourMap, Cuboid, Image, Labels, Orientation, Palette, Sphere, SphereLegend, View, body_colour,
    render_spheres,
};
use orrery_fluids::structure::neighbour_counts;
use orrery_formats::{Fault, IoError};
use orrery_model::analysis::max_or_nan;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_model::{Units, short_number};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::system::FluidSystem;
use crate::blocks::Blocks;
use crate::case::{Case, FluidColour, FluidView};
use crate::error::EngineError;
use crate::observers::{Drawing, Painter};
use crate::simulation::Moment;
use crate::system::System;

/// Radius of the spheres in units of σ. Neighbours in a liquid nearly touch.
const SPHERE_RADIUS: f64 = 0.5;
/// Neighbours within this distance in units of σ are counted for the colour of the density. It is
/// near the first minimum of g(r).
const DENSITY_RADIUS: f64 = 1.5;
/// Number of neighbours with the last colour, in two and three dimensions. The close packings have
/// 6 and 12 within the first minimum.
const MAX_NEIGHBOURS: [f64; 2] = [7.0, 14.0];
/// Samples of a colour map in the palette of the animation.
const PALETTE_STEPS: usize = 20;
/// Bytes of a captured particle.
const CAPTURED_BYTES: u64 = 70;

/// Draws the particles of a run.
pub struct FluidPainter {
    title: String,
    units: Units,
    view: View,
    colour: FluidColour,
    /// Speed of the last colour.
    top_speed: f64,
    /// σ and name of each species.
    species: Arc<Vec<(f64, String)>>,
    palette: Palette,
    particles: u64,
    /// Number of neighbours with the last colour.
    max_neighbours: f64,
}

/// State of the painter in a checkpoint.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct State {
    centre: [f64; 3],
    half_width: f64,
    top_speed: f64,
}

impl FluidPainter {
    /// Creates the painter of a run that starts with these particles.
    pub fn new(case: &Case, system: &FluidSystem, particles: &FluidParticles) -> Self {
        let view = fluid_view(case);
        let orientation = orientation(&view, particles.bounds.dimensions);
        let corners = match particles.bounds.sides {
            BoxSides::Periodic => cuboid(&particles.bounds).corners().to_vec(),
            // Some room for particles that leave.
            BoxSides::Open => particles.coordinates().iter().collect(),
        };
        let view = View::enclosing_points(corners.into_iter(), orientation, case.image.size.body_pixels());
        let square = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>();
        let mean_square = particles.velocity.iter().map(square).sum::<f64>() / particles.len().max(1) as f64;
        let thermal = thermal_speed(case);
        // About 1% of the particles of a Maxwell distribution are faster.
        let top_speed = 2.0 * mean_square.sqrt().max(thermal).max(f64::MIN_POSITIVE);
        Self::from_parts(case, system, view, top_speed)
    }

    /// Creates the painter of a resumed run. Returns an error if no run can have written `state`.
    pub fn resume(
        case: &Case,
        system: &FluidSystem,
        state: &Map<String, Value>,
        columns: &Blocks,
    ) -> Result<Self, EngineError> {
        let malformed = |got: String, expected: &str| {
            let fault = Fault::malformed("images", got, expected);
            EngineError::Input(IoError { path: columns.path().to_owned(), fault })
        };
        let State { centre, half_width, top_speed } = serde_json::from_value(Value::Object(state.clone()))
            .map_err(|e| malformed(e.to_string(), "the state of images of a fluid"))?;
        if !(half_width > 0.0 && half_width.is_finite() && top_speed > 0.0 && top_speed.is_finite()) {
            return Err(malformed(format!("width {half_width:e}, speed {top_speed:e}"), "positive numbers"));
        }
        let orientation = orientation(&fluid_view(case), system.fluid().bounds().dimensions);
        let view = View { centre, half_width, orientation, pixels: case.image.size.body_pixels() };
        Ok(Self::from_parts(case, system, view, top_speed))
    }

    fn from_parts(case: &Case, system: &FluidSystem, view: View, top_speed: f64) -> Self {
        let colour = fluid_view(case).colour;
        let species: Vec<(f64, String)> =
            system.facts().species.iter().map(|species| (species.sigma, species.name.clone())).collect();
        let colours: Vec<[u8; 3]> = match colour {
            FluidColour::Species => (0..species.len()).map(body_colour).collect(),
            FluidColour::Speed | FluidColour::Density => {
                let colours = ColourMap::viridis();
                let t = |k: usize| k as f32 / (PALETTE_STEPS - 1) as f32;
                (0..PALETTE_STEPS).map(|k| colours.srgb_colour(t(k))).collect()
            }
        };
        Self {
            title: case.name.clone(),
            units: case.units,
            view,
            colour,
            top_speed,
            species: Arc::new(species),
            palette: Palette::from_colours([8, 9, 16], &colours),
            particles: system.fluid().len() as u64,
            max_neighbours: MAX_NEIGHBOURS[usize::from(system.fluid().bounds().dimensions == 3)],
        }
    }

    fn legend(&self) -> SphereLegend {
        let bar = |quantity: &str, high: String| SphereLegend::Bar {
            colours: ColourMap::viridis(),
            quantity: quantity.to_owned(),
            ends: ["0".to_owned(), high],
        };
        match self.colour {
            FluidColour::Species => {
                let names = self.species.iter().enumerate();
                SphereLegend::Names(names.map(|(k, (_, name))| (name.clone(), body_colour(k))).collect())
            }
            FluidColour::Speed => {
                let unit = self.units.names().velocity;
                bar("speed", format!("{} {unit}", short_number(two_digits(self.top_speed))).trim().to_owned())
            }
            FluidColour::Density => bar("neighbours", short_number(self.max_neighbours)),
        }
    }
}

/// Rounds a positive number to two digits.
fn two_digits(x: f64) -> f64 {
    format!("{x:.1e}").parse().unwrap_or(x)
}

/// Returns the speed √(d kT / m) of the lightest species at the temperature of the thermostat, or
/// 0.
fn thermal_speed(case: &Case) -> f64 {
    let Some(fluid) = case.fluid() else { return 0.0 };
    let temperature = fluid.thermostat.map_or(0.0, |thermostat| thermostat.temperature);
    let lightest = fluid.species.iter().map(|species| species.mass).fold(f64::INFINITY, f64::min);
    let kt = case.units.boltzmann_constant() * temperature;
    (fluid.dimensions() as f64 * kt / lightest).sqrt()
}

fn fluid_view(case: &Case) -> FluidView {
    case.fluid()
        .map_or(FluidView { colour: FluidColour::Species, azimuth: 0.0, elevation: 0.0 }, |fluid| fluid.view)
}

/// Returns the direction of view. Particles in a plane are seen from above.
fn orientation(view: &FluidView, dimensions: usize) -> Orientation {
    match dimensions {
        2 => Orientation::XY,
        _ => Orientation::from_angles(view.azimuth, view.elevation),
    }
}

/// Returns the corners of a box. In two dimensions it has no height.
fn cuboid(bounds: &SimulationBox) -> Cuboid {
    let mut high = [0, 1, 2].map(|axis| bounds.origin[axis] + bounds.lengths[axis]);
    if bounds.dimensions == 2 {
        high[2] = bounds.origin[2];
    }
    Cuboid { low: bounds.origin, high }
}

/// A captured image of a fluid.
struct FluidDrawing {
    particles: FluidParticles,
    view: View,
    labels: Labels,
    legend: SphereLegend,
    colour: FluidColour,
    top_speed: f64,
    max_neighbours: f64,
    species: Arc<Vec<(f64, String)>>,
}

impl FluidDrawing {
    fn colours(&self) -> Vec<[u8; 3]> {
        let map = ColourMap::viridis();
        let of_value = |value: f64, most: f64| map.srgb_colour((value / most).min(1.0) as f32);
        match self.colour {
            FluidColour::Species => {
                self.particles.species.iter().map(|&species| body_colour(usize::from(species))).collect()
            }
            FluidColour::Speed => {
                let speed = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
                self.particles.velocity.iter().map(|v| of_value(speed(v), self.top_speed)).collect()
            }
            FluidColour::Density => {
                let sigma = self.species.iter().map(|species| species.0).fold(0.0, max_or_nan);
                let bounds = &self.particles.bounds;
                let shortest =
                    bounds.lengths[..bounds.dimensions].iter().copied().fold(f64::INFINITY, f64::min);
                let counts = neighbour_counts(&self.particles, (DENSITY_RADIUS * sigma).min(0.5 * shortest));
                counts.into_iter().map(|count| of_value(f64::from(count), self.max_neighbours)).collect()
            }
        }
    }
}

impl Drawing for FluidDrawing {
    fn draw(&self) -> Result<Image, EngineError> {
        let coordinates = self.particles.coordinates();
        let places = coordinates.iter().zip(&self.particles.species);
        let spheres: Vec<Sphere> = places
            .zip(self.colours())
            .map(|((x, &species), colour)| Sphere {
                centre: x.map(|c| c as f32),
                radius: (SPHERE_RADIUS * self.species[usize::from(species)].0) as f32,
                colour,
            })
            .collect();
        let bounds = &self.particles.bounds;
        let edges = (bounds.sides == BoxSides::Periodic).then(|| cuboid(bounds));
        Ok(render_spheres(&spheres, edges.as_ref(), &self.view, &self.labels, &self.legend))
    }
}

impl Painter for FluidPainter {
    fn pixels(&self) -> (u32, u32) {
        self.view.pixels
    }

    fn palette(&self) -> &Palette {
        &self.palette
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Drawing>, EngineError> {
        let System::Fluid(system) = moment.system else {
            unreachable!("the painter of a fluid draws the system that created it")
        };
        let particles = system.particles().map_err(|error| error.at(moment.stamp()))?;
        let time = format!("t = {}", self.units.format_time(moment.time));
        Ok(Box::new(FluidDrawing {
            particles,
            view: self.view,
            labels: Labels { title: self.title.clone(), time, units: Some(self.units) },
            legend: self.legend(),
            colour: self.colour,
            top_speed: self.top_speed,
            max_neighbours: self.max_neighbours,
            species: self.species.clone(),
        }))
    }

    fn captured_bytes(&self) -> u64 {
        CAPTURED_BYTES * self.particles
    }

    fn state(&self) -> Map<String, Value> {
        let View { centre, half_width, .. } = self.view;
        let state = json!(State { centre, half_width, top_speed: self.top_speed });
        state.as_object().cloned().unwrap_or_default()
    }
}
