//! Trajectories and starts of fluids.

mod damage;
mod lammps;
mod python;
mod round_trip;

use std::path::Path;

use orrery_formats::{FluidFile, FluidFrame, FluidSpecies, Limits, append_fluid_frame, read_fluid};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::rng::Draws;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

/// Formats of trajectories.
pub const EXTENSIONS: [&str; 2] = ["gsd", "xyz"];

/// A trajectory for tests: the particles of each frame, and what describes them.
pub struct Trajectory {
    pub frames: Vec<FluidParticles>,
    pub species: Vec<FluidSpecies>,
    pub units: &'static str,
    pub unit_names: Vec<(&'static str, String)>,
    pub provenance: Vec<(String, String)>,
}

impl Trajectory {
    /// Returns frames of `n` particles of two species that move through the box and its images.
    pub fn new(bounds: SimulationBox, n: usize, frames: usize) -> Self {
        let particles = |frame: usize| {
            let mut coordinates = Vec3s::zeros(n);
            let mut velocity = Vec3s::zeros(n);
            for k in 0..n {
                let mut draws = Draws::new(17, frame as u32, k as u64);
                let reach = if bounds.sides == BoxSides::Open { 0.2 } else { 1.5 };
                let coordinate = |axis: usize, random: f64| {
                    bounds.origin[axis] + bounds.lengths[axis] * (0.5 + reach * random)
                };
                coordinates.set(k, [0, 1, 2].map(|axis| coordinate(axis, 2.0 * draws.uniform() - 1.0)));
                velocity.set(k, [draws.normal(), draws.normal(), draws.normal()]);
                for axis in bounds.dimensions..3 {
                    let columns = [&mut velocity.x, &mut velocity.y, &mut velocity.z];
                    columns[axis][k] = 0.0;
                }
            }
            let mut particles = FluidParticles::at_rest(bounds, &coordinates);
            particles.velocity = velocity;
            particles.species = (0..n).map(|k| u8::from(k % 3 != 1)).collect();
            particles.id = (0..n).map(|k| 3 * (n - k) as u64 + 1).collect();
            particles
        };
        let case = "name = \"x = y\"\n[lennard_jones]\n".repeat(20);
        let provenance = [("version", "0.1.0"), ("case", &case), ("a name", "µ")];
        Self {
            frames: (0..frames).map(particles).collect(),
            species: vec![species("A", 1.0 / 3.0, 0.88), species("B", 2.5, 1.0)],
            units: "real units",
            unit_names: vec![("length", "nm".to_owned()), ("velocity", "nm/ps".to_owned())],
            provenance: provenance.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
        }
    }

    pub fn frame(&self, index: usize) -> FluidFrame<'_> {
        FluidFrame {
            particles: &self.frames[index],
            species: &self.species,
            step: 100 * index as u64,
            time: 0.1 * index as f64,
            units: self.units,
            unit_names: &self.unit_names,
            provenance: &self.provenance,
        }
    }

    /// Appends the frames of a range.
    pub fn append(&self, path: &Path, frames: std::ops::Range<usize>) {
        for index in frames {
            append_fluid_frame(path, &self.frame(index)).unwrap();
        }
    }
}

pub fn species(name: &str, mass: f64, sigma: f64) -> FluidSpecies {
    FluidSpecies { name: name.to_owned(), mass, sigma }
}

/// A periodic box with its corner away from 0.
pub fn periodic_box() -> SimulationBox {
    SimulationBox { origin: [-0.7, 10.0, 1.0 / 3.0], ..SimulationBox::periodic([4.1, 5.0 / 3.0, 6.0], 3) }
}

/// All kinds of boxes, with a name.
pub fn boxes() -> [(&'static str, SimulationBox); 4] {
    [
        ("periodic", periodic_box()),
        ("open", SimulationBox::open([-1.0, -2.0, 7.0], [1.0, 2.0, 8.5], 3)),
        ("plane", SimulationBox { origin: [0.5, -3.0, 0.0], ..SimulationBox::periodic([4.0, 7.0, 1.0], 2) }),
        ("open-plane", SimulationBox::open([-1.0, -2.0, 0.0], [1.0, 2.0, 0.0], 2)),
    ]
}

pub fn read_unlimited(path: &Path) -> Result<FluidFile, String> {
    read_fluid(path, &Limits::unbounded()).map_err(|error| {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with(path.to_str().unwrap()), "{message}");
        message
    })
}
