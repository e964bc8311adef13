/* Ranking loss gradients by hand for AVX2 and FMA: the anchor of the benchmarks.
 *
 *   score_j      = -4/q^2 sum_k (p_j - p_k)^2 d / (1 + exp(d^2)),    d = z_j - z_k
 *   confidence_j =  4/q^2 sum_k (p_j - p_k) log(1 + exp(-d^2))
 *   loss         =  1/2 sum_j p_j confidence_j
 *
 * Rows are contiguous, q is from 4 to MAX_LABELS. The labels of non-zero confidence (the support)
 * are found in the dense row p, and only pairs with one of them are computed.
 *
 * What makes it fast, in order of effect:
 * - the support: |A| q pairs instead of q^2;
 * - one division per pair: with s = d^2 log2(e) = n + f, |f| <= 1/2, and 2^f = N/D a rational function,
 *   1/(1 + 2^s) is D/(D + 2^n N). The 2^n is an integer addition to the exponent;
 * - two labels of the support per pass: a score is loaded once, a result stored once, and the two
 *   chains of operations overlap;
 * - no clamp of s in rows where no s can leave the exponent range (add, subtract and min share
 *   two of the four execution pipes, and they are the bottleneck);
 * - the factor sqrt(log2 e) rides on a fused multiply-add, and 4/q^2 on the weights;
 * - results go straight to the output row; the last vector of a row overlaps the one before it.
 */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
/* Loops over the vectors in flight must unroll, or their arrays would live in memory. */
#define EACH(i, count) _Pragma("GCC unroll 4") for (int i = 0; i < (count); i++)

enum { MAX_LABELS = 1024, SCORE = 1, CONFIDENCE = 2 };

typedef __m256d vec;

static const double ROOT = 1.2011224087864497941; /* sqrt(log2 e) */
/* (ROOT (|z_j| + |z_k|))^2 stays below 1000 for smaller scores. */
static const double NO_CLAMP = 13.0;

INLINE vec all(double x) { return _mm256_set1_pd(x); }
INLINE vec load(const double *x) { return _mm256_loadu_pd(x); }
INLINE void store(double *x, vec v) { _mm256_storeu_pd(x, v); }

INLINE double sum(vec v)
{
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

/* x 2^n or x 2^-n, with n in the low bits of a sum with 1.5 2^52. */
INLINE vec scaled_up(vec x, vec shifted)
{
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(x),
                                                _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52)));
}
INLINE vec scaled_down(vec x, vec shifted)
{
    return _mm256_castsi256_pd(_mm256_sub_epi64(_mm256_castpd_si256(x),
                                                _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52)));
}

/* 2^f = N/D for |f| <= 1/2: minimax, relative error 1.1e-14. */
INLINE void power(vec a, int clamp, vec *shifted, vec *N, vec *D)
{
    vec s = _mm256_mul_pd(a, a);
    if (clamp)
        s = _mm256_min_pd(s, all(1000.0));
    *shifted = _mm256_add_pd(s, all(0x1.8p52));
    vec f = _mm256_sub_pd(s, _mm256_sub_pd(*shifted, all(0x1.8p52)));
    vec u = _mm256_mul_pd(f, f);
    vec even = _mm256_fmadd_pd(_mm256_add_pd(u, all(375.02165418848728615)), u,
                               all(7285.7336021618750794));
    vec odd = _mm256_fmadd_pd(u, all(28.875563774302803936), all(2525.042852323951869));
    *N = _mm256_fmadd_pd(f, odd, even);
    *D = _mm256_fnmadd_pd(f, odd, even);
}

/* 2 artanh(y) for 0 <= y <= 1/3: minimax, relative error 1.7e-15. */
INLINE vec two_artanh(vec y)
{
    vec u = _mm256_mul_pd(y, y), v = _mm256_mul_pd(u, u);
    vec even = all(0.18774722251131410543), odd = all(0.11737565091627767364);
    even = _mm256_fmadd_pd(even, v, all(0.15572043385966264135));
    odd = _mm256_fmadd_pd(odd, v, all(0.18169208612035031889));
    even = _mm256_fmadd_pd(even, v, all(0.22222716269844182982));
    odd = _mm256_fmadd_pd(odd, v, all(0.28571417751003299823));
    even = _mm256_fmadd_pd(even, v, all(0.40000000118357784435));
    odd = _mm256_fmadd_pd(odd, v, all(0.66666666666169179330));
    even = _mm256_fmadd_pd(even, v, all(2.0000000000000034380));
    return _mm256_mul_pd(y, _mm256_fmadd_pd(odd, u, even));
}

