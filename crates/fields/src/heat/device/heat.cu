// Explicit five-point update of the heat equation (see mod.rs), STEPS time steps per launch.
//
// Fields have one value per node. Row j starts at element j * pitch. pitch is a multiple of 32
// bytes, and the elements beyond nx are never written. A buffer stores `stored_rows` rows: the
// whole grid, or a slab with ghost rows, whose first row is row `first_stored_row` of the grid.
//
// A warp owns a strip of STRIP_WIDTH columns and marches along y through a chunk of rows. A lane
// owns COLUMNS neighbouring columns. It keeps two rows of each time level in registers:
//
//   row j of level 0 is loaded -> row j - 1 of level 1 is computed from rows j - 2, j - 1 and j
//   of level 0 -> row j - 2 of level 2 is computed -> ... -> row j - STEPS is stored.
//
// Neighbours along x come from the neighbouring lanes. The outer columns of a strip have no such
// neighbours, so one more column on each side is wrong after each step. Strips therefore overlap by
// HALO columns on each side, and only the columns between are stored. A chunk starts and ends with
// STEPS rows that are computed and not stored.
//
// A device without warps exchanges the columns of all levels through shared memory, with one
// barrier per row.
//
// Cost per node and step with uniform conductivity: 6 floating-point instructions and 2 / COLUMNS
// shuffles. Traffic per node: one load and one store per STEPS steps. One step per launch is bound
// by memory bandwidth, eight steps by arithmetic.
//
// Defined by the host (device.rs): REAL, IS_DOUBLE, VECTOR (16 bytes of REALs), VECTOR_WIDTH,
// VECTORS (per lane), STEPS, ROWS_IN_FLIGHT, WARPS_PER_BLOCK, MIN_BLOCKS_PER_SM, VARIABLE
// (conductivity), HAS_SOURCE.

#define COLUMNS (VECTORS * VECTOR_WIDTH)
#define HALO ((STEPS + COLUMNS - 1) / COLUMNS * COLUMNS)
#define STRIP_WIDTH (WARP_SIZE * COLUMNS)
#define STORED_WIDTH (STRIP_WIDTH - 2 * HALO)
#define BLOCK_SIZE (WARPS_PER_BLOCK * WARP_SIZE)

// Kinds of edges. Argument `edges` has two bits per edge: west, east, south, north.
#define EDGE_FIXED 0
#define EDGE_FLUX 1
#define EDGE_PERIODIC 2
#define EDGE_KIND(edges, index) (((edges) >> (2 * (index))) & 3)
#define WEST 0
#define EAST 1
#define SOUTH 2
#define NORTH 3

#if IS_DOUBLE
#define FMA_REAL(a, b, c) FMA64(a, b, c)
#else
#define FMA_REAL(a, b, c) FMA(a, b, c)
#endif

// Arguments of the launch that do not differ between threads.
typedef struct {
    GLOBAL const REAL* from;
    GLOBAL const REAL* resistivity;
    GLOBAL const REAL* source;
    GLOBAL const REAL* ghost_offsets;
    REAL coefficient_x;
    REAL coefficient_y;
    REAL dt;
    int nx;
    int ny;
    int pitch;
    int first_stored_row;
    int stored_rows;
    int edges;
    // Whether rows wrap around within the buffer.
    int wraps_y;
} Plate;

// Columns of a lane. Column c of the lane is column `first + c` of the grid.
typedef struct {
    // First column. May lie outside the grid.
    int first;
    // First column to load: within the grid if columns wrap around, otherwise within the buffer.
    int loaded;
    // Whether columns wrap around. Only in strips that reach an edge.
    int wraps_x;
    // One bit for each column of the lane: fixed by the west or the east edge, the neighbour beyond
    // the west edge is a mirror image, the same for the east edge.
    uint fixed_mask;
    uint west_mirror_mask;
    uint east_mirror_mask;
} LaneColumns;

// Rows that a lane keeps in registers.
typedef struct {
    // Rows of level 0 that were loaded ahead.
    REAL ahead[ROWS_IN_FLIGHT][COLUMNS];
    // The two newest rows of each level.
    REAL south[STEPS][COLUMNS];
    REAL centre[STEPS][COLUMNS];
#if VARIABLE
    REAL resistivity_ahead[ROWS_IN_FLIGHT][COLUMNS];
    // Newest row of the resistivity.
    REAL resistivity[COLUMNS];
    // Conductivities of faces of the centre row of each level: of the west face of the first
    // column, of east faces, and of north faces. The last row of `north_face` is the south face of
    // the last level.
    REAL west_face[STEPS];
    REAL east_face[STEPS][COLUMNS];
    REAL north_face[STEPS + 1][COLUMNS];
#endif
} Pipeline;

