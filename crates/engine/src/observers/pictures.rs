//! Images of the run, `images/image_0000.png` and so on, and `animation.gif`.
//!
//! Many bodies are drawn as surface density, with the brightness scale of the first image. Few
//! bodies are drawn as orbits with trails. The view does not change during the run, so that images
//! can be compared.

use std::path::{Path, PathBuf};

use orrery_io::picture::{
    BodySelection, ColourMap, GifMark, GifWriter, Image, Labels, Layer, Palette, Scale, View, render_layers,
    render_orbits, surface_density, write_png,
};
use orrery_io::{Block, make_folder};
use orrery_model::analysis::centre_of_mass;
use orrery_model::ic::SolarSystem;
use orrery_model::{Particles, Units};
use serde::{Deserialize, Serialize};

use super::Observer;
use crate::blocks::Blocks;
use crate::case::{BodiesSource, Case, Model, Plane, Show};
use crate::error::EngineError;
use crate::folder::{ANIMATION, IMAGES};
use crate::simulation::Moment;

/// Up to this number of bodies are drawn as orbits.
const MAX_ORBITS: usize = 64;
/// Smallest ratio of the brightest to the darkest density.
const MIN_CONTRAST: f64 = 300.0;
/// Largest number of points per trail. When it is exceeded, every other point is dropped.
const MAX_TRAIL_POINTS: usize = 20_000;

pub struct Pictures {
    folder: PathBuf,
    title: String,
    units: Units,
    view: View,
    style: Style,
    texts: Vec<(String, String)>,
    animation: GifWriter,
    written: usize,
}

/// State of the images in a checkpoint. Larger data is in the columns from
/// [`Pictures::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    centre: [f64; 3],
    half_width: f64,
    /// Darkest and brightest density, once the first image has set them.
    scale: Option<[f64; 2]>,
    pub(super) stride: u64,
    pub(super) written: usize,
    pub(super) animation: GifMark,
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
            let names = match &case.bodies {
                BodiesSource::Model(Model::SolarSystem(_)) => SolarSystem::NAMES.to_vec(),
                _ => Vec::new(),
            };
            let trails = vec![Vec::new(); bodies];
            (Self::Orbits { trails, names, stride: 1 }, Palette::for_orbits(bodies))
        } else {
            let groups = colour_groups(case);
            let palette =
                Palette::from_colour_maps(&groups.iter().map(|group| &group.colours).collect::<Vec<_>>());
            (Self::Density { groups, show: case.image.show, scale: None }, palette)
        }
    }
}

/// Bodies with the same colours: ids below `end` that are not in an earlier group.
struct Group {
    end: u64,
    colours: ColourMap,
}