/* t = a/(1 + exp(d^2)) and y with log(1 + exp(-d^2)) = 2 artanh(y), of a = ROOT d. */
INLINE void pair(vec a, int clamp, int want, vec *t, vec *y)
{
    vec shifted, N, D;
    power(a, clamp, &shifted, &N, &D);
    if (want == SCORE) {
        *t = _mm256_div_pd(_mm256_mul_pd(a, D), _mm256_add_pd(D, scaled_up(N, shifted)));
        return;
    }
    vec x = scaled_down(D, shifted); /* exp(-d^2) = x/N */
    vec once = _mm256_add_pd(N, x), twice = _mm256_add_pd(N, once);
    if (want & SCORE)
        *t = _mm256_div_pd(_mm256_mul_pd(a, x), once);
    *y = _mm256_div_pd(x, twice);
}

/* Bits of the non-zero confidences among four. */
INLINE unsigned nonzero(const double *p)
{
    return (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(load(p), all(0), _CMP_NEQ_UQ));
}

INLINE vec larger(vec most, const double *z)
{
    const vec absolute = _mm256_castsi256_pd(_mm256_set1_epi64x(INT64_MAX));
    return _mm256_max_pd(most, _mm256_and_pd(absolute, load(z)));
}

INLINE int append(int *support, int m, int k, unsigned bits)
{
    for (; bits; bits &= bits - 1)
        support[m++] = k + __builtin_ctz(bits);
    return m;
}

/* Support of a row, and whether all scores are small. */
INLINE int scan(const double *z, const double *p, int q, int *support, int *small)
{
    vec most = all(0);
    int m = 0, k = 0;
    for (; k + 16 <= q; k += 16) {
        unsigned bits = 0;
        EACH(i, 4) {
            bits |= nonzero(p + k + 4 * i) << (4 * i);
            most = larger(most, z + k + 4 * i);
        }
        m = append(support, m, k, bits);
    }
    unsigned bits = 0;
    int first = k;
    for (; k + 4 <= q; k += 4) {
        bits |= nonzero(p + k) << (k - first);
        most = larger(most, z + k);
    }
    if (k < q) { /* once more the last four labels, without those already seen */
        bits |= nonzero(p + q - 4) >> (4 - (q - k)) << (k - first);
        most = larger(most, z + q - 4);
    }
    *small = _mm256_movemask_pd(_mm256_cmp_pd(most, all(NO_CLAMP), _CMP_NLT_UQ)) == 0;
    return append(support, m, first, bits);
}

/* All ones in the last `count` lanes. */
INLINE vec last_lanes(int count)
{
    static const int64_t mask[8] = {0, 0, 0, 0, -1, -1, -1, -1};
    return _mm256_castsi256_pd(_mm256_loadu_si256((const __m256i *)(mask + count)));
}

typedef struct {
    double z[MAX_LABELS + 4], p[MAX_LABELS + 4];           /* ROOT z_j and p_j of the support */
    double score[MAX_LABELS + 4], confidence[MAX_LABELS + 4]; /* sum over k of t_jk and l_jk */
    double score_weight[MAX_LABELS + 4], confidence_weight[MAX_LABELS + 4];
    double y[4][MAX_LABELS + 4];
    int label[MAX_LABELS + 4];
} scratch;

/* Give label k its share of the pairs and add them up for the label of the support. In the last,
 * overlapping vector of a row only some lanes are new. */
INLINE vec share(vec pairs, double weight, int add, int b, int new_lanes, vec share_k, vec *total)
{
    int first = !add && b == 0;
    vec kept = new_lanes < 4 ? _mm256_and_pd(pairs, last_lanes(new_lanes)) : pairs;
    *total = _mm256_add_pd(*total, kept);
    return first ? _mm256_mul_pd(all(weight), pairs)
                 : _mm256_fmadd_pd(all(weight), add ? kept : pairs, share_k);
}

/* Pairs of `width` labels of the support, from i on, with the four labels at k. */
INLINE void pairs_step(const double *z, int k, int i, int width, int add, int clamp, int want,
                       scratch *w, int new_lanes, double *score, vec *total)
{
    vec zk = load(z + k), t, y;
    vec share_k = add && (want & SCORE) ? load(score + k) : all(0);
    EACH(b, width) {
        pair(_mm256_fnmadd_pd(all(ROOT), zk, all(w->z[i + b])), clamp, want, &t, &y);
        if (want & SCORE)
            share_k = share(t, w->score_weight[i + b], add, b, new_lanes, share_k, &total[b]);
        if (want & CONFIDENCE)
            store(w->y[b] + k, y);
    }
    if (want & SCORE)
        store(score + k, share_k);
}

INLINE void log_step(int k, int i, int width, int add, const scratch *w, int new_lanes,
                     double *confidence, vec *total)
{
    vec share_k = add ? load(confidence + k) : all(0);
    EACH(b, width)
        share_k = share(two_artanh(load(w->y[b] + k)), -w->confidence_weight[i + b], add, b,
                        new_lanes, share_k, &total[b]);
    store(confidence + k, share_k);
}