// Values of the neighbouring lanes at the near ends of their columns.
typedef struct {
    REAL west;
    REAL east;
} LaneNeighbours;

#if HAS_WARPS
#if !IS_DOUBLE
#define SHUFFLE_REAL(value, lane) SHUFFLE_F(value, lane, 0)
#elif defined(ON_CUDA)
#define SHUFFLE_REAL(value, lane) __shfl_sync(0xffffffffu, value, lane)
#else
FUNCTION double shuffle_double(double value, int lane)
{
    const uint2 halves = as_uint2(value);
    return as_double((uint2)(SHUFFLE(halves.x, lane, 0), SHUFFLE(halves.y, lane, 0)));
}
#define SHUFFLE_REAL(value, lane) shuffle_double(value, lane)
#endif

FUNCTION LaneNeighbours lane_neighbours(const REAL values[COLUMNS])
{
    LaneNeighbours neighbours;
    neighbours.west = SHUFFLE_REAL(values[COLUMNS - 1], (LANE + WARP_SIZE - 1) % WARP_SIZE);
    neighbours.east = SHUFFLE_REAL(values[0], (LANE + 1) % WARP_SIZE);
    return neighbours;
}
#else
// First and last columns of all threads, for each level and for the resistivity. Rows alternate
// between two halves, so that one barrier per row suffices.
#define EXCHANGED_ROWS (STEPS + VARIABLE)
#define EXCHANGE_SIZE (2 * EXCHANGED_ROWS * 2 * BLOCK_SIZE)

FUNCTION void publish_ends(SHARED_POINTER REAL* ends, int slot, const REAL values[COLUMNS])
{
    ends[(2 * slot) * BLOCK_SIZE + THREAD] = values[0];
    ends[(2 * slot + 1) * BLOCK_SIZE + THREAD] = values[COLUMNS - 1];
}

FUNCTION LaneNeighbours published_neighbours(SHARED_POINTER const REAL* ends, int slot)
{
    const int warp = THREAD - LANE;
    LaneNeighbours neighbours;
    neighbours.west = ends[(2 * slot + 1) * BLOCK_SIZE + warp + (LANE + WARP_SIZE - 1) % WARP_SIZE];
    neighbours.east = ends[(2 * slot) * BLOCK_SIZE + warp + (LANE + 1) % WARP_SIZE];
    return neighbours;
}
#endif

// Returns `row` if it is in [0, rows). Otherwise the row that it wraps to, or the nearest row.
FUNCTION int wrap_or_clamp(int row, int rows, int wraps)
{
    if (wraps) {
        while (row < 0)
            row += rows;
        while (row >= rows)
            row -= rows;
        return row;
    }
    return row < 0 ? 0 : row < rows ? row : rows - 1;
}

// Loads the lane's columns of a row of `field`. Without `is_edge`, row and columns are in the buffer.
FUNCTION void load_row(
    REAL values[COLUMNS],
    GLOBAL const REAL* RESTRICT field,
    const Plate* plate,
    LaneColumns columns,
    int row,
    int is_edge)
{
    // Rows outside the buffer have no influence on rows that are stored.
    int stored_row = row - plate->first_stored_row;
    if (is_edge)
        stored_row = wrap_or_clamp(stored_row, plate->stored_rows, plate->wraps_y);
    GLOBAL const REAL* stored = field + (ulong)(uint)stored_row * (uint)plate->pitch;
    if (is_edge && columns.wraps_x) {
        int column = columns.loaded;
        UNROLL_ALL
        for (int c = 0; c < COLUMNS; c++) {
            values[c] = stored[column];
            column = column + 1 == plate->nx ? 0 : column + 1;
        }
        return;
    }
    UNROLL_ALL
    for (int vector = 0; vector < VECTORS; vector++) {
        const VECTOR loaded = *(GLOBAL const VECTOR*)(stored + columns.loaded + vector * VECTOR_WIDTH);
        values[vector * VECTOR_WIDTH] = loaded.x;
        values[vector * VECTOR_WIDTH + 1] = loaded.y;
#if VECTOR_WIDTH == 4
        values[vector * VECTOR_WIDTH + 2] = loaded.z;
        values[vector * VECTOR_WIDTH + 3] = loaded.w;
#endif
    }
}

