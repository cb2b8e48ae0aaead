//! `[particles]`: the initial particles of a fluid, on a lattice, as a drop, at random or from a
//! file.

use orrery_model::Dimension;
use orrery_model::ic::lattice::Lattice;
use orrery_model::simulation_box::BoxSides;

use crate::case::declare::{
    KeySpec, KeyTables, Kind, Range, SectionSpec, SelectedDimension, Variant, When, Word, WordList, Words,
    derived_key, key, number, quantity, quantity_of, required_key,
};
use crate::case::fluid::{FluidCase, FluidDensity, FluidStart};
use crate::case::reader::{Section, join_with_or};
use crate::case::resolved::SectionWriter;

/// A start of `[particles]`: its keys and its reader.
struct Start {
    name: &'static str,
    /// Meaning, without a period.
    meaning: &'static str,
    keys: KeyTables,
    read: fn(&Section<'_>) -> FluidStart,
}

const STARTS: &[Start] = &[
    Start {
        name: "fcc",
        meaning: "a face-centred cubic lattice, four particles per cell",
        keys: &[CELLS, CELLS_Z, DENSITIES, SIDES_KEY],
        read: |section| read_lattice(section, Lattice::Fcc),
    },
    Start {
        name: "simple-cubic",
        meaning: "a simple cubic lattice, one particle per cell",
        keys: &[CELLS, CELLS_Z, DENSITIES, SIDES_KEY],
        read: |section| read_lattice(section, Lattice::SimpleCubic),
    },
    Start {
        name: "square",
        meaning: "a square lattice in two dimensions, one particle per cell",
        keys: &[CELLS, DENSITIES, SIDES_KEY],
        read: |section| read_lattice(section, Lattice::Square),
    },
    Start {
        name: "droplet",
        meaning: "a spherical drop in the middle of a periodic cube, in vapour",
        keys: &[COUNT_KEY, DENSITIES, DROPLET_KEYS],
        read: |section| FluidStart::Droplet {
            n: section.count("n"),
            density: read_density(section, 3),
            vapour_density: section.quantity("vapour_density"),
            length: section.quantity("length"),
        },
    },
    Start {
        name: "random",
        meaning: "random positions, after which the energy is minimised",
        keys: &[COUNT_KEY, DENSITIES, DIMENSIONS_KEY, SIDES_KEY],
        read: |section| {
            let dimensions = section.count("dimensions");
            FluidStart::Random {
                n: section.count("n"),
                density: read_density(section, dimensions),
                dimensions,
                sides: section.word("sides", SIDES),
            }
        },
    },
];

/// Smallest limit of the forces of a minimisation. Rounding errors of f64 are near 1e-11.
const SMALLEST_MINIMISE_FORCE: f64 = 1e-10;

const COUNT: Kind = Kind::Integer { least: 1, most: u32::MAX as u64 };
const CELL_COUNT: Kind = Kind::Integer { least: 1, most: 100_000 };
const CELLS: &[KeySpec] = &[
    required_key("cells", CELL_COUNT, "Number of cells of the lattice along x."),
    derived_key("cells_y", CELL_COUNT, "`cells`", "Number of cells along y."),
];
const CELLS_Z: &[KeySpec] = &[derived_key("cells_z", CELL_COUNT, "`cells`", "Number of cells along z.")];
const COUNT_KEY: &[KeySpec] = &[required_key("n", COUNT, "Number of particles, for a drop those in it.")];
const ONE_OF: &str = "none: give `density` or `mass_density`";
const DENSITIES: &[KeySpec] = &[
    derived_key(
        "density",
        quantity_of(&[Dimension::NumberDensity, Dimension::AreaDensity], Range::Positive),
        ONE_OF,
        "Particles per volume, or per area in two dimensions.",
    ),
    derived_key(
        "mass_density",
        quantity_of(&[Dimension::Density, Dimension::MassPerArea], Range::Positive),
        ONE_OF,
        "Mass per volume, for example \"1.374 g/cm^3\", or per area in two dimensions.",
    ),
];
const DROPLET_KEYS: &[KeySpec] = &[
    key(
        "vapour_density",
        quantity(Dimension::NumberDensity, Range::NotNegative),
        "0",
        "Particles of the vapour per volume.",
    ),
    required_key("length", quantity(Dimension::Length, Range::Positive), "Side of the box."),
];
const DIMENSIONS_KEY: &[KeySpec] =
    &[key("dimensions", Kind::Integer { least: 2, most: 3 }, "3", "Number of dimensions, 2 or 3.")];
const WRAP_KEY: &[KeySpec] = &[key(
    "wrap",
    Kind::Boolean,
    "false",
    "Whether particles outside of a periodic box are moved into it by whole boxes. Otherwise they are an error.",
)];
const SIDES_KEY: &[KeySpec] = &[key("sides", Kind::Word(&SIDES), "periodic", "Sides of the box.")];
const SIDES: &Words<BoxSides> = &[
    ("periodic", BoxSides::Periodic, "particles interact with the nearest images of one another"),
    ("open", BoxSides::Open, "no images: particles may go anywhere"),
];

impl WordList for &[Start] {
    fn words(&self) -> Vec<Word> {
        self.iter().map(|start| Word { word: start.name, meaning: start.meaning }).collect()
    }
}

const START_OR_FILE: &str = "none: give `start` or `file`";
/// Name of the variant with a file, for messages.
const FILE: &str = "a file";

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec {
    required: Some("one with start = \"...\" or file = \"...\""),
    variants,
    ..SectionSpec::new(
        "particles",
        "The initial particles of a fluid: generated by the program, or from a file.",
        &[&[
            derived_key("start", Kind::Word(&STARTS), START_OR_FILE, "Initial positions."),
            derived_key(
                "file",
                Kind::File,
                START_OR_FILE,
                "File with the initial particles, relative to the folder of the case file: LAMMPS data, or the last \
                 frame of an extended XYZ or GSD file.",
            ),
            derived_key(
                "temperature",
                quantity(Dimension::Temperature, Range::Positive),
                "velocities of the file, otherwise particles at rest",
                "Temperature of random initial velocities.",
            ),
            key(
                "seed",
                Kind::Integer { least: 0, most: i64::MAX as u64 },
                "1",
                "Seed of random positions, of velocities and of the places of species.",
            ),
            derived_key(
                "minimise",
                Kind::Boolean,
                "true for random positions, otherwise false",
                "Whether the energy is minimised before the start, for example because particles overlap. It runs on \
                 the CPU. A run that is stopped there starts it again.",
            ),
            key(
                "minimise_force",
                number(Range::Between { least: SMALLEST_MINIMISE_FORCE, most: 1e12 }),
                "1",
                "Largest component of a force at the end of the minimisation, in units of the largest epsilon and \
                 sigma. Below 0.01 the minimisation continues with forces in f64, whose rounding errors are about 1e-11.",
            ),
            key(
                "minimise_steps",
                Kind::Integer { least: 1, most: u32::MAX as u64 },
                "20000",
                "Largest number of steps of the minimisation. The run ends with an error if they are not enough.",
            ),
            key(
                "remove_drift",
                Kind::Boolean,
                "true",
                "Whether the motion of the centre of mass is removed at the start. Otherwise it counts as temperature, \
                 also for the thermostat.",
            ),
        ]],
    )
};

fn variants() -> Vec<Variant> {
    let starts = STARTS.iter().map(|start| Variant {
        name: start.name,
        when: When::Is("start", start.name),
        meaning: start.meaning,
        keys: start.keys,
    });
    let file = Variant {
        name: FILE,
        when: When::Has("file"),
        meaning: "Positions, box and species of a file. Velocities if it has them.",
        keys: &[DIMENSIONS_KEY, WRAP_KEY],
    };
    starts.chain([file]).collect()
}

fn read_lattice(section: &Section<'_>, lattice: Lattice) -> FluidStart {
    let along = |key: &'static str| section.integer_if_given(key).map(|count| count as usize);
    let x = section.count("cells");
    let y = along("cells_y").unwrap_or(x);
    let z = if lattice.dimensions() == 3 { along("cells_z").unwrap_or(x) } else { 1 };
    let (density, sides) = (read_density(section, lattice.dimensions()), section.word("sides", SIDES));
    FluidStart::Lattice { lattice, cells: [x, y, z], density, sides }
}

fn read_density(section: &Section<'_>, dimensions: usize) -> FluidDensity {
    let (selected, reason) = match dimensions {
        2 => {
            ([Dimension::AreaDensity, Dimension::MassPerArea], "because the particles are in two dimensions")
        }
        _ => {
            ([Dimension::NumberDensity, Dimension::Density], "because the particles are in three dimensions")
        }
    };
    let [number, mass] = selected.map(|dimension| SelectedDimension { dimension, reason });
    let number = section.quantity_of_if_given("density", number);
    let mass = section.quantity_of_if_given("mass_density", mass);
    match (section.has_key("density"), section.has_key("mass_density")) {
        (true, true) => {
            let fault = " conflicts with particles.density, expected only one of them";
            section.reject("mass_density", fault);
        }
        (false, false) => {
            let message = "[particles] has neither density nor mass_density, expected one of them";
            section.report_incomplete(message);
        }
        _ => {}
    }
    match (number, mass) {
        (Some(number), _) => FluidDensity::Number(number),
        (None, Some(mass)) => FluidDensity::Mass(mass),
        (None, None) => FluidDensity::Number(1.0),
    }
}

/// Settings of `[particles]`.
pub(in crate::case) struct ParticlesSettings {
    pub start: FluidStart,
    pub temperature: Option<f64>,
    pub seed: u64,
    pub minimises: bool,
    pub minimise_force: f64,
    pub minimise_steps: u32,
    pub removes_drift: bool,
}

pub(in crate::case) fn read_particles(section: &Section<'_>) -> ParticlesSettings {
    let variants = variants();
    let file = section.text("file");
    let names: Vec<&'static str> = STARTS.iter().map(|start| start.name).collect();
    let start = section.word_if_given("start", &names);
    let mut settings = ParticlesSettings {
        start: FluidStart::File {
            path: file.clone().unwrap_or_default().into(),
            dimensions: 3,
            wraps: false,
        },
        temperature: section.quantity_if_given("temperature"),
        seed: section.integer("seed"),
        minimises: section.boolean("minimise"),
        minimise_force: section.number("minimise_force"),
        minimise_steps: section.integer("minimise_steps") as u32,
        removes_drift: section.boolean("remove_drift"),
    };
    let selected = match (section.has_key("start"), section.has_key("file")) {
        (true, true) => {
            section.reject("file", " conflicts with particles.start, expected only one of them");
            start
        }
        (false, true) => Some(STARTS.len()),
        (false, false) => {
            section.report_incomplete("[particles] has neither start nor file, expected one of them");
            None
        }
        (true, false) => start,
    };
    let Some(selected) = selected else {
        section.finish_without_variant(&variants);
        return settings;
    };
    let variant = &variants[selected];
    section.add_variant(variant);
    settings.start = match STARTS.get(selected) {
        Some(start) => (start.read)(section),
        None => FluidStart::File {
            path: file.unwrap_or_default().into(),
            dimensions: section.count("dimensions"),
            wraps: section.boolean("wrap"),
        },
    };
    if !section.has_key("minimise") {
        settings.minimises = matches!(settings.start, FluidStart::Random { .. });
    }
    section.finish_with(|key| {
        let owners = join_with_or(variants.iter().filter(|v| v.has_key(key)).map(|v| v.name));
        (!owners.is_empty()).then(|| format!("key '{key}' is for {owners}, not for {}", variant.name))
    });
    settings
}

pub(in crate::case) fn write_particles(w: &mut SectionWriter<'_>, fluid: &FluidCase) {
    let name = start_name(&fluid.start);
    variants().iter().filter(|variant| variant.name == name).for_each(|variant| w.add_variant(variant));
    match &fluid.start {
        FluidStart::File { path, .. } => {
            w.leave_out("start");
            w.text("file", &path.to_string_lossy());
        }
        _ => {
            w.text("start", name);
            w.leave_out("file");
        }
    }
    match fluid.temperature {
        Some(temperature) => w.quantity("temperature", temperature),
        None => w.leave_out("temperature"),
    }
    w.integer("seed", fluid.seed);
    w.boolean("minimise", fluid.minimises);
    w.number("minimise_force", fluid.minimise_force);
    w.integer("minimise_steps", fluid.minimise_steps.into());
    w.boolean("remove_drift", fluid.removes_drift);
    match fluid.start {
        FluidStart::Lattice { lattice, cells, density, sides } => {
            w.integer("cells", cells[0] as u64);
            w.integer("cells_y", cells[1] as u64);
            if lattice.dimensions() == 3 {
                w.integer("cells_z", cells[2] as u64);
            }
            write_density(w, density);
            w.word("sides", SIDES, &sides);
        }
        FluidStart::Droplet { n, density, vapour_density, length } => {
            w.integer("n", n as u64);
            write_density(w, density);
            w.quantity("vapour_density", vapour_density);
            w.quantity("length", length);
        }
        FluidStart::Random { n, density, dimensions, sides } => {
            w.integer("n", n as u64);
            write_density(w, density);
            w.integer("dimensions", dimensions as u64);
            w.word("sides", SIDES, &sides);
        }
        FluidStart::File { dimensions, wraps, .. } => {
            w.integer("dimensions", dimensions as u64);
            w.boolean("wrap", wraps);
        }
    }
}

fn write_density(w: &mut SectionWriter<'_>, density: FluidDensity) {
    match density {
        FluidDensity::Number(number) => {
            w.quantity("density", number);
            w.leave_out("mass_density");
        }
        FluidDensity::Mass(mass) => {
            w.leave_out("density");
            w.quantity("mass_density", mass);
        }
    }
}

fn start_name(start: &FluidStart) -> &'static str {
    match start {
        FluidStart::Lattice { lattice: Lattice::Fcc, .. } => "fcc",
        FluidStart::Lattice { lattice: Lattice::SimpleCubic, .. } => "simple-cubic",
        FluidStart::Lattice { lattice: Lattice::Square, .. } => "square",
        FluidStart::Droplet { .. } => "droplet",
        FluidStart::Random { .. } => "random",
        FluidStart::File { .. } => FILE,
    }
}
