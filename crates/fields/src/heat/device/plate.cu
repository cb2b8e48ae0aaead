// The plate as a lane of a warp sees it: its columns, loads and stores of rows, the exchange with
// neighbouring lanes, and edges. heat.cu follows this file and describes the layout of fields and
// the division of work.

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
#if HAS_CAPACITY
    GLOBAL const REAL* capacity_ratio;
#endif
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

// Loads the lane's columns of a row of `field`. Without `is_edge`, row and columns are in the
// buffer.
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

