//! Columns of a checkpoint, taken out by name.

use std::path::{Path, PathBuf};

use orrery_formats::{Block, Fault, IoError};
use orrery_model::Vec3s;
use rayon::prelude::*;

use crate::error::EngineError;

/// Returns an identifier that two elements have, if there is one.
pub fn repeated_id(ids: &[u64]) -> Option<u64> {
    let mut sorted = ids.to_vec();
    sorted.par_sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Columns by name. Each column can be taken once.
#[derive(Clone, Debug)]
pub struct Blocks {
    path: PathBuf,
    blocks: Vec<(String, Block)>,
}

impl Blocks {
    /// Wraps the columns of the checkpoint at `path`.
    pub fn new(path: &Path, blocks: Vec<(String, Block)>) -> Self {
        Self { path: path.to_owned(), blocks }
    }

    /// Returns an error if a number of any column is not finite. No column of a run can have such
    /// numbers: a run ends at the first one.
    pub fn check_finite(&self) -> Result<(), EngineError> {
        for (name, block) in &self.blocks {
            let found = match block {
                Block::Reals(numbers) => numbers
                    .par_iter()
                    .position_first(|number| !number.is_finite())
                    .map(|index| (index, numbers[index])),
                Block::Singles(numbers) => numbers
                    .par_iter()
                    .position_first(|number| !number.is_finite())
                    .map(|index| (index, f64::from(numbers[index]))),
                Block::Integers(_) | Block::Bytes(_) => None,
            };
            if let Some((index, number)) = found {
                let got = format!("{number} as value {index}");
                let fault = Fault::malformed(format!("block '{name}'"), got, "finite numbers");
                return Err(EngineError::Input(IoError { path: self.path.clone(), fault }));
            }
        }
        Ok(())
    }

    /// Returns the path of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the columns whose names start with `prefix`. Their names lose it.
    pub fn take_prefixed(&mut self, prefix: &str) -> Self {
        let (taken, others) =
            std::mem::take(&mut self.blocks).into_iter().partition(|(name, _)| name.starts_with(prefix));
        self.blocks = others;
        let taken: Vec<(String, Block)> = taken;
        let blocks = taken.into_iter().map(|(name, block)| (name[prefix.len()..].to_owned(), block));
        Self { path: self.path.clone(), blocks: blocks.collect() }
    }

    /// Returns the columns that have not been taken.
    pub fn into_remaining(self) -> Vec<(String, Block)> {
        self.blocks
    }

    fn take_block(&mut self, name: &str) -> Option<Block> {
        let index = self.blocks.iter().position(|(known, _)| known == name)?;
        Some(self.blocks.remove(index).1)
    }

    fn missing_column(&self, name: &str, expected: &str) -> EngineError {
        let fault = Fault::malformed(format!("block '{name}'"), "no such column", expected);
        EngineError::Input(IoError { path: self.path.clone(), fault })
    }

    /// Takes a column of f64.
    pub fn take_reals(&mut self, name: &str) -> Result<Vec<f64>, EngineError> {
        match self.take_block(name) {
            Some(Block::Reals(numbers)) => Ok(numbers),
            _ => Err(self.missing_column(name, "a column of f64")),
        }
    }

    /// Takes a column of f32.
    pub fn take_singles(&mut self, name: &str) -> Result<Vec<f32>, EngineError> {
        match self.take_block(name) {
            Some(Block::Singles(numbers)) => Ok(numbers),
            _ => Err(self.missing_column(name, "a column of f32")),
        }
    }

    /// Returns the length of a column of f64 that has not been taken.
    pub fn reals_len(&self, name: &str) -> Option<usize> {
        self.blocks.iter().find_map(|(known, block)| match block {
            Block::Reals(numbers) if known == name => Some(numbers.len()),
            _ => None,
        })
    }

    /// Takes a column of u64.
    pub fn take_integers(&mut self, name: &str) -> Result<Vec<u64>, EngineError> {
        match self.take_block(name) {
            Some(Block::Integers(numbers)) => Ok(numbers),
            _ => Err(self.missing_column(name, "a column of u64")),
        }
    }

    /// Takes a column of bytes.
    pub fn take_bytes(&mut self, name: &str) -> Result<Vec<u8>, EngineError> {
        match self.take_block(name) {
            Some(Block::Bytes(bytes)) => Ok(bytes),
            _ => Err(self.missing_column(name, "a column of bytes")),
        }
    }

    /// Takes three columns of f64: `NAME.x`, `NAME.y`, `NAME.z`.
    pub fn take_vectors(&mut self, name: &str) -> Result<Vec3s, EngineError> {
        let mut component = |axis| self.take_reals(&format!("{name}.{axis}"));
        Ok(Vec3s { x: component("x")?, y: component("y")?, z: component("z")? })
    }

    /// Takes three columns of f64 if they are present.
    pub fn take_vectors_if_any(&mut self, name: &str) -> Result<Option<Vec3s>, EngineError> {
        let first = format!("{name}.x");
        if self.blocks.iter().any(|(known, _)| *known == first) {
            self.take_vectors(name).map(Some)
        } else {
            Ok(None)
        }
    }
}
