//! Pictures of the run: `images/image_0000.png` and so on, and `animation.gif`.
//!
//! Many bodies are shown as surface density, its brightness scale fixed by the first picture; few as orbits
//! with their trails. The view stays where it is for the whole run, so that pictures can be compared.

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

/// So few bodies are drawn one by one.
const FEW: usize = 64;
/// Least ratio of the brightest to the darkest density shown.
const LEAST_CONTRAST: f64 = 300.0;
/// Points of a trail that are kept; a longer one is thinned out.
const LONGEST_TRAIL: usize = 20_000;

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

/// What a checkpoint keeps of it, besides the blocks that [`Pictures::blocks`] gives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    centre: [f64; 3],
    half_width: f64,
    /// Darkest and brightest density, once a picture has fixed them.
    scale: Option<[f64; 2]>,
    pub(super) stride: u64,
    pub(super) written: usize,
    pub(super) animation: GifMark,
}

enum Style {
    /// Surface density, one colour map a group of bodies.
    Density { groups: Vec<Group>, show: Show, scale: Option<Scale> },
    /// Trails: one list of places a body, one place every `stride` steps.
    Orbits { trails: Vec<Vec<[f64; 3]>>, names: Vec<&'static str>, stride: u64 },
}

impl Style {
    /// How so many bodies are drawn, before the first picture.
    fn of(case: &Case, bodies: usize) -> (Self, Palette) {
        if bodies <= FEW {
            let names = match &case.bodies {
                BodiesSource::Model(Model::SolarSystem(_)) => SolarSystem::NAMES.to_vec(),
                _ => Vec::new(),
            };
            let trails = vec![Vec::new(); bodies];
            (Self::Orbits { trails, names, stride: 1 }, Palette::for_orbits(bodies))
        } else {
            let groups = groups(case);
            let palette =
                Palette::from_colour_maps(&groups.iter().map(|group| &group.colours).collect::<Vec<_>>());
            (Self::Density { groups, show: case.image.show, scale: None }, palette)
        }
    }
}

/// Bodies drawn in one colour: those with ids below `end` that no group before has.
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
        let (axes, pixels) = (axes(case), (case.image.size, case.image.size));
        let mut view = if start.len() <= FEW {
            // About the centre of mass; orbits reach beyond where they start.
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
        let (mut style, palette) = Style::of(case, start.len());
        if let Style::Orbits { trails, .. } = &mut style {
            trails.iter_mut().zip(start.position.iter()).for_each(|(trail, x)| trail.push(x));
        }
        let speed = f64::from(case.image.frames_per_second);
        let animation = GifWriter::create(&folder.join(ANIMATION), pixels.0, pixels.1, speed, &palette)?;
        Self::with(case, folder, provenance, view, style, animation, 0)
    }

    /// Goes on where a checkpoint saw the pictures; `anew` begins the animation again.
    pub fn resume(
        case: &Case,
        bodies: usize,
        folder: &Path,
        provenance: &[(String, String)],
        state: &State,
        blocks: &mut Blocks,
        anew: bool,
    ) -> Result<Self, EngineError> {
        let pixels = (case.image.size, case.image.size);
        let view = View { centre: state.centre, half_width: state.half_width, axes: axes(case), pixels };
        let (mut style, palette) = Style::of(case, bodies);
        match &mut style {
            Style::Density { scale, .. } => *scale = state.scale.map(|[low, high]| Scale { low, high }),
            Style::Orbits { trails, stride, .. } => {
                let places = blocks.reals("trails")?;
                let length = places.len() / 3 / bodies.max(1);
                let mut places = places.chunks_exact(3).map(|x| [x[0], x[1], x[2]]);
                trails.iter_mut().for_each(|trail| trail.extend(places.by_ref().take(length)));
                *stride = state.stride;
            }
        }
        let (path, speed) = (folder.join(ANIMATION), f64::from(case.image.frames_per_second));
        let frame = blocks.bytes("frame")?;
        let animation = if anew {
            GifWriter::create(&path, pixels.0, pixels.1, speed, &palette)?
        } else {
            GifWriter::reopen(&path, pixels, speed, &palette, &state.animation, frame)?
        };
        Self::with(case, folder, provenance, view, style, animation, state.written)
    }

    fn with(
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

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}{number:04}.png", IMAGES.prefix))
    }

    /// Those that were written and are no longer there.
    pub fn missing(&self) -> Vec<PathBuf> {
        (0..self.written).map(|k| self.path(k)).filter(|path| !path.exists()).collect()
    }

    /// Brings the animation to the disk.
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

    /// What of its state is too large for the header.
    pub fn blocks(&self) -> Vec<(&'static str, Block)> {
        let mut blocks = vec![("frame", Block::Bytes(self.animation.last_frame().to_vec()))];
        if let Style::Orbits { trails, .. } = &self.style {
            blocks.push(("trails", Block::Reals(trails.iter().flatten().flatten().copied().collect())));
        }
        blocks
    }

    fn picture(&mut self, moment: &Moment) -> Result<Image, EngineError> {
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
                let mut begin = 0;
                let maps: Vec<_> = groups
                    .iter()
                    .map(|group| {
                        let ids = begin..group.end;
                        begin = group.end;
                        surface_density(particles, &self.view, |i| shown(i) && ids.contains(&particles.id[i]))
                    })
                    .collect();
                let scale = *scale.get_or_insert_with(|| {
                    let Scale { low, high } = Scale::from_maps(&maps.iter().collect::<Vec<_>>());
                    // What starts out even, as before a collapse, needs room to become brighter.
                    Scale { low, high: high.max(LEAST_CONTRAST * low) }
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

/// The axes that run to the right and up.
fn axes(case: &Case) -> (usize, usize) {
    match case.image.plane {
        Plane::Xy => (0, 1),
        Plane::Xz => (0, 2),
        Plane::Yz => (1, 2),
    }
}

/// The galaxies of an encounter in a colour each, everything else in one.
fn groups(case: &Case) -> Vec<Group> {
    match &case.bodies {
        BodiesSource::Model(Model::Encounter(pair)) => {
            let first =
                pair.first.n_disc.saturating_add(pair.first.n_bulge).saturating_add(pair.first.n_halo) as u64;
            [first, u64::MAX]
                .into_iter()
                .enumerate()
                .map(|(k, end)| Group { end, colours: ColourMap::for_group(k) })
                .collect()
        }
        _ => vec![Group { end: u64::MAX, colours: ColourMap::ember() }],
    }
}

impl Observer for Pictures {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let image = self.picture(moment)?;
        let texts: Vec<_> = self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        write_png(&self.path(self.written), &image, &texts)?;
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
            if trails.first().is_some_and(|trail| trail.len() > LONGEST_TRAIL) {
                for trail in trails {
                    let mut k = 0;
                    trail.retain(|_| {
                        k += 1;
                        k % 2 == 1
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
