//! Several steps of one tile while its rows are in the cache.
//!
//! A pass of T steps reads the state once and writes it once. It moves along y over a tile:
//! whenever a row of level 0, the old state, has been copied into the tile, each level l = 1 … T
//! computes its next row from three rows of level l − 1. A level keeps three rows, so the rows of
//! all levels stay in the cache. Row j of level l needs rows j − 1 … j + 1 and one more column on
//! either side. The tile therefore starts with T more rows and columns around its output (its
//! halo), and neighbouring tiles compute the same values there.
//!
//! Columns are stored with the offset `Tile::origin`, and the output starts at the boundary of a
//! cache line. Values outside the plate or outside the cone of dependence are computed too, because
//! registers have a fixed width. They never reach the output.

use std::ops::Range;

use orrery_model::grid::{Boundary, Edge};
use orrery_simd::{AlignedVec, MAX_LANES, Vector};

use super::kernels::FaceRows;
use super::{Plate, StepCoefficients, kernels};
use crate::Scalar;

/// Most steps of a pass. The halo of a tile is this wide, whatever the number of steps is.
pub const MAX_STEPS_PER_PASS: usize = HALO;

/// Columns of a tile to either side of its output: one register, so that the output is aligned.
const HALO: usize = MAX_LANES;

/// Rows that a level computes at a time.
const STRIDE: usize = 2;

/// Rows that a level keeps: those that the next level computes at a time, and one on either side.
const LEVEL_ROWS: usize = STRIDE + 2;

/// Consecutive rows of a state.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, R> {
    /// The values, row by row.
    pub values: &'a [R],
    /// Row of the grid that comes first. A row below 0 or above the last one belongs to a periodic
    /// plate.
    pub first: isize,
}

/// One pass over the plate.
#[derive(Clone, Copy, Debug)]
pub struct PlatePass<'a, R> {
    /// The problem.
    pub plate: &'a Plate<R>,
    /// Coefficients of a step.
    pub coefficients: StepCoefficients<R>,
    /// Steps, at least 1 and at most [`MAX_STEPS_PER_PASS`].
    pub steps: usize,
    /// State before the pass. Contains all rows within `steps` rows of the updated ones.
    pub from: Rows<'a, R>,
    /// Whether the result bypasses the cache.
    pub is_streaming: bool,
}

impl<'a, R> PlatePass<'a, R> {
    /// Returns row `j` of the old state. Rows beyond a periodic edge are those of the other side.
    pub fn row(&self, j: isize) -> &'a [R] {
        let (nx, ny) = (self.plate.grid.nx, self.plate.grid.ny as isize);
        let stored = (self.from.values.len() / nx) as isize;
        let mut k = j - self.from.first;
        if !(0..stored).contains(&k) {
            k = k.rem_euclid(ny);
        }
        &self.from.values[k as usize * nx..][..nx]
    }

    /// Returns the rows that level `level` computes for the output rows `rows`.
    fn level_rows(&self, level: usize, rows: &Range<usize>) -> Range<isize> {
        let halo = (self.steps - level) as isize;
        let (start, end) = (rows.start as isize - halo, rows.end as isize + halo);
        if self.plate.boundaries.is_periodic_in_y() {
            start..end
        } else {
            start.max(0)..end.min(self.plate.grid.ny as isize)
        }
    }
}

/// Columns of a tile.
#[derive(Clone, Debug)]
struct Tile {
    /// Columns of the output.
    output: Range<usize>,
    /// Column that is stored at index 0 of a tile row.
    origin: isize,
    /// Index of the first updated column in a tile row.
    first: usize,
    /// Updated columns, a multiple of [`MAX_LANES`].
    n: usize,
}

impl Tile {
    /// Returns the tile with the output columns `output`, whose start is 0 or at least [`HALO`].
    fn new<R>(plate: &Plate<R>, steps: usize, output: Range<usize>) -> Self {
        let is_periodic = plate.boundaries.is_periodic_in_x();
        let origin = output.start as isize - 2 * HALO as isize;
        let first = if output.start == 0 && !is_periodic { 2 * HALO } else { HALO };
        let end = if is_periodic { output.end + steps } else { (output.end + steps).min(plate.grid.nx) };
        let n = ((end as isize - origin) as usize - first).next_multiple_of(MAX_LANES);
        Self { output, origin, first, n }
    }

    /// Returns the index of column `i` in a tile row.
    fn index(&self, i: usize) -> usize {
        (i as isize - self.origin) as usize
    }

    /// Returns the index of the first column, if an edge that is not periodic is there.
    fn west_edge<R>(&self, plate: &Plate<R>) -> Option<usize> {
        (self.output.start == 0 && !plate.boundaries.is_periodic_in_x()).then(|| self.index(0))
    }