// Stores the lane's columns of a row. Without `is_edge`, all columns are in the grid.
FUNCTION void store_row(
    GLOBAL REAL* RESTRICT field,
    const Plate* plate,
    LaneColumns columns,
    int row,
    const REAL values[COLUMNS],
    int is_edge)
{
    GLOBAL REAL* stored = field + (ulong)(uint)(row - plate->first_stored_row) * (uint)plate->pitch + columns.first;
    if (is_edge && columns.first + COLUMNS > plate->nx) {
        UNROLL_ALL
        for (int c = 0; c < COLUMNS; c++)
            if (columns.first + c < plate->nx)
                stored[c] = values[c];
        return;
    }
    UNROLL_ALL
    for (int vector = 0; vector < VECTORS; vector++) {
        VECTOR result;
        result.x = values[vector * VECTOR_WIDTH];
        result.y = values[vector * VECTOR_WIDTH + 1];
#if VECTOR_WIDTH == 4
        result.z = values[vector * VECTOR_WIDTH + 2];
        result.w = values[vector * VECTOR_WIDTH + 3];
#endif
        *(GLOBAL VECTOR*)(stored + vector * VECTOR_WIDTH) = result;
    }
}

// Neighbours of the nodes of a row, and the conductivities of the faces between.
typedef struct {
    REAL value[4][COLUMNS];
#if VARIABLE
    REAL face[4][COLUMNS];
#endif
} Neighbours;

// Replaces the neighbour of column `c` beyond `edge` by the mirror image of the opposite one.
FUNCTION void mirror(Neighbours* neighbours, int edge, int opposite, int c, REAL ghost_offset)
{
    neighbours->value[edge][c] = neighbours->value[opposite][c] + ghost_offset;
#if VARIABLE
    neighbours->face[edge][c] = neighbours->face[opposite][c];
#endif
}

// Sets the neighbours of row `row` that lie beyond an edge with a flux. `ghost_offsets` has ny
// values for the west edge and ny for the east edge, then `pitch` values for the south edge and
// `pitch` for the north edge.
FUNCTION void mirror_at_edges(Neighbours* neighbours, const Plate* plate, LaneColumns columns, int row)
{
    GLOBAL const REAL* offsets = plate->ghost_offsets;
    const int is_south = row == 0 && EDGE_KIND(plate->edges, SOUTH) == EDGE_FLUX;
    const int is_north = row == plate->ny - 1 && EDGE_KIND(plate->edges, NORTH) == EDGE_FLUX;
    if (is_south || is_north) {
        offsets += 2 * (ulong)plate->ny + (is_north ? plate->pitch : 0);
        int column = columns.loaded;
        UNROLL_ALL
        for (int c = 0; c < COLUMNS; c++) {
            if (is_south)
                mirror(neighbours, SOUTH, NORTH, c, offsets[column]);
            else
                mirror(neighbours, NORTH, SOUTH, c, offsets[column]);
            column = columns.wraps_x && column + 1 == plate->nx ? 0 : column + 1;
        }
    }
    const int offset_row = wrap_or_clamp(row, plate->ny, EDGE_KIND(plate->edges, SOUTH) == EDGE_PERIODIC);
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        if (columns.west_mirror_mask >> c & 1)
            mirror(neighbours, WEST, EAST, c, plate->ghost_offsets[offset_row]);
        if (columns.east_mirror_mask >> c & 1)
            mirror(neighbours, EAST, WEST, c, plate->ghost_offsets[(ulong)plate->ny + offset_row]);
    }
}

// Returns the columns of the lane that have fixed values in a row, one bit each.
FUNCTION uint find_fixed_columns(const Plate* plate, LaneColumns columns, int row)
{
    const int is_fixed_row = (row == 0 && EDGE_KIND(plate->edges, SOUTH) == EDGE_FIXED)
        || (row == plate->ny - 1 && EDGE_KIND(plate->edges, NORTH) == EDGE_FIXED);
    return is_fixed_row ? 0xffffffffu : columns.fixed_mask;
}

