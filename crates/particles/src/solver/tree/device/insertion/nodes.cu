// Data structure of the octree by insertion, shared by all its kernels.
//
// Nodes are numbered: bodies are nodes 0 .. n - 1, cell c is node n + c, and cell 0 is the root.
// For example, with 100 bodies the root is node 100. One comparison tells bodies from cells. EMPTY
// and LOCKED are negative, so they differ from both.
//
//   child[8 c + k]      content of octant k of cell c: EMPTY, LOCKED or a node. `sum_cells` moves
//                       the nodes to the front
//   node[4 i ...]       position and mass of node i, f32, in scaled units. For a cell, until
//                       `sum_cells` writes them: the grid coordinates of one of its bodies (the
//                       representative) and the level of the cell
//   parent[c]           the cell above c
//   child_cells[c]      number of children of c that are cells
//   summed_children[c]  number of those that `sum_cells` has finished
//
// Every cell except the root has at least two children: levels at which a cell would have one child
// are skipped. It follows that
//   - an insertion makes at most one cell. There are never more cells than bodies, so memory for n
//     cells is always enough.
//   - the tree depends only on the bodies. Races between threads only decide the numbers of cells.
//
// Levels 0 .. 31 halve the cube. The octant at such a level is one bit of each of the three grid
// coordinates, of which there are 2^32 per side. From level 32 on it is three bits of the index of
// the body. Bodies that share a grid point are therefore in a subtree like all others.

#define EMPTY (-1)
#define LOCKED (-2)
#define GRID_LEVELS 32
#define LEVELS 42 // GRID_LEVELS and ten levels of three bits for indices below 2^30

// Slots of `frame` after those of `frame_slots.cu`: the cube around all bodies, in user units.
#define FRAME_CORNER 8      // x, y, z of the corner with the smallest coordinates
#define FRAME_SIDE 11       // side of the cube
#define FRAME_GRID_SCALE 12 // grid steps per unit of length
