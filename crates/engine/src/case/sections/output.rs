//! `[output]` and `[image]`.

use orrery_model::Dimension;

use crate::case::declare::{Kind, Range, SectionSpec, Words, key, quantity};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::{ImageSettings, OnError, OutputSettings, Plane, Show, SnapshotFormat};

const FORMATS: &Words<SnapshotFormat> = &[
    ("hdf5", SnapshotFormat::Hdf5, "HDF5 in the layout of GADGET"),
    ("xyz", SnapshotFormat::Xyz, "extended XYZ, a text file"),
    ("npz", SnapshotFormat::Npz, "NumPy arrays"),
];
const ON_ERROR: &Words<OnError> = &[
    ("stop", OnError::Stop, "ends the run with exit status 1"),
    ("wait", OnError::Wait, "waits and tries again, for example until a full disk has space"),
];
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

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "output",
    "Files that the run writes, and when. The start and the end of a run are written at any interval.",
    &[&[
        key("snapshot_every", Kind::Interval, "0", "Interval of snapshots. 0 is none between start and end."),
        key("image_every", Kind::Interval, "0", "Interval of images. 0 is none between start and end."),
        key(
            "record_every",
            Kind::Interval,
            "10 steps",
            "Interval of rows of `conserved.csv`. 0 is none between start and end.",
        ),
        key("format", Kind::Word(&FORMATS), "hdf5", "File format of snapshots."),
        key(
            "keep_start",
            Kind::Boolean,
            "false",
            "Copies the file of bodies to the folder of the run, as `start.hdf5`, `start.xyz`, `start.npz` or \
             `start.gadget`. A model has no file.",
        ),
        key("on_error", Kind::Word(&ON_ERROR), "stop", "Reaction when a file cannot be written."),
    ]],
);

pub(in crate::case) const IMAGE_SPEC: &SectionSpec = &SectionSpec::new(
    "image",
    "Appearance of the images and of the animation.",
    &[&[
        key("size", Kind::Integer { least: 64, most: 4096 }, "640", "Width and height in pixels."),
        key(
            "width",
            quantity(Dimension::Length, Range::Positive).or("auto", "fits the initial bodies"),
            "auto",
            "Width of the view.",
        ),
        key("plane", Kind::Word(&PLANES), "xy", "Plane onto which the bodies are projected."),
        key("show", Kind::Word(&SHOWS), "auto", "Bodies in the images."),
        // GIF delays are multiples of 0.01 s, and viewers slow down delays below 0.02 s.
        key(
            "frames_per_second",
            Kind::Integer { least: 1, most: 50 },
            "20",
            "Speed of the animation, in frames per second.",
        ),
    ]],
);

pub(in crate::case) fn read_output(section: &Section<'_>) -> OutputSettings {
    let settings = OutputSettings {
        snapshot_every: section.interval("snapshot_every"),
        image_every: section.interval("image_every"),
        record_every: section.interval("record_every"),
        format: section.word("format", FORMATS),
        keep_start: section.boolean("keep_start"),
        on_error: section.word("on_error", ON_ERROR),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_output(w: &mut SectionWriter<'_>, settings: &OutputSettings) {
    w.interval("snapshot_every", settings.snapshot_every);
    w.interval("image_every", settings.image_every);
    w.interval("record_every", settings.record_every);
    w.word("format", FORMATS, &settings.format);
    w.boolean("keep_start", settings.keep_start);
    w.word("on_error", ON_ERROR, &settings.on_error);
}

pub(in crate::case) fn read_image(section: &Section<'_>) -> ImageSettings {
    let settings = ImageSettings {
        size: section.small_integer("size"),
        width: section.quantity_or_word("width"),
        plane: section.word("plane", PLANES),
        show: section.word("show", SHOWS),
        frames_per_second: section.small_integer("frames_per_second"),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_image(w: &mut SectionWriter<'_>, settings: &ImageSettings) {
    w.integer("size", settings.size.into());
    w.quantity_or_word("width", settings.width);
    w.word("plane", PLANES, &settings.plane);
    w.word("show", SHOWS, &settings.show);
    w.integer("frames_per_second", settings.frames_per_second.into());
}