// Returns the columns of a lane.
FUNCTION LaneColumns find_columns(const Plate* plate, int first, int is_edge_strip)
{
    LaneColumns columns = { first, first, 0, 0, 0, 0 };
    if (!is_edge_strip)
        return columns;
    columns.wraps_x = EDGE_KIND(plate->edges, WEST) == EDGE_PERIODIC;
    if (columns.wraps_x) {
        const int remainder = first % plate->nx;
        columns.loaded = remainder < 0 ? remainder + plate->nx : remainder;
    } else {
        columns.loaded = first < 0 ? 0 : first < plate->pitch ? first : plate->pitch - COLUMNS;
    }
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        const uint west = first + c == 0, east = first + c == plate->nx - 1;
        columns.fixed_mask |= (west & (uint)(EDGE_KIND(plate->edges, WEST) == EDGE_FIXED)) << c;
        columns.fixed_mask |= (east & (uint)(EDGE_KIND(plate->edges, EAST) == EDGE_FIXED)) << c;
        columns.west_mirror_mask |= (west & (uint)(EDGE_KIND(plate->edges, WEST) == EDGE_FLUX)) << c;
        columns.east_mirror_mask |= (east & (uint)(EDGE_KIND(plate->edges, EAST) == EDGE_FLUX)) << c;
    }
    return columns;
}

// Returns the new value of a node. This is the form of the reference: the same operations in the
// same order.
FUNCTION REAL update_node(REAL u, const Neighbours* neighbours, int c, const Plate* plate)
{
    const REAL west = neighbours->value[WEST][c], east = neighbours->value[EAST][c];
    const REAL south = neighbours->value[SOUTH][c], north = neighbours->value[NORTH][c];
#if VARIABLE
    const REAL flux_x =
        FMA_REAL(neighbours->face[EAST][c], east - u, neighbours->face[WEST][c] * (west - u));
    const REAL flux_y =
        FMA_REAL(neighbours->face[NORTH][c], north - u, neighbours->face[SOUTH][c] * (south - u));
#else
    const REAL flux_x = FMA_REAL((REAL)-2, u, west + east);
    const REAL flux_y = FMA_REAL((REAL)-2, u, south + north);
#endif
    return FMA_REAL(plate->coefficient_x, flux_x, FMA_REAL(plate->coefficient_y, flux_y, u));
}

// Computes the centre row of a level one step ahead. `north` is the row after it on input and the
// result on output. Keeps the row after it as the new centre.
FUNCTION void advance_level(
    Pipeline* pipeline,
    int level,
    REAL north[COLUMNS],
    LaneNeighbours lanes,
    const Plate* plate,
    LaneColumns columns,
    int row,
    int is_edge)
{
    Neighbours neighbours;
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        neighbours.value[WEST][c] = c > 0 ? pipeline->centre[level][c - 1] : lanes.west;
        neighbours.value[EAST][c] = c < COLUMNS - 1 ? pipeline->centre[level][c + 1] : lanes.east;
        neighbours.value[SOUTH][c] = pipeline->south[level][c];
        neighbours.value[NORTH][c] = north[c];
#if VARIABLE
        neighbours.face[WEST][c] = c > 0 ? pipeline->east_face[level][c - 1] : pipeline->west_face[level];
        neighbours.face[EAST][c] = pipeline->east_face[level][c];
        neighbours.face[SOUTH][c] = pipeline->north_face[level + 1][c];
        neighbours.face[NORTH][c] = pipeline->north_face[level][c];
#endif
    }
    if (is_edge)
        mirror_at_edges(&neighbours, plate, columns, row);
#if HAS_SOURCE
    REAL source[COLUMNS];
    load_row(source, plate->source, plate, columns, row, is_edge);
#endif
    const uint fixed_columns = is_edge ? find_fixed_columns(plate, columns, row) : 0;
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        const REAL u = pipeline->centre[level][c];
        REAL result = update_node(u, &neighbours, c, plate);
#if HAS_SOURCE
        result = FMA_REAL(plate->dt, source[c], result);
#endif
        if (is_edge && (fixed_columns >> c & 1))
            result = u;
        pipeline->south[level][c] = u;
        pipeline->centre[level][c] = north[c];
        north[c] = result;
    }
}

#if VARIABLE
// Returns the conductivity of the face between two nodes: 2 / (a + b), correctly rounded. CUDA has
// a faster instruction sequence for a reciprocal. Halving a sum and doubling a quotient are exact.
FUNCTION REAL face_conductivity(REAL a, REAL b)
{
#if !defined(ON_CUDA)
    return (REAL)2 / (a + b);
#elif IS_DOUBLE
    return __drcp_rn(0.5 * (a + b));
#else
    return __frcp_rn(0.5f * (a + b));
#endif
}

