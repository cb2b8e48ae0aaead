//! `[image]`.

use orrery_io::picture::ColourMap;
use orrery_model::{Dimension, short_number};

use crate::case::cross_checks::conflict_location;
use crate::case::declare::{Kind, Range, SectionSpec, Words, key, number, quantity};
use crate::case::physics::{BODIES, FIELDS, HEAT, WAVE};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::{BodyView, FieldView, ImageSettings, Plane, Show, SliceView};

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
const COLOUR_MAPS: &Words<&str> = &[
    (ColourMap::NAMES[0], ColourMap::NAMES[0], "black through purple and orange to pale yellow"),
    (ColourMap::NAMES[1], ColourMap::NAMES[1], "violet through blue and green to yellow"),
    (ColourMap::NAMES[2], ColourMap::NAMES[2], "black to white"),
    (ColourMap::NAMES[3], ColourMap::NAMES[3], "blue through white to red"),
];
const RANGE_END: Kind = number(Range::Any)
    .or(
        "auto",
        "that of the initial state, or of each image if sources or fluxes heat the plate. For waves, a quarter of \
         the largest amplitude of each image",
    );

const POSITION: Kind =
    quantity(Dimension::Length, Range::NotNegative).or("source", "that of the first source");

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "image",
    "Appearance of the images and of the animation.",
    &[&[
        key("size", Kind::Integer { least: 64, most: 4096 }, "640", "Larger of width and height in pixels."),
        key(
            "width",
            quantity(Dimension::Length, Range::Positive).or("auto", "fits the initial bodies"),
            "auto",
            "Width of the view.",
        )
        .only_for(BODIES),
        key("plane", Kind::Word(&PLANES), "xy", "Plane onto which the bodies are projected.")
            .only_for(BODIES),
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
        key("colormap", Kind::Word(&COLOUR_MAPS), "inferno", "Colours of the values.").only_for(HEAT),
        key("colormap", Kind::Word(&COLOUR_MAPS), "diverging", "Colours of the values.").only_for(WAVE),
        key("low", RANGE_END, "auto", "Value of the first colour.").only_for(FIELDS),
        key("high", RANGE_END, "auto", "Value of the last colour.").only_for(FIELDS),
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
        size: section.small_integer("size"),
        frames_per_second: section.small_integer("frames_per_second"),
    };
    section.finish();
    settings
}

pub(in crate::case) fn read_body_view(section: &Section<'_>) -> BodyView {
    BodyView {
        width: section.quantity_or_word("width"),
        plane: section.word("plane", PLANES),
        show: section.word("show", SHOWS),
    }
}

pub(in crate::case) fn read_slice_view(section: &Section<'_>) -> SliceView {
    SliceView {
        plane: section.word("plane", PLANES),
        position: section.quantity_or_word("position"),
        shows_velocity: section.boolean("show_velocity"),
    }
}

pub(in crate::case) fn read_field_view(section: &Section<'_>) -> FieldView {
    let view = FieldView {
        colour_map: section.word("colormap", COLOUR_MAPS),
        low: section.number_or_word("low"),
        high: section.number_or_word("high"),
    };
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
    w.integer("size", settings.size.into());
    match view {
        ImageView::Bodies(view) => {
            w.quantity_or_word("width", view.width);
            w.word("plane", PLANES, &view.plane);
            w.word("show", SHOWS, &view.show);
        }
        ImageView::Field(view, slice) => {
            if let Some(slice) = slice {
                w.word("plane", PLANES, &slice.plane);
                w.quantity_or_word("position", slice.position);
                w.boolean("show_velocity", slice.shows_velocity);
            }
            w.word("colormap", COLOUR_MAPS, &view.colour_map);
            w.number_or_word("low", view.low);
            w.number_or_word("high", view.high);
        }
    }
    w.integer("frames_per_second", settings.frames_per_second.into());
}

/// The settings of images that a physics has.
pub(in crate::case) enum ImageView<'a> {
    Bodies(&'a BodyView),
    Field(&'a FieldView, Option<&'a SliceView>),
}
