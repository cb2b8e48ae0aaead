//! `[lennard_jones]`, its species `[[lennard_jones.species]]` and pairs `[[lennard_jones.pair]]`.

use orrery_fluids::potential::Truncation;
use orrery_fluids::settings::{PairPrecision, PairSearch};
use orrery_model::analysis::max_or_nan;
use orrery_model::{Dimension, Precision, short_number};

use crate::case::declare::{
    Kind, Range, SectionSpec, Words, derived_key, key, number, quantity, required_key, sections_key,
};
use crate::case::fluid::{FluidCase, PairCase, SpeciesCase};
use crate::case::reader::{Section, join_with_or};
use crate::case::resolved::SectionWriter;

#[derive(Clone, Copy, PartialEq)]
enum TruncationName {
    Truncated,
    Shifted,
    Switched,
    None,
}

const TRUNCATIONS: &Words<TruncationName> = &[
    ("truncated", TruncationName::Truncated, "potential and force jump to 0 at the cutoff"),
    ("shifted", TruncationName::Shifted, "the potential is shifted to 0 at the cutoff, the force jumps"),
    (
        "switched",
        TruncationName::Switched,
        "potential and force go to 0 smoothly between r₁ = `switch_start` × cutoff and the cutoff. There \
         a (r - r₁)² + b (r - r₁)³ is added to the force, with a and b such that the force and its slope are 0 at the \
         cutoff. The potential is its integral from there, so below r₁ it is shifted by a constant (van der Spoel, van \
         Maaren 2006)",
    ),
    (
        "none",
        TruncationName::None,
        "no cutoff: all pairs interact, in a periodic box each with the nearest image only",
    ),
];

const PRECISIONS: &Words<PairPrecision> = &[
    (
        Precision::Mixed.as_str(),
        PairPrecision::Mixed,
        "pairs in f32, sums exact, positions and velocities in 64 bits; forces are rounded to 2^-40 epsilon/sigma of the \
         largest ones, or to 2^-16 where the attraction at every cutoff is above 2^-7",
    ),
    (Precision::Double.as_str(), PairPrecision::Double, "f64 throughout"),
];

const SEARCHES: &Words<PairSearch> = &[
    ("auto", PairSearch::Auto, "neighbour lists from 500 particles on, if there is a cutoff"),
    ("all-pairs", PairSearch::AllPairs, "all pairs of particles in every step"),
    ("lists", PairSearch::Lists, "neighbour lists"),
];

const PARAMETER: &str = "1 in lj units; required in real units";

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "lennard_jones",
    "A fluid of particles with the potential u(r) = 4 epsilon ((sigma/r)^12 - (sigma/r)^6). Without species there is \
     one, \"A\", with mass, sigma and epsilon 1.",
    &[&[
        key("truncation", Kind::Word(&TRUNCATIONS), "truncated", "End of the potential at the cutoff."),
        key(
            "cutoff",
            number(Range::Between { least: 0.1, most: 1e6 }),
            "2.5",
            "Cutoff in units of sigma of each pair. At most half of the box.",
        ),
        key(
            "switch_start",
            number(Range::BelowOne),
            "0.8",
            "Distance from which a switched potential differs, as a fraction of the cutoff.",
        )
        .only_with("truncation", "switched"),
        key(
            "tail_corrections",
            Kind::Boolean,
            "false",
            "Whether energy and pressure contain the pairs beyond the cutoff of a truncated potential, at uniform \
             density. A drop in vapour does not have one.",
        ),
        key(
            "damping",
            quantity(Dimension::Length, Range::NotNegative),
            "0",
            "Damping d of the potential: r^2 becomes r^2 + d^2. It removes the singularity, and moves the minimum \
             inwards: to 1.005 sigma with 0.5 sigma, and to 0 from 1.122 sigma on.",
        ),
        key("precision", Kind::Word(&PRECISIONS), "mixed", "Floating-point precision of pairs."),
        key("search", Kind::Word(&SEARCHES), "auto", "How pairs within the cutoff are found."),
        key(
            "skin",
            quantity(Dimension::Length, Range::Positive)
                .or("auto", "0.4 or 0.5 times the largest sigma, for the size and the device"),
            "auto",
            "Distance beyond the cutoff up to which neighbour lists reach. It affects the speed, not the results.",
        ),
        sections_key(SPECIES),
        sections_key(PAIR),
    ]],
);