/* The logarithms have a loop of their own: in one loop the chain of operations is longer than what
 * the processor can hold in flight (20 instead of 15 cycles for four pairs). */
INLINE void pass(const double *z, int q, int i, int width, int add, int clamp, int want,
                 scratch *w, double *score, double *confidence)
{
    vec total[2] = {all(0), all(0)}, log_total[2] = {all(0), all(0)};
    const int whole = q / 4 * 4;
    for (int k = 0; k < whole; k += 4)
        pairs_step(z, k, i, width, add, clamp, want, w, 4, score, total);
    if (whole < q)
        pairs_step(z, q - 4, i, width, add, clamp, want, w, q - whole, score, total);
    EACH(b, width)
        w->score[i + b] = sum(total[b]);
    if (!(want & CONFIDENCE))
        return;
    for (int k = 0; k < whole; k += 4)
        log_step(k, i, width, add, w, 4, confidence, log_total);
    if (whole < q)
        log_step(q - 4, i, width, add, w, q - whole, confidence, log_total);
    EACH(b, width)
        w->confidence[i + b] = sum(log_total[b]);
}

/* The passes gave label j of the support what a label without confidence would get. */
INLINE void finish(int m, double scale, int clamp, int want, const scratch *w, double *score,
                   double *confidence)
{
    for (int i = 0; i < m; i++) {
        int j = w->label[i];
        if (want & CONFIDENCE) /* p_k l_jk of all k in the support has been subtracted already */
            confidence[j] += w->confidence_weight[i] * w->confidence[i];
        if (want & SCORE) {
            double own = w->score_weight[i] * w->score[i];
            if (m > 1) {
                vec inside = all(0), p = all(w->p[i]), square = _mm256_mul_pd(p, p), t, y;
                for (int k = 0; k < m; k += 4) { /* beyond m, p_k = 0 makes the correction zero */
                    vec d = _mm256_sub_pd(p, load(w->p + k));
                    pair(_mm256_sub_pd(all(w->z[i]), load(w->z + k)), clamp, SCORE, &t, &y);
                    inside = _mm256_fmadd_pd(_mm256_fmsub_pd(d, d, square), t, inside);
                }
                own += scale / ROOT * sum(inside);
            }
            score[j] = -own;
        }
    }
}

INLINE void sparse_row(const double *z, const double *p, int q, int m, int clamp, int want,
                       scratch *w, double *score, double *confidence)
{
    const double scale = 4.0 / ((double)q * q);
    for (int i = 0; i < m; i++) {
        w->z[i] = ROOT * z[w->label[i]];
        w->p[i] = p[w->label[i]];
        w->confidence_weight[i] = scale * w->p[i];
        w->score_weight[i] = scale / ROOT * w->p[i] * w->p[i];
    }
    for (int i = m; i < m + 3; i++)
        w->z[i] = w->p[i] = 0;
    if (m == 1) {
        pass(z, q, 0, 1, 0, clamp, want, w, score, confidence);
    } else {
        int i = 2;
        pass(z, q, 0, 2, 0, clamp, want, w, score, confidence);
        for (; i + 2 <= m; i += 2)
            pass(z, q, i, 2, 1, clamp, want, w, score, confidence);
        if (i < m)
            pass(z, q, i, 1, 1, clamp, want, w, score, confidence);
    }
    finish(m, scale, clamp, want, w, score, confidence);
}

/* Four rows' sums side by side. */
INLINE vec sums(const vec *x)
{
    vec ab = _mm256_hadd_pd(x[0], x[1]), cd = _mm256_hadd_pd(x[2], x[3]);
    return _mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x21), _mm256_blend_pd(ab, cd, 12));
}

/* A pair's part of the gradient goes to one label with a plus, to the other with a minus. */
INLINE vec both(vec part, vec part_k, vec *total)
{
    *total = _mm256_sub_pd(*total, part);
    return _mm256_add_pd(part_k, part);
}

/* Four labels from j on with the four labels at k. */
INLINE void dense_pairs_step(scratch *w, int j, int k, int clamp, int want, vec lanes, int diagonal,
                             vec *total)
{
    vec zk = load(w->z + k), pk = load(w->p + k), part_k = all(0), t, y;
    EACH(b, 4) {
        pair(_mm256_sub_pd(_mm256_broadcast_sd(w->z + j + b), zk), clamp, want, &t, &y);
        if (want & SCORE) {
            vec d = _mm256_sub_pd(_mm256_broadcast_sd(w->p + j + b), pk);
            vec part = _mm256_mul_pd(_mm256_mul_pd(d, d), _mm256_and_pd(t, lanes));
            part_k = both(part, part_k, &total[b]);
        }
        if (want & CONFIDENCE)
            store(w->y[b] + k, y);
    }
    if ((want & SCORE) && !diagonal)
        store(w->score + k, _mm256_add_pd(load(w->score + k), part_k));
}

