//! `[heat]`, its edges `[heat.west]` to `[heat.north]`, and its regions `[[heat.region]]`.

use orrery_fields::heat::{CONDUCTIVITIES, HEAT_CAPACITIES};
use orrery_model::grid::{Edge, RegionShape};
use orrery_model::{Dimension, Precision};

use crate::case::declare::{
    KeySpec, Kind, Range, SectionSpec, SelectedDimension, Variant, When, Words, derived_key, integer_from,
    key, quantity, quantity_of, required_key, section_key, sections_key,
};
use crate::case::document::Entry;
use crate::case::heat::{EdgeCondition, EdgeProfile, HeatCase, NodeValues, Region, StopRange};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::values::number_value;

const PRECISIONS: &Words<Precision> = &[
    (Precision::Double.as_str(), Precision::Double, "f64"),
    (
        Precision::Single.as_str(),
        Precision::Single,
        "f32: half of the memory, and twice as fast. The state is stored as differences from a base temperature. Each \
         step rounds them by up to 6e-8 of the largest, and errors add up until the slowest mode has decayed, to \
         about 1% of it on 900² nodes between fixed edges. Snapshots have temperatures in f32",
    ),
];

const CONDUCTIVITY: Kind = quantity_of(
    &[Dimension::Diffusivity, Dimension::Conductivity],
    Range::Between { least: *CONDUCTIVITIES.start(), most: *CONDUCTIVITIES.end() },
);

const HEAT_CAPACITY: Kind = quantity(
    Dimension::HeatCapacity,
    Range::Between { least: *HEAT_CAPACITIES.start(), most: *HEAT_CAPACITIES.end() },
);

const SOURCE: Kind = quantity_of(&[Dimension::HeatingRate, Dimension::HeatSource], Range::Any);

/// Dimensions of the values of an edge: of a fixed one, and of fluxes without and with a heat
/// capacity.
const EDGE_VALUES: &[Dimension] = &[Dimension::Temperature, Dimension::TemperatureFlux, Dimension::HeatFlux];

/// Dimensions of a plate, which depend on whether the case gives its heat capacity.
#[derive(Clone, Copy)]
struct PlateDimensions {
    conductivity: SelectedDimension,
    source: SelectedDimension,
    flux: SelectedDimension,
}

impl PlateDimensions {
    fn new(has_heat_capacity: bool) -> Self {
        let [conductivity, source, flux] = match has_heat_capacity {
            true => [Dimension::Conductivity, Dimension::HeatSource, Dimension::HeatFlux],
            false => [Dimension::Diffusivity, Dimension::HeatingRate, Dimension::TemperatureFlux],
        }
        .map(|dimension| SelectedDimension {
            dimension,
            reason: match has_heat_capacity {
                true => "because the case gives a heat_capacity",
                false => "because the case gives no heat_capacity",
            },
        });
        Self { conductivity, source, flux }
    }
}

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec {
    required: Some("one with conductivity = ..."),
    ..SectionSpec::new(
        "heat",
        "Heat conduction in a plate: c u_t = div(k grad u) + s. The temperature u has any unit, for example K. With \
         the heat capacity c per volume, all values are those of tables: in SI units k in W/(m K), c in J/(m³ K), the \
         source s in W/m³ and a flux in W/m². For example, copper has k = 401 and c = 3.44e6. Without \
         `heat_capacity` c is 1: k is a diffusivity (length² per time, such as 1.17e-4 m²/s for copper), and s a \
         temperature per time. Two materials that touch need their heat capacities, because with diffusivities the \
         temperature of the interface is wrong. Materials meet midway between nodes.",
        &[&[
            key("conductivity", CONDUCTIVITY, "1", "Conductivity of all nodes."),
            derived_key(
                "conductivity_file",
                Kind::File,
                "none",
                "NPY file of shape (ny, nx) with the conductivity of each node, in place of `conductivity`.",
            ),
            key(
                "heat_capacity",
                HEAT_CAPACITY,
                "1",
                "Heat capacity per volume of all nodes: density × specific heat.",
            ),
            derived_key(
                "heat_capacity_file",
                Kind::File,
                "none",
                "NPY file of shape (ny, nx) with the heat capacity of each node, in place of `heat_capacity`.",
            ),
            key(
                "source",
                SOURCE,
                "0",
                "Heat source of all nodes: heat per volume and time, or temperature per time if the heat capacity is 1.",
            ),
            derived_key(
                "source_file",
                Kind::File,
                "none",
                "NPY file of shape (ny, nx) with the source of each node, in place of `source`.",
            ),
            key("precision", Kind::Word(&PRECISIONS), "double", "Floating-point precision."),
            key("unit", Kind::Text, "", "Unit of the temperature in tables and images, such as \"K\"."),
            key(
                "stop_range",
                quantity(Dimension::Temperature, Range::Positive).or("none", "the run ends at its end time"),
                "none",
                "Ends the run when the largest minus the smallest temperature is below this.",
            )
            .as_difference(),
            key("stop_every", integer_from(1), "100", "Number of steps between two checks of `stop_range`."),
            section_key(WEST),
            section_key(EAST),
            section_key(SOUTH),
            section_key(NORTH),
            sections_key(REGION),
        ]],
    )
};