// Moves the face conductivities to the next level and computes those of level 0, whose centre row
// is the newest row of the resistivity so far. `north` is the row after it.
FUNCTION void advance_faces(Pipeline* pipeline, const REAL north[COLUMNS], LaneNeighbours lanes)
{
    UNROLL_ALL
    for (int level = STEPS; level > 0; level--) {
        UNROLL_ALL
        for (int c = 0; c < COLUMNS; c++) {
            pipeline->north_face[level][c] = pipeline->north_face[level - 1][c];
            if (level < STEPS)
                pipeline->east_face[level][c] = pipeline->east_face[level - 1][c];
        }
        if (level < STEPS)
            pipeline->west_face[level] = pipeline->west_face[level - 1];
    }
    pipeline->west_face[0] = face_conductivity(lanes.west, pipeline->resistivity[0]);
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        const REAL east = c < COLUMNS - 1 ? pipeline->resistivity[c + 1] : lanes.east;
        pipeline->east_face[0][c] = face_conductivity(pipeline->resistivity[c], east);
        pipeline->north_face[0][c] = face_conductivity(pipeline->resistivity[c], north[c]);
    }
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++)
        pipeline->resistivity[c] = north[c];
}
#endif

// Sends row `row` through all levels. `north` is the row of level 0 on input, and row `row - STEPS`
// of level STEPS on output. `resistivity` is the row of the resistivity. `ends` is the shared memory
// for the exchange.
FUNCTION void advance_row(
    Pipeline* pipeline,
    REAL north[COLUMNS],
    const REAL resistivity[COLUMNS],
    const Plate* plate,
    LaneColumns columns,
    int row,
    int is_edge,
    SHARED_POINTER REAL* ends)
{
#if !HAS_WARPS
    ends += (row & 1) * (EXCHANGE_SIZE / 2);
    for (int level = 0; level < STEPS; level++)
        publish_ends(ends, level, pipeline->centre[level]);
#if VARIABLE
    publish_ends(ends, STEPS, pipeline->resistivity);
#endif
    BARRIER();
#endif
#if VARIABLE
#if HAS_WARPS
    advance_faces(pipeline, resistivity, lane_neighbours(pipeline->resistivity));
#else
    advance_faces(pipeline, resistivity, published_neighbours(ends, STEPS));
#endif
#endif
#if HAS_WARPS
    UNROLL_ALL
#endif
    for (int level = 0; level < STEPS; level++) {
#if HAS_WARPS
        const LaneNeighbours lanes = lane_neighbours(pipeline->centre[level]);
#else
        const LaneNeighbours lanes = published_neighbours(ends, level);
#endif
        advance_level(pipeline, level, north, lanes, plate, columns, row - 1 - level, is_edge);
    }
}

// Loads a row of level 0, and of the resistivity, into place `r` of the rows loaded ahead.
FUNCTION void load_ahead(Pipeline* pipeline, int r, const Plate* plate, LaneColumns columns, int row, int is_edge)
{
    load_row(pipeline->ahead[r], plate->from, plate, columns, row, is_edge);
#if VARIABLE
    load_row(pipeline->resistivity_ahead[r], plate->resistivity, plate, columns, row, is_edge);
#endif
}

// Advances row `row` of level 0 and loads row `row + ROWS_IN_FLIGHT`. Stores the row of the last
// level that is complete, if it is in [begin, end).
FUNCTION void advance_chunk_row(
    Pipeline* pipeline,
    GLOBAL REAL* RESTRICT to,
    const Plate* plate,
    LaneColumns columns,
    int row,
    int begin,
    int end,
    int is_stored,
    int is_edge,
    SHARED_POINTER REAL* ends)
{
    REAL north[COLUMNS], resistivity[COLUMNS];
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        north[c] = pipeline->ahead[0][c];
#if VARIABLE
        resistivity[c] = pipeline->resistivity_ahead[0][c];
#endif
    }
    UNROLL_ALL
    for (int r = 0; r < ROWS_IN_FLIGHT - 1; r++) {
        UNROLL_ALL
        for (int c = 0; c < COLUMNS; c++) {
            pipeline->ahead[r][c] = pipeline->ahead[r + 1][c];
#if VARIABLE
            pipeline->resistivity_ahead[r][c] = pipeline->resistivity_ahead[r + 1][c];
#endif
        }
    }
    const int ahead = row + ROWS_IN_FLIGHT < end + STEPS ? row + ROWS_IN_FLIGHT : end + STEPS - 1;
    load_ahead(pipeline, ROWS_IN_FLIGHT - 1, plate, columns, ahead, is_edge);
    advance_row(pipeline, north, resistivity, plate, columns, row, is_edge, ends);
    const int result_row = row - STEPS;
    if (is_stored && result_row >= begin && result_row < end)
        store_row(to, plate, columns, result_row, north, is_edge);
}

