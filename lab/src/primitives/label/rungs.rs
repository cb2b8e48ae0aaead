//! Ladder of labels of an image: the steps of a course (notes on GPU computing), union-find, and
//! the default.

use super::{LabelStrategy, RunTiles};

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub strategy: LabelStrategy,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first. `tiles` are those of the last one.
pub fn rungs(tiles: RunTiles) -> [LabelRung; 5] {
    let rung = |name, strategy, note| LabelRung { name, strategy, note };
    [
        rung(
            "minimum propagation",
            LabelStrategy::Propagation,
            "one pixel per sweep and path; the host looks every 16 sweeps",
        ),
        rung(
            "wavefronts in shared memory",
            LabelStrategy::Wavefront,
            "diagonals of 32 x 32 tiles; each sweep crosses a tile",
        ),
        rung("union-find over all pixels", LabelStrategy::UnionFind, "no sweeps: each pair is merged once"),
        rung(
            "tiles, then their borders",
            LabelStrategy::TileMerge,
            "union-find in shared memory; global memory for 1 of 11 pixels",
        ),
        rung(
            "runs of pixels in tiles",
            LabelStrategy::Runs(tiles),
            "the production kernel `Label`: bits, runs, compact nodes",
        ),
    ]
}