impl Pictures {
    pub fn create(
        case: &Case,
        start: &Particles,
        folder: &Path,
        provenance: &[(String, String)],
    ) -> Result<Self, EngineError> {
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
                if case.image.show == Show::All { BodySelection::All } else { BodySelection::Luminous };
            View::around_bodies(start, shown.body_filter(start), axes, pixels)
        };
        if let Some(width) = case.image.width {
            view.half_width = 0.5 * width;
        }
        let (mut style, palette) = Style::for_case(case, start.len());
        if let Style::Orbits { trails, .. } = &mut style {
            trails.iter_mut().zip(start.position.iter()).for_each(|(trail, x)| trail.push(x));
        }
        let speed = f64::from(case.image.frames_per_second);
        let animation = GifWriter::create(&folder.join(ANIMATION), pixels.0, pixels.1, speed, &palette)?;
        Self::from_parts(case, folder, provenance, view, style, animation, 0)
    }

    /// Continues the images from the state in a checkpoint. `restart` creates a new animation.
    pub fn resume(
        case: &Case,
        bodies: usize,
        folder: &Path,
        provenance: &[(String, String)],
        state: &State,
        blocks: &mut Blocks,
        restart: bool,
    ) -> Result<Self, EngineError> {
        let pixels = (case.image.size, case.image.size);
        let view = View { centre: state.centre, half_width: state.half_width, axes: view_axes(case), pixels };
        let (mut style, palette) = Style::for_case(case, bodies);
        match &mut style {
            Style::Density { scale, .. } => *scale = state.scale.map(|[low, high]| Scale { low, high }),
            Style::Orbits { trails, stride, .. } => {
                let coordinates = blocks.take_reals("trails")?;
                let points_per_trail = coordinates.len() / 3 / bodies.max(1);
                let mut positions = coordinates.chunks_exact(3).map(|x| [x[0], x[1], x[2]]);
                trails.iter_mut().for_each(|trail| trail.extend(positions.by_ref().take(points_per_trail)));
                *stride = state.stride;
            }
        }
        let (path, speed) = (folder.join(ANIMATION), f64::from(case.image.frames_per_second));
        let frame = blocks.take_bytes("frame")?;
        let animation = if restart {
            GifWriter::create(&path, pixels.0, pixels.1, speed, &palette)?
        } else {
            GifWriter::reopen(&path, pixels, speed, &palette, &state.animation, frame)?
        };
        Self::from_parts(case, folder, provenance, view, style, animation, state.written)
    }

    fn from_parts(
        case: &Case,
        folder: &Path,
        provenance: &[(String, String)],
        view: View,
        style: Style,
        animation: GifWriter,
        written: usize,
    ) -> Result<Self, EngineError> {
        let folder = folder.join(IMAGES.folder);
        make_folder(&folder).map_err(EngineError::Output)?;
        let (title, units, texts) = (case.name.clone(), case.units, provenance.to_vec());
        Ok(Self { folder, title, units, view, style, texts, animation, written })
    }

    fn image_path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}{number:04}.png", IMAGES.prefix))
    }

    /// Lists the images that were written and no longer exist.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        (0..self.written).map(|number| self.image_path(number)).filter(|path| !path.exists()).collect()
    }

    /// Writes the animation to the disk and returns the state.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        let (scale, stride) = match &self.style {
            Style::Density { scale, .. } => (scale.map(|scale| [scale.low, scale.high]), 1),
            Style::Orbits { stride, .. } => (None, *stride),
        };
        let View { centre, half_width, .. } = self.view;
        Ok(State {
            centre,
            half_width,
            scale,
            stride,
            written: self.written,
            animation: self.animation.sync()?,
        })
    }

    /// Returns the part of the state that is too large for the header of a checkpoint.
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let mut blocks = vec![("frame".to_owned(), Block::Bytes(self.animation.last_frame().to_vec()))];
        if let Style::Orbits { trails, .. } = &self.style {
            let coordinates = trails.iter().flatten().flatten().copied().collect();
            blocks.push(("trails".to_owned(), Block::Reals(coordinates)));
        }
        blocks
    }

    fn draw_image(&mut self, moment: &Moment) -> Result<Image, EngineError> {
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
}

/// Returns the axes that point right and up.
fn view_axes(case: &Case) -> (usize, usize) {
    match case.image.plane {
        Plane::Xy => (0, 1),
        Plane::Xz => (0, 2),
        Plane::Yz => (1, 2),
    }
}

/// One colour per galaxy of an encounter. All other models have one colour.
fn colour_groups(case: &Case) -> Vec<Group> {
    match &case.bodies {
        BodiesSource::Model(Model::Encounter(pair)) => {
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

impl Observer for Pictures {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let image = self.draw_image(moment)?;
        let texts: Vec<_> = self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        write_png(&self.image_path(self.written), &image, &texts)?;
        self.animation.push_frame(&image)?;
        self.written += 1;
        Ok(())
    }

    fn after_step(&mut self, moment: &Moment) -> Result<(), EngineError> {
        if let Style::Orbits { trails, stride, .. } = &mut self.style
            && moment.step.is_multiple_of(*stride)
        {
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
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.animation.sync()?;
        Ok(())
    }
}