    /// Returns the index of the last column, if the tile contains it and it is not periodic.
    fn east_edge<R>(&self, plate: &Plate<R>) -> Option<usize> {
        let last = plate.grid.nx - 1;
        (last < self.output.end + HALO && !plate.boundaries.is_periodic_in_x()).then(|| self.index(last))
    }

    /// Copies the columns of the tile, with its halo, from a row of the grid.
    fn load<R: Copy>(&self, plate: &Plate<R>, row: &[R], to: &mut [R]) {
        let nx = plate.grid.nx;
        let (start, end) = (self.output.start as isize - HALO as isize, self.output.end + HALO);
        let inside = start.max(0) as usize..end.min(nx);
        to[self.index(inside.start)..][..inside.len()].copy_from_slice(&row[inside.clone()]);
        if plate.boundaries.is_periodic_in_x() {
            for i in (start..inside.start as isize).chain(inside.end as isize..end as isize) {
                to[(i - self.origin) as usize] = row[i.rem_euclid(nx as isize) as usize];
            }
        }
    }
}

/// Rows that are stored by their number modulo a power of two.
#[derive(Debug)]
struct Ring<R> {
    rows: Vec<AlignedVec<R>>,
}

impl<R: Scalar> Ring<R> {
    /// Returns a ring of at least `rows` rows with `len` entries each.
    fn new(rows: usize, len: usize) -> Self {
        Self { rows: (0..rows.next_power_of_two()).map(|_| AlignedVec::zeros(len)).collect() }
    }

    fn slot(&self, j: isize) -> usize {
        j as usize & (self.rows.len() - 1)
    }

    fn row(&self, j: isize) -> &[R] {
        &self.rows[self.slot(j)]
    }

    fn row_mut(&mut self, j: isize) -> &mut [R] {
        let slot = self.slot(j);
        &mut self.rows[slot]
    }

    /// Returns rows j and j + 1.
    fn pair_mut(&mut self, j: isize) -> [&mut [R]; 2] {
        let slots = [self.slot(j), self.slot(j + 1)];
        let rows = self.rows.get_disjoint_mut(slots).expect("a ring has two rows or more");
        rows.map(|row| &mut **row)
    }
}

/// Memory of a thread for the tiles that it updates.
#[derive(Debug)]
pub struct Workspace<R> {
    tile_width: usize,
    /// Levels 0 to T.
    levels: Vec<Ring<R>>,
    /// Row beyond an edge with a flux.
    ghost: AlignedVec<R>,
    /// ρ of the last two rows.
    rho: Ring<R>,
    /// Conductivities of faces in x: entry i is between nodes i and i + 1.
    faces_x: Ring<R>,
    /// Conductivities of faces in y: row j is between rows j and j + 1.
    faces_y: Ring<R>,
    /// w = c_min/c.
    capacity_ratio: Ring<R>,
    /// Source.
    source: Ring<R>,
}

impl<R: Scalar> Workspace<R> {
    /// Allocates the rows for passes of `steps` steps over tiles of `tile_width` columns.
    pub fn new(plate: &Plate<R>, steps: usize, tile_width: usize) -> Self {
        let tile_width = tile_width.next_multiple_of(MAX_LANES).max(2 * HALO);
        let len = tile_width + 5 * HALO;
        let fixed_rows = |is_needed: bool| Ring::new(if is_needed { steps + STRIDE + 1 } else { 0 }, len);
        let is_variable = plate.resistivity.is_some();
        Self {
            tile_width,
            levels: (0..=steps).map(|_| Ring::new(LEVEL_ROWS, len)).collect(),
            ghost: AlignedVec::zeros(len),
            rho: Ring::new(if is_variable { 2 } else { 0 }, len),
            faces_x: fixed_rows(is_variable),
            faces_y: fixed_rows(is_variable),
            capacity_ratio: fixed_rows(plate.capacity_ratio.is_some()),
            source: fixed_rows(plate.source.is_some()),
        }
    }
}

/// Updates the rows `rows` of the plate. `to` receives them and contains nothing else.
#[inline(always)]
pub fn update_band<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    rows: Range<usize>,
    to: &mut [R],
    workspace: &mut Workspace<R>,
) {
    let nx = pass.plate.grid.nx;
    for start in (0..nx).step_by(workspace.tile_width) {
        let output = start..(start + workspace.tile_width).min(nx);
        let tile = Tile::new(pass.plate, pass.steps, output);
        update_tile::<V, R>(pass, &tile, rows.clone(), to, workspace);
    }
}

