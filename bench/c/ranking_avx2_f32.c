/* Score gradient in float32 by hand for AVX2 and FMA; ranking_avx2.c explains the method.
 *
 * Eight labels a vector, q from 8 to MAX_LABELS. A rational function of lower degree is exact enough.
 */
#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define EACH(i, count) _Pragma("GCC unroll 4") for (int i = 0; i < (count); i++)

enum { MAX_LABELS = 1024 };

typedef __m256 vec;

static const float ROOT = 1.2011224087864497941f; /* sqrt(log2 e) */
/* (ROOT (|z_j| + |z_k|))^2 stays below 115 for smaller scores. */
static const float NO_CLAMP = 4.4f;

INLINE vec all(float x) { return _mm256_set1_ps(x); }
INLINE vec load(const float *x) { return _mm256_loadu_ps(x); }
INLINE void store(float *x, vec v) { _mm256_storeu_ps(x, v); }

INLINE float sum(vec v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* a/(1 + 2^(a^2)); 2^f = N/D for |f| <= 1/2 to 9.3e-11. */
INLINE vec pair(vec a, int clamp)
{
    vec s = _mm256_mul_ps(a, a);
    if (clamp)
        s = _mm256_min_ps(s, all(115.0f));
    vec shifted = _mm256_add_ps(s, all(0x1.8p23f));
    vec f = _mm256_sub_ps(s, _mm256_sub_ps(shifted, all(0x1.8p23f)));
    vec u = _mm256_mul_ps(f, f);
    vec even = _mm256_add_ps(u, all(20.818923793952646119f));
    vec odd = _mm256_fmadd_ps(u, all(0.057690072360129268627f), all(7.215289151477375819f));
    vec N = _mm256_fmadd_ps(f, odd, even), D = _mm256_fnmadd_ps(f, odd, even);
    vec scaled = _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_castps_si256(N), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
    return _mm256_div_ps(_mm256_mul_ps(a, D), _mm256_add_ps(D, scaled));
}

INLINE unsigned nonzero(const float *p)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(load(p), all(0), _CMP_NEQ_UQ));
}

INLINE vec larger(vec most, const float *z)
{
    const vec absolute = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX));
    return _mm256_max_ps(most, _mm256_and_ps(absolute, load(z)));
}

INLINE int append(int *support, int m, int k, unsigned bits)
{
    for (; bits; bits &= bits - 1)
        support[m++] = k + __builtin_ctz(bits);
    return m;
}

/* Support of a row, and whether all scores are small. */
INLINE int scan(const float *z, const float *p, int q, int *support, int *small)
{
    vec most = all(0);
    int m = 0, k = 0;
    for (; k + 16 <= q; k += 16) {
        unsigned bits = nonzero(p + k) | nonzero(p + k + 8) << 8;
        most = larger(larger(most, z + k), z + k + 8);
        m = append(support, m, k, bits);
    }
    if (k + 8 <= q) {
        most = larger(most, z + k);
        m = append(support, m, k, nonzero(p + k));
        k += 8;
    }
    if (k < q) { /* once more the last eight labels, without those already seen */
        most = larger(most, z + q - 8);
        m = append(support, m, k, nonzero(p + q - 8) >> (8 - (q - k)));
    }
    *small = _mm256_movemask_ps(_mm256_cmp_ps(most, all(NO_CLAMP), _CMP_NLT_UQ)) == 0;
    return m;
}

INLINE vec last_lanes(int count)
{
    static const int32_t mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_castsi256_ps(_mm256_loadu_si256((const __m256i *)(mask + count)));
}

typedef struct {
    float z[MAX_LABELS + 8], p[MAX_LABELS + 8], weight[MAX_LABELS + 8], total[MAX_LABELS + 8];
    int label[MAX_LABELS + 8];
} scratch;

INLINE void step(const float *z, int k, int i, int width, int add, int clamp, const scratch *w,
                 int new_lanes, float *score, vec *total)
{
    vec zk = load(z + k), share_k = add ? load(score + k) : all(0);
    EACH(b, width) {
        vec t = pair(_mm256_fnmadd_ps(all(ROOT), zk, all(w->z[i + b])), clamp);
        vec kept = new_lanes < 8 ? _mm256_and_ps(t, last_lanes(new_lanes)) : t;
        vec weight = all(w->weight[i + b]);
        total[b] = _mm256_add_ps(total[b], kept);
        share_k = add || b ? _mm256_fmadd_ps(weight, add ? kept : t, share_k) : _mm256_mul_ps(weight, t);
    }
    store(score + k, share_k);
}

INLINE void pass(const float *z, int q, int i, int width, int add, int clamp, scratch *w,
                 float *score)
{
    vec total[2] = {all(0), all(0)};
    const int whole = q / 8 * 8;
    for (int k = 0; k < whole; k += 8)
        step(z, k, i, width, add, clamp, w, 8, score, total);
    if (whole < q)
        step(z, q - 8, i, width, add, clamp, w, q - whole, score, total);
    EACH(b, width)
        w->total[i + b] = sum(total[b]);
}

INLINE void sparse_row(const float *z, const float *p, int q, int m, int clamp, scratch *w,
                       float *score)
{
    const float scale = 4.0f / ((float)q * (float)q) / ROOT;
    for (int i = 0; i < m; i++) {
        w->z[i] = ROOT * z[w->label[i]];
        w->p[i] = p[w->label[i]];
        w->weight[i] = scale * w->p[i] * w->p[i];
    }
    for (int i = m; i < m + 7; i++)
        w->z[i] = w->p[i] = 0;
    if (m == 1) {
        pass(z, q, 0, 1, 0, clamp, w, score);
    } else {
        int i = 2;
        pass(z, q, 0, 2, 0, clamp, w, score);
        for (; i + 2 <= m; i += 2)
            pass(z, q, i, 2, 1, clamp, w, score);
        if (i < m)
            pass(z, q, i, 1, 1, clamp, w, score);
    }
    for (int i = 0; i < m; i++) {
        float own = w->weight[i] * w->total[i];
        if (m > 1) {
            vec inside = all(0), p_i = all(w->p[i]), square = _mm256_mul_ps(p_i, p_i);
            for (int k = 0; k < m; k += 8) {
                vec d = _mm256_sub_ps(p_i, load(w->p + k));
                vec t = pair(_mm256_sub_ps(all(w->z[i]), load(w->z + k)), clamp);
                inside = _mm256_fmadd_ps(_mm256_fmsub_ps(d, d, square), t, inside);
            }
            own += scale * sum(inside);
        }
        score[w->label[i]] = -own;
    }
}

void score_gradient(const float *Z, const float *P, float *score, long n, long q)
{
    scratch w;
    for (long r = 0; r < n; r++, Z += q, P += q, score += q) {
        int small, m = scan(Z, P, (int)q, w.label, &small);
        if (m == 0) {
            for (int k = 0; k < q; k++)
                score[k] = 0;
        } else if (small) {
            sparse_row(Z, P, (int)q, m, 0, &w, score);
        } else {
            sparse_row(Z, P, (int)q, m, 1, &w, score);
        }
    }
}
