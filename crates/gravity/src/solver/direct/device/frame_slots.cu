// Slots of the frame, an array of doubles with the parameters of one force evaluation. All kernels
// that read a frame share this list. Slots of vectors are followed by y and z.
//
// Kernels compute in scaled units: scaled position = (position - origin) * length scale and
// scaled mass = mass * mass scale. f32 therefore represents a system in metres as well as one in
// parsecs.

// Filled for every evaluation: by frame.cu for sums over all pairs, by `find_frame` for trees.
#define FRAME_ORIGIN 0            // origin of the scaled coordinates, in the user's units
#define FRAME_LENGTH_SCALE 3      // a power of two
#define FRAME_MASS_SCALE 4        // a power of two
#define FRAME_EPS2 5              // softening length squared, in scaled units
#define FRAME_ACCELERATION_UNIT 6 // acceleration = this * scaled sum; includes G
#define FRAME_POTENTIAL_UNIT 7    // potential = this * scaled sum; includes G
#define FRAME_UNIT_SLOTS 8        // number of the slots above

// Only for trees: the cube around all bodies.
#define FRAME_CORNER 8            // smallest coordinates of the cube, in the user's units
#define FRAME_SIDE 11             // side of the cube, scaled
#define FRAME_CELLS_PER_LENGTH 12 // cells of the finest level per unit of the user's length
#define FRAME_MIDDLE 13           // centre of the cube, scaled, relative to the origin
#define FRAME_SLOTS 16

// Scaled coordinate along `axis`: 0 for x, 1 for y, 2 for z. A macro because OpenCL C 1.2 needs one
// function per address space of `frame`.
#define SCALED_COORDINATE(frame, axis, coordinate)                                                 \
    (((coordinate) - (frame)[FRAME_ORIGIN + (axis)]) * (frame)[FRAME_LENGTH_SCALE])
