//! `[output]`.

use crate::case::declare::{Kind, SectionSpec, Words, key};
use crate::case::physics::{BODIES, FIELDS, FLUIDS, NOT_FLUIDS, PhysicsName};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::{OnError, OutputSettings, SnapshotFormat};

const FORMATS: &Words<SnapshotFormat> = &[
    ("hdf5", SnapshotFormat::Hdf5, "HDF5 in the layout of GADGET"),
    ("xyz", SnapshotFormat::Xyz, "extended XYZ, a text file"),
    ("npz", SnapshotFormat::Npz, "NumPy arrays"),
];
const FIELD_FORMATS: &Words<SnapshotFormat> = &[
    ("npy", SnapshotFormat::Npy, "a NumPy array"),
    ("vti", SnapshotFormat::Vti, "VTK image data, for ParaView"),
];
const FLUID_FORMATS: &Words<SnapshotFormat> = &[
    ("gsd", SnapshotFormat::Gsd, "`trajectory.gsd` in the schema of HOOMD, for OVITO and Python"),
    ("xyz", SnapshotFormat::Xyz, "`trajectory.xyz`, extended XYZ, a text file"),
];
const ON_ERROR: &Words<OnError> = &[
    ("stop", OnError::Stop, "ends the run with exit status 1"),
    ("wait", OnError::Wait, "waits and tries again, for example until a full disk has space"),
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
        )
        .only_for(NOT_FLUIDS),
        key(
            "record_every",
            Kind::Interval,
            "100 steps",
            "Interval of rows of `thermo.csv`. 0 is none between start and end.",
        )
        .only_for(FLUIDS),
        key("format", Kind::Word(&FORMATS), "hdf5", "File format of snapshots.").only_for(BODIES),
        key("format", Kind::Word(&FIELD_FORMATS), "npy", "File format of snapshots.").only_for(FIELDS),
        key("format", Kind::Word(&FLUID_FORMATS), "gsd", "File format of the trajectory.").only_for(FLUIDS),
        key(
            "keep_start",
            Kind::Boolean,
            "false",
            "Copies the file of bodies to the folder of the run, as `start.hdf5`, `start.xyz`, `start.npz` or \
             `start.gadget`. A model has no file.",
        )
        .only_for(BODIES),
        key(
            "plots",
            Kind::Boolean,
            "true",
            "Draws plots when the run ends or stops, such as `energy.svg` and the seismograms. Their numbers are in \
             the tables in any case.",
        ),
        key("on_error", Kind::Word(&ON_ERROR), "stop", "Reaction when a file cannot be written."),
    ]],
);

pub(in crate::case) fn read_output(section: &Section<'_>, physics: PhysicsName) -> OutputSettings {
    let settings = OutputSettings {
        snapshot_every: section.interval("snapshot_every"),
        image_every: section.interval("image_every"),
        record_every: section.interval("record_every"),
        format: section.word("format", formats(physics)),
        plots: section.boolean("plots"),
        keep_start: BODIES.contains(&physics) && section.boolean("keep_start"),
        on_error: section.word("on_error", ON_ERROR),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_output(
    w: &mut SectionWriter<'_>,
    settings: &OutputSettings,
    physics: PhysicsName,
) {
    w.interval("snapshot_every", settings.snapshot_every);
    w.interval("image_every", settings.image_every);
    w.interval("record_every", settings.record_every);
    w.word("format", formats(physics), &settings.format);
    if BODIES.contains(&physics) {
        w.boolean("keep_start", settings.keep_start);
    }
    w.boolean("plots", settings.plots);
    w.word("on_error", ON_ERROR, &settings.on_error);
}

/// Returns the formats of a physics.
fn formats(physics: PhysicsName) -> &'static Words<SnapshotFormat> {
    match physics {
        PhysicsName::Gravity => FORMATS,
        PhysicsName::Heat | PhysicsName::Wave => FIELD_FORMATS,
        PhysicsName::LennardJones => FLUID_FORMATS,
    }
}
