// Near bodies of the tree walk in mixed precision.
//
// The distance of each pair is compared with that up to which bodies are near the box. Nearer pairs
// are summed in f64 from the positions of the user, so their force is correct however near they
// are. In a uniform system 5% of the bodies have such a neighbour in their group. Differences of
// other pairs are correct to 6e-6 in f32, as those of bodies outside (`near.rs`).

#if HAS_NEAR

// Adds the field of the body `source` at `target`, in f64.
FUNCTION void add_pair_in_double(FieldSum* sums, uint source, double mass, const Target* target,
    const Tree* tree, GLOBAL const double* RESTRICT frame)
{
    const uint from = tree->order[target->body], to = tree->order[source];
    const double scale = frame[FRAME_LENGTH_SCALE];
    const double x = (tree->x[to] - tree->x[from]) * scale, y = (tree->y[to] - tree->y[from]) * scale,
                 z = (tree->z[to] - tree->z[from]) * scale;
    const double inv_r = RSQRT64(FMA64(x, x, FMA64(y, y, FMA64(z, z, frame[FRAME_EPS2]))));
    const double weight = mass * inv_r * (inv_r * inv_r);
    sums->x = FMA64(weight, x, sums->x);
    sums->y = FMA64(weight, y, sums->y);
    sums->z = FMA64(weight, z, sums->z);
#if POTENTIAL
    sums->potential = FMA64(-mass, inv_r, sums->potential);
#endif
}

// Adds the field of up to WARP_SIZE near bodies at each lane's target. Each of the first `count`
// lanes brings one of them, `body`.
FUNCTION void add_near_bodies(FieldSum* sums, uint body, uint count, const Target* target, const Box* box,
    REAL eps2, const Tree* tree, GLOBAL const double* RESTRICT frame, const Workspace* work)
{
    WARP_BARRIER();
    if ((uint)LANE < count) {
        work->tile[LANE] = body_of_tile(body, box, tree);
        work->tile_bodies[LANE] = body;
    }
    WARP_BARRIER();
    // More than the rounding error of a sum.
    const float limit2 = (box->near2 + eps2) * (1.0f + 1e-6f);
    Field field = {0};
    UNROLL(2)
    for (uint entry = 0; entry < count; entry++) {
        REAL4 source = work->tile[entry];
        const uint source_body = work->tile_bodies[entry];
        const REAL x = source.x - target->x, y = source.y - target->y, z = source.z - target->z;
        REAL rho2 = FMA(x, x, FMA(y, y, FMA(z, z, eps2)));
        if (!(rho2 > limit2)) {
            if (source_body != target->body)
                add_pair_in_double(sums, source_body, (double)source.w, target, tree, frame);
            rho2 = 1;
            source.w = 0;
        }
        add_pair(&field, source.w, x, y, z, rho2, 0);
    }
    add_field(sums, &field);
}

#endif
