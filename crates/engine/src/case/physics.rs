//! The physics of a case, with the settings that no other physics has.

use std::path::PathBuf;

use orrery_gravity::settings::{GravitySettings, IntegratorChoice};
use orrery_model::Precision;
use orrery_model::grid::Grid;

use super::document::Entry;
use super::fluid::FluidCase;
use super::heat::{EdgeCondition, HeatCase};
use super::reader::{Findings, Section};
use super::sections::bodies::{self, BodiesSource};
use super::sections::heat::HeatSections;
use super::sections::lennard_jones::{LennardJonesSections, LennardJonesSettings};
use super::sections::particles::{self, ParticlesSettings};
use super::sections::wave::WaveSections;
use super::sections::{gravity, grid, image, initial, thermostat, time};
use super::wave::WaveCase;
use super::{BodyView, Case, TimeSettings};

/// Name of a physics, which is that of its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhysicsName {
    /// Bodies that attract one another.
    Gravity,
    /// A plate that conducts heat.
    Heat,
    /// Acoustic waves.
    Wave,
    /// Particles with Lennard-Jones forces.
    LennardJones,
}

/// Physics of bodies.
pub(super) const BODIES: &[PhysicsName] = &[PhysicsName::Gravity];
/// Physics of fields on a grid.
pub(super) const FIELDS: &[PhysicsName] = &[PhysicsName::Heat, PhysicsName::Wave];
pub(super) const HEAT: &[PhysicsName] = &[PhysicsName::Heat];
pub(super) const WAVE: &[PhysicsName] = &[PhysicsName::Wave];
pub(super) const FLUIDS: &[PhysicsName] = &[PhysicsName::LennardJones];
pub(super) const NOT_FLUIDS: &[PhysicsName] = &[PhysicsName::Gravity, PhysicsName::Heat, PhysicsName::Wave];

impl PhysicsName {
    /// All physics.
    pub const ALL: [Self; 4] = [Self::Gravity, Self::Heat, Self::Wave, Self::LennardJones];

    /// Returns the name of the section.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gravity => crate::gravity::NAME,
            Self::Heat => crate::heat::NAME,
            Self::Wave => crate::wave::NAME,
            Self::LennardJones => crate::fluid::NAME,
        }
    }

    /// Returns true for the physics of a case without a section of a physics.
    pub fn is_default(self) -> bool {
        self == Self::Gravity
    }

    /// Returns the physics that the sections of a case select. Two of them are an error.
    pub(super) fn selected_by(entries: &[Entry], findings: &Findings) -> Self {
        let present: Vec<_> = entries
            .iter()
            .filter_map(|entry| {
                Self::ALL.into_iter().find(|name| name.as_str() == entry.key).zip(Some(entry))
            })
            .collect();
        if let [(first, _), (second, entry), ..] = present[..] {
            let (first, second) = (first.as_str(), second.as_str());
            let message = format!("[{second}] and [{first}] are both present, expected one physics per case");
            findings.add_problem(&entry.key_location, message);
        }
        present.first().map_or(Self::Gravity, |(name, _)| *name)
    }
}

/// Physics of a case. The section of the physics selects it. A case without such a section is of
/// gravity.
#[derive(Clone, Debug, PartialEq)]
pub enum Physics {
    /// `[gravity]`: bodies that attract one another.
    Gravity(GravityCase),
    /// `[heat]`: a plate that conducts heat.
    Heat(Box<HeatCase>),
    /// `[wave]`: acoustic waves.
    Wave(Box<WaveCase>),
    /// `[lennard_jones]`: a fluid.
    LennardJones(Box<FluidCase>),
}

/// Settings of gravity: `[bodies]`, `[gravity]` and the integrator.
#[derive(Clone, Debug, PartialEq)]
pub struct GravityCase {
    /// Source of the initial bodies.
    pub bodies: BodiesSource,
    /// Settings of the forces.
    pub settings: GravitySettings,
    /// Integration method, `time.integrator`.
    pub integrator: IntegratorChoice,
    /// Appearance of images.
    pub view: Box<BodyView>,
}

