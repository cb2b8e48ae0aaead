//! `[wave]`, its sources `[[wave.source]]`, receivers `[[wave.receivers]]`, layers `[[wave.layer]]`
//! and regions `[[wave.region]]`.

use orrery_fields::wave::{SpaceOrder, TimeDispersion};
use orrery_model::wave::{
    AbsorbingLayer, Side, SideCondition, Sides, VelocityLayer, VelocityModel, WaveGrid,
};
use orrery_model::{Dimension, Precision, short_number};

use crate::case::FieldView;
use crate::case::declare::{
    KeySpec, Kind, Range, SectionSpec, Variant, When, Words, derived_key, integer_from, key, number,
    quantity, required_key, section_key, sections_key,
};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::wave::{
    ReceiverLine, SliceView, SnapshotWindow, SourceCase, VelocityRegion, VelocityShape, VelocitySource,
    WaveCase, WaveletSource,
};

const PRECISIONS: &Words<Precision> = &[
    (Precision::Single.as_str(), Precision::Single, "f32"),
    (Precision::Double.as_str(), Precision::Double, "f64: twice the memory, and half as fast"),
];

const TIME_DISPERSIONS: &Words<TimeDispersion> = &[
    (
        "corrected",
        TimeDispersion::Corrected,
        "wavelets are changed before the run and traces after it, so that traces have no error in time (Stork 2013; \
         Koene et al. 2018). The last 2.5 N^(1/3) of N samples need samples after the end, which are predicted, and may \
         be wrong by some percent of the trace. Images, snapshots and `conserved.csv` are not corrected",
    ),
    (
        "raw",
        TimeDispersion::Raw,
        "waves are those of the scheme, which are early by (π f dt)²/6 of their travel time",
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum ConditionName {
    Absorbing,
    Free,
    Rigid,
}

const CONDITIONS: &Words<ConditionName> = &[
    ("absorbing", ConditionName::Absorbing, "waves leave the grid through a layer (convolutional PML)"),
    ("free", ConditionName::Free, "free surface: u = 0, waves are reflected with the opposite sign"),
    ("rigid", ConditionName::Rigid, "waves are reflected with the same sign"),
];

const fn side_key(name: &'static str, meaning: &'static str) -> KeySpec {
    key(name, Kind::Word(&CONDITIONS), "absorbing", meaning)
}

const VELOCITY: Kind = quantity(Dimension::Velocity, Range::Positive);
const LENGTH: Kind = quantity(Dimension::Length, Range::Any);

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec {
    required: Some("one with velocity = ..."),
    ..SectionSpec::new(
        "wave",
        "Acoustic waves: u_tt = c² (laplacian(u) + Σ w(t) δ(x - x_s)), from rest, with the wavelet w of each source at \
         x_s. So a source is scaled by c², and in a uniform medium of three dimensions u = w(t - r/c)/(4π r) at the \
         distance r from it. Depth is the coordinate of the last axis, y in two dimensions and z in three, and points \
         downwards. The velocity of a node is that at its position, so an interface lies midway between two nodes.",
        &[&[
            key(
                "order",
                Kind::Integer { least: 2, most: 8 },
                "8",
                "Order of the scheme in space: 2, 4, 6 or 8. It is 2 in time.",
            ),
            key(
                "time_dispersion",
                Kind::Word(&TIME_DISPERSIONS),
                "corrected",
                "Treatment of the error of order 2 in time. With order 2 in space, both errors have opposite signs, and \
                 \"raw\" can be better. Runs that were started by a version without this key stay \
                 raw when they are resumed.",
            ),
            derived_key(
                "velocity",
                VELOCITY,
                "none: give `velocity`, `velocity_file` or layers",
                "Velocity of all nodes, or at depth 0 with `velocity_gradient`.",
            ),
            key(
                "velocity_gradient",
                quantity(Dimension::VelocityGradient, Range::Any),
                "0",
                "Change of the velocity per depth, such as \"0.6 1/s\".",
            ),
            derived_key(
                "velocity_file",
                Kind::File,
                "none",
                "NPY file with the velocity of each node: shape (ny, nx), or (nz, ny, nx) in three dimensions. Or a \
                 SEG-Y file with one trace per column of nodes along the depth, whose spacings must be those of the grid: \
                 a sample interval of 5000 µs is 5 m.",
            ),
            key("precision", Kind::Word(&PRECISIONS), "single", "Floating-point precision."),
            key("unit", Kind::Text, "", "Unit of the field in tables and images, such as \"Pa\"."),
            side_key("x_min", "Condition on the side x = 0."),
            side_key("x_max", "Condition on the side with the largest x."),
            side_key("y_min", "Condition on the side y = 0, which is the surface in two dimensions."),
            side_key("y_max", "Condition on the side with the largest y."),
            side_key("z_min", "Condition on the side z = 0, which is the surface in three dimensions."),
            side_key("z_max", "Condition on the side with the largest z."),
            key(
                "layer_nodes",
                Kind::Integer { least: 1, most: 1000 },
                "20",
                "Thickness of the absorbing layers, in nodes. They are within the grid. With 6 nodes traces are wrong by \
                 about 0.7%, with 3 by 10%.",
            ),
            derived_key(
                "shot",
                integer_from(1),
                "the only shot; `orrery run` computes several shots one after another",
                "Number of the shot that is computed: that of its sources.",
            ),
            section_key(SNAPSHOT),
            sections_key(SOURCE),
            sections_key(RECEIVERS),
            sections_key(LAYER),
            sections_key(REGION),
        ]],
    )
};

const POSITION: &[KeySpec] = &[
    key("x", LENGTH, "0", "x of the position."),
    key("y", LENGTH, "0", "y of the position."),
    key("z", LENGTH, "0", "z of the position, not used in two dimensions."),
];

const SOURCE: &SectionSpec = &SectionSpec {
    variants: source_variants,
    ..SectionSpec::new(
        "source",
        "A point source of a shot at any position in the grid. Between nodes it acts on 8 nodes per axis, with the weights \
         of a sinc function in a Kaiser window (Hicks 2002), whose error is below 0.15% from 4 points per wavelength \
         on. On a node it acts on that node alone. Weights beyond a free or rigid side are those of its image, and \
         beyond an absorbing one they are dropped.",
        &[
            POSITION,
            &[
                key("shot", integer_from(1), "1", "Number of the shot, from 1."),
                key(
                    "amplitude",
                    number(Range::Any),
                    "1",
                    "Maximum of a Ricker wavelet, amplitude of a sine, or factor of the samples.",
                ),
                derived_key(
                    "frequency",
                    quantity(Dimension::Frequency, Range::Positive),
                    "none: give `frequency` or `file`",
                    "Frequency of a sine, or of a Ricker wavelet, at which its spectrum is largest: waves per time, \
                     such as \"15 Hz\".",
                ),
                derived_key(
                    "file",
                    Kind::File,
                    "none: give `frequency` or `file`",
                    "NPY file with the samples of the wavelet.",
                ),
            ],
        ],
    )
};

#[derive(Clone, Copy, PartialEq)]
enum WaveletName {
    Ricker,
    Sine,
}

const WAVELETS: &Words<WaveletName> = &[
    ("ricker", WaveletName::Ricker, "a pulse, the second derivative of a Gaussian"),
    ("sine", WaveletName::Sine, "a continuous wave, which grows during its first two periods"),
];

const FREQUENCY_KEYS: &[KeySpec] = &[
    key("wavelet", Kind::Word(&WAVELETS), "ricker", "Form of the wavelet."),
    derived_key(
        "delay",
        quantity(Dimension::Time, Range::NotNegative),
        "1.5 / `frequency`, or 0 for a sine",
        "Time of the maximum of a Ricker wavelet, or of the start of a sine.",
    ),
];
const SAMPLED_KEYS: &[KeySpec] =
    &[required_key("interval", quantity(Dimension::Time, Range::Positive), "Time between two samples.")];

fn source_variants() -> Vec<Variant> {
    vec![
        Variant {
            name: "a frequency",
            when: When::Has("frequency"),
            meaning: "A wavelet with a frequency",
            keys: &[FREQUENCY_KEYS],
        },
        Variant {
            name: "a file",
            when: When::Has("file"),
            meaning: "A sampled wavelet, linear between two samples",
            keys: &[SAMPLED_KEYS],
        },
    ]
}

const WINDOW_END: Kind = LENGTH.or("end", "the last node");

const SNAPSHOT: &SectionSpec = &SectionSpec::new(
    "snapshot",
    "Nodes in snapshots. Images and seismograms do not depend on them.",
    &[&[
        key(
            "stride",
            Kind::Integer { least: 1, most: 10_000 },
            "1",
            "Every stride-th node along each axis is written.",
        ),
        key("x_from", LENGTH, "0", "Smallest x."),
        key("x_to", WINDOW_END, "end", "Largest x."),
        key("y_from", LENGTH, "0", "Smallest y."),
        key("y_to", WINDOW_END, "end", "Largest y."),
        key("z_from", LENGTH, "0", "Smallest z, not used in two dimensions."),
        key("z_to", WINDOW_END, "end", "Largest z, not used in two dimensions."),
    ]],
);
const WINDOW_KEYS: [[&str; 2]; 3] = [["x_from", "x_to"], ["y_from", "y_to"], ["z_from", "z_to"]];

const RECEIVERS: &SectionSpec = &SectionSpec::new(
    "receivers",
    "A line of receivers, at any position in the grid. `x`, `y` and `z` are those of the first one. Values between \
     nodes are interpolated with the weights of `[[wave.source]]`.",
    &[
        POSITION,
        &[
            key("count", Kind::Integer { least: 1, most: 10_000_000 }, "1", "Number of receivers."),
            key("dx", LENGTH, "0", "Distance along x from one receiver to the next."),
            key("dy", LENGTH, "0", "Distance along y from one receiver to the next."),
            key("dz", LENGTH, "0", "Distance along z from one receiver to the next."),
        ],
    ],
);

const LAYER: &SectionSpec = &SectionSpec::new(
    "layer",
    "A layer of constant velocity, which ends where the next one starts. The first one starts at depth 0. A node at \
     depth `top` belongs to the layer.",
    &[&[
        required_key(
            "top",
            quantity(Dimension::Length, Range::NotNegative),
            "Depth at which the layer starts.",
        ),
        required_key("velocity", VELOCITY, "Velocity of the layer."),
    ]],
);

const REGION_SHAPES: &Words<&Variant> = &[
    ("box", BOX, "a box with sides along the axes, a rectangle in two dimensions"),
    ("ball", BALL, "a ball, a disc in two dimensions"),
];

const REGION: &SectionSpec = &SectionSpec {
    variants: || REGION_SHAPES.iter().map(|&(_, variant, _)| *variant).collect(),
    ..SectionSpec::new(
        "region",
        "A part of the medium with another velocity. A later region covers an earlier one. Nodes on its surface belong to \
         it, so its edge lies midway between the last node inside and the next one.",
        &[&[
            required_key("shape", Kind::Word(&REGION_SHAPES), "Shape of the region."),
            required_key(
                "velocity",
                VELOCITY.or("wall", "reflects waves: they are 1000 times slower than elsewhere"),
                "Velocity in the region.",
            ),
        ]],
    )
};

const SIZE: Kind = quantity(Dimension::Length, Range::Positive);

const BOX: &Variant = &Variant {
    name: "box",
    when: When::Is("shape", "box"),
    meaning: "A box. `x`, `y` and `z` are its smallest coordinates",
    keys: &[
        POSITION,
        &[
            required_key("width", SIZE, "Extent along x."),
            required_key("height", SIZE, "Extent along y."),
            key("depth", SIZE, "1", "Extent along z, not used in two dimensions."),
        ],
    ],
};

const BALL: &Variant = &Variant {
    name: "ball",
    when: When::Is("shape", "ball"),
    meaning: "A ball. `x`, `y` and `z` are its centre",
    keys: &[POSITION, &[required_key("radius", SIZE, "Radius.")]],
};

/// `[wave]` with its lists, while it is read.
pub(in crate::case) struct WaveSections<'a> {
    pub wave: Section<'a>,
    pub sources: Vec<Section<'a>>,
    pub receivers: Vec<Section<'a>>,
    layers: Vec<Section<'a>>,
    regions: Vec<Section<'a>>,
    snapshot: Section<'a>,
}

impl<'a> WaveSections<'a> {
    pub fn new(wave: Section<'a>) -> Self {
        Self {
            sources: wave.sections("source"),
            receivers: wave.sections("receivers"),
            layers: wave.sections("layer"),
            regions: wave.sections("region"),
            snapshot: wave.section("snapshot"),
            wave,
        }
    }

    pub fn read(&self, grid: WaveGrid, (view, slice): (FieldView, SliceView)) -> WaveCase {
        let wave = &self.wave;
        let mut case = WaveCase {
            grid,
            sides: self.read_sides(),
            order: self.read_order(),
            time_dispersion: Some(wave.word("time_dispersion", TIME_DISPERSIONS)),
            velocity: self.read_velocity(),
            regions: self.regions.iter().filter_map(read_region).collect(),
            shot: wave.integer_if_given("shot"),
            sources: self.sources.iter().map(read_source).collect(),
            receivers: self.receivers.iter().map(read_receivers).collect(),
            precision: wave.word("precision", PRECISIONS),
            unit: wave.label("unit"),
            view,
            slice,
            snapshot: self.read_snapshot(&grid),
        };
        wave.finish();
        if wave.has_key("receivers") && self.receivers.is_empty() {
            wave.reject("receivers", " is empty, expected at least one line of receivers, or no such key");
        }
        if let [shot] = case.shots()[..] {
            case.shot = case.shot.or(Some(shot));
        }
        if case.shot_sources().next().is_none() {
            match self.sources.is_empty() {
                true => wave.report_incomplete("[wave] has no [[wave.source]], expected at least one"),
                false => wave.reject("shot", " has no source, expected the shot of a [[wave.source]]"),
            }
        }
        case
    }

    fn read_snapshot(&self, grid: &WaveGrid) -> SnapshotWindow {
        let section = &self.snapshot;
        let window = SnapshotWindow {
            stride: section.integer("stride"),
            from: WINDOW_KEYS.map(|[from, _]| section.quantity(from)),
            to: WINDOW_KEYS.map(|[_, to]| section.quantity_or_word(to)),
        };
        section.finish();
        if let Err(axis) = window.nodes(grid) {
            let [from, to] = WINDOW_KEYS[axis];
            let key = if section.has_key(from) { from } else { to };
            let extent = short_number(grid.extent(axis));
            section.reject(key, &format!(" leaves no node, expected a range within 0 to {extent}"));
        }
        window
    }

    fn read_order(&self) -> SpaceOrder {
        SpaceOrder::from_number(self.wave.small_integer("order")).unwrap_or_else(|_| {
            self.wave.reject("order", " is odd, expected 2, 4, 6 or 8");
            SpaceOrder::Eighth
        })
    }

    fn read_sides(&self) -> Sides {
        let layer = AbsorbingLayer::new(self.wave.count("layer_nodes"));
        let [x_min, x_max, y_min, y_max, z_min, z_max] =
            Side::ALL.map(|side| match self.wave.word(side.as_str(), CONDITIONS) {
                ConditionName::Absorbing => SideCondition::Absorbing(layer),
                ConditionName::Free => SideCondition::Free,
                ConditionName::Rigid => SideCondition::Rigid,
            });
        Sides { x_min, x_max, y_min, y_max, z_min, z_max }
    }

    fn read_velocity(&self) -> VelocitySource {
        let wave = &self.wave;
        let (constant, file) = (wave.quantity_if_given("velocity"), wave.text("velocity_file"));
        let per_depth = wave.quantity("velocity_gradient");
        let layers: Vec<_> = self.layers.iter().map(read_layer).collect();
        let given: Vec<&str> =
            ["velocity", "velocity_file", "layer"].into_iter().filter(|key| wave.has_key(key)).collect();
        match given[..] {
            [] => wave.report_incomplete(
                "[wave] has no velocity, expected one of velocity, velocity_file and [[wave.layer]]",
            ),
            [first, second, ..] => {
                wave.reject(second, &format!(" conflicts with wave.{first}, expected only one of them"));
            }
            _ => {}
        }
        if per_depth != 0.0 && constant.is_none() {
            wave.reject("velocity_gradient", " applies only to a case with wave.velocity");
        }
        match (constant, file) {
            (Some(at_surface), _) if per_depth != 0.0 => {
                VelocitySource::Model(VelocityModel::Gradient { at_surface, per_depth })
            }
            (Some(velocity), _) => VelocitySource::Model(VelocityModel::Constant { velocity }),
            (None, Some(path)) => VelocitySource::File(path.into()),
            (None, None) if layers.is_empty() => {
                VelocitySource::Model(VelocityModel::Constant { velocity: 1.0 })
            }
            (None, None) => VelocitySource::Model(VelocityModel::Layered { layers }),
        }
    }
}

fn read_position(section: &Section<'_>) -> [f64; 3] {
    ["x", "y", "z"].map(|key| section.quantity(key))
}

fn read_layer(section: &Section<'_>) -> VelocityLayer {
    let layer = VelocityLayer { top: section.quantity("top"), velocity: section.quantity("velocity") };
    section.finish();
    layer
}

fn read_source(section: &Section<'_>) -> SourceCase {
    let variants = source_variants();
    let (position, shot) = (read_position(section), section.integer("shot"));
    let amplitude = section.number("amplitude");
    let (frequency, file) = (section.quantity_if_given("frequency"), section.text("file"));
    let ricker = |delay: Option<f64>| {
        let frequency = frequency.unwrap_or(1.0);
        WaveletSource::Ricker { frequency, delay: delay.unwrap_or(1.5 / frequency), amplitude }
    };
    let selected = match (section.has_key("frequency"), section.has_key("file")) {
        (true, false) => 0,
        (false, true) => 1,
        (true, true) => {
            let path = section.path();
            section.reject("file", &format!(" conflicts with {path}.frequency, expected only one of them"));
            0
        }
        (false, false) => {
            let path = section.path();
            section
                .report_incomplete(&format!("{path} has neither frequency nor file, expected one of them"));
            section.finish_without_variant(&variants);
            return SourceCase { shot, position, wavelet: ricker(None) };
        }
    };
    section.add_variant(&variants[selected]);
    let wavelet = match selected {
        0 => {
            let delay = section.quantity_if_given("delay");
            match section.word("wavelet", WAVELETS) {
                WaveletName::Ricker => ricker(delay),
                WaveletName::Sine => WaveletSource::Sine {
                    frequency: frequency.unwrap_or(1.0),
                    delay: delay.unwrap_or(0.0),
                    amplitude,
                },
            }
        }
        _ => WaveletSource::File {
            path: file.unwrap_or_default().into(),
            interval: section.quantity("interval"),
            amplitude,
        },
    };
    section.finish_with(|key| {
        let owner = variants.iter().find(|variant| variant.has_key(key))?;
        Some(format!("key '{key}' is for {}, not for {}", owner.name, variants[selected].name))
    });
    SourceCase { shot, position, wavelet }
}

fn read_receivers(section: &Section<'_>) -> ReceiverLine {
    let line = ReceiverLine {
        first: read_position(section),
        spacing: ["dx", "dy", "dz"].map(|key| section.quantity(key)),
        count: section.integer("count"),
    };
    section.finish();
    line
}

fn read_region(section: &Section<'_>) -> Option<VelocityRegion> {
    let variants = (REGION.variants)();
    let Some(selected) = section.word_index("shape", REGION_SHAPES) else {
        section.finish_without_variant(&variants);
        return None;
    };
    section.add_variant(&variants[selected]);
    let position = read_position(section);
    let shape = if variants[selected].name == BOX.name {
        let size = ["width", "height", "depth"].map(|key| section.quantity(key));
        VelocityShape::Box { corner: position, size }
    } else {
        VelocityShape::Ball { centre: position, radius: section.quantity("radius") }
    };
    let velocity = section.quantity_or_word("velocity");
    section.finish_with(|key| {
        let owner = variants.iter().find(|variant| variant.has_key(key))?;
        Some(format!("key '{key}' is for a {}, not for a {}", owner.name, variants[selected].name))
    });
    Some(VelocityRegion { shape, velocity })
}

pub(in crate::case) fn write_wave(w: &mut SectionWriter<'_>, wave: &WaveCase) {
    w.integer("order", wave.order.number().into());
    match &wave.time_dispersion {
        Some(time_dispersion) => w.word("time_dispersion", TIME_DISPERSIONS, time_dispersion),
        None => w.leave_out("time_dispersion"),
    }
    write_velocity(w, &wave.velocity);
    w.word("precision", PRECISIONS, &wave.precision);
    w.text("unit", &wave.unit);
    for side in Side::ALL {
        let condition = match wave.sides.on(side) {
            SideCondition::Absorbing(_) => ConditionName::Absorbing,
            SideCondition::Free => ConditionName::Free,
            SideCondition::Rigid => ConditionName::Rigid,
        };
        w.word(side.as_str(), CONDITIONS, &condition);
    }
    let layer = Side::ALL.iter().find_map(|&side| wave.sides.on(side).layer());
    match layer {
        Some(layer) => w.integer("layer_nodes", layer.thickness as u64),
        None => w.leave_out("layer_nodes"),
    }
    match wave.shot {
        Some(shot) => w.integer("shot", shot),
        None => w.leave_out("shot"),
    }
    w.section("snapshot", |w| {
        w.integer("stride", wave.snapshot.stride);
        for (axis, [from, to]) in WINDOW_KEYS.into_iter().enumerate() {
            w.quantity(from, wave.snapshot.from[axis]);
            w.quantity_or_word(to, wave.snapshot.to[axis]);
        }
    });
    w.sections("source", &wave.sources, write_source);
    w.sections("receivers", &wave.receivers, |w, line| {
        write_position(w, line.first);
        w.integer("count", line.count);
        ["dx", "dy", "dz"].into_iter().zip(line.spacing).for_each(|(key, d)| w.quantity(key, d));
    });
    let layers = match &wave.velocity {
        VelocitySource::Model(VelocityModel::Layered { layers }) => &layers[..],
        _ => &[],
    };
    w.sections("layer", layers, |w, layer| {
        w.quantity("top", layer.top);
        w.quantity("velocity", layer.velocity);
    });
    w.sections("region", &wave.regions, write_region);
}

fn write_velocity(w: &mut SectionWriter<'_>, velocity: &VelocitySource) {
    let (constant, gradient, file) = match velocity {
        VelocitySource::Model(VelocityModel::Constant { velocity }) => (Some(*velocity), 0.0, None),
        VelocitySource::Model(VelocityModel::Gradient { at_surface, per_depth }) => {
            (Some(*at_surface), *per_depth, None)
        }
        VelocitySource::Model(VelocityModel::Layered { .. }) => (None, 0.0, None),
        VelocitySource::File(path) => (None, 0.0, Some(path)),
    };
    match constant {
        Some(velocity) => w.quantity("velocity", velocity),
        None => w.leave_out("velocity"),
    }
    w.quantity("velocity_gradient", gradient);
    match file {
        Some(path) => w.text("velocity_file", &path.to_string_lossy()),
        None => w.leave_out("velocity_file"),
    }
}

fn write_position(w: &mut SectionWriter<'_>, position: [f64; 3]) {
    ["x", "y", "z"].into_iter().zip(position).for_each(|(key, x)| w.quantity(key, x));
}

fn write_source(w: &mut SectionWriter<'_>, source: &SourceCase) {
    write_position(w, source.position);
    w.integer("shot", source.shot);
    let variants = source_variants();
    match &source.wavelet {
        WaveletSource::Ricker { frequency, delay, amplitude }
        | WaveletSource::Sine { frequency, delay, amplitude } => {
            let name = match source.wavelet {
                WaveletSource::Sine { .. } => WaveletName::Sine,
                _ => WaveletName::Ricker,
            };
            w.add_variant(&variants[0]);
            w.word("wavelet", WAVELETS, &name);
            w.number("amplitude", *amplitude);
            w.quantity("frequency", *frequency);
            w.leave_out("file");
            w.quantity("delay", *delay);
        }
        WaveletSource::File { path, interval, amplitude } => {
            w.add_variant(&variants[1]);
            w.number("amplitude", *amplitude);
            w.leave_out("frequency");
            w.text("file", &path.to_string_lossy());
            w.quantity("interval", *interval);
        }
    }
}

fn write_region(w: &mut SectionWriter<'_>, region: &VelocityRegion) {
    let (variant, position) = match region.shape {
        VelocityShape::Box { corner, .. } => (BOX, corner),
        VelocityShape::Ball { centre, .. } => (BALL, centre),
    };
    w.add_variant(variant);
    w.text("shape", variant.name);
    w.quantity_or_word("velocity", region.velocity);
    write_position(w, position);
    match region.shape {
        VelocityShape::Box { size, .. } => {
            ["width", "height", "depth"].into_iter().zip(size).for_each(|(key, x)| w.quantity(key, x));
        }
        VelocityShape::Ball { radius, .. } => w.quantity("radius", radius),
    }
}
