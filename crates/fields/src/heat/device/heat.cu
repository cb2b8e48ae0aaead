// Explicit five-point update of the heat equation (see ../mod.rs), STEPS time steps per launch.
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
// Defined by the host (slab.rs): REAL, IS_DOUBLE, VECTOR (16 bytes of REALs), VECTOR_WIDTH,
// VECTORS (per lane), STEPS, ROWS_IN_FLIGHT, WARPS_PER_BLOCK, VARIABLE (conductivity per node),
// HAS_CAPACITY (heat capacity per node, only with VARIABLE), HAS_SOURCE.

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

// Hides the value of an int from the compiler, so that what is computed from it stays where it is.
#if HAS_WARPS
#define HIDE_VALUE(variable) asm volatile("" : "+r"(variable))
#else
#define HIDE_VALUE(variable)
#endif

// Returns the new value of a node, or with HAS_CAPACITY its gain of heat, divided by the smallest
// heat capacity. This is the form of the reference: the same operations in the same order.
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
#if HAS_CAPACITY
    return FMA_REAL(plate->coefficient_x, flux_x, plate->coefficient_y * flux_y);
#else
    return FMA_REAL(plate->coefficient_x, flux_x, FMA_REAL(plate->coefficient_y, flux_y, u));
#endif
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
#if HAS_CAPACITY
    REAL capacity_ratio[COLUMNS];
    load_row(capacity_ratio, plate->capacity_ratio, plate, columns, row, is_edge);
#endif
    const uint fixed_columns = is_edge ? find_fixed_columns(plate, columns, row) : 0;
    UNROLL_ALL
    for (int c = 0; c < COLUMNS; c++) {
        const REAL u = pipeline->centre[level][c];
        REAL result = update_node(u, &neighbours, c, plate);
#if HAS_SOURCE
        result = FMA_REAL(plate->dt, source[c], result);
#endif
#if HAS_CAPACITY
        result = FMA_REAL(capacity_ratio[c], result, u);
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
// of level STEPS on output. `resistivity` is the row of the resistivity. `ends` is the shared
// memory for the exchange.
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
    const LaneNeighbours resistivity_lanes = lane_neighbours(pipeline->resistivity);
#else
    const LaneNeighbours resistivity_lanes = published_neighbours(ends, STEPS);
#endif
    advance_faces(pipeline, resistivity, resistivity_lanes);
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

// Strip and rows of a warp.
typedef struct {
    int strip;
    int begin;
    int end;
} WarpChunk;

// Returns the chunk of this warp. The first `edge_blocks` blocks have the strips that contain an
// edge: strip 0 and the strips from `east_strip` on. They are slower, so they have fewer rows per
// chunk and start first. The other blocks have neighbouring strips, then neighbouring chunks.
FUNCTION WarpChunk find_chunk(
    int begin, int end, int strips, int east_strip, int edge_blocks, int edge_chunk_rows, int chunk_rows)
{
    const int warp = THREAD / WARP_SIZE;
    int strip, chunk, rows;
    if (BLOCK_INDEX < edge_blocks) {
        const int edge_strips = 1 + strips - east_strip;
        const int index = BLOCK_INDEX * WARPS_PER_BLOCK + warp;
        strip = index % edge_strips == 0 ? 0 : east_strip + index % edge_strips - 1;
        chunk = index / edge_strips;
        rows = edge_chunk_rows;
    } else {
        const int blocks_per_row = (east_strip - 1 + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK;
        const int block = BLOCK_INDEX - edge_blocks;
        strip = 1 + block % blocks_per_row * WARPS_PER_BLOCK + warp;
        // The last warps of a row of blocks may have no strip. A chunk from `end` on is empty.
        chunk = block / blocks_per_row;
        rows = chunk_rows;
        if (strip >= east_strip)
            begin = end;
    }
    WarpChunk result;
    result.strip = strip;
    result.begin = begin + chunk * rows < end ? begin + chunk * rows : end;
    result.end = result.begin + rows < end ? result.begin + rows : end;
    return result;
}

// Computes rows [begin, end) of `to` from `from`, STEPS steps ahead.
//
// from, to, resistivity, source, capacity_ratio: fields of stored_rows * pitch values. resistivity
// is not used without VARIABLE, source not without HAS_SOURCE, capacity_ratio not without
// HAS_CAPACITY. ghost_offsets: 2 * (ny + pitch) values. dt is divided by the smallest heat
// capacity.
//
// Without the 1, NVIDIA's compiler spills registers to run more blocks per SM.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, 1)
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
    int strips,
    int east_strip,
    int edge_blocks,
    int edge_chunk_rows,
    int chunk_rows,
    GLOBAL const REAL* RESTRICT capacity_ratio)
{
#if HAS_WARPS
    SHARED_POINTER REAL* ends = 0;
#else
    SHARED REAL ends[EXCHANGE_SIZE];
#endif
    const Plate plate = { from, resistivity, source, ghost_offsets, coefficient_x, coefficient_y, dt, nx, ny, pitch,
        first_stored_row, stored_rows, edges, EDGE_KIND(edges, SOUTH) == EDGE_PERIODIC && stored_rows == ny,
#if HAS_CAPACITY
        capacity_ratio
#endif
    };

    const WarpChunk chunk = find_chunk(begin, end, strips, east_strip, edge_blocks, edge_chunk_rows, chunk_rows);
#if HAS_WARPS
    if (chunk.begin >= chunk.end)
        return;
#endif
    const int strip_first = chunk.strip * STORED_WIDTH - HALO;
    const int is_edge_strip = chunk.strip == 0 || chunk.strip >= east_strip;
    const int first_column = strip_first + LANE * COLUMNS;
    const int is_stored = LANE >= HALO / COLUMNS && LANE < WARP_SIZE - HALO / COLUMNS && first_column < nx;

    Pipeline pipeline;
    start_pipeline(&pipeline, &plate, find_columns(&plate, first_column, is_edge_strip), chunk.begin - STEPS);
    for (int first = chunk.begin - STEPS; first < chunk.end + STEPS; first += ROWS_IN_FLIGHT) {
        // Whether this iteration uses a column or a row that is an edge of the grid, or a row that
        // is not in the buffer.
        const int is_edge = is_edge_strip || first - STEPS <= first_stored_row
            || first + 2 * ROWS_IN_FLIGHT >= first_stored_row + stored_rows;
#if HAS_WARPS
        // The loop without edges is unrolled, so that rows move through the registers without
        // copies.
        if (!is_edge) {
            const LaneColumns columns = { first_column, first_column, 0, 0, 0, 0 };
            UNROLL_ALL
            for (int row = first; row < first + ROWS_IN_FLIGHT; row++)
                advance_chunk_row(&pipeline, to, &plate, columns, row, chunk.begin, chunk.end, is_stored, 0, ends);
            continue;
        }
#endif
        // Without the hidden values, properties of edges would occupy registers in the other loop.
        int hidden_column = first_column;
        Plate edge_plate = plate;
        HIDE_VALUE(hidden_column);
        HIDE_VALUE(edge_plate.edges);
        HIDE_VALUE(edge_plate.nx);
        HIDE_VALUE(edge_plate.ny);
        HIDE_VALUE(edge_plate.pitch);
        HIDE_VALUE(edge_plate.stored_rows);
        const LaneColumns columns = find_columns(&edge_plate, hidden_column, is_edge_strip);
        UNROLL(1)
        for (int row = first; row < first + ROWS_IN_FLIGHT; row++)
            advance_chunk_row(
                &pipeline, to, &edge_plate, columns, row, chunk.begin, chunk.end, is_stored, is_edge, ends);
    }
}
