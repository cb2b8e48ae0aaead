//! Runs a simulation from a case file to the files on disk. A [`case::Case`] is read from TOML and
//! checked completely before a device is used or a file is written. [`run::run`] creates the
//! [`System`] of the case, steps a [`Simulation`], and calls the observers when their [`Trigger`]s
//! fire. The observers write snapshots, images and the table of conserved quantities. [`run::run`]
//! also writes checkpoints, from which [`run::resume`] continues with identical bits. [`team`] lets
//! several ranks compute a run. [`gravity`], [`heat`], [`wave`] and [`fluid`] are the physics of
//! the systems. All other modules know no physics.
//!
//! ```
//! use orrery_engine::case::{Case, CaseSource};
//! use orrery_engine::control::Control;
//! use orrery_engine::run::{Output, Replace, run};
//!
//! // A circular orbit of two bodies for one period, 2π.
//! let text = r#"
//!     name = "orbit"
//!     [bodies]
//!     model = "kepler"
//!     eccentricity = 0.0
//!     [time]
//!     step = 0.01
//!     end = 6.28
//!     [image]
//!     size = 64
//! "#;
//! let source = CaseSource::Text { label: "orbit".into(), text: text.into(), folder: ".".into() };
//! let case = Case::load(&source, &["time.integrator=yoshida4".into()])?;
//!
//! let folder = tempfile::tempdir()?;
//! let output = Output { folder: folder.path().join("out"), replace: Replace::Nothing };
//! let summary = run(&case, &output, &Control::default(), |_event| {})?;
//!
//! let (first, last) = &summary.first_and_last;
//! let energy = |row| summary.schema.value(row, "total").expect("a column of gravity");
//! assert_eq!((summary.size.count, summary.step), (2, 628));
//! assert!((energy(last) / energy(first) - 1.0).abs() < 1e-8);
//! assert!(output.folder.join("conserved.csv").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod blocks;
pub mod case;
pub mod checkpoint;
pub mod clean;
pub mod compute_device;
pub mod control;
pub mod error;
pub mod field_analysis;
mod film;
pub mod fluid;
mod folder;
pub mod gravity;
pub mod heat;
mod host_memory;
mod identity;
pub mod input_files;
pub mod integrity;
mod observers;
mod pipeline;
pub mod provenance;
mod reporter;
pub mod run;
pub mod seismogram_analysis;
mod simulation;
pub mod survey;
pub mod system;
pub mod team;
mod trigger;
pub mod wall_time;
pub mod wave;

pub use blocks::Blocks;
pub use error::EngineError;
pub use observers::{Drawing, Observer, Painter};
pub use simulation::{Moment, Simulation};
pub use system::System;
pub use trigger::Trigger;
