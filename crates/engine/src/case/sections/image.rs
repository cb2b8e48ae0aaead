//! `[image]`.

use orrery_draw::picture::ColourMap;
use orrery_model::{Dimension, Species, short_number};

use crate::case::cross_checks::conflict_location;
use crate::case::declare::{Kind, Range, SectionSpec, Words, key, number, quantity};
use crate::case::physics::{BODIES, FLUIDS, HEAT, WAVE};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::{
    AnimationFormat, BodyView, FieldView, FluidColour, FluidView, ImageSettings, Plane, Show, SliceView,
    ViewCentre, ViewDirection,
};

const PLANES: &Words<Plane> = &[
    ("xy", Plane::Xy, "seen along z"),
    ("xz", Plane::Xz, "seen along y"),
    ("yz", Plane::Yz, "seen along x"),
];
const SHOWS: &Words<Show> = &[
    ("auto", Show::Auto, "stars if there are any, otherwise all bodies"),
    ("all", Show::All, "all bodies"),
    ("stars", Show::Stars, "stars only"),
];
const CENTRES: &Words<ViewCentre> = &[
    ("start", ViewCentre::Start, "centre of mass of the shown bodies at the start; the view does not move"),
    ("centre of mass", ViewCentre::CentreOfMass, "centre of mass of all bodies; the view follows it"),
    ("center of mass", ViewCentre::CentreOfMass, "the same"),
    ("gas", ViewCentre::Species(Species::Gas), "centre of mass of the gas; the view follows it"),
    ("halo", ViewCentre::Species(Species::Halo), "centre of mass of the halo; the view follows it"),
    ("disc", ViewCentre::Species(Species::Disc), "centre of mass of the disc; the view follows it"),
    ("bulge", ViewCentre::Species(Species::Bulge), "centre of mass of the bulge; the view follows it"),
    ("stars", ViewCentre::Species(Species::Stars), "centre of mass of the stars; the view follows it"),
    (
        "boundary",
        ViewCentre::Species(Species::Boundary),
        "centre of mass of the boundary bodies; the view follows it",
    ),
];
const DENSITY_MAPS: &Words<Option<&str>> = &[
    ("auto", None, "ember, or blue and orange for the galaxies of an encounter"),
    (DENSITY_NAMES[0], Some(DENSITY_NAMES[0]), "black through violet, red and orange to pale yellow"),
    (DENSITY_NAMES[1], Some(DENSITY_NAMES[1]), "black through purple and orange to pale yellow"),
    (DENSITY_NAMES[2], Some(DENSITY_NAMES[2]), "violet through blue and green to yellow"),
    (DENSITY_NAMES[3], Some(DENSITY_NAMES[3]), "black to white"),
    (DENSITY_NAMES[4], Some(DENSITY_NAMES[4]), "black through blue to white"),
    (DENSITY_NAMES[5], Some(DENSITY_NAMES[5]), "black through orange to white"),
    (DENSITY_NAMES[6], Some(DENSITY_NAMES[6]), "black through green to white"),
    (DENSITY_NAMES[7], Some(DENSITY_NAMES[7]), "black through rose to white"),
];
const DENSITY_NAMES: [&str; 8] = ColourMap::DENSITY_NAMES;
const ANIMATIONS: &Words<AnimationFormat> = &[
    ("gif", AnimationFormat::Gif, "`animation.gif`, which is complete after each image"),
    (
        "mp4",
        AnimationFormat::Mp4,
        "also `animation.mp4`, at the end of the run, if the program ffmpeg is installed",
    ),
    ("none", AnimationFormat::None, "images only"),
];
const COLOUR_MAPS: &Words<&str> = &[
    (ColourMap::NAMES[0], ColourMap::NAMES[0], "black through purple and orange to pale yellow"),
    (ColourMap::NAMES[1], ColourMap::NAMES[1], "violet through blue and green to yellow"),
    (ColourMap::NAMES[2], ColourMap::NAMES[2], "black to white"),
    (ColourMap::NAMES[3], ColourMap::NAMES[3], "blue through white to red"),
];
const FLUID_COLOURS: &Words<FluidColour> = &[
    ("species", FluidColour::Species, "one colour per species"),
    ("speed", FluidColour::Speed, "slow to fast particles"),
    ("density", FluidColour::Density, "few to many neighbours"),
];
const TEMPERATURE_END: Kind = quantity(Dimension::Temperature, Range::Any)
    .or("auto", "that of the initial state, or of each image if sources or fluxes heat the plate");
const AMPLITUDE_END: Kind = number(Range::Any).or("auto", "a quarter of the largest amplitude of each image");

