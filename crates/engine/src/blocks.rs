//! The columns of a checkpoint, taken one by one by those who put them there.

use std::path::{Path, PathBuf};

use orrery_io::{Block, Fault, IoError};
use orrery_model::Vec3s;

use crate::error::EngineError;

/// Columns by name. Each is taken once.
#[derive(Clone, Debug)]
pub struct Blocks {
    path: PathBuf,
    blocks: Vec<(String, Block)>,
}

impl Blocks {
    /// The columns of the checkpoint at `path`.
    pub fn new(path: &Path, blocks: Vec<(String, Block)>) -> Self {
        Self { path: path.to_owned(), blocks }
    }

    fn take(&mut self, name: &str) -> Option<Block> {
        let at = self.blocks.iter().position(|(known, _)| known == name)?;
        Some(self.blocks.swap_remove(at).1)
    }

    fn wrong(&self, name: &str, expected: &str) -> EngineError {
        let fault = Fault::malformed(format!("block '{name}'"), "none such", expected);
        EngineError::Input(IoError { path: self.path.clone(), fault })
    }

    /// A column of f64.
    pub fn reals(&mut self, name: &str) -> Result<Vec<f64>, EngineError> {
        match self.take(name) {
            Some(Block::Reals(numbers)) => Ok(numbers),
            _ => Err(self.wrong(name, "a column of f64")),
        }
    }

    /// How long a column of f64 is that has not been taken.
    pub fn length_of_reals(&self, name: &str) -> Option<usize> {
        self.blocks.iter().find_map(|(known, block)| match block {
            Block::Reals(numbers) if known == name => Some(numbers.len()),
            _ => None,
        })
    }

    /// A column of u64.
    pub fn integers(&mut self, name: &str) -> Result<Vec<u64>, EngineError> {
        match self.take(name) {
            Some(Block::Integers(numbers)) => Ok(numbers),
            _ => Err(self.wrong(name, "a column of u64")),
        }
    }

    /// A column of bytes.
    pub fn bytes(&mut self, name: &str) -> Result<Vec<u8>, EngineError> {
        match self.take(name) {
            Some(Block::Bytes(bytes)) => Ok(bytes),
            _ => Err(self.wrong(name, "a column of bytes")),
        }
    }

    /// Three columns of f64: `NAME.x`, `NAME.y`, `NAME.z`.
    pub fn vectors(&mut self, name: &str) -> Result<Vec3s, EngineError> {
        let mut component = |axis| self.reals(&format!("{name}.{axis}"));
        Ok(Vec3s { x: component("x")?, y: component("y")?, z: component("z")? })
    }

    /// The same, where they may be absent.
    pub fn vectors_if_any(&mut self, name: &str) -> Result<Option<Vec3s>, EngineError> {
        let first = format!("{name}.x");
        if self.blocks.iter().any(|(known, _)| *known == first) {
            self.vectors(name).map(Some)
        } else {
            Ok(None)
        }
    }
}
