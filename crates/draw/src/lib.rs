//! Pictures, animations and plots of runs.
//!
//! [`picture`] draws bodies, particles and fields as PNG, GIF or MP4. [`plot`] draws lines and
//! seismograms as SVG and PNG. Both share a built-in stroke font and the drawing of lines, so no
//! font has to be installed and files have the same bytes everywhere. Files are written with
//! [`orrery_formats`], so that they appear complete or not at all.

pub mod picture;
pub mod plot;
