/* What the processor and the memory can do on one thread. Every function repeats a loop and returns
 * a number that depends on all of it, so that nothing is optimised away. */
#include "ranking_avx2.c"

#define CHAINS 10 /* enough independent chains to fill two pipes of latency four or five */

/* 2 * 4 * CHAINS floating point operations per repetition. */
double fma_float64(long repetitions)
{
    vec x[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        x[i] = all(i);
    for (long r = 0; r < repetitions; r++) {
        _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++)
            x[i] = _mm256_fmadd_pd(x[i], all(0.999), all(1e-3));
    }
    vec total = all(0);
    for (int i = 0; i < CHAINS; i++)
        total = _mm256_add_pd(total, x[i]);
    return sum(total);
}

/* 2 * 8 * CHAINS floating point operations per repetition. */
double fma_float32(long repetitions)
{
    __m256 x[CHAINS], total = _mm256_setzero_ps();
    for (int i = 0; i < CHAINS; i++)
        x[i] = _mm256_set1_ps((float)i);
    for (long r = 0; r < repetitions; r++) {
        _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++)
            x[i] = _mm256_fmadd_ps(x[i], _mm256_set1_ps(0.999f), _mm256_set1_ps(1e-3f));
    }
    for (int i = 0; i < CHAINS; i++)
        total = _mm256_add_ps(total, x[i]);
    return _mm256_cvtss_f32(total);
}

/* 2^x of numbers that stay in the first-level cache; the polynomial is accurate to 1.4e-14. */
double exponential(const double *x, double *out, long size, long repetitions)
{
    for (long r = 0; r < repetitions; r++)
        for (long k = 0; k < size; k += 4) {
            vec s = load(x + k), shifted = _mm256_add_pd(s, all(0x1.8p52));
            vec f = _mm256_sub_pd(s, _mm256_sub_pd(shifted, all(0x1.8p52)));
            vec u = _mm256_mul_pd(f, f), even = all(1.3215486790144309e-06),
                odd = all(1.0178086009239699e-07);
            even = _mm256_fmadd_pd(even, u, all(1.5403530393381608e-04));
            odd = _mm256_fmadd_pd(odd, u, all(1.5252733804059841e-05));
            even = _mm256_fmadd_pd(even, u, all(9.6181291076284769e-03));
            odd = _mm256_fmadd_pd(odd, u, all(1.3333558146428443e-03));
            even = _mm256_fmadd_pd(even, u, all(2.4022650695910072e-01));
            odd = _mm256_fmadd_pd(odd, u, all(5.5504108664821580e-02));
            even = _mm256_fmadd_pd(even, u, all(1.0));
            odd = _mm256_fmadd_pd(odd, u, all(6.9314718055994531e-01));
            store(out + k, scaled_up(_mm256_fmadd_pd(odd, f, even), shifted));
        }
    return out[size - 1];
}

/* The bare loops of the ranking gradients: one label with `q` others, all in the first-level
 * cache, nothing to find, to clamp or to correct. */
INLINE double pairs(const double *z, double *score, double *confidence, long q, long repetitions,
                    int want)
{
    scratch w;
    double total = 0;
    for (long r = 0; r < repetitions; r++) {
        w.z[0] = 1e-3 * (double)(r % 100);
        w.z[1] = -w.z[0];
        w.score_weight[0] = w.confidence_weight[0] = 0.5;
        w.score_weight[1] = w.confidence_weight[1] = 0.25;
        pass(z, (int)q, 0, 2, 0, 0, want, &w, score, confidence);
        total += w.score[0] + w.score[1];
        if (want & CONFIDENCE)
            total += w.confidence[0] + w.confidence[1];
    }
    return total;
}

double score_pairs(const double *z, double *out, long q, long repetitions)
{
    return pairs(z, out, out, q, repetitions, SCORE);
}

double confidence_pairs(const double *z, double *out, long q, long repetitions)
{
    return pairs(z, out, out, q, repetitions, CONFIDENCE);
}

double fused_pairs(const double *z, double *out, long q, long repetitions)
{
    return pairs(z, out, out + q, q, repetitions, SCORE | CONFIDENCE);
}

double read_memory(const double *x, long size)
{
    vec total[4] = {all(0), all(0), all(0), all(0)};
    for (long k = 0; k + 16 <= size; k += 16)
        EACH(i, 4) total[i] = _mm256_add_pd(total[i], load(x + k + 4 * i));
    return sum(_mm256_add_pd(_mm256_add_pd(total[0], total[1]), _mm256_add_pd(total[2], total[3])));
}

/* Three arrays are read, two are updated: more streams keep more requests on their way. */
double update(const double *x, const double *y, const double *z, double *a, double *b, long size)
{
    for (long k = 0; k + 4 <= size; k += 4) {
        vec d = _mm256_sub_pd(load(x + k), load(y + k));
        store(a + k, _mm256_fmadd_pd(all(0.5), d, load(a + k)));
        store(b + k, _mm256_fmadd_pd(all(0.5), load(z + k), load(b + k)));
    }
    return a[size - 1] + b[size - 1];
}

/* a = b + s c */
double triad(double *a, const double *b, const double *c, long size)
{
    for (long k = 0; k + 4 <= size; k += 4)
        store(a + k, _mm256_fmadd_pd(all(0.5), load(c + k), load(b + k)));
    return a[size - 1];
}
