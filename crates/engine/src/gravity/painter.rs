//! Images of bodies.
//!
//! Many bodies are drawn as surface density, with the brightness scale of the first image. Few
//! bodies are drawn as orbits with trails. Width and direction of the view do not change during the
//! run, so that images can be compared. Its centre can follow the centre of mass or a species.

use std::sync::Arc;

use orrery_draw::picture::{
    BodySelection, ColourMap, Image, Labels, Layer, Orientation, Palette, Scale, SurfaceDensity, View,
    render_layers, render_orbits,
};
use orrery_formats::{Block, Fault, IoError};
use orrery_gravity::bodies::PendingBins;
use orrery_model::analysis::{BinnedBodies, Bins, centre_of_mass};
use orrery_model::ic::SolarSystem;
use orrery_model::{Particles, Species, Units, Vec3s};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::blocks::Blocks;
use crate::case::{
    BodiesSource, BodyView, Case, CaseError, Location, Model, Plane, Show, ViewCentre, ViewDirection,
};
use crate::error::EngineError;
use crate::observers::{Drawing, Painter};
use crate::provenance::species_name;
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
    /// View of the first image.
    view: View,
    centre: ViewCentre,
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
        let view = first_view(case, start);
        let (mut style, palette) = Style::for_case(case, start);
        if let Style::Orbits { trails, .. } = &mut style {
            trails.iter_mut().zip(start.position.iter()).for_each(|(trail, x)| trail.push(x));
        }
        Self {
            title: case.name.clone(),
            units: case.units,
            view,
            centre: body_view(case).centre,
            style,
            palette,
        }
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
        let has_scale = state.scale.is_none_or(|[low, high]| low <= high);
        if state.half_width <= 0.0 || !has_scale {
            let got = format!("half the width {} and the scale {:?}", state.half_width, state.scale);
            return Err(malformed(got, "a positive width and an increasing scale"));
        }
        let (orientation, pixels) = (orientation(case), case.image.size.body_pixels());
        let view = View { centre: state.centre, half_width: state.half_width, orientation, pixels };
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
        Ok(Self {
            title: case.name.clone(),
            units: case.units,
            view,
            centre: body_view(case).centre,
            style,
            palette,
        })
    }
}

impl BodyPainter {
    /// Returns the view of an image of these bodies.
    fn view_at(&self, particles: &Particles) -> View {
        let centre = moving_centre(self.centre, particles, self.view.centre);
        View { centre: centre.unwrap_or(self.view.centre), ..self.view }
    }
}

/// Returns the view of the first image, which shows the bodies `start`.
fn first_view(case: &Case, start: &Particles) -> View {
    let (orientation, pixels) = (orientation(case), case.image.size.body_pixels());
    let BodyView { width, centre, show, .. } = body_view(case);
    let given = match centre {
        ViewCentre::Start => None,
        ViewCentre::Point(point) => Some(point),
        moving => moving_centre(moving, start, [0.0; 3]),
    };
    let mut view = if start.len() <= MAX_ORBITS {
        // Centred on the centre of mass. Orbits extend beyond their initial positions.
        let centre = given.unwrap_or_else(|| centre_of_mass(start));
        let from_centre = start.position.iter().flat_map(|x| [x, [0, 1, 2].map(|c| 2.0 * centre[c] - x[c])]);
        let mut view = View::enclosing_points(from_centre, orientation, pixels);
        view.half_width *= 1.3;
        view
    } else {
        let shown = if show == Show::All { BodySelection::All } else { BodySelection::Luminous };
        let filter = shown.body_filter(start);
        match given {
            Some(centre) => View::around_point(centre, start, filter, orientation, pixels),
            None => View::around_bodies(start, filter, orientation, pixels),
        }
    };
    if let Some(centre) = given {
        view.centre = centre;
    }
    if let Some(width) = width {
        view.half_width = 0.5 * width;
    }
    view
}

/// Returns the centre that a view follows, or `None` for a view that does not move, or without
/// bodies. Sums are relative to `origin`, which reduces round-off far from 0.
fn moving_centre(centre: ViewCentre, particles: &Particles, origin: [f64; 3]) -> Option<[f64; 3]> {
    let follows = |species: Species| match centre {
        ViewCentre::CentreOfMass => true,
        ViewCentre::Species(followed) => species == followed,
        ViewCentre::Start | ViewCentre::Point(_) => false,
    };
    let (mut mass, mut weighted, mut count, mut plain) = (0.0, [0.0; 3], 0.0, [0.0; 3]);
    for body in particles.iter().filter(|body| follows(body.species)) {
        mass += body.mass;
        count += 1.0;
        for k in 0..3 {
            weighted[k] += body.mass * (body.position[k] - origin[k]);
            plain[k] += body.position[k] - origin[k];
        }
    }
    // Bodies without mass have a mean position.
    let (sum, total) = if mass > 0.0 { (weighted, mass) } else { (plain, count) };
    (total > 0.0).then(|| [0, 1, 2].map(|k| origin[k] + sum[k] / total))
}