#[derive(Clone, Copy, PartialEq)]
enum ConditionName {
    Insulated,
    Fixed,
    Flux,
    Periodic,
}

const CONDITIONS: &Words<ConditionName> = &[
    ("insulated", ConditionName::Insulated, "no heat passes the edge (Neumann condition)"),
    ("fixed", ConditionName::Fixed, "given temperatures (Dirichlet condition)"),
    (
        "flux",
        ConditionName::Flux,
        "given heat flux into the plate, per length of the edge (Neumann condition)",
    ),
    ("periodic", ConditionName::Periodic, "the opposite edge, which must be periodic too, is the neighbour"),
];

const EDGE_KEYS: &[KeySpec] = &[
    key("condition", Kind::Word(&CONDITIONS), "insulated", "Condition on the edge."),
    derived_key("value", quantity_of(EDGE_VALUES, Range::Any), "none", "Temperature or flux of all nodes."),
    derived_key(
        "profile",
        Kind::Quantities { least: 2, dimensions: EDGE_VALUES },
        "none",
        "Temperatures or fluxes at points that are spread evenly along the edge, from south to north or from west \
         to east, and linear in between.",
    ),
    derived_key("file", Kind::File, "none", "NPY file with the temperature or flux of each node."),
];

const fn edge(name: &'static str, meaning: &'static str) -> SectionSpec {
    SectionSpec::new(name, meaning, &[EDGE_KEYS])
}

const WEST: &SectionSpec =
    &edge("west", "The edge x = 0. A fixed or flux edge has one of `value`, `profile` and `file`.");
const EAST: &SectionSpec = &edge("east", "The edge with the largest x. Keys as in `[heat.west]`.");
const SOUTH: &SectionSpec = &edge("south", "The edge y = 0. Keys as in `[heat.west]`.");
const NORTH: &SectionSpec = &edge("north", "The edge with the largest y. Keys as in `[heat.west]`.");

const SHAPES: &Words<&Variant> = &[("rectangle", RECTANGLE, "sides along x and y"), ("disc", DISC, "a disc")];

const REGION: &SectionSpec = &SectionSpec {
    variants: || SHAPES.iter().map(|&(_, variant, _)| *variant).collect(),
    ..SectionSpec::new(
        "region",
        "A part of the plate with another conductivity, heat capacity or source. A later region covers an earlier one. \
         Nodes on its boundary belong to it, so its edge lies midway between the last node inside and the next one.",
        &[&[
            required_key("shape", Kind::Word(&SHAPES), "Shape of the region."),
            derived_key("conductivity", CONDUCTIVITY, "unchanged", "Conductivity in the region."),
            derived_key("heat_capacity", HEAT_CAPACITY, "unchanged", "Heat capacity in the region."),
            derived_key("source", SOURCE, "unchanged", "Heat source in the region."),
        ]],
    )
};

