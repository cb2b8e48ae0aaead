// Slots of the frame, an array of FRAME_SLOTS doubles that frame.cu fills for each force
// evaluation.
//
// Kernels compute in scaled units: scaled position = (position - origin) * length scale and
// scaled mass = mass * mass scale. The last two slots convert scaled sums back to the user's units.

#define FRAME_ORIGIN 0            // x, y, z: slots 0, 1, 2
#define FRAME_LENGTH_SCALE 3      // a power of two
#define FRAME_MASS_SCALE 4        // a power of two
#define FRAME_EPS2 5              // softening length squared, in scaled units
#define FRAME_ACCELERATION_UNIT 6 // acceleration = this * scaled sum; includes G
#define FRAME_POTENTIAL_UNIT 7    // potential = this * scaled sum; includes G
#define FRAME_SLOTS 8

// Scaled coordinate along `axis`: 0 for x, 1 for y, 2 for z. A macro because OpenCL C 1.2 needs one
// function per address space of `frame`.
#define SCALED_COORDINATE(frame, axis, coordinate)                                                 \
    (((coordinate) - (frame)[FRAME_ORIGIN + (axis)]) * (frame)[FRAME_LENGTH_SCALE])
