// A kernel that faults on purpose: it writes to an address that no buffer has.

KERNEL(1)
write_to_address(ulong address)
{
    *(GLOBAL uint*)address = 7;
}