const fn length(range: Range) -> Kind {
    quantity(Dimension::Length, range)
}

const RECTANGLE: &Variant = &Variant {
    name: "rectangle",
    when: When::Is("shape", "rectangle"),
    meaning: "A rectangle with sides along x and y",
    keys: &[&[
        required_key("x", length(Range::Any), "West side."),
        required_key("y", length(Range::Any), "South side."),
        required_key("width", length(Range::Positive), "Extent along x."),
        required_key("height", length(Range::Positive), "Extent along y."),
    ]],
};

const DISC: &Variant = &Variant {
    name: "disc",
    when: When::Is("shape", "disc"),
    meaning: "A disc",
    keys: &[&[
        required_key("x", length(Range::Any), "x of the centre."),
        required_key("y", length(Range::Any), "y of the centre."),
        required_key("radius", length(Range::Positive), "Radius."),
    ]],
};

/// `[heat]` with its sections, while it is read.
pub(in crate::case) struct HeatSections<'a> {
    pub heat: Section<'a>,
    /// In the order of [`Edge::ALL`].
    pub edges: [Section<'a>; 4],
    pub regions: Vec<Section<'a>>,
}

impl<'a> HeatSections<'a> {
    pub fn new(heat: Section<'a>) -> Self {
        let edges = Edge::ALL.map(|edge| heat.section(edge.as_str()));
        let regions = heat.sections("region");
        Self { heat, edges, regions }
    }

    /// Returns the dimensions of the values. A heat capacity of 1 without a unit is the default.
    fn dimensions(&self) -> PlateDimensions {
        let is_other_value = |entry: &Entry| number_value(&entry.value) != Some(1.0);
        let is_given = self.heat.entry("heat_capacity").is_some_and(is_other_value)
            || self.heat.has_key("heat_capacity_file")
            || self.regions.iter().any(|region| region.has_key("heat_capacity"));
        PlateDimensions::new(is_given)
    }

    /// Reads the conditions on the edges.
    pub fn read_edges(&self) -> [EdgeCondition; 4] {
        let flux = self.dimensions().flux;
        let edges = self.edges.each_ref().map(|section| read_edge(section, flux));
        for pair in [[Edge::West, Edge::East], [Edge::South, Edge::North]] {
            let is_periodic = pair.map(|edge| edges[edge as usize] == EdgeCondition::Periodic);
            let (periodic, other) = match is_periodic {
                [true, false] => (pair[0], pair[1]),
                [false, true] => (pair[1], pair[0]),
                _ => continue,
            };
            let fault = format!(" and the {} edge is not periodic, expected both or neither", other.as_str());
            self.edges[periodic as usize].reject("condition", &fault);
        }
        edges
    }

    pub fn read_conductivity(&self) -> NodeValues {
        let value = self.heat.quantity_of("conductivity", self.dimensions().conductivity);
        self.read_nodes(value, ["conductivity", "conductivity_file"])
    }

    pub fn read_heat_capacity(&self) -> NodeValues {
        self.read_nodes(self.heat.quantity("heat_capacity"), ["heat_capacity", "heat_capacity_file"])
    }

    pub fn read_source(&self) -> NodeValues {
        let value = self.heat.quantity_of("source", self.dimensions().source);
        self.read_nodes(value, ["source", "source_file"])
    }