const SPECIES: &SectionSpec = &SectionSpec::new(
    "species",
    "A species, of which a case has up to 8. Parameters between two species follow from the rules of Lorentz and Berthelot: the mean of both \
     sigma, and the square root of the product of both epsilon.",
    &[&[
        derived_key(
            "name",
            Kind::Text,
            "A, B, C and so on",
            "Name of up to 8 characters, for example \"Ar\".",
        ),
        derived_key("mass", quantity(Dimension::Mass, Range::Positive), PARAMETER, "Mass of a particle."),
        derived_key(
            "sigma",
            quantity(Dimension::Length, Range::Positive),
            PARAMETER,
            "Distance at which the potential is 0.",
        ),
        derived_key(
            "epsilon",
            quantity(Dimension::Energy, Range::NotNegative),
            PARAMETER,
            "Depth of the potential, 0 for an ideal gas. A temperature is multiplied by Boltzmann's constant.",
        ),
        derived_key(
            "fraction",
            number(Range::UpTo(1.0)),
            "the same for all species",
            "Fraction of the particles. All fractions have the sum 1. A file has its own species.",
        ),
    ]],
);

const PAIR: &SectionSpec = &SectionSpec::new(
    "pair",
    "Parameters between two species that replace those of the mixing rules.",
    &[&[
        required_key("first", Kind::Text, "Name of a species."),
        required_key("second", Kind::Text, "Name of the other species."),
        derived_key(
            "sigma",
            quantity(Dimension::Length, Range::Positive),
            "that of the mixing rule",
            "Distance at which the potential is 0.",
        ),
        derived_key(
            "epsilon",
            quantity(Dimension::Energy, Range::NotNegative),
            "that of the mixing rule",
            "Depth of the potential, 0 for no interaction.",
        ),
    ]],
);

/// Smallest depth relative to the largest one. Forces are multiples of 2^-40 ε/σ of the largest:
/// those of the shallowest potential have three digits at a cutoff of 2.5 σ.
const SHALLOWEST: f64 = 1e-7;
/// Largest number of species.
const MAX_SPECIES: usize = 8;
/// Largest length of the name of a species.
const MAX_NAME_CHARS: usize = 8;

/// `[lennard_jones]` with its sections, while it is read.
pub(in crate::case) struct LennardJonesSections<'a> {
    pub section: Section<'a>,
    species: Vec<Section<'a>>,
    pairs: Vec<Section<'a>>,
}

/// The settings of `[lennard_jones]`.
pub(in crate::case) struct LennardJonesSettings {
    pub species: Vec<SpeciesCase>,
    pub pairs: Vec<PairCase>,
    pub truncation: Truncation,
    pub cutoff: f64,
    pub damping: f64,
    pub has_tail_corrections: bool,
    pub precision: PairPrecision,
    pub search: PairSearch,
    pub skin: Option<f64>,
}

impl<'a> LennardJonesSections<'a> {
    pub fn new(section: Section<'a>) -> Self {
        let (species, pairs) = (section.sections("species"), section.sections("pair"));
        Self { section, species, pairs }
    }

