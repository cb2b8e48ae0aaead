//! One module per section: the declarations of its keys, its reader and its writer.

pub mod bodies;
pub mod checkpoint;
pub mod galaxies;
pub mod gravity;
pub mod grid;
pub mod heat;
pub mod image;
pub mod initial;
pub mod lennard_jones;
pub mod limits;
pub mod models;
pub mod output;
pub mod particles;
pub mod thermostat;
pub mod time;
pub mod top;
pub mod wave;
