//! Images of bodies.
//!
//! Many bodies are drawn as surface density, with the brightness scale of the first image. Few
//! bodies are drawn as orbits with trails. The view does not change during the run, so that images
//! can be compared.

use orrery_io::picture::{
    BodySelection, ColourMap, Image, Labels, Layer, Palette, Scale, View, render_layers, render_orbits,
    surface_density,
};
use orrery_io::{Block, Fault, IoError};
use orrery_model::analysis::centre_of_mass;
use orrery_model::ic::SolarSystem;
use orrery_model::{Particles, Units};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::blocks::Blocks;
use crate::case::{BodiesSource, BodyView, Case, Model, Plane, Show};
use crate::error::EngineError;
use crate::observers::Painter;
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
    /// Surface density, with one colour map per group of bodies.
    Density { groups: Vec<Group>, show: Show, scale: Option<Scale> },
    /// Trails: one list of positions per body, with one position every `stride` steps.
    Orbits { trails: Vec<Vec<[f64; 3]>>, names: Vec<&'static str>, stride: u64 },
}

impl Style {
    /// Returns the style for this number of bodies before the first image, and its palette.
    fn for_case(case: &Case, bodies: usize) -> (Self, Palette) {
        if bodies <= MAX_ORBITS {
            let names = match case.gravity().map(|gravity| &gravity.bodies) {
                Some(BodiesSource::Model(Model::SolarSystem(_))) => SolarSystem::NAMES.to_vec(),
                _ => Vec::new(),
            };
            let trails = vec![Vec::new(); bodies];
            (Self::Orbits { trails, names, stride: 1 }, Palette::for_orbits(bodies))
        } else {
            let groups = colour_groups(case);
            let palette =
                Palette::from_colour_maps(&groups.iter().map(|group| &group.colours).collect::<Vec<_>>());
            (Self::Density { groups, show: body_view(case).show, scale: None }, palette)
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
        let (mut style, palette) = Style::for_case(case, start.len());
        if let Style::Orbits { trails, .. } = &mut style {
            trails.iter_mut().zip(start.position.iter()).for_each(|(trail, x)| trail.push(x));
        }
        Self { title: case.name.clone(), units: case.units, view, style, palette }
    }

    /// Creates the painter of a resumed run. Returns an error if no run can have written `state`
    /// and the column of trails.
    pub fn resume(
        case: &Case,
        bodies: usize,
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
        let (mut style, palette) = Style::for_case(case, bodies);
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

impl Painter for BodyPainter {
    fn pixels(&self) -> (u32, u32) {
        self.view.pixels
    }

    fn palette(&self) -> &Palette {
        &self.palette
    }

    fn draw(&mut self, moment: &Moment) -> Result<Image, EngineError> {
        let particles = moment.particles()?;
        let labels = Labels {
            title: self.title.clone(),
            time: format!("t = {}", self.units.format_time(moment.time)),
            units: Some(self.units),
        };
        match &mut self.style {
            Style::Orbits { trails, names, .. } => {
                let mut trails = trails.clone();
                trails.iter_mut().zip(particles.position.iter()).for_each(|(trail, x)| trail.push(x));
                Ok(render_orbits(&trails, names, &self.view, &labels))
            }
            Style::Density { groups, show, scale } => {
                let shown: Box<dyn Fn(usize) -> bool> = match show {
                    Show::All => Box::new(|_| true),
                    Show::Stars => Box::new(|i| particles.species[i].is_luminous()),
                    Show::Auto => Box::new(BodySelection::Luminous.body_filter(particles)),
                };
                let mut first_id = 0;
                let maps: Vec<_> = groups
                    .iter()
                    .map(|group| {
                        let ids = first_id..group.end;
                        first_id = group.end;
                        surface_density(particles, &self.view, |i| shown(i) && ids.contains(&particles.id[i]))
                    })
                    .collect();
                let scale = *scale.get_or_insert_with(|| {
                    let Scale { low, high } = Scale::from_maps(&maps.iter().collect::<Vec<_>>());
                    // A uniform density, as before a collapse, becomes much brighter later.
                    Scale { low, high: high.max(MIN_CONTRAST * low) }
                });
                let layers: Vec<_> = maps
                    .iter()
                    .zip(groups)
                    .map(|(map, group)| Layer { map, colours: &group.colours })
                    .collect();
                Ok(render_layers(&layers, scale, &self.view, &labels)?)
            }
        }
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