    pub fn read(&self) -> LennardJonesSettings {
        let section = &self.section;
        let species = self.read_species();
        let pairs = self.read_pairs(&species);
        let switch_start = section.number("switch_start");
        let truncation = match section.word("truncation", TRUNCATIONS) {
            TruncationName::Truncated => Truncation::Truncated,
            TruncationName::Shifted => Truncation::Shifted,
            TruncationName::Switched => Truncation::Switched { start: switch_start },
            TruncationName::None => Truncation::None,
        };
        let settings = LennardJonesSettings {
            species,
            pairs,
            truncation,
            cutoff: section.number("cutoff"),
            damping: section.quantity("damping"),
            has_tail_corrections: section.boolean("tail_corrections"),
            precision: section.word("precision", PRECISIONS),
            search: section.word("search", SEARCHES),
            skin: section.quantity_or_word("skin"),
        };
        self.check_depths(&settings);
        if settings.has_tail_corrections && truncation != Truncation::Truncated {
            let fault = " applies only to truncation = \"truncated\", expected false";
            section.reject("tail_corrections", fault);
        }
        if settings.search == PairSearch::Lists && truncation == Truncation::None {
            section.reject("search", " needs a cutoff, expected \"all-pairs\" with truncation = \"none\"");
        }
        section.finish();
        settings
    }

    /// Reads the pairs. Two sections of a pair, also as A-B and B-A, must not give a key different
    /// values.
    fn read_pairs(&self, species: &[SpeciesCase]) -> Vec<PairCase> {
        let mut pairs: Vec<PairCase> = Vec::new();
        for section in &self.pairs {
            let Some(pair) = read_pair(section, species) else { continue };
            let [a, b] = pair.species;
            for earlier in pairs.iter().filter(|earlier| [[a, b], [b, a]].contains(&earlier.species)) {
                let keys = [("sigma", earlier.sigma, pair.sigma), ("epsilon", earlier.epsilon, pair.epsilon)];
                for (key, before, value) in keys {
                    let (Some(before), Some(value)) = (before, value) else { continue };
                    if before != value {
                        let (a, b, before) = (&species[a].name, &species[b].name, short_number(before));
                        let fault = format!(
                            " contradicts {before} of another section for {a} and {b}, expected each pair once"
                        );
                        section.reject(key, &fault);
                    }
                }
            }
            pairs.push(pair);
        }
        pairs
    }

    /// Reports a potential that is so much shallower than the deepest one that its forces would be
    /// rounded away.
    fn check_depths(&self, settings: &LennardJonesSettings) {
        let of_species = self.species.iter().zip(settings.species.iter().map(|species| species.epsilon));
        let of_pairs = self.pairs.iter().zip(settings.pairs.iter().map(|pair| pair.epsilon.unwrap_or(0.0)));
        let depths: Vec<(&Section<'_>, f64)> = of_species.chain(of_pairs).collect();
        let deepest = depths.iter().map(|(_, epsilon)| *epsilon).fold(0.0, max_or_nan);
        for (section, epsilon) in depths {
            if epsilon > 0.0 && epsilon < SHALLOWEST * deepest {
                let fault = format!(
                    " is below {SHALLOWEST:e} of the largest epsilon, {}, and its forces would be rounded away, \
                     expected a larger one, or 0",
                    short_number(deepest)
                );
                section.reject("epsilon", &fault);
            }
        }
    }

    fn read_species(&self) -> Vec<SpeciesCase> {
        let is_reduced = self.section.units().scale().is_none();
        if self.species.is_empty() {
            if !is_reduced {
                let message =
                    "[[lennard_jones.species]] is missing, expected one with mass, sigma and epsilon";
                self.section.report_incomplete(message);
            }
            let (name, unit) = ("A".to_owned(), 1.0);
            return vec![SpeciesCase { name, mass: unit, sigma: unit, epsilon: unit, fraction: 1.0 }];
        }
        if self.species.len() > MAX_SPECIES {
            let found = self.species.len();
            self.section.report_incomplete(&format!("{found} species, expected at most {MAX_SPECIES}"));
        }
        let equal_share = 1.0 / self.species.len() as f64;
        let has_fractions = self.species.iter().any(|section| section.has_key("fraction"));
        let mut species: Vec<SpeciesCase> = Vec::new();
        for (index, section) in self.species.iter().enumerate() {
            let parameter = |key: &'static str| {
                let value = section.quantity_if_given(key);
                if value.is_none() && !is_reduced && !section.has_key(key) {
                    section.report_missing(key, "a quantity with a unit");
                }
                value.unwrap_or(1.0)
            };
            let fraction = section.number_if_given("fraction");
            if has_fractions && !section.has_key("fraction") {
                section.report_missing("fraction", "a number, as other species have one");
            }
            let name = section.text("name").unwrap_or_else(|| default_name(index));
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_name) {
                section.reject("name", " is not a name, expected 1 to 8 characters of A-Z a-z 0-9 _");
            }
            if species.iter().any(|other| other.name == name) {
                section
                    .report_incomplete(&format!("two species have the name {name}, expected different ones"));
            }
            species.push(SpeciesCase {
                name,
                mass: parameter("mass"),
                sigma: parameter("sigma"),
                epsilon: parameter("epsilon"),
                fraction: fraction.unwrap_or(equal_share),
            });
            section.finish();
        }
        let sum: f64 = species.iter().map(|species| species.fraction).sum();
        if (sum - 1.0).abs() > 1e-9
            && let Some(last) = self.species.last()
        {
            last.reject("fraction", &format!(": all fractions have the sum {sum}, expected 1"));
        }
        species
    }
}