INLINE void dense_log_step(scratch *w, int j, int k, vec lanes, int diagonal, vec *total)
{
    vec pk = load(w->p + k), part_k = all(0);
    EACH(b, 4) {
        vec d = _mm256_sub_pd(pk, _mm256_broadcast_sd(w->p + j + b));
        vec l = two_artanh(_mm256_and_pd(load(w->y[b] + k), lanes));
        part_k = both(_mm256_mul_pd(d, l), part_k, &total[b]);
    }
    if (!diagonal)
        store(w->confidence + k, _mm256_add_pd(load(w->confidence + k), part_k));
}

/* Every pair once, for both of its labels, four by four labels at a time. Inside a block on the
 * diagonal every pair comes twice, so there it counts for one label only. */
INLINE void dense_row(const double *z, const double *p, int q, int clamp, int want, scratch *w,
                      double *score, double *confidence)
{
    const vec every = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
    const double scale = 4.0 / ((double)q * q);
    const int last = (q - 1) / 4 * 4;
    const vec inside = _mm256_cmp_pd(_mm256_set_pd(last + 3, last + 2, last + 1, last), all(q),
                                     _CMP_LT_OQ);
    for (int k = 0; k < last + 4; k++) {
        w->z[k] = k < q ? ROOT * z[k] : 0;
        w->p[k] = k < q ? p[k] : 0;
        w->score[k] = w->confidence[k] = 0;
    }
    for (int j = 0; j <= last; j += 4) {
        vec total[4] = {all(0), all(0), all(0), all(0)};
        vec log_total[4] = {all(0), all(0), all(0), all(0)};
        vec own = j < last ? every : inside;
        dense_pairs_step(w, j, j, clamp, want, own, 1, total);
        for (int k = j + 4; k < last; k += 4)
            dense_pairs_step(w, j, k, clamp, want, every, 0, total);
        if (j < last)
            dense_pairs_step(w, j, last, clamp, want, inside, 0, total);
        if (want & SCORE)
            store(w->score + j, _mm256_add_pd(load(w->score + j), sums(total)));
        if (!(want & CONFIDENCE))
            continue;
        dense_log_step(w, j, j, own, 1, log_total);
        for (int k = j + 4; k < last; k += 4)
            dense_log_step(w, j, k, every, 0, log_total);
        if (j < last)
            dense_log_step(w, j, last, inside, 0, log_total);
        store(w->confidence + j, _mm256_add_pd(load(w->confidence + j), sums(log_total)));
    }
    for (int k = 0; k < q; k++) {
        if (want & SCORE)
            score[k] = scale / ROOT * w->score[k];
        if (want & CONFIDENCE)
            confidence[k] = scale * w->confidence[k];
    }
}

INLINE void rows(const double *Z, const double *P, double *loss, double *score, double *confidence,
                 long n, long q, int want)
{
    scratch w;
    for (long r = 0; r < n; r++, Z += q, P += q, score += q, confidence += q) {
        int small, m = scan(Z, P, (int)q, w.label, &small);
        if (m == 0) {
            for (int k = 0; k < q; k++) {
                if (want & SCORE)
                    score[k] = 0;
                if (want & CONFIDENCE)
                    confidence[k] = 0;
            }
        } else if (3 * m > q) {
            if (small)
                dense_row(Z, P, (int)q, 0, want, &w, score, confidence);
            else
                dense_row(Z, P, (int)q, 1, want, &w, score, confidence);
        } else if (small) {
            sparse_row(Z, P, (int)q, m, 0, want, &w, score, confidence);
        } else {
            sparse_row(Z, P, (int)q, m, 1, want, &w, score, confidence);
        }
        if (loss) { /* the loss is quadratic in P */
            loss[r] = 0;
            for (int i = 0; i < m; i++)
                loss[r] += 0.5 * P[w.label[i]] * confidence[w.label[i]];
        }
    }
}

void score_gradient(const double *Z, const double *P, double *score, long n, long q)
{
    rows(Z, P, 0, score, score, n, q, SCORE);
}

void confidence_gradient(const double *Z, const double *P, double *confidence, long n, long q)
{
    rows(Z, P, 0, confidence, confidence, n, q, CONFIDENCE);
}

void gradients(const double *Z, const double *P, double *loss, double *score, double *confidence,
               long n, long q)
{
    rows(Z, P, loss, score, confidence, n, q, SCORE | CONFIDENCE);
}