/// Refuses a case whose images follow a species that has no bodies.
pub(super) fn check_view(case: &Case, start: &Particles) -> Result<(), CaseError> {
    let ViewCentre::Species(species) = body_view(case).centre else { return Ok(()) };
    if start.species.contains(&species) {
        return Ok(());
    }
    let names: Vec<&str> = Species::ALL
        .into_iter()
        .filter(|species| start.species.contains(species))
        .map(species_name)
        .chain(["centre of mass"])
        .collect();
    let name = species_name(species);
    let message = format!(
        "image.center = \"{name}\": there are no bodies of this species, expected {}",
        names.join(" or ")
    );
    Err(CaseError { label: case.name.clone(), location: Location::Whole, message })
}

/// Returns the settings of images of a case.
fn body_view(case: &Case) -> BodyView {
    let default = BodyView {
        width: None,
        centre: ViewCentre::Start,
        direction: ViewDirection::Plane(Plane::Xy),
        show: Show::Auto,
        colour_map: None,
    };
    case.gravity().map_or(default, |gravity| *gravity.view)
}

/// Returns the directions to the right and up.
fn orientation(case: &Case) -> Orientation {
    match body_view(case).direction {
        ViewDirection::Plane(Plane::Xy) => Orientation::XY,
        ViewDirection::Plane(Plane::Xz) => Orientation::XZ,
        ViewDirection::Plane(Plane::Yz) => Orientation::YZ,
        ViewDirection::Angles { azimuth, elevation } => Orientation::from_angles(azimuth, elevation),
    }
}

