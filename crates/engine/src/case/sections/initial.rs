//! `[initial]`: the initial state of a field, as a formula, a file or an image.

use orrery_model::Dimension;
use orrery_model::grid::{InitialField, SpotShape};

use crate::case::declare::{
    KeySpec, KeyTables, Kind, Range, SectionSpec, Variant, When, Word, WordList, Words, derived_key, key,
    quantity,
};
use crate::case::heat::InitialState;
use crate::case::reader::{Section, join_with_or};
use crate::case::resolved::SectionWriter;

/// A formula of `[initial]`: its keys and its reader.
struct Formula {
    name: &'static str,
    /// Meaning, without a period.
    meaning: &'static str,
    keys: KeyTables,
    read: fn(&Section<'_>) -> InitialField,
}

const SPOT_SHAPES: &Words<SpotShape> = &[
    ("gaussian", SpotShape::Gaussian, "the excess is exp(-d²/2 radius²) at distance d from the centre"),
    ("disc", SpotShape::Disc, "the same value within the radius"),
];

const FORMULAS: &[Formula] = &[
    Formula {
        name: "uniform",
        meaning: "the same value everywhere",
        keys: &[&[key("value", TEMPERATURE, "0", "Value of all nodes.")]],
        read: |section| InitialField::Uniform { value: section.quantity("value") },
    },
    Formula {
        name: "sine-mode",
        meaning: "amplitude sin(m π x/width) sin(n π y/height)",
        keys: &[&[
            key("m", COUNT, "1", "Half waves along x. Even between periodic edges."),
            key("n", COUNT, "1", "Half waves along y. Even between periodic edges."),
            key("amplitude", TEMPERATURE, "1", "Largest value."),
        ]],
        read: |section| InitialField::SineMode {
            m: section.small_integer("m"),
            n: section.small_integer("n"),
            amplitude: section.quantity("amplitude"),
        },
    },
    Formula {
        name: "hot-spot",
        meaning: "a hot region in a plate of uniform temperature",
        keys: &[&[
            key("shape", Kind::Word(&SPOT_SHAPES), "gaussian", "Shape of the region."),
            derived_key("x", LENGTH, "half of the width of the grid", "x of the centre of the spot."),
            derived_key("y", LENGTH, "half of the height of the grid", "y of the centre of the spot."),
            derived_key(
                "radius",
                quantity(Dimension::Length, Range::Between { least: 1e-100, most: 1e100 }),
                "a tenth of the smaller extent of the grid",
                "Radius of a disc, or standard deviation of a Gaussian.",
            ),
            key("value", TEMPERATURE, "1", "Value at the centre."),
            key("background", TEMPERATURE, "0", "Value far away."),
        ]],
        read: |section| InitialField::HotSpot {
            shape: section.word("shape", SPOT_SHAPES),
            centre: ["x", "y"].map(|key| section.quantity_if_given(key).unwrap_or(f64::NAN)),
            radius: section.quantity_if_given("radius").unwrap_or(f64::NAN),
            value: section.quantity("value"),
            background: section.quantity("background"),
        },
    },
    Formula {
        name: "checkerboard",
        meaning: "squares of two values",
        keys: &[&[
            key("columns", COUNT, "8", "Squares along x."),
            key("rows", COUNT, "8", "Squares along y."),
            key("first", TEMPERATURE, "0", "Value of the south-west square."),
            key("second", TEMPERATURE, "1", "Value of its neighbours."),
        ]],
        read: |section| InitialField::Checkerboard {
            columns: section.small_integer("columns"),
            rows: section.small_integer("rows"),
            values: ["first", "second"].map(|key| section.quantity(key)),
        },
    },
];

const COUNT: Kind = Kind::Integer { least: 1, most: 1_000_000 };
const LENGTH: Kind = quantity(Dimension::Length, Range::Any);
const TEMPERATURE: Kind = quantity(Dimension::Temperature, Range::Any);

impl WordList for &[Formula] {
    fn words(&self) -> Vec<Word> {
        self.iter().map(|formula| Word { word: formula.name, meaning: formula.meaning }).collect()
    }
}

const ONE_OF: &str = "none: give `state`, `file` or `image`";
/// Name of the variant with an NPY file, for messages.
const FILE: &str = "a file";
/// Name of the variant with an image, for messages.
const IMAGE: &str = "an image";

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec {
    required: Some("one with state = \"...\", file = \"...\" or image = \"...\""),
    variants,
    ..SectionSpec::new(
        "initial",
        "The initial state of a field: a formula, an NPY file or an image. Nodes on fixed edges have the \
         temperatures of the edges.",
        &[&[
            derived_key("state", Kind::Word(&FORMULAS), ONE_OF, "Formula."),
            derived_key(
                "file",
                Kind::File,
                ONE_OF,
                "NPY file of shape (ny, nx), relative to the folder of the case file. The first row is the south edge.",
            ),
            derived_key(
                "image",
                Kind::File,
                ONE_OF,
                "PNG image with nx times ny pixels, relative to the folder of the case file. Its top is the north edge.",
            ),
        ]],
    )
};

const IMAGE_KEYS: &[KeySpec] =
    &[key("low", TEMPERATURE, "0", "Value of black."), key("high", TEMPERATURE, "1", "Value of white.")];

fn variants() -> Vec<Variant> {
    let formulas = FORMULAS.iter().map(|formula| Variant {
        name: formula.name,
        when: When::Is("state", formula.name),
        meaning: formula.meaning,
        keys: formula.keys,
    });
    let file =
        Variant { name: FILE, when: When::Has("file"), meaning: "The values of an NPY file", keys: &[] };
    let image = Variant {
        name: IMAGE,
        when: When::Has("image"),
        meaning: "The grey values of a PNG image",
        keys: &[IMAGE_KEYS],
    };
    formulas.chain([file, image]).collect()
}

/// Reads `[initial]`. `extents` are those of the grid, and `is_periodic` is that of x and y.
pub(in crate::case) fn read_initial(
    section: &Section<'_>,
    extents: [f64; 2],
    is_periodic: [bool; 2],
) -> InitialState {
    let variants = variants();
    let names: Vec<&'static str> = FORMULAS.iter().map(|formula| formula.name).collect();
    let (file, image) = (section.text("file"), section.text("image"));
    let state = section.word_if_given("state", &names);
    let given: Vec<&str> =
        ["state", "file", "image"].into_iter().filter(|key| section.has_key(key)).collect();
    let selected = match &given[..] {
        [] => {
            section.report_incomplete("[initial] has none of state, file and image, expected one of them");
            None
        }
        ["state"] => state,
        ["file"] => Some(FORMULAS.len()),
        ["image"] => Some(FORMULAS.len() + 1),
        [first, second, ..] => {
            section.reject(second, &format!(" conflicts with initial.{first}, expected only one of them"));
            None
        }
        [_] => None,
    };
    let Some(selected) = selected else {
        section.finish_without_variant(&variants);
        return InitialState::Formula(InitialField::Uniform { value: 0.0 });
    };
    let variant = &variants[selected];
    section.add_variant(variant);
    let initial = match (FORMULAS.get(selected), variant.name) {
        (Some(formula), _) => InitialState::Formula(with_defaults((formula.read)(section), extents)),
        (None, IMAGE) => InitialState::Image {
            path: image.unwrap_or_default().into(),
            low: section.quantity("low"),
            high: section.quantity("high"),
        },
        (None, _) => InitialState::File(file.unwrap_or_default().into()),
    };
    section.finish_with(|key| {
        let owners = join_with_or(variants.iter().filter(|v| v.has_key(key)).map(|v| v.name));
        (!owners.is_empty()).then(|| format!("key '{key}' is for {owners}, not for {}", variant.name))
    });
    if let InitialState::Formula(InitialField::SineMode { m, n, .. }) = initial {
        let of_axes = [("m", m), ("n", n)].into_iter().zip(is_periodic);
        for ((key, half_waves), _) in of_axes.filter(|(_, is_periodic)| *is_periodic) {
            if half_waves % 2 == 1 {
                let fault = " is odd, expected an even number of half waves between periodic edges";
                section.reject(key, fault);
            }
        }
    }
    initial
}

/// Returns the formula with the defaults that depend on the grid.
fn with_defaults(formula: InitialField, extents: [f64; 2]) -> InitialField {
    let InitialField::HotSpot { shape, centre, radius, value, background } = formula else { return formula };
    let or = |x: f64, default: f64| if x.is_nan() { default } else { x };
    InitialField::HotSpot {
        shape,
        centre: [or(centre[0], 0.5 * extents[0]), or(centre[1], 0.5 * extents[1])],
        radius: or(radius, 0.1 * extents[0].min(extents[1])),
        value,
        background,
    }
}

pub(in crate::case) fn write_initial(w: &mut SectionWriter<'_>, initial: &InitialState) {
    let name = match initial {
        InitialState::Formula(formula) => formula_name(formula),
        InitialState::File(_) => FILE,
        InitialState::Image { .. } => IMAGE,
    };
    variants().iter().filter(|variant| variant.name == name).for_each(|variant| w.add_variant(variant));
    match initial {
        InitialState::Formula(formula) => {
            w.text("state", name);
            w.leave_out("file");
            w.leave_out("image");
            write_formula(w, formula);
        }
        InitialState::File(path) => {
            w.leave_out("state");
            w.text("file", &path.to_string_lossy());
            w.leave_out("image");
        }
        InitialState::Image { path, low, high } => {
            w.leave_out("state");
            w.leave_out("file");
            w.text("image", &path.to_string_lossy());
            w.quantity("low", *low);
            w.quantity("high", *high);
        }
    }
}

fn formula_name(formula: &InitialField) -> &'static str {
    match formula {
        InitialField::Uniform { .. } => "uniform",
        InitialField::SineMode { .. } => "sine-mode",
        InitialField::HotSpot { .. } => "hot-spot",
        InitialField::Checkerboard { .. } => "checkerboard",
    }
}

fn write_formula(w: &mut SectionWriter<'_>, formula: &InitialField) {
    match *formula {
        InitialField::Uniform { value } => w.quantity("value", value),
        InitialField::SineMode { m, n, amplitude } => {
            w.integer("m", m.into());
            w.integer("n", n.into());
            w.quantity("amplitude", amplitude);
        }
        InitialField::HotSpot { shape, centre, radius, value, background } => {
            w.word("shape", SPOT_SHAPES, &shape);
            w.quantity("x", centre[0]);
            w.quantity("y", centre[1]);
            w.quantity("radius", radius);
            w.quantity("value", value);
            w.quantity("background", background);
        }
        InitialField::Checkerboard { columns, rows, values } => {
            w.integer("columns", columns.into());
            w.integer("rows", rows.into());
            w.quantity("first", values[0]);
            w.quantity("second", values[1]);
        }
    }
}