    /// Returns a property of the plate: the number `number` of the key `value`, or a file.
    fn read_nodes(&self, number: f64, [value, file]: [&'static str; 2]) -> NodeValues {
        let path = self.heat.text(file);
        match path {
            Some(_) if self.heat.has_key(value) => {
                self.heat.reject(file, &format!(" conflicts with heat.{value}, expected only one of them"));
                NodeValues::Uniform(number)
            }
            Some(path) => NodeValues::File(path.into()),
            None => NodeValues::Uniform(number),
        }
    }

    pub fn read_regions(&self) -> Vec<Region> {
        let dimensions = self.dimensions();
        self.regions.iter().filter_map(|section| read_region(section, dimensions)).collect()
    }

    /// Reports a label of the temperature that contradicts temperatures in kelvin.
    pub fn check_unit(&self) {
        if self.heat.has_kelvins() && !["", "K"].contains(&self.heat.label("unit").as_str()) {
            let fault =
                ", but temperatures of the case are given in K, expected \"K\", or numbers without a unit";
            self.heat.reject("unit", fault);
        }
    }

    pub fn read_precision(&self) -> Precision {
        self.heat.word("precision", PRECISIONS)
    }

    pub fn read_stop(&self) -> Option<StopRange> {
        let every = self.heat.integer("stop_every");
        self.heat.quantity_or_word("stop_range").map(|below| StopRange { below, every })
    }
}

/// Reads an edge. `flux` is the dimension of its values if it has a flux.
fn read_edge(section: &Section<'_>, flux: SelectedDimension) -> EdgeCondition {
    let condition = section.word("condition", CONDITIONS);
    let dimension = match condition {
        ConditionName::Flux => flux,
        _ => SelectedDimension {
            dimension: Dimension::Temperature,
            reason: "because the edge has condition = \"fixed\"",
        },
    };
    let value = section.quantity_of_if_given("value", dimension).map(EdgeProfile::Constant);
    let points = section.quantities_if_given("profile", dimension).map(EdgeProfile::Points);
    let file = section.text("file").map(|path| EdgeProfile::File(path.into()));
    section.finish();
    let given: Vec<&str> =
        ["value", "profile", "file"].into_iter().filter(|key| section.has_key(key)).collect();
    let profile = value.or(points).or(file).unwrap_or(EdgeProfile::Constant(0.0));
    let needs_values = matches!(condition, ConditionName::Fixed | ConditionName::Flux);
    match (needs_values, &given[..]) {
        (true, [_]) | (false, []) => {}
        (true, []) => section.report_missing("value", "a number, or one of the keys profile and file"),
        (true, [first, second, ..]) => {
            let path = section.path();
            section.reject(second, &format!(" conflicts with {path}.{first}, expected only one of them"));
        }
        (false, [key, ..]) if section.is_set_after(key, "condition") => {}
        (false, [key, ..]) => {
            section.reject(key, " applies only to condition = \"fixed\" or \"flux\"");
        }
    }
    match condition {
        ConditionName::Insulated => EdgeCondition::Insulated,
        ConditionName::Fixed => EdgeCondition::Fixed(profile),
        ConditionName::Flux => EdgeCondition::Flux(profile),
        ConditionName::Periodic => EdgeCondition::Periodic,
    }
}

/// Keys of a region that change the plate, one or more of which a region has.
const REGION_PROPERTIES: [&str; 3] = ["conductivity", "heat_capacity", "source"];

fn read_region(section: &Section<'_>, dimensions: PlateDimensions) -> Option<Region> {
    let variants = (REGION.variants)();
    let Some(selected) = section.word_index("shape", SHAPES) else {
        section.finish_without_variant(&variants);
        return None;
    };
    section.add_variant(&variants[selected]);
    let position = ["x", "y"].map(|key| section.quantity(key));
    let shape = if variants[selected].name == RECTANGLE.name {
        let size = ["width", "height"].map(|key| section.quantity(key));
        RegionShape::Rectangle { corner: position, size }
    } else {
        RegionShape::Disc { centre: position, radius: section.quantity("radius") }
    };
    let conductivity = section.quantity_of_if_given("conductivity", dimensions.conductivity);
    let heat_capacity = section.quantity_if_given("heat_capacity");
    let source = section.quantity_of_if_given("source", dimensions.source);
    section.finish_with(|key| {
        let owner = variants.iter().find(|variant| variant.has_key(key))?;
        Some(format!("key '{key}' is for a {}, not for a {}", owner.name, variants[selected].name))
    });
    if !REGION_PROPERTIES.iter().any(|property| section.has_key(property)) {
        let path = section.path();
        section.report_incomplete(&format!(
            "{path} has neither conductivity, heat_capacity nor source, expected at least one of them"
        ));
    }
    Some(Region { shape, conductivity, heat_capacity, source })
}

pub(in crate::case) fn write_heat(w: &mut SectionWriter<'_>, heat: &HeatCase) {
    write_nodes(w, ["conductivity", "conductivity_file"], &heat.conductivity);
    write_nodes(w, ["heat_capacity", "heat_capacity_file"], &heat.heat_capacity);
    write_nodes(w, ["source", "source_file"], &heat.source);
    w.word("precision", PRECISIONS, &heat.precision);
    w.text("unit", &heat.unit);
    w.quantity_or_word("stop_range", heat.stop.map(|stop| stop.below));
    match heat.stop {
        Some(stop) => w.integer("stop_every", stop.every),
        None => w.leave_out("stop_every"),
    }
    for edge in Edge::ALL {
        w.section(edge.as_str(), |w| write_edge(w, heat.edge(edge)));
    }
    w.sections("region", &heat.regions, write_region);
}

fn write_nodes(w: &mut SectionWriter<'_>, [value, file]: [&'static str; 2], nodes: &NodeValues) {
    match nodes {
        NodeValues::Uniform(number) => {
            w.quantity(value, *number);
            w.leave_out(file);
        }
        NodeValues::File(path) => {
            w.leave_out(value);
            w.text(file, &path.to_string_lossy());
        }
    }
}

