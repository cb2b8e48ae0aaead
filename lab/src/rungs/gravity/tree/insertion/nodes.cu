// Data structure of the octree by insertion, shared by all its kernels.
//
// Nodes are numbered from 0 to 2 n - 1. Bodies are at the front, nodes 0 .. n - 1. Cells are taken
// from the end: the root is node 2 n - 1, the next cell is node 2 n - 2, and so on. For example,
// with 100 bodies the root is node 199. One comparison with n tells bodies from cells. EMPTY is -1
// and LOCKED is -2, so `node < n` is also true for both, and `node >= n` is true only for cells.
//
// Arrays of cells have n elements. Element c belongs to node n + c, so the root is element n - 1.
//
//   child[8 c + k]   content of octant k of cell c: EMPTY, LOCKED or a node. `sum_cells` moves the
//                    nodes to the front
//   node[4 i ...]    position and mass of node i, f32, in scaled units. For a cell, until
//                    `sum_cells` writes them: the grid coordinates of one of its bodies (the
//                    representative) and the level of the cell
//   parent[c]        the cell above c
//   child_cells[c]   number of children of c that are cells
//   finished[c]      progress of `sum_cells`: 1 if c is summed (kernels that wait), or the number
//                    of children that are summed cells (kernels that do not)
//
// Every cell except the root has at least two children: levels at which a cell would have one child
// are skipped. It follows that
//   - an insertion makes at most one cell. There are never more cells than bodies, so memory for n
//     cells is always enough.
//   - the tree depends only on the bodies. Races between threads only decide the numbers of cells.
//   - most cells have a lower number than their parent, but not all: a cell that splits an edge is
//     newer than the cell below it.
//
// Levels 0 .. 31 halve the cube. The octant at such a level is one bit of each of the three grid
// coordinates, of which there are 2^32 per side. From level 32 on it is three bits of the index of
// the body. Bodies that share a grid point are therefore in a subtree like all others.

#define EMPTY (-1)
#define LOCKED (-2)
#define GRID_LEVELS 32
#define LEVELS 42 // GRID_LEVELS and ten levels of three bits for indices below 2^30

// BLOCK_ANY: nonzero if the condition holds for any thread of the block. It is also a barrier.
// `flag` points to a SHARED uint.
#if defined(ON_CUDA)
#define BLOCK_ANY(condition, flag) __syncthreads_or(condition)
#else
FUNCTION int block_any(int condition, __local uint* flag)
{
    BARRIER();
    if (THREAD == 0)
        *flag = 0;
    BARRIER();
    if (condition)
        *flag = 1;
    BARRIER();
    return *flag != 0;
}
#define BLOCK_ANY(condition, flag) block_any(condition, flag)
#endif
