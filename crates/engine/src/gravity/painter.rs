//! Images of bodies.
//!
//! Many bodies are drawn as surface density, with the brightness scale of the first image. Few
//! bodies are drawn as orbits with trails. The view does not change during the run, so that images
//! can be compared.

use std::sync::Arc;

use orrery_io::picture::{
    BodySelection, ColourMap, Image, Labels, Layer, Palette, Scale, SurfaceDensity, View, render_layers,
    render_orbits,
};
use orrery_io::{Block, Fault, IoError};
use orrery_model::analysis::{BinnedBodies, Bins, centre_of_mass};
use orrery_model::ic::SolarSystem;
use orrery_model::{Particles, Units, Vec3s};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::blocks::Blocks;
use crate::case::{BodiesSource, BodyView, Case, Model, Plane, Show};
use crate::error::EngineError;
use crate::observers::{Drawing, Painter};
use crate::simulation::{MAX_STEPS, Moment};

/// Up to this number of bodies are drawn as orbits.
const MAX_ORBITS: usize = 64;
/// Smallest ratio of the brightest to the darkest density.
const MIN_CONTRAST: f64 = 300.0;
/// Largest number of points per trail. When it is exceeded, every other point is dropped.
const MAX_TRAIL_POINTS: usize = 20_000;

/// Draws the bodies of a run.
pub struct BodyPainter {
    title: String,
    units: Units,
    view: View,
    style: Style,
    palette: Palette,
}

/// State of the painter in a checkpoint. The trails are a column.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    centre: [f64; 3],
    half_width: f64,
    /// Darkest and brightest density, once the first image has set them.
    scale: Option<[f64; 2]>,
    stride: u64,
}

enum Style {
    /// Surface density, with one layer of bodies per colour map.
    Density { bodies: Arc<BinnedBodies>, colours: Arc<Vec<ColourMap>>, scale: Option<Scale> },
    /// Trails: one list of positions per body, with one position every `stride` steps.
    Orbits { trails: Vec<Vec<[f64; 3]>>, names: Vec<&'static str>, stride: u64 },
}

impl Style {
    /// Returns the style for these bodies before the first image, and its palette.
    fn for_case(case: &Case, particles: &Particles) -> (Self, Palette) {
        let bodies = particles.len();
        if bodies <= MAX_ORBITS {
            let names = match case.gravity().map(|gravity| &gravity.bodies) {
                Some(BodiesSource::Model(Model::SolarSystem(_))) => SolarSystem::NAMES.to_vec(),
                _ => Vec::new(),
            };
            let trails = vec![Vec::new(); bodies];
            (Self::Orbits { trails, names, stride: 1 }, Palette::for_orbits(bodies))
        } else {
            let groups = colour_groups(case);
            let shown: Box<dyn Fn(usize) -> bool> = match body_view(case).show {
                Show::All => Box::new(|_| true),
                Show::Stars => Box::new(|i| particles.species[i].is_luminous()),
                Show::Auto => Box::new(BodySelection::Luminous.body_filter(particles)),
            };
            let group_of = |id: u64| groups.iter().position(|group| id < group.end);
            let layer_of = |i: usize| group_of(particles.id[i]).filter(|_| shown(i)).map(|group| group as u8);
            let bodies = Arc::new(BinnedBodies::new(&particles.mass, layer_of));
            let colours: Vec<ColourMap> = groups.into_iter().map(|group| group.colours).collect();
            let palette = Palette::from_colour_maps(&colours.iter().collect::<Vec<_>>());
            (Self::Density { bodies, colours: Arc::new(colours), scale: None }, palette)
        }
    }
}

/// Bodies with the same colours: ids below `end` that are not in an earlier group.
struct Group {
    end: u64,
    colours: ColourMap,
}

impl BodyPainter {
    /// Creates the painter of a run that starts with the bodies `start`.
    pub fn new(case: &Case, start: &Particles) -> Self {
        let (axes, pixels) = (view_axes(case), (case.image.size, case.image.size));
        let mut view = if start.len() <= MAX_ORBITS {
            // Centred on the centre of mass. Orbits extend beyond their initial positions.
            let centre = centre_of_mass(start);
            let from_centre =
                start.position.iter().flat_map(|x| [x, [0, 1, 2].map(|c| 2.0 * centre[c] - x[c])]);
            let mut view = View::enclosing_points(from_centre, axes, pixels);
            view.half_width *= 1.3;
            view
        } else {
            let shown =
                if body_view(case).show == Show::All { BodySelection::All } else { BodySelection::Luminous };
            View::around_bodies(start, shown.body_filter(start), axes, pixels)
        };
        if let Some(width) = body_view(case).width {
            view.half_width = 0.5 * width;
        }
        let (mut style, palette) = Style::for_case(case, start);
        if let Style::Orbits { trails, .. } = &mut style {
            trails.iter_mut().zip(start.position.iter()).for_each(|(trail, x)| trail.push(x));
        }
        Self { title: case.name.clone(), units: case.units, view, style, palette }
    }

