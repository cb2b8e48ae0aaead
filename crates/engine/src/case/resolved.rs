//! The resolved case as text. It contains every key, so that it reads back to the identical
//! [`Case`] even if a default changes in a later version.

use orrery_particles::settings::{Acceptance, StepChoice};

use super::sections::gravity::{PRECISIONS, SOLVERS};
use super::sections::limits::{NO_LIMIT, ON_ENERGY_ERROR};
use super::sections::output::{FORMATS, ON_ERROR, PLANES, SHOWS};
use super::sections::time::INTEGRATORS;
use super::sections::word_for;
use super::{Case, CheckpointEvery, Every};
use crate::wall_time;

/// TOML writer with one `key = value` per line.
#[derive(Default)]
pub(super) struct Writer(String);

impl Writer {
    pub fn section(&mut self, path: &str) {
        self.0.push_str(&format!("\n[{path}]\n"));
    }

    pub fn string(&mut self, key: &str, value: &str) {
        self.write_line(key, &quoted(value));
    }

    /// Writes a number. `{:?}` is the shortest text that reads back to the same bits, and is valid
    /// TOML for finite numbers.
    pub fn number(&mut self, key: &str, value: f64) {
        self.write_line(key, &format!("{value:?}"));
    }

    pub fn integer(&mut self, key: &str, value: u64) {
        self.write_line(key, &value.to_string());
    }

    fn every(&mut self, key: &str, every: Every) {
        match every {
            Every::Never => self.integer(key, 0),
            Every::Steps(count) => self.string(key, &format!("{count} steps")),
            Every::Time(time) => self.number(key, time),
        }
    }

    fn write_line(&mut self, key: &str, value: &str) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }
}

impl Case {
    /// Returns the case as TOML with all keys.
    pub fn to_toml(&self) -> String {
        let mut w = Writer::default();
        w.string("name", &self.name);
        w.string("description", &self.description);
        w.string("units", self.units.name());

        w.section("bodies");
        self.bodies.write_keys(&mut w);

        w.section("gravity");
        w.string("solver", word_for(SOLVERS, &self.gravity.solver));
        match self.gravity.acceptance {
            Acceptance::Geometric { theta } => {
                w.string("acceptance", "geometric");
                w.number("theta", theta);
            }
            Acceptance::Relative { alpha, theta } => {
                w.string("acceptance", "relative");
                w.number("accuracy", alpha);
                w.number("theta", theta);
            }
        }
        w.number("softening", self.gravity.eps);
        w.string("precision", word_for(PRECISIONS, &self.gravity.precision));

        w.section("time");
        w.string("integrator", word_for(INTEGRATORS, &self.time.integrator));
        match self.time.step {
            StepChoice::Fixed(dt) => w.number("step", dt),
            StepChoice::Adaptive { eta } => {
                w.string("step", "adaptive");
                w.number("eta", eta);
            }
        }
        if let Some(start) = self.time.start {
            w.number("start", start);
        }
        w.number("end", self.time.end);

        w.section("output");
        w.every("snapshot_every", self.output.snapshot_every);
        w.every("image_every", self.output.image_every);
        w.every("record_every", self.output.record_every);
        w.string("format", word_for(FORMATS, &self.output.format));
        w.string("on_error", word_for(ON_ERROR, &self.output.on_error));

        w.section("checkpoint");
        match self.checkpoint.every {
            CheckpointEvery::WallClock(interval) => w.string("every", &wall_time::to_text(interval)),
            every => w.every("every", every.schedule()),
        }
        w.integer("keep", self.checkpoint.keep.into());

        w.section("limits");
        match self.limits.energy_error {
            None => w.string("energy_error", NO_LIMIT),
            Some(limit) => w.number("energy_error", limit),
        }
        w.string("on_energy_error", word_for(ON_ENERGY_ERROR, &self.limits.on_energy_error));

        w.section("image");
        w.integer("size", self.image.size.into());
        match self.image.width {
            None => w.string("width", "auto"),
            Some(width) => w.number("width", width),
        }
        w.string("plane", word_for(PLANES, &self.image.plane));
        w.string("show", word_for(SHOWS, &self.image.show));
        w.integer("frames_per_second", self.image.frames_per_second.into());
        w.0
    }
}

/// Returns a TOML basic string.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