impl GravityCase {
    /// Returns the number of bodies. `None` if they come from a file.
    pub fn body_count(&self) -> Option<u64> {
        match &self.bodies {
            BodiesSource::Model(model) => Some(model.count()),
            BodiesSource::File(_) => None,
        }
    }
}

impl Physics {
    /// Returns the name.
    pub fn name(&self) -> PhysicsName {
        match self {
            Self::Gravity(_) => PhysicsName::Gravity,
            Self::Heat(_) => PhysicsName::Heat,
            Self::Wave(_) => PhysicsName::Wave,
            Self::LennardJones(_) => PhysicsName::LennardJones,
        }
    }

    /// Returns true if a run can compute the error that `[limits]` bounds.
    pub(super) fn is_error_known(&self) -> bool {
        match self {
            Self::Gravity(_) => true,
            Self::Heat(heat) => heat.is_error_known(),
            Self::Wave(_) => false,
            Self::LennardJones(fluid) => fluid.thermostat.is_none(),
        }
    }

    /// Returns the precision of the computation.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Gravity(gravity) => gravity.settings.precision,
            Self::Heat(heat) => heat.precision,
            Self::Wave(wave) => wave.precision,
            Self::LennardJones(fluid) => fluid.model_precision(),
        }
    }

    /// Returns the seeds of the random numbers.
    pub fn seeds(&self) -> Vec<u64> {
        match self {
            Self::Gravity(GravityCase { bodies: BodiesSource::Model(model), .. }) => model.seeds(),
            Self::Gravity(GravityCase { bodies: BodiesSource::File(_), .. })
            | Self::Heat(_)
            | Self::Wave(_) => Vec::new(),
            Self::LennardJones(fluid) => std::iter::once(fluid.seed)
                .chain(fluid.thermostat.map(|thermostat| thermostat.seed))
                .collect(),
        }
    }

    /// Returns the paths in the case, which may be relative to its folder. The flag is true for
    /// files that a resumed run reads again.
    fn paths_mut(&mut self) -> Vec<(&mut PathBuf, bool)> {
        match self {
            Self::Gravity(GravityCase { bodies: BodiesSource::File(file), .. }) => {
                vec![(&mut file.path, false)]
            }
            Self::Gravity(GravityCase { bodies: BodiesSource::Model(_), .. }) => Vec::new(),
            Self::Heat(heat) => heat.paths_mut(),
            Self::Wave(wave) => wave.paths_mut(),
            Self::LennardJones(fluid) => fluid.paths_mut(),
        }
    }
}