const POSITION: Kind =
    quantity(Dimension::Length, Range::NotNegative).or("source", "that of the first source");

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "image",
    "Appearance of the images and of the animation.",
    &[&[
        key(
            "size",
            Kind::PixelSize { least: 64, most: 4096 },
            "640",
            "Larger of width and height in pixels, or both. With one number, images of bodies are squares, and the \
             other side of images of fields fits the field.",
        ),
        key(
            "width",
            quantity(Dimension::Length, Range::Positive).or("auto", "fits the initial bodies"),
            "auto",
            "Width of the view.",
        )
        .only_for(BODIES),
        key("center", Kind::Point(&CENTRES), "start", "Point in the middle of the images.").only_for(BODIES),
        key("plane", Kind::Word(&PLANES), "xy", "Plane onto which the bodies are projected.")
            .only_for(BODIES),
        key(
            "azimuth",
            quantity(Dimension::Angle, Range::Any),
            "-90 deg",
            "Angle of the viewer about the z axis, from x towards y, from -360 to 360 degrees. With `elevation`, in \
             place of `plane`.",
        )
        .only_for(BODIES),
        key(
            "elevation",
            quantity(Dimension::Angle, Range::Any),
            "90 deg",
            "Angle of the viewer above the x-y plane, from -90 to 90 degrees. The z axis points up.",
        )
        .only_for(BODIES),
        key(
            "azimuth",
            quantity(Dimension::Angle, Range::Any),
            "-60 deg",
            "Angle of the viewer about the z axis, from x towards y, from -360 to 360 degrees.",
        )
        .only_for(FLUIDS),
        key(
            "elevation",
            quantity(Dimension::Angle, Range::Any),
            "20 deg",
            "Angle of the viewer above the x-y plane, from -90 to 90 degrees. Particles in a plane are seen from \
             above.",
        )
        .only_for(FLUIDS),
        key("color", Kind::Word(&FLUID_COLOURS), "species", "Meaning of the colours of particles.")
            .only_for(FLUIDS),
        key("plane", Kind::Word(&PLANES), "xz", "Plane of a volume that images show.").only_for(WAVE),
        key("position", POSITION, "source", "Position of the plane on the third axis of a volume.")
            .only_for(WAVE),
        key(
            "show_velocity",
            Kind::Boolean,
            "true",
            "Whether the velocity is drawn under the waves, in grey.",
        )
        .only_for(WAVE),
        key("show", Kind::Word(&SHOWS), "auto", "Bodies in the images.").only_for(BODIES),
        key(
            "colormap",
            Kind::Word(&DENSITY_MAPS),
            "auto",
            "Colours of the surface density. Up to 64 bodies are drawn as orbits, with a colour per body.",
        )
        .only_for(BODIES),
        key("colormap", Kind::Word(&COLOUR_MAPS), "inferno", "Colours of the values.").only_for(HEAT),
        key("colormap", Kind::Word(&COLOUR_MAPS), "diverging", "Colours of the values.").only_for(WAVE),
        key("low", TEMPERATURE_END, "auto", "Temperature of the first colour.").only_for(HEAT),
        key("high", TEMPERATURE_END, "auto", "Temperature of the last colour.").only_for(HEAT),
        key("low", AMPLITUDE_END, "auto", "Value of the first colour.").only_for(WAVE),
        key("high", AMPLITUDE_END, "auto", "Value of the last colour.").only_for(WAVE),
        key("animation", Kind::Word(&ANIMATIONS), "gif", "Format of the animation."),
        // GIF delays are multiples of 0.01 s, and viewers slow down delays below 0.02 s.
        key(
            "frames_per_second",
            Kind::Integer { least: 1, most: 50 },
            "20",
            "Speed of the animation, in frames per second.",
        ),
    ]],
);

/// Reads the settings of all physics. That of the physics must have been read before.
pub(in crate::case) fn read_image(section: &Section<'_>) -> ImageSettings {
    let settings = ImageSettings {
        size: section.pixel_size("size"),
        animation: section.word("animation", ANIMATIONS),
        frames_per_second: section.small_integer("frames_per_second"),
    };
    section.finish();
    settings
}

pub(in crate::case) fn read_body_view(section: &Section<'_>) -> BodyView {
    BodyView {
        width: section.quantity_or_word("width"),
        centre: section.point_or_word("center", CENTRES, ViewCentre::Point),
        direction: read_direction(section),
        show: section.word("show", SHOWS),
        colour_map: section.word("colormap", DENSITY_MAPS),
    }
}

/// Keys of the angles of the viewer, with the largest angle in degrees.
const ANGLES: [(&str, f64); 2] = [("azimuth", 360.0), ("elevation", 90.0)];