// Sets all registers of a pipeline before its first row, and loads the first rows ahead.
FUNCTION void start_pipeline(Pipeline* pipeline, const Plate* plate, LaneColumns columns, int first)
{
    UNROLL_ALL
    for (int level = 0; level < STEPS; level++) {
        UNROLL_ALL
        for (int c = 0; c < COLUMNS; c++) {
            pipeline->south[level][c] = 0;
            pipeline->centre[level][c] = 0;
#if VARIABLE
            pipeline->east_face[level][c] = 1;
            pipeline->north_face[level][c] = 1;
            pipeline->north_face[STEPS][c] = 1;
            pipeline->resistivity[c] = 1;
#endif
        }
#if VARIABLE
        pipeline->west_face[level] = 1;
#endif
    }
    UNROLL_ALL
    for (int r = 0; r < ROWS_IN_FLIGHT; r++)
        load_ahead(pipeline, r, plate, columns, first + r, 1);
}

// Computes rows [begin, end) of `to` from `from`, STEPS steps ahead. Blocks along x have
// neighbouring strips, blocks along y have neighbouring chunks of `rows_per_chunk` rows.
//
// from, to, resistivity, source: fields of stored_rows * pitch values. resistivity is not used
// without VARIABLE, source not without HAS_SOURCE. ghost_offsets: 2 * (ny + pitch) values.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
advance(
    GLOBAL const REAL* RESTRICT from,
    GLOBAL REAL* RESTRICT to,
    GLOBAL const REAL* RESTRICT resistivity,
    GLOBAL const REAL* RESTRICT source,
    GLOBAL const REAL* RESTRICT ghost_offsets,
    REAL coefficient_x,
    REAL coefficient_y,
    REAL dt,
    int nx,
    int ny,
    int pitch,
    int first_stored_row,
    int stored_rows,
    int edges,
    int begin,
    int end,
    int rows_per_chunk)
{
#if HAS_WARPS
    SHARED_POINTER REAL* ends = 0;
#else
    SHARED REAL ends[EXCHANGE_SIZE];
#endif
    const Plate plate = { from, resistivity, source, ghost_offsets, coefficient_x, coefficient_y, dt, nx, ny, pitch,
        first_stored_row, stored_rows, edges, EDGE_KIND(edges, SOUTH) == EDGE_PERIODIC && stored_rows == ny };

    const int strip = BLOCK_INDEX * WARPS_PER_BLOCK + THREAD / WARP_SIZE;
    const int strip_first = strip * STORED_WIDTH - HALO;
#if HAS_WARPS
    if (strip_first + HALO >= nx)
        return;
#endif
    const int is_edge_strip = strip_first <= 0 || strip_first + STRIP_WIDTH >= nx;
    const LaneColumns columns = find_columns(&plate, strip_first + LANE * COLUMNS, is_edge_strip);
    const int is_stored = LANE >= HALO / COLUMNS && LANE < WARP_SIZE - HALO / COLUMNS && columns.first < nx;

    const int chunk_begin = begin + BLOCK_INDEX_Y * rows_per_chunk;
    const int chunk_end = chunk_begin + rows_per_chunk < end ? chunk_begin + rows_per_chunk : end;
    Pipeline pipeline;
    start_pipeline(&pipeline, &plate, columns, chunk_begin - STEPS);
    for (int first = chunk_begin - STEPS; first < chunk_end + STEPS; first += ROWS_IN_FLIGHT) {
        // Whether this iteration uses a column or a row that is an edge of the grid, or a row that is
        // not in the buffer.
        const int is_edge = is_edge_strip || first - STEPS <= first_stored_row
            || first + 2 * ROWS_IN_FLIGHT >= first_stored_row + stored_rows;
#if HAS_WARPS
        // The loop without edges is unrolled, so that rows move through the registers without copies.
        if (!is_edge) {
            UNROLL_ALL
            for (int row = first; row < first + ROWS_IN_FLIGHT; row++)
                advance_chunk_row(&pipeline, to, &plate, columns, row, chunk_begin, chunk_end, is_stored, 0, ends);
            continue;
        }
#endif
        UNROLL(1)
        for (int row = first; row < first + ROWS_IN_FLIGHT; row++)
            advance_chunk_row(&pipeline, to, &plate, columns, row, chunk_begin, chunk_end, is_stored, is_edge, ends);
    }
}
