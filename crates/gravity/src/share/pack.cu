// Columns of results to one array and back, for the exchange between ranks.
//
// packed[target * columns + column] is one result of a target. Targets are in the order of the
// solver, so the part of a rank is contiguous. `order` has the user's index of each target. It is
// not read if `has_order` is 0: the solver then uses the user's order.
//
// 16 bytes of traffic per target and column, and 4 more with an order. The access to the columns
// is random then.

FUNCTION uint user_index(uint target, int has_order, GLOBAL const uint* RESTRICT order)
{
    return has_order ? order[target] : target;
}

// Copies the values of the targets begin .. end - 1 from one column.
KERNEL(BLOCK_SIZE)
pack(uint begin, uint end, int has_order, GLOBAL const uint* RESTRICT order,
    GLOBAL const double* RESTRICT values, int columns, int column, GLOBAL double* RESTRICT packed)
{
    const uint target = begin + (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (target >= end)
        return;
    packed[(size_t)target * columns + column] = values[user_index(target, has_order, order)];
}

// Copies the values of the targets begin .. end - 1 to one column.
KERNEL(BLOCK_SIZE)
unpack(uint begin, uint end, int has_order, GLOBAL const uint* RESTRICT order,
    GLOBAL const double* RESTRICT packed, int columns, int column, GLOBAL double* RESTRICT values)
{
    const uint target = begin + (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (target >= end)
        return;
    values[user_index(target, has_order, order)] = packed[(size_t)target * columns + column];
}