/// Updates the rows `rows` of one tile.
#[inline(always)]
fn update_tile<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    tile: &Tile,
    rows: Range<usize>,
    to: &mut [R],
    workspace: &mut Workspace<R>,
) {
    let input = pass.level_rows(0, &rows);
    let end = rows.end as isize + pass.steps as isize;
    for front in (input.start..end).step_by(STRIDE) {
        for j in front..(front + STRIDE as isize).min(input.end) {
            load_row::<V, R>(pass, tile, j, j > input.start, workspace);
        }
        for level in 1..=pass.steps {
            let j = front - level as isize;
            let level_rows = pass.level_rows(level, &rows);
            if level_rows.contains(&j)
                && level_rows.contains(&(j + 1))
                && pass.plate.resistivity.is_none()
                && edge_of_row(pass.plate, j).is_none()
                && edge_of_row(pass.plate, j + 1).is_none()
            {
                update_pair::<V, R>(pass, tile, level, j, workspace);
                continue;
            }
            for j in [j, j + 1] {
                if level_rows.contains(&j) {
                    update_row::<V, R>(pass, tile, level, j, workspace);
                }
            }
        }
        let j = front - pass.steps as isize;
        for j in j.max(rows.start as isize)..(j + STRIDE as isize).min(rows.end as isize) {
            store_row::<V, R>(pass, tile, workspace.levels[pass.steps].row(j), j as usize - rows.start, to);
        }
    }
}

/// Copies the output columns of a tile row to row `k` of the band `to`.
#[inline(always)]
fn store_row<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    tile: &Tile,
    row: &[R],
    k: usize,
    to: &mut [R],
) {
    let from = &row[tile.index(tile.output.start)..][..tile.output.len()];
    let to = &mut to[k * pass.plate.grid.nx..][tile.output.clone()];
    if pass.is_streaming {
        kernels::copy_streaming::<V>(from, to);
    } else {
        to.copy_from_slice(from);
    }
}

/// Copies row `j` of the old state into level 0, the heat capacity and the source. Computes the
/// conductivities of the faces of the row and, unless it is the first one, of those between rows j
/// − 1 and j.
#[inline(always)]
fn load_row<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    tile: &Tile,
    j: isize,
    has_previous: bool,
    workspace: &mut Workspace<R>,
) {
    let plate = pass.plate;
    let row = workspace.levels[0].row_mut(j);
    tile.load(plate, pass.row(j), row);
    set_ghost_columns(plate, tile, j, row);
    let static_row = j.rem_euclid(plate.grid.ny as isize) as usize * plate.grid.nx;
    if let Some(source) = &plate.source {
        tile.load(plate, &source[static_row..][..plate.grid.nx], workspace.source.row_mut(j));
    }
    if let Some(ratio) = &plate.capacity_ratio {
        tile.load(plate, &ratio[static_row..][..plate.grid.nx], workspace.capacity_ratio.row_mut(j));
    }
    let Some(resistivity) = &plate.resistivity else { return };
    tile.load(plate, &resistivity[static_row..][..plate.grid.nx], workspace.rho.row_mut(j));
    let rho = workspace.rho.row(j);
    // Faces from `first − 1` on: the west face of the first node is the east face of its neighbour.
    let (start, n) = (tile.first - MAX_LANES, tile.n + MAX_LANES);
    let faces = workspace.faces_x.row_mut(j);
    kernels::face_conductivities::<V>(&rho[start..][..n], &rho[start + 1..][..n], &mut faces[start..][..n]);
    if let Some(west) = tile.west_edge(plate) {
        faces[west - 1] = faces[west];
    }
    if let Some(east) = tile.east_edge(plate) {
        faces[east] = faces[east - 1];
    }
    if has_previous {
        let below = workspace.rho.row(j - 1);
        let faces = workspace.faces_y.row_mut(j - 1);
        kernels::face_conductivities::<V>(&below[start..][..n], &rho[start..][..n], &mut faces[start..][..n]);
    }
}

/// Computes rows `j` and `j + 1` of `level` from the level below. The conductivity is uniform, and
/// neither row is on an edge.
#[inline(always)]
fn update_pair<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    tile: &Tile,
    level: usize,
    j: isize,
    workspace: &mut Workspace<R>,
) {
    let Tile { first, n, .. } = *tile;
    let (below, level_and_above) = workspace.levels.split_at_mut(level);
    let old = &below[level - 1];
    let rows = [old.row(j - 1), old.row(j), old.row(j + 1), old.row(j + 2)];
    let [new_0, new_1] = level_and_above[0].pair_mut(j);
    kernels::update_uniform_pair::<V>(pass.coefficients, rows, [&mut *new_0, &mut *new_1], first, n);
    for (j, new) in [(j, new_0), (j + 1, new_1)] {
        if pass.plate.source.is_some() {
            kernels::add_source::<V>(pass.coefficients.dt, workspace.source.row(j), new, first, n);
        }
        restore_fixed_columns(pass.plate, tile, old.row(j), new);
        set_ghost_columns(pass.plate, tile, j, new);
    }
}