/// Returns the name of a species without a name: A, B, C and so on.
fn default_name(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

fn read_pair(section: &Section<'_>, species: &[SpeciesCase]) -> Option<PairCase> {
    let index_of = |key: &'static str| {
        let name = section.text(key)?;
        let found = species.iter().position(|species| species.name == name);
        if found.is_none() {
            let expected = join_with_or(species.iter().map(|species| species.name.as_str()));
            section.reject(key, &format!(" is an unknown species, expected {expected}"));
        }
        found
    };
    let indices = [index_of("first"), index_of("second")];
    let (sigma, epsilon) = (section.quantity_if_given("sigma"), section.quantity_if_given("epsilon"));
    if !section.has_key("sigma") && !section.has_key("epsilon") {
        let path = section.path();
        section.report_incomplete(&format!("{path} has neither sigma nor epsilon, expected one or both"));
    }
    section.finish();
    let [Some(first), Some(second)] = indices else { return None };
    if first == second {
        let name = &species[first].name;
        section.reject(
            "second",
            &format!(" is the first species too, expected sigma and epsilon in species {name}"),
        );
    }
    Some(PairCase { species: [first, second], sigma, epsilon })
}

pub(in crate::case) fn write_lennard_jones(w: &mut SectionWriter<'_>, fluid: &FluidCase) {
    let (name, switch_start) = match fluid.truncation {
        Truncation::Truncated => (TruncationName::Truncated, None),
        Truncation::Shifted => (TruncationName::Shifted, None),
        Truncation::Switched { start } => (TruncationName::Switched, Some(start)),
        Truncation::None => (TruncationName::None, None),
    };
    w.word("truncation", TRUNCATIONS, &name);
    w.number("cutoff", fluid.cutoff);
    if let Some(start) = switch_start {
        w.number("switch_start", start);
    }
    w.boolean("tail_corrections", fluid.has_tail_corrections);
    w.quantity("damping", fluid.damping);
    w.word("precision", PRECISIONS, &fluid.precision);
    w.word("search", SEARCHES, &fluid.search);
    w.quantity_or_word("skin", fluid.skin);
    w.sections("species", &fluid.species, |w, species| {
        w.text("name", &species.name);
        w.quantity("mass", species.mass);
        w.quantity("sigma", species.sigma);
        w.quantity("epsilon", species.epsilon);
        w.number("fraction", species.fraction);
    });
    w.sections("pair", &fluid.pairs, |w, pair| {
        let [first, second] = pair.species.map(|index| fluid.species[index].name.as_str());
        w.text("first", first);
        w.text("second", second);
        for (key, value) in [("sigma", pair.sigma), ("epsilon", pair.epsilon)] {
            match value {
                Some(value) => w.quantity(key, value),
                None => w.leave_out(key),
            }
        }
    });
}