impl Case {
    /// Returns the name for titles and messages: that of the case, and the number of the shot in a
    /// survey of several shots, such as `salt-dome, shot 3`.
    pub fn title(&self) -> String {
        match self.wave().and_then(|wave| wave.shot.filter(|_| wave.shots().len() > 1)) {
            Some(shot) => format!("{}, shot {shot}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the settings of gravity. `None` for a case of another physics.
    pub fn gravity(&self) -> Option<&GravityCase> {
        match &self.physics {
            Physics::Gravity(gravity) => Some(gravity),
            Physics::Heat(_) | Physics::Wave(_) | Physics::LennardJones(_) => None,
        }
    }

    /// Returns the settings of heat conduction. `None` for a case of another physics.
    pub fn heat(&self) -> Option<&HeatCase> {
        match &self.physics {
            Physics::Heat(heat) => Some(heat),
            Physics::Gravity(_) | Physics::Wave(_) | Physics::LennardJones(_) => None,
        }
    }

    /// Returns the settings of waves. `None` for a case of another physics.
    pub fn wave(&self) -> Option<&WaveCase> {
        match &self.physics {
            Physics::Wave(wave) => Some(wave),
            Physics::Gravity(_) | Physics::Heat(_) | Physics::LennardJones(_) => None,
        }
    }

    /// Returns the settings of a fluid. `None` for a case of another physics.
    pub fn fluid(&self) -> Option<&FluidCase> {
        match &self.physics {
            Physics::LennardJones(fluid) => Some(fluid),
            Physics::Gravity(_) | Physics::Heat(_) | Physics::Wave(_) => None,
        }
    }

    /// Returns the full path of the snapshot that the run starts from, if there is one. Unless
    /// `time.start` is given, the run starts at its time.
    pub fn snapshot_file(&self) -> Option<PathBuf> {
        match &self.physics {
            Physics::Gravity(GravityCase { bodies: BodiesSource::File(file), .. }) => {
                Some(self.folder.join(&file.path))
            }
            Physics::Gravity(GravityCase { bodies: BodiesSource::Model(_), .. })
            | Physics::Heat(_)
            | Physics::Wave(_)
            | Physics::LennardJones(_) => None,
        }
    }

    /// Returns the full paths of the files that the run starts from.
    pub fn input_files(&self) -> Vec<PathBuf> {
        self.physics.clone().paths_mut().into_iter().map(|(path, _)| self.folder.join(path)).collect()
    }

    /// Returns the full paths of the files that a resumed run reads again, for example those of
    /// conductivities. Their values are not in its checkpoint.
    pub fn files_of_resumed_run(&self) -> Vec<PathBuf> {
        let mut physics = self.physics.clone();
        let needed = physics.paths_mut().into_iter().filter(|(_, is_needed)| *is_needed);
        needed.map(|(path, _)| self.folder.join(path)).collect()
    }

    /// Returns the case with absolute paths. A copy of it in another folder then means the same.
    pub fn with_absolute_paths(&self) -> Self {
        let mut case = self.clone();
        for (path, _) in case.physics.paths_mut() {
            if let Ok(absolute) = std::path::absolute(self.folder.join(&*path)) {
                *path = absolute;
            }
        }
        case
    }
}

/// The sections of the physics of a case while it is read.
#[expect(clippy::large_enum_variant, reason = "there is one value, while a case is read")]
pub(super) enum PhysicsSections<'a> {
    /// `[bodies]` and `[gravity]`.
    Gravity { bodies: Section<'a>, gravity: Section<'a> },
    /// `[grid]`, `[heat]` and `[initial]`.
    Heat { grid: Section<'a>, heat: HeatSections<'a>, initial: Section<'a> },
    /// `[grid]` and `[wave]`.
    Wave { grid: Section<'a>, wave: WaveSections<'a> },
    /// `[particles]`, `[lennard_jones]`, `[thermostat]` and `[structure]`.
    LennardJones {
        particles: Section<'a>,
        lennard_jones: LennardJonesSections<'a>,
        thermostat: Section<'a>,
        structure: Section<'a>,
    },
}

/// The physics of a case and the settings of `[time]`, whose keys depend on it.
pub(super) struct PhysicsAndTime {
    pub physics: Physics,
    pub time: TimeSettings,
    /// True if the step must be computed from the stability limit.
    pub is_step_auto: bool,
}

impl<'a> PhysicsSections<'a> {
    /// Returns the sections of a physics.
    pub fn new(root: &Section<'a>, physics: PhysicsName) -> Self {
        match physics {
            PhysicsName::Gravity => {
                Self::Gravity { bodies: root.section("bodies"), gravity: root.section("gravity") }
            }
            PhysicsName::Heat => Self::Heat {
                grid: root.section("grid"),
                heat: HeatSections::new(root.section("heat")),
                initial: root.section("initial"),
            },
            PhysicsName::Wave => {
                Self::Wave { grid: root.section("grid"), wave: WaveSections::new(root.section("wave")) }
            }
            PhysicsName::LennardJones => Self::LennardJones {
                particles: root.section("particles"),
                lennard_jones: LennardJonesSections::new(root.section("lennard_jones")),
                thermostat: root.section("thermostat"),
                structure: root.section("structure"),
            },
        }
    }

    /// Reads the sections, `[time]`, and the keys of `[image]` that depend on the physics.
    pub fn read(&self, time: &Section<'_>, image: &Section<'_>) -> PhysicsAndTime {
        match self {
            Self::Gravity { bodies, gravity } => {
                let (time, integrator) = time::read_time(time);
                let settings = gravity::read_gravity(gravity);
                let bodies = bodies::read_bodies(bodies, settings.eps);
                let view = Box::new(image::read_body_view(image));
                let physics = Physics::Gravity(GravityCase { bodies, settings, integrator, view });
                PhysicsAndTime { physics, time, is_step_auto: false }
            }
            Self::Heat { grid, heat, initial } => {
                let (time, step) = time::read_field_time(time, PhysicsName::Heat);
                let edges = heat.read_edges();
                let is_periodic = [[0, 1], [2, 3]]
                    .map(|pair| pair.iter().all(|&edge: &usize| edges[edge] == EdgeCondition::Periodic));
                let grid = grid::read_grid(grid, is_periodic);
                let heat_case = HeatCase {
                    conductivity: heat.read_conductivity(),
                    heat_capacity: heat.read_heat_capacity(),
                    source: heat.read_source(),
                    regions: heat.read_regions(),
                    precision: heat.read_precision(),
                    unit: heat.heat.label("unit"),
                    stop: heat.read_stop(),
                    initial: initial::read_initial(initial, extents(&grid, is_periodic), is_periodic),
                    view: image::read_heat_view(image),
                    grid,
                    edges,
                };
                heat.check_unit();
                heat.heat.finish();
                PhysicsAndTime {
                    physics: Physics::Heat(Box::new(heat_case)),
                    time,
                    is_step_auto: step.is_none(),
                }
            }
            Self::Wave { grid, wave } => {
                let (time, step) = time::read_field_time(time, PhysicsName::Wave);
                let views = (image::read_wave_view(image), image::read_slice_view(image));
                let wave = wave.read(grid::read_wave_grid(grid), views);
                PhysicsAndTime { physics: Physics::Wave(Box::new(wave)), time, is_step_auto: step.is_none() }
            }
            Self::LennardJones { particles, lennard_jones, thermostat, structure } => {
                let (time, _) = time::read_field_time(time, PhysicsName::LennardJones);
                let fluid = read_fluid(
                    lennard_jones.read(),
                    particles::read_particles(particles),
                    thermostat,
                    structure,
                    image,
                );
                let physics = Physics::LennardJones(Box::new(fluid));
                PhysicsAndTime { physics, time, is_step_auto: false }
            }
        }
    }
}

/// Combines the settings of a fluid, and reads its other sections.
fn read_fluid(
    forces: LennardJonesSettings,
    initial: ParticlesSettings,
    thermostat: &Section<'_>,
    structure: &Section<'_>,
    image: &Section<'_>,
) -> FluidCase {
    FluidCase {
        thermostat: thermostat::read_thermostat(thermostat, initial.temperature),
        structure: thermostat::read_structure(structure),
        view: image::read_fluid_view(image),
        species: forces.species,
        pairs: forces.pairs,
        truncation: forces.truncation,
        cutoff: forces.cutoff,
        damping: forces.damping,
        has_tail_corrections: forces.has_tail_corrections,
        precision: forces.precision,
        search: forces.search,
        skin: forces.skin,
        start: initial.start,
        temperature: initial.temperature,
        seed: initial.seed,
        minimises: initial.minimises,
        minimise_force: initial.minimise_force,
        minimise_steps: initial.minimise_steps,
        removes_drift: initial.removes_drift,
    }
}

/// Returns the extents of a grid. Between periodic edges there is one space more.
fn extents(grid: &Grid, is_periodic: [bool; 2]) -> [f64; 2] {
    let of_axis =
        |nodes: usize, h: f64, is_periodic: bool| nodes.saturating_sub(usize::from(!is_periodic)) as f64 * h;
    [of_axis(grid.nx, grid.hx, is_periodic[0]), of_axis(grid.ny, grid.hy, is_periodic[1])]
}
