// Part of the kernels that merge trees in global memory: union-find without locks.
//
// Invariants: parents[root] = root, and every other element has a parent that comes before it in a
// fixed order. A thread makes a root the child of another root by an atomic compare-and-swap, so no
// link is lost. All other writes replace the parent of an element that is no root by a further
// ancestor. They are plain stores: whichever thread writes last, the parent is an ancestor.

// Returns the root of an element. Links each element on the way to its grandparent, which halves
// the path for all later searches.
FUNCTION uint find_root(GLOBAL uint* parents, uint element)
{
    uint parent = LOAD_U32(&parents[element]);
    while (parent != element) {
        const uint grandparent = LOAD_U32(&parents[parent]);
        if (grandparent != parent)
            STORE_U32(&parents[element], grandparent);
        element = parent;
        parent = grandparent;
    }
    return element;
}