fn write_edge(w: &mut SectionWriter<'_>, edge: &EdgeCondition) {
    let (condition, profile) = match edge {
        EdgeCondition::Insulated => (ConditionName::Insulated, None),
        EdgeCondition::Fixed(profile) => (ConditionName::Fixed, Some(profile)),
        EdgeCondition::Flux(profile) => (ConditionName::Flux, Some(profile)),
        EdgeCondition::Periodic => (ConditionName::Periodic, None),
    };
    w.word("condition", CONDITIONS, &condition);
    let written = match profile {
        Some(EdgeProfile::Constant(value)) => {
            w.quantity("value", *value);
            "value"
        }
        Some(EdgeProfile::Points(points)) => {
            w.quantities("profile", points);
            "profile"
        }
        Some(EdgeProfile::File(path)) => {
            w.text("file", &path.to_string_lossy());
            "file"
        }
        None => "",
    };
    ["value", "profile", "file"].into_iter().filter(|key| *key != written).for_each(|key| w.leave_out(key));
}

fn write_region(w: &mut SectionWriter<'_>, region: &Region) {
    let (variant, position) = match region.shape {
        RegionShape::Rectangle { corner, .. } => (RECTANGLE, corner),
        RegionShape::Disc { centre, .. } => (DISC, centre),
    };
    w.add_variant(variant);
    w.text("shape", variant.name);
    w.quantity("x", position[0]);
    w.quantity("y", position[1]);
    match region.shape {
        RegionShape::Rectangle { size, .. } => {
            w.quantity("width", size[0]);
            w.quantity("height", size[1]);
        }
        RegionShape::Disc { radius, .. } => w.quantity("radius", radius),
    }
    let values = [region.conductivity, region.heat_capacity, region.source];
    for (key, value) in REGION_PROPERTIES.into_iter().zip(values) {
        match value {
            Some(value) => w.quantity(key, value),
            None => w.leave_out(key),
        }
    }
}
