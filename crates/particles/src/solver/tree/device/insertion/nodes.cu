// The tree on the device, as all kernels of the form know it.
//
// Nodes are numbered through: bodies 0 .. n-1, then cells, cell c being node n + c and the root cell 0; so one comparison
// tells a body from a cell, and NOTHING and LOCKED, both negative, from either.
//
//   child[8 c + k]   what lies in octant k of cell c: NOTHING, LOCKED or a node (`moments` moves the nodes to the front)
//   node[4 ...]      of a body: place and mass, f32, in the frame's units. Of a cell, until `moments` puts the same
//                    there: grid coordinates of one of its bodies, the witness, and its level
//   parent, awaited  of a cell: the cell above, and how many of its children are cells
//
// Every cell but the root has two children at least: an edge skips the levels at which there would be one. So
//   - an insertion makes one cell at most, and there are never more cells than bodies: no pool runs dry;
//   - the tree is a function of the bodies alone. Threads that race only decide which cell has which number.
//
// Levels 0 .. 31 halve the box: octants are bits of the grid coordinates, 2^32 to a side. From 32 on they are bits of
// the body's number, three a level: bodies that share a point of the grid lie in a subtree like all others.

#define NOTHING (-1)
#define LOCKED (-2)
#define GRID_LEVELS 32
#define LEVELS 42 // and ten of numbers below 2^30

// The frame (`frame.cu`) goes on with the box: the lower corner, its side, grid steps a unit of length.
#define CORNER 8
#define SIDE 11
#define STEPS 12

