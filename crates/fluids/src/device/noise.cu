// Normal numbers of Langevin dynamics, with the operations of `noise` in ensemble.rs: every one is
// rounded once, so the bits are those of the CPU.

// Separates the noise of particles from other uses of a seed.
#define NOISE_KEY 0x4c4a4e56u

typedef struct {
    double x, y, z;
} Noise;

typedef struct {
    uint word[4];
} RandomBits;

// Philox4x32-10, as in orrery_model::rng.
FUNCTION RandomBits philox(RandomBits counter, uint key0, uint key1)
{
    UNROLL_ALL
    for (int round = 0; round < 10; round++) {
        const ulong product0 = (ulong)0xD2511F53u * counter.word[0];
        const ulong product1 = (ulong)0xCD9E8D57u * counter.word[2];
        counter.word[0] = (uint)(product1 >> 32) ^ counter.word[1] ^ key0;
        counter.word[1] = (uint)product1;
        counter.word[2] = (uint)(product0 >> 32) ^ counter.word[3] ^ key1;
        counter.word[3] = (uint)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// Returns log((word + 1/2) / 2^32).
FUNCTION double log_of_unit(uint word)
{
    const ulong odd = 2 * (ulong)word + 1;
    const int shift = LEADING_ZEROS_U64(odd);
    double fraction = (double)(odd << shift) * (1.0 / 9223372036854775808.0);
    int exponent = 30 - shift;
    if (fraction > 1.4142135623730951) {
        fraction = 0.5 * fraction;
        exponent += 1;
    }
    const double s = (fraction - 1.0) / (fraction + 1.0), s2 = PRODUCT64(s, s);
    double sum = 1.0 / 21.0;
    sum = FMA64(sum, s2, 1.0 / 19.0);
    sum = FMA64(sum, s2, 1.0 / 17.0);
    sum = FMA64(sum, s2, 1.0 / 15.0);
    sum = FMA64(sum, s2, 1.0 / 13.0);
    sum = FMA64(sum, s2, 1.0 / 11.0);
    sum = FMA64(sum, s2, 1.0 / 9.0);
    sum = FMA64(sum, s2, 1.0 / 7.0);
    sum = FMA64(sum, s2, 1.0 / 5.0);
    sum = FMA64(sum, s2, 1.0 / 3.0);
    const double twice = 2.0 * s;
    return FMA64((double)exponent, 0.6931471805599453, FMA64(twice, PRODUCT64(s2, sum), twice));
}

// Sets cosine and sine of the angle 2 pi (word + 1/2) / 2^32.
FUNCTION void cosine_and_sine(uint word, double* cosine, double* sine)
{
    const ulong odd = 2 * (ulong)word + 1;
    // The nearest quarter of a turn, of 2^31 units.
    const ulong quarter = (odd + 0x40000000ul) >> 31;
    const i64 rest = (i64)odd - (i64)(quarter << 31);
    const double x = PRODUCT64((double)rest, 3.141592653589793 / 4294967296.0), x2 = PRODUCT64(x, x);
    double s = -1.0 / 1307674368000.0;
    s = FMA64(s, x2, 1.0 / 6227020800.0);
    s = FMA64(s, x2, -1.0 / 39916800.0);
    s = FMA64(s, x2, 1.0 / 362880.0);
    s = FMA64(s, x2, -1.0 / 5040.0);
    s = FMA64(s, x2, 1.0 / 120.0);
    s = FMA64(s, x2, -1.0 / 6.0);
    s = FMA64(x, PRODUCT64(x2, s), x);
    double c = 1.0 / 20922789888000.0;
    c = FMA64(c, x2, -1.0 / 87178291200.0);
    c = FMA64(c, x2, 1.0 / 479001600.0);
    c = FMA64(c, x2, -1.0 / 3628800.0);
    c = FMA64(c, x2, 1.0 / 40320.0);
    c = FMA64(c, x2, -1.0 / 720.0);
    c = FMA64(c, x2, 1.0 / 24.0);
    c = FMA64(c, x2, -0.5);
    c = FMA64(c, x2, 1.0);
    const int is_odd = (int)(quarter & 1);
    const double first = is_odd ? s : c, second = is_odd ? c : s;
    const ulong turn = quarter & 3;
    *cosine = turn == 1 || turn == 2 ? -first : first;
    *sine = turn == 2 || turn == 3 ? -second : second;
}

// Returns three standard normal numbers of a particle at a step (Box-Muller).
FUNCTION Noise noise(ulong seed, ulong step, ulong id)
{
    RandomBits bits = { { (uint)step, (uint)(step >> 32), (uint)id, (uint)(id >> 32) } };
    bits = philox(bits, (uint)seed ^ NOISE_KEY, (uint)(seed >> 32));
    double cosine, sine;
    Noise result;
    const double radius = SQRT64(-2.0 * log_of_unit(bits.word[0]));
    cosine_and_sine(bits.word[1], &cosine, &sine);
    result.x = PRODUCT64(radius, cosine);
    result.y = PRODUCT64(radius, sine);
#if DIMENSIONS == 3
    const double second_radius = SQRT64(-2.0 * log_of_unit(bits.word[2]));
    cosine_and_sine(bits.word[3], &cosine, &sine);
    result.z = PRODUCT64(second_radius, cosine);
#else
    result.z = 0.0;
#endif
    return result;
}