    /// Creates the painter of a resumed run with these bodies. Returns an error if no run can have
    /// written `state` and the column of trails.
    pub fn resume(
        case: &Case,
        particles: &Particles,
        state: &Map<String, Value>,
        columns: &mut Blocks,
    ) -> Result<Self, EngineError> {
        let malformed = |got: String, expected: &str| {
            let fault = Fault::malformed("images", got, expected);
            EngineError::Input(IoError { path: columns.path().to_owned(), fault })
        };
        let state: State = serde_json::from_value(Value::Object(state.clone()))
            .map_err(|e| malformed(e.to_string(), "the state of images of bodies"))?;
        if !state.stride.is_power_of_two() || state.stride > MAX_STEPS {
            return Err(malformed(format!("stride {}", state.stride), "a power of two"));
        }
        let pixels = (case.image.size, case.image.size);
        let view = View { centre: state.centre, half_width: state.half_width, axes: view_axes(case), pixels };
        let bodies = particles.len();
        let (mut style, palette) = Style::for_case(case, particles);
        match &mut style {
            Style::Density { scale, .. } => *scale = state.scale.map(|[low, high]| Scale { low, high }),
            Style::Orbits { trails, stride, .. } => {
                let length = columns.reals_len("trails").unwrap_or_default();
                if !length.is_multiple_of(3 * bodies.max(1)) {
                    return Err(malformed(format!("{length} coordinates"), "three per body and point"));
                }
                let coordinates = columns.take_reals("trails")?;
                let points_per_trail = coordinates.len() / 3 / bodies.max(1);
                let mut positions = coordinates.chunks_exact(3).map(|x| [x[0], x[1], x[2]]);
                trails.iter_mut().for_each(|trail| trail.extend(positions.by_ref().take(points_per_trail)));
                *stride = state.stride;
            }
        }
        Ok(Self { title: case.name.clone(), units: case.units, view, style, palette })
    }
}

/// Returns the settings of images of a case.
fn body_view(case: &Case) -> BodyView {
    let default = BodyView { width: None, plane: Plane::Xy, show: Show::Auto };
    case.gravity().map_or(default, |gravity| gravity.view)
}

/// Returns the axes that point right and up.
fn view_axes(case: &Case) -> (usize, usize) {
    match body_view(case).plane {
        Plane::Xy => (0, 1),
        Plane::Xz => (0, 2),
        Plane::Yz => (1, 2),
    }
}

/// One colour per galaxy of an encounter. All other models have one colour.
fn colour_groups(case: &Case) -> Vec<Group> {
    match case.gravity().map(|gravity| &gravity.bodies) {
        Some(BodiesSource::Model(Model::Encounter(pair))) => {
            let first =
                pair.first.n_disc.saturating_add(pair.first.n_bulge).saturating_add(pair.first.n_halo) as u64;
            [first, u64::MAX]
                .into_iter()
                .enumerate()
                .map(|(index, end)| Group { end, colours: ColourMap::for_group(index) })
                .collect()
        }
        _ => vec![Group { end: u64::MAX, colours: ColourMap::ember() }],
    }
}

/// Returns the surface density of each layer.
fn density_maps(position: &Vec3s, bodies: &BinnedBodies, layers: usize, view: &View) -> Vec<SurfaceDensity> {
    let projection = view.projection();
    let of_layer = |layer: usize| {
        let bins = Bins::of_layer(position, bodies, layer as u8, &projection);
        SurfaceDensity::from_bins(&bins, bodies.mass_unit, &projection)
    };
    (0..layers).map(of_layer).collect()
}

/// A captured image of a surface density.
struct DensityDrawing {
    position: Vec3s,
    bodies: Arc<BinnedBodies>,
    colours: Arc<Vec<ColourMap>>,
    scale: Scale,
    view: View,
    labels: Labels,
}

impl Drawing for DensityDrawing {
    fn draw(&self) -> Result<Image, EngineError> {
        let maps = density_maps(&self.position, &self.bodies, self.colours.len(), &self.view);
        let layers: Vec<_> =
            maps.iter().zip(&*self.colours).map(|(map, colours)| Layer { map, colours }).collect();
        Ok(render_layers(&layers, self.scale, &self.view, &self.labels)?)
    }
}

/// A captured image of orbits.
struct OrbitDrawing {
    trails: Vec<Vec<[f64; 3]>>,
    names: Vec<&'static str>,
    view: View,
    labels: Labels,
}

impl Drawing for OrbitDrawing {
    fn draw(&self) -> Result<Image, EngineError> {
        Ok(render_orbits(&self.trails, &self.names, &self.view, &self.labels))
    }
}

impl Painter for BodyPainter {
    fn pixels(&self) -> (u32, u32) {
        self.view.pixels
    }