/// Reads the plane or the angles. A case that has both is refused, unless `--set` replaces one by
/// the other.
fn read_direction(section: &Section<'_>) -> ViewDirection {
    let plane = section.word("plane", PLANES);
    let [azimuth, elevation] = ANGLES.map(|(key, most)| read_angle(section, key, most));
    let given: Vec<&str> = ANGLES.iter().map(|&(key, _)| key).filter(|key| section.has_key(key)).collect();
    let is_plane_set = given.iter().all(|key| section.is_set_after(key, "plane"));
    if given.is_empty() || (section.has_key("plane") && is_plane_set) {
        return ViewDirection::Plane(plane);
    }
    if section.has_key("plane") && !given.iter().any(|key| section.is_set_after("plane", key)) {
        let location = conflict_location(section.location_of("plane"), section.location_of(given[0]));
        let fault = format!(" conflicts with image.{}, expected only one of them", given[0]);
        section.reject_at(location, "plane", &fault);
    }
    ViewDirection::Angles { azimuth, elevation }
}

/// Reads an angle between -`most` and `most` degrees. A larger one is most probably in degrees
/// without their unit. An inherited value was checked where it is written.
pub(super) fn read_angle(section: &Section<'_>, key: &'static str, most: f64) -> f64 {
    let angle = section.quantity(key);
    // Degrees are converted with a rounding error.
    if section.has_key(key) && angle.abs() > most.to_radians() * (1.0 + 1e-12) {
        let range = format!("-{most} deg <= {key} <= {most} deg");
        section.reject(key, &format!(" is outside {range}; a number without a unit is in radians"));
    }
    angle
}

pub(in crate::case) fn read_slice_view(section: &Section<'_>) -> SliceView {
    SliceView {
        plane: section.word("plane", PLANES),
        position: section.quantity_or_word("position"),
        shows_velocity: section.boolean("show_velocity"),
    }
}

pub(in crate::case) fn read_fluid_view(section: &Section<'_>) -> FluidView {
    let [azimuth, elevation] = ANGLES.map(|(key, most)| read_angle(section, key, most));
    FluidView { colour: section.word("color", FLUID_COLOURS), azimuth, elevation }
}

pub(in crate::case) fn read_heat_view(section: &Section<'_>) -> FieldView {
    read_field_view(section, ["low", "high"].map(|key| section.quantity_or_word(key)))
}

pub(in crate::case) fn read_wave_view(section: &Section<'_>) -> FieldView {
    read_field_view(section, ["low", "high"].map(|key| section.number_or_word(key)))
}

/// Reads the settings of all fields. `low` and `high` are the values of the first and the last
/// colour.
fn read_field_view(section: &Section<'_>, [low, high]: [Option<f64>; 2]) -> FieldView {
    let view = FieldView { colour_map: section.word("colormap", COLOUR_MAPS), low, high };
    if let (Some(low), Some(high)) = (view.low, view.high)
        && low >= high
    {
        let location = conflict_location(section.location_of("low"), section.location_of("high"));
        section.reject_at(
            location,
            "low",
            &format!(" is not below image.high = {}, expected low < high", short_number(high)),
        );
    }
    view
}

pub(in crate::case) fn write_image(w: &mut SectionWriter<'_>, settings: &ImageSettings, view: ImageView<'_>) {
    w.pixel_size("size", settings.size);
    match view {
        ImageView::Bodies(view) => {
            w.quantity_or_word("width", view.width);
            match view.centre {
                ViewCentre::Point(point) => w.point("center", point),
                word => w.point_word("center", CENTRES, &word),
            }
            match view.direction {
                ViewDirection::Plane(plane) => {
                    w.word("plane", PLANES, &plane);
                    ANGLES.iter().for_each(|(key, _)| w.leave_out(key));
                }
                ViewDirection::Angles { azimuth, elevation } => {
                    w.leave_out("plane");
                    w.quantity("azimuth", azimuth);
                    w.quantity("elevation", elevation);
                }
            }
            w.word("show", SHOWS, &view.show);
            w.word("colormap", DENSITY_MAPS, &view.colour_map);
        }
        ImageView::Field(view, slice) => {
            if let Some(slice) = slice {
                w.word("plane", PLANES, &slice.plane);
                w.quantity_or_word("position", slice.position);
                w.boolean("show_velocity", slice.shows_velocity);
            }
            w.word("colormap", COLOUR_MAPS, &view.colour_map);
            for (key, value) in [("low", view.low), ("high", view.high)] {
                match slice {
                    Some(_) => w.number_or_word(key, value),
                    None => w.quantity_or_word(key, value),
                }
            }
        }
        ImageView::Fluid(view) => {
            w.quantity("azimuth", view.azimuth);
            w.quantity("elevation", view.elevation);
            w.word("color", FLUID_COLOURS, &view.colour);
        }
    }
    w.word("animation", ANIMATIONS, &settings.animation);
    w.integer("frames_per_second", settings.frames_per_second.into());
}

/// The settings of images that a physics has.
pub(in crate::case) enum ImageView<'a> {
    Bodies(&'a BodyView),
    Field(&'a FieldView, Option<&'a SliceView>),
    Fluid(&'a FluidView),
}