/// Computes row `j` of `level` from the level below.
#[inline(always)]
fn update_row<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    tile: &Tile,
    level: usize,
    j: isize,
    workspace: &mut Workspace<R>,
) {
    let plate = pass.plate;
    let Tile { first, n, .. } = *tile;
    let (below, level_and_above) = workspace.levels.split_at_mut(level);
    let (old, new) = (&below[level - 1], level_and_above[0].row_mut(j));
    let edge = edge_of_row(plate, j);
    if edge.is_some_and(|edge| plate.boundaries.on(edge).is_fixed()) {
        new.copy_from_slice(old.row(j));
        return;
    }
    // Beyond an edge with a flux is the ghost row, and the faces on both sides of the edge are
    // equal.
    let inner = if edge == Some(Edge::North) { j - 1 } else { j + 1 };
    if let Some(edge) = edge {
        set_ghost_row(plate, tile, edge, old.row(inner), &mut workspace.ghost);
    }
    let [south, north] = match edge {
        None => [old.row(j - 1), old.row(j + 1)],
        Some(Edge::South) => [&*workspace.ghost, old.row(inner)],
        Some(_) => [old.row(inner), &*workspace.ghost],
    };
    let rows = [south, old.row(j), north];
    let [faces_south, faces_north] = if edge.is_some() { [j.min(inner); 2] } else { [j - 1, j] };
    if plate.resistivity.is_some() {
        let faces = FaceRows {
            east: workspace.faces_x.row(j),
            south: workspace.faces_y.row(faces_south),
            north: workspace.faces_y.row(faces_north),
        };
        if plate.capacity_ratio.is_some() {
            let (c, ratio) = (pass.coefficients, workspace.capacity_ratio.row(j));
            if plate.source.is_some() {
                let nodes = [ratio, workspace.source.row(j)];
                kernels::update_with_capacity::<V, true>(c, rows, faces, nodes, new, first, n);
            } else {
                kernels::update_with_capacity::<V, false>(c, rows, faces, [ratio; 2], new, first, n);
            }
        } else {
            kernels::update_variable::<V>(pass.coefficients, rows, faces, new, first, n);
        }
    } else {
        kernels::update_uniform::<V, false>(pass.coefficients, rows, new, first, n);
    }
    if plate.source.is_some() && plate.capacity_ratio.is_none() {
        kernels::add_source::<V>(pass.coefficients.dt, workspace.source.row(j), new, first, n);
    }
    restore_fixed_columns(plate, tile, old.row(j), new);
    set_ghost_columns(plate, tile, j, new);
}

/// Returns the edge that row `j` is on, `None` for inner rows and periodic plates.
fn edge_of_row<R>(plate: &Plate<R>, j: isize) -> Option<Edge> {
    if plate.boundaries.is_periodic_in_y() {
        return None;
    }
    match j {
        0 => Some(Edge::South),
        _ if j == plate.grid.ny as isize - 1 => Some(Edge::North),
        _ => None,
    }
}

/// Sets the row beyond `edge`, which has a flux, from the row on the other side of the edge.
fn set_ghost_row<R: Scalar>(plate: &Plate<R>, tile: &Tile, edge: Edge, inner: &[R], ghost: &mut [R]) {
    let offsets = &plate.ghost_offsets[edge as usize];
    for index in tile.first..tile.first + tile.n {
        let mut i = index as isize + tile.origin;
        if plate.boundaries.is_periodic_in_x() {
            i = i.rem_euclid(plate.grid.nx as isize);
        }
        if let Some(&offset) = offsets.get(i as usize) {
            ghost[index] = inner[index] + offset;
        }
    }
}

/// Restores the nodes of fixed west and east edges.
fn restore_fixed_columns<R: Copy>(plate: &Plate<R>, tile: &Tile, old: &[R], new: &mut [R]) {
    let edges =
        [(tile.west_edge(plate), &plate.boundaries.west), (tile.east_edge(plate), &plate.boundaries.east)];
    for (index, boundary) in edges {
        if let (Some(index), Boundary::Fixed(_)) = (index, boundary) {
            new[index] = old[index];
        }
    }
}

/// Sets the columns beyond west and east edges with a flux.
fn set_ghost_columns<R: Scalar>(plate: &Plate<R>, tile: &Tile, j: isize, row: &mut [R]) {
    let offset = |edge: Edge| {
        let offsets = &plate.ghost_offsets[edge as usize];
        (!offsets.is_empty()).then(|| offsets[j.rem_euclid(plate.grid.ny as isize) as usize])
    };
    if let (Some(index), Some(offset)) = (tile.west_edge(plate), offset(Edge::West)) {
        row[index - 1] = row[index + 1] + offset;
    }
    if let (Some(index), Some(offset)) = (tile.east_edge(plate), offset(Edge::East)) {
        row[index + 1] = row[index - 1] + offset;
    }
}
