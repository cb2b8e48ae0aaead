//! The physics of a case, with the settings that no other physics has.

use std::path::PathBuf;

use orrery_model::Precision;
use orrery_particles::settings::{GravitySettings, IntegratorChoice};

use super::Case;
use super::heat::HeatCase;
use super::reader::Section;
use super::sections::bodies::{self, BodiesSource};
use super::sections::gravity;

/// Physics of a case. The section of the physics selects it. A case without such a section is of
/// gravity.
#[derive(Clone, Debug, PartialEq)]
pub enum Physics {
    /// `[gravity]`: bodies that attract one another.
    Gravity(GravityCase),
    /// `[heat]`: a plate that conducts heat.
    Heat(Box<HeatCase>),
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
    /// Returns the precision of the computation.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Gravity(gravity) => gravity.settings.precision,
            Self::Heat(heat) => heat.precision,
        }
    }

    /// Returns the seeds of the random numbers.
    pub fn seeds(&self) -> Vec<u64> {
        match self {
            Self::Gravity(GravityCase { bodies: BodiesSource::Model(model), .. }) => model.seeds(),
            Self::Gravity(GravityCase { bodies: BodiesSource::File(_), .. }) | Self::Heat(_) => Vec::new(),
        }
    }

    /// Returns the paths in the case, which may be relative to its folder.
    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Gravity(GravityCase { bodies: BodiesSource::File(file), .. }) => vec![&mut file.path],
            Self::Gravity(GravityCase { bodies: BodiesSource::Model(_), .. }) => Vec::new(),
            Self::Heat(heat) => heat.paths_mut(),
        }
    }
}

impl Case {
    /// Returns the settings of gravity. `None` for a case of another physics.
    pub fn gravity(&self) -> Option<&GravityCase> {
        match &self.physics {
            Physics::Gravity(gravity) => Some(gravity),
            Physics::Heat(_) => None,
        }
    }

    /// Returns the settings of heat conduction. `None` for a case of another physics.
    pub fn heat(&self) -> Option<&HeatCase> {
        match &self.physics {
            Physics::Gravity(_) => None,
            Physics::Heat(heat) => Some(heat),
        }
    }

    /// Returns the full path of the snapshot that the run starts from, if there is one. Unless
    /// `time.start` is given, the run starts at its time.
    pub fn snapshot_file(&self) -> Option<PathBuf> {
        match &self.physics {
            Physics::Gravity(GravityCase { bodies: BodiesSource::File(file), .. }) => {
                Some(self.folder.join(&file.path))
            }
            Physics::Gravity(GravityCase { bodies: BodiesSource::Model(_), .. }) | Physics::Heat(_) => None,
        }
    }

    /// Returns the full paths of the files that the run starts from.
    pub fn input_files(&self) -> Vec<PathBuf> {
        self.physics.clone().paths_mut().into_iter().map(|path| self.folder.join(path)).collect()
    }

    /// Returns the case with absolute paths. A copy of it in another folder then means the same.
    pub fn with_absolute_paths(&self) -> Self {
        let mut case = self.clone();
        for path in case.physics.paths_mut() {
            if let Ok(absolute) = std::path::absolute(self.folder.join(&*path)) {
                *path = absolute;
            }
        }
        case
    }
}

/// The sections of the physics of a case while it is read.
pub(super) enum PhysicsSections<'a> {
    /// `[bodies]` and `[gravity]`.
    Gravity { bodies: Section<'a>, gravity: Section<'a> },
}

impl<'a> PhysicsSections<'a> {
    /// Returns the sections of the physics that the case selects.
    pub fn select(root: &Section<'a>) -> Self {
        Self::Gravity { bodies: root.section("bodies"), gravity: root.section("gravity") }
    }

    /// Reads the sections. `integrator` is that of `[time]`.
    pub fn read(&self, integrator: IntegratorChoice) -> Physics {
        match self {
            Self::Gravity { bodies, gravity } => {
                let settings = gravity::read_gravity(gravity);
                let bodies = bodies::read_bodies(bodies, settings.eps);
                Physics::Gravity(GravityCase { bodies, settings, integrator })
            }
        }
    }
}
