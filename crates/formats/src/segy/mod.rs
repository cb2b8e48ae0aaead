//! SEG-Y files of seismograms and of velocity models.
//!
//! | bytes | content |
//! |---|---|
//! | 3200 | textual header: 40 lines of 80 characters, EBCDIC |
//! | 400 | binary header |
//! | 3200 each | extended textual headers, skipped |
//! | 240 + samples, per trace | trace header, then the samples |
//!
//! Positions of fields are those of the standards, which count the bytes of a file or of a trace
//! header from 1 (SEG-Y rev 1, 2002, and rev 2, 2017). Written files are rev 1 if the sample
//! interval is a whole number of microseconds and all counts are at most 32767. Otherwise they are
//! rev 2, whose binary header also has the interval as f64 and the counts with 32 bits. The 16-bit
//! fields then contain the rounded interval and the counts, or 0 if they are too large.
//!
//! A file does not have to say which kind of data it has, so the caller selects the function:
//! [`read_seismograms_segy`] or [`read_model_segy`]. [`read_segy`] decides by the samples.

mod file;
mod header;
mod model;
mod read;
mod sample;
mod text;
mod write;

pub(crate) use file::looks_like;
pub use file::{SegyFile, SegyKind, read_segy};
pub use model::{SegyModel, read_model_segy, read_model_segy_hashed};
pub use read::read_seismograms_segy;
pub use write::write_seismograms_segy;