    fn palette(&self) -> &Palette {
        &self.palette
    }

    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Drawing>, EngineError> {
        let position = &moment.particles()?.position;
        let labels = Labels {
            title: self.title.clone(),
            time: format!("t = {}", self.units.format_time(moment.time)),
            units: Some(self.units),
        };
        let view = self.view;
        match &mut self.style {
            Style::Orbits { trails, names, .. } => {
                let mut trails = trails.clone();
                trails.iter_mut().zip(position.iter()).for_each(|(trail, x)| trail.push(x));
                Ok(Box::new(OrbitDrawing { trails, names: names.clone(), view, labels }))
            }
            Style::Density { bodies, colours, scale } => {
                let scale = *scale.get_or_insert_with(|| {
                    let maps = density_maps(position, bodies, colours.len(), &view);
                    let Scale { low, high } = Scale::from_maps(&maps.iter().collect::<Vec<_>>());
                    // A uniform density, as before a collapse, becomes much brighter later.
                    Scale { low, high: high.max(MIN_CONTRAST * low) }
                });
                let (position, bodies, colours) = (position.clone(), bodies.clone(), colours.clone());
                Ok(Box::new(DensityDrawing { position, bodies, colours, scale, view, labels }))
            }
        }
    }

    fn captured_bytes(&self) -> u64 {
        let points = match &self.style {
            Style::Density { bodies, .. } => bodies.layer.len(),
            Style::Orbits { trails, .. } => trails.iter().map(Vec::len).sum(),
        };
        let (width, height) = self.view.pixels;
        // Three coordinates per point, and about eight numbers per pixel of the bins.
        24 * points as u64 + 64 * u64::from(width) * u64::from(height)
    }

    fn collect_every(&self) -> Option<u64> {
        match &self.style {
            Style::Orbits { stride, .. } => Some(*stride),
            Style::Density { .. } => None,
        }
    }

    fn collect(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let Style::Orbits { trails, stride, .. } = &mut self.style else { return Ok(()) };
        for (trail, x) in trails.iter_mut().zip(moment.particles()?.position.iter()) {
            trail.push(x);
        }
        if trails.first().is_some_and(|trail| trail.len() > MAX_TRAIL_POINTS) {
            for trail in trails {
                let mut index = 0;
                trail.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
            *stride *= 2;
        }
        Ok(())
    }

    fn state(&self) -> Map<String, Value> {
        let (scale, stride) = match &self.style {
            Style::Density { scale, .. } => (scale.map(|scale| [scale.low, scale.high]), 1),
            Style::Orbits { stride, .. } => (None, *stride),
        };
        let View { centre, half_width, .. } = self.view;
        let state = json!(State { centre, half_width, scale, stride });
        state.as_object().cloned().unwrap_or_default()
    }

    fn columns(&self) -> Vec<(String, Block)> {
        let Style::Orbits { trails, .. } = &self.style else { return Vec::new() };
        let coordinates = trails.iter().flatten().flatten().copied().collect();
        vec![("trails".to_owned(), Block::Reals(coordinates))]
    }
}