/// Returns one group with the colours of the case. Without these, each galaxy of an encounter has
/// its colours, and all other models have one group.
fn colour_groups(case: &Case) -> Vec<Group> {
    if let Some(colours) = body_view(case).colour_map.and_then(ColourMap::from_name) {
        return vec![Group { end: u64::MAX, colours }];
    }
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

/// Bodies of an image of their surface density.
enum BinSource {
    /// Positions, which a worker bins.
    Positions(Vec3s),
    /// Bins of a device.
    Device(PendingBins),
}

impl BinSource {
    /// Largest number of bytes of bins that are copied from a device instead of the positions of
    /// fewer bytes. Binning on the device costs the CPU nothing.
    const MAX_SMALL_BINS: u64 = 16 << 20;

    /// Captures the bodies. On a device they are binned there, unless bins would be much larger
    /// than positions.
    fn capture(
        moment: &Moment,
        bodies: &Arc<BinnedBodies>,
        layers: usize,
        view: &View,
    ) -> Result<Self, EngineError> {
        let projection = view.projection();
        let bin_bytes = 8 * (layers * projection.pyramid_pixels()) as u64;
        if bin_bytes <= Self::MAX_SMALL_BINS.max(24 * bodies.layer.len() as u64)
            && let Some(bins) = moment.bins_on_device(bodies, layers, &projection)?
        {
            return Ok(Self::Device(bins));
        }
        Ok(Self::Positions(moment.positions()?.clone()))
    }

    /// Returns the surface density of each layer.
    fn density_maps(&self, bodies: &BinnedBodies, layers: usize, view: &View) -> Vec<SurfaceDensity> {
        let projection = view.projection();
        let of_layer = |layer: usize| {
            let bins = match self {
                Self::Positions(position) => Bins::of_layer(position, bodies, layer as u8, &projection),
                Self::Device(bins) => bins.of_layer(layer),
            };
            SurfaceDensity::from_bins(&bins, bodies.mass_unit, &projection)
        };
        (0..layers).map(of_layer).collect()
    }
}

/// A captured image of a surface density.
struct DensityDrawing {
    source: BinSource,
    bodies: Arc<BinnedBodies>,
    colours: Arc<Vec<ColourMap>>,
    scale: Scale,
    view: View,
    labels: Labels,
}

impl Drawing for DensityDrawing {
    fn draw(&self) -> Result<Image, EngineError> {
        let maps = self.source.density_maps(&self.bodies, self.colours.len(), &self.view);
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
        // Only a view that follows the bodies needs their masses and species.
        let view = match self.centre {
            ViewCentre::Start | ViewCentre::Point(_) => self.view,
            _ => self.view_at(moment.particles()?),
        };
        let labels = Labels {
            title: self.title.clone(),
            time: format!("t = {}", self.units.format_time(moment.time)),
            units: Some(self.units),
        };
        match &mut self.style {
            Style::Orbits { trails, names, .. } => {
                let mut trails = trails.clone();
                trails.iter_mut().zip(moment.positions()?.iter()).for_each(|(trail, x)| trail.push(x));
                Ok(Box::new(OrbitDrawing { trails, names: names.clone(), view, labels }))
            }
            Style::Density { bodies, colours, scale } => {
                let source = BinSource::capture(moment, bodies, colours.len(), &view)?;
                let scale = *scale.get_or_insert_with(|| {
                    let maps = source.density_maps(bodies, colours.len(), &view);
                    let Scale { low, high } = Scale::from_maps(&maps.iter().collect::<Vec<_>>());
                    // A uniform density, as before a collapse, becomes much brighter later.
                    Scale { low, high: high.max(MIN_CONTRAST * low) }
                });
                let (bodies, colours) = (bodies.clone(), colours.clone());
                Ok(Box::new(DensityDrawing { source, bodies, colours, scale, view, labels }))
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
        for (trail, x) in trails.iter_mut().zip(moment.positions()?.iter()) {
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

#[cfg(test)]
mod tests {
    use orrery_model::Particle;

    use super::*;
    use crate::case::CaseSource;

    fn case(image: &str) -> Case {
        let text = format!(
            "units = \"galactic\"\nbodies.model = \"plummer\"\ntime = {{ step = 0.01, end = 1 }}\n[image]\n{image}"
        );
        Case::load(&CaseSource::Text { label: "case".into(), text, folder: "".into() }, &[]).unwrap()
    }

    /// 100 disc bodies of mass 1 at x = 1 and 100 halo bodies of mass 3 at x = -1, all moved by
    /// `shift` along y.
    fn bodies(shift: f64) -> Particles {
        let mut particles = Particles::default();
        for id in 0..200 {
            let is_disc = id < 100;
            let (x, mass) = if is_disc { (1.0, 1.0) } else { (-1.0, 3.0) };
            let species = if is_disc { Species::Disc } else { Species::Halo };
            particles.push(Particle { position: [x, shift, 0.0], velocity: [0.0; 3], mass, id, species });
        }
        particles
    }

    #[test]
    fn view_follows_the_centre_that_the_case_names() {
        for (center, first, later) in [
            ("\"start\"", [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
            ("[\"500 pc\", 2, -1.0]", [0.5, 2.0, -1.0], [0.5, 2.0, -1.0]),
            ("\"centre of mass\"", [-0.5, 0.0, 0.0], [-0.5, 4.0, 0.0]),
            ("\"center of mass\"", [-0.5, 0.0, 0.0], [-0.5, 4.0, 0.0]),
            ("\"halo\"", [-1.0, 0.0, 0.0], [-1.0, 4.0, 0.0]),
        ] {
            let case = case(&format!("center = {center}"));
            check_view(&case, &bodies(0.0)).unwrap();
            let painter = BodyPainter::new(&case, &bodies(0.0));
            assert_eq!(painter.view_at(&bodies(0.0)).centre, first, "{center}");
            assert_eq!(painter.view_at(&bodies(4.0)).centre, later, "{center}");
        }
    }

    #[test]
    fn a_species_without_bodies_is_refused() {
        let error = check_view(&case("center = \"bulge\""), &bodies(0.0)).unwrap_err().to_string();
        let expected = "expected halo or disc or centre of mass";
        assert_eq!(
            error,
            format!("case: image.center = \"bulge\": there are no bodies of this species, {expected}")
        );
    }

    #[test]
    fn angles_and_size_of_the_case_select_the_view() {
        let pair = bodies(0.0);
        let painter = BodyPainter::new(&case("size = \"1920x1080\"\nelevation = \"0 deg\""), &pair);
        assert_eq!((painter.pixels(), painter.view.orientation), ((1920, 1080), Orientation::XZ));
        let painter =
            BodyPainter::new(&case("azimuth = \"30 deg\"\nelevation = \"20 deg\"\nsize = 128"), &pair);
        let angles = [30f64, 20.0].map(f64::to_radians);
        assert_eq!(
            (painter.pixels(), painter.view.orientation),
            ((128, 128), Orientation::from_angles(angles[0], angles[1]))
        );
    }

    #[test]
    fn a_colour_map_of_the_case_is_for_all_bodies() {
        let groups = |text: &str| {
            let text = format!("bodies.model = \"encounter\"\ntime = {{ step = 0.01, end = 1 }}\n{text}");
            let source = CaseSource::Text { label: "case".into(), text, folder: "".into() };
            let groups = colour_groups(&Case::load(&source, &[]).unwrap());
            groups.into_iter().map(|group| group.colours).collect::<Vec<_>>()
        };
        assert_eq!(groups(""), [ColourMap::blue(), ColourMap::orange()]);
        assert_eq!(groups("image.colormap = \"viridis\""), [ColourMap::viridis()]);
    }
}
