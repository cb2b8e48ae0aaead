//! `[thermostat]` and `[structure]` of a fluid.

use orrery_model::Dimension;

use crate::case::declare::{Kind, Range, SectionSpec, Words, derived_key, key, quantity};
use crate::case::fluid::{StructureCase, ThermostatCase, ThermostatMethod};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;

const METHODS: &Words<Option<ThermostatMethod>> = &[
    ("none", None, "constant energy"),
    (
        "langevin",
        Some(ThermostatMethod::Langevin),
        "friction and noise of each particle; the centre of mass moves",
    ),
    (
        "rescaling",
        Some(ThermostatMethod::Rescaling),
        "stochastic rescaling of all velocities; momentum is conserved",
    ),
];

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "thermostat",
    "Constant temperature: the canonical ensemble. Without this section the energy is constant.",
    &[&[
        key("method", Kind::Word(&METHODS), "none", "Method of the thermostat."),
        derived_key(
            "temperature",
            quantity(Dimension::Temperature, Range::Positive),
            "that of [particles]",
            "Temperature of the thermostat.",
        ),
        key(
            "time",
            quantity(Dimension::Time, Range::Positive),
            "1",
            "Relaxation time. The friction of Langevin dynamics is its inverse. The thermostat must be on for a \
             multiple of it.",
        ),
        key("seed", Kind::Integer { least: 0, most: i64::MAX as u64 }, "1", "Seed of the random numbers."),
        key(
            "until",
            quantity(Dimension::Time, Range::Positive).or("end", "the end of the run"),
            "end",
            "Time at which the thermostat is switched off. The energy is constant from then on: velocities are scaled \
             once, so that it is the mean of the second half of the time with the thermostat, and not one draw of \
             its fluctuations. The mean temperature afterwards is that of the thermostat, if the fluid was in \
             equilibrium.",
        ),
    ]],
);

pub(in crate::case) const STRUCTURE_SPEC: &SectionSpec = &SectionSpec::new(
    "structure",
    "Measures of the structure and the diffusion: the pair distribution function in `rdf.csv`, a mean over all \
     measurements, the mean square displacement over the lag in `msd.csv`, and the diffusion coefficient in \
     `diffusion.csv`, from the slope between a tenth and half of the longest lag. A displacement is that between two \
     measurements, less the mean displacement of all particles. The earlier one is its origin. Up to 16 measurements, \
     at equal distances over the run, are origins, and `msd.csv` is the mean over all particles and over all origins \
     from which a lag has been measured. An open box has no density, so the scale of its `rdf.csv` is arbitrary.",
    &[&[
        key("every", Kind::Interval, "0", "Interval of the measurements. 0 is none."),
        key(
            "from",
            quantity(Dimension::Time, Range::NotNegative),
            "0",
            "Time of the first measurement. For example, the time at which the fluid is in equilibrium.",
        ),
        key(
            "radius",
            quantity(Dimension::Length, Range::Positive)
                .or("auto", "half of the box, or five times the largest sigma if that is less"),
            "auto",
            "Largest distance of the pair distribution function.",
        ),
        key(
            "bins",
            Kind::Integer { least: 10, most: 10_000 },
            "200",
            "Bins of the pair distribution function.",
        ),
    ]],
);

/// Keys that apply only with a thermostat.
const SETTINGS: [&str; 4] = ["temperature", "time", "seed", "until"];

/// Reads `[thermostat]`. `initial` is the temperature of `[particles]`.
pub(in crate::case) fn read_thermostat(
    section: &Section<'_>,
    initial: Option<f64>,
) -> Option<ThermostatCase> {
    let method = section.word("method", METHODS);
    let temperature = section.quantity_if_given("temperature").or(initial);
    let (time, seed) = (section.quantity("time"), section.integer("seed"));
    let until = section.quantity_or_word("until");
    section.finish();
    let Some(method) = method else {
        if let Some(key) =
            SETTINGS.iter().find(|key| section.has_key(key) && !section.is_set_after(key, "method"))
        {
            section.reject(key, " applies only with a thermostat, expected a method other than \"none\"");
        }
        return None;
    };
    if temperature.is_none() && !section.has_key("temperature") {
        section.report_missing("temperature", "a temperature, here or in [particles]");
    }
    Some(ThermostatCase { method, temperature: temperature.unwrap_or(1.0), time, seed, until })
}

pub(in crate::case) fn write_thermostat(w: &mut SectionWriter<'_>, thermostat: Option<&ThermostatCase>) {
    w.word("method", METHODS, &thermostat.map(|thermostat| thermostat.method));
    match thermostat {
        Some(&ThermostatCase { temperature, time, seed, until, .. }) => {
            w.quantity("temperature", temperature);
            w.quantity("time", time);
            w.integer("seed", seed);
            w.quantity_or_word("until", until);
        }
        None => SETTINGS.into_iter().for_each(|key| w.leave_out(key)),
    }
}

pub(in crate::case) fn read_structure(section: &Section<'_>) -> StructureCase {
    let settings = StructureCase {
        every: section.interval("every"),
        from: section.quantity("from"),
        radius: section.quantity_or_word("radius"),
        bins: section.count("bins"),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_structure(w: &mut SectionWriter<'_>, structure: &StructureCase) {
    w.interval("every", structure.every);
    w.quantity("from", structure.from);
    w.quantity_or_word("radius", structure.radius);
    w.integer("bins", structure.bins as u64);
}
