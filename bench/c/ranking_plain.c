/* Ranking loss gradients as one would write them in C, with the support trick.
 *
 * No intrinsics: the compiler vectorises the loops and calls the vector exp and log1p of libmvec.
 * The formulas are at the top of ranking_avx2.c.
 */
#include <math.h>

enum { MAX_LABELS = 1024, SCORE = 1, CONFIDENCE = 2 };

#define INLINE static inline __attribute__((always_inline))

/* Pairs of label j with all labels: every label k gets its share, the sums are returned for j. */
INLINE void pass(const double *restrict z, long q, long j, double pj, double scale, int want,
                 double *restrict score, double *restrict confidence, double *score_total,
                 double *confidence_total)
{
    const double zj = z[j], score_weight = scale * pj * pj, confidence_weight = scale * pj;
    double score_sum = 0, confidence_sum = 0;
    for (long k = 0; k < q; k++) {
        double d = zj - z[k], e = exp(-d * d);
        if (want & SCORE) {
            double t = d * e / (1 + e);
            score[k] += score_weight * t;
            score_sum += t;
        }
        if (want & CONFIDENCE) {
            double l = log1p(e);
            confidence[k] -= confidence_weight * l;
            confidence_sum += l;
        }
    }
    *score_total = score_weight * score_sum;
    *confidence_total = confidence_weight * confidence_sum;
}

INLINE void sparse_row(const double *restrict z, const double *restrict p, long q,
                       const int *support, int m, int want, double *restrict score,
                       double *restrict confidence)
{
    const double scale = 4.0 / ((double)q * q);
    double score_total[MAX_LABELS], confidence_total[MAX_LABELS];
    for (int i = 0; i < m; i++)
        pass(z, q, support[i], p[support[i]], scale, want, score, confidence, &score_total[i],
             &confidence_total[i]);
    for (int i = 0; i < m; i++) {
        int j = support[i];
        if (want & CONFIDENCE)
            confidence[j] += confidence_total[i];
        if (want & SCORE) {
            double own = score_total[i];
            for (int h = 0; h < m; h++) {
                double d = z[j] - z[support[h]], e = exp(-d * d), difference = p[j] - p[support[h]];
                own += scale * (difference * difference - p[j] * p[j]) * d * e / (1 + e);
            }
            score[j] = -own;
        }
    }
}

INLINE void dense_row(const double *restrict z, const double *restrict p, long q, int want,
                      double *restrict score, double *restrict confidence)
{
    const double scale = 4.0 / ((double)q * q);
    for (long j = 0; j < q; j++) {
        double score_sum = 0, confidence_sum = 0;
        for (long k = j + 1; k < q; k++) {
            double d = z[j] - z[k], e = exp(-d * d), difference = p[j] - p[k];
            if (want & SCORE) {
                double t = scale * difference * difference * d * e / (1 + e);
                score[k] += t;
                score_sum += t;
            }
            if (want & CONFIDENCE) {
                double l = scale * difference * log1p(e);
                confidence[k] -= l;
                confidence_sum += l;
            }
        }
        if (want & SCORE)
            score[j] -= score_sum;
        if (want & CONFIDENCE)
            confidence[j] += confidence_sum;
    }
}

INLINE void rows(const double *Z, const double *P, double *loss, double *score, double *confidence,
                 long n, long q, int want)
{
    int support[MAX_LABELS];
    for (long r = 0; r < n; r++, Z += q, P += q, score += q, confidence += q) {
        int m = 0;
        for (long k = 0; k < q; k++) {
            if (want & SCORE)
                score[k] = 0;
            if (want & CONFIDENCE)
                confidence[k] = 0;
            support[m] = (int)k;
            m += P[k] != 0;
        }
        if (3 * m > q)
            dense_row(Z, P, q, want, score, confidence);
        else
            sparse_row(Z, P, q, support, m, want, score, confidence);
        if (loss) {
            loss[r] = 0;
            for (int i = 0; i < m; i++)
                loss[r] += 0.5 * P[support[i]] * confidence[support[i]];
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
