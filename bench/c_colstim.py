"""The simulation of CoLSTIM with SGD as a plain C loop: what a fused round is measured against.

Everything is in it: contexts uniform in the ball, utilities, answers, the choice, regret, learning; contexts by the
same formulas as in :mod:`fastcolst.kernels.ball`. gcc may do what it likes with sums (-ffast-math), which fastcolst's
kernels do not allow, and where wanted the sizes are compiled in, so that it unrolls loops over features. Numbers differ
from those of fastcolst, the law of the regret does not.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")

SOURCE = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef N
static int N, D; /* arms and features, known when it runs; or compiled in */
void sizes(int n, int d) { N = n; D = d; }
#endif
#define H ((D + 1) / 2)
#define GOLDEN 0x9E3779B97F4A7C15ull

static inline uint64_t word(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static inline double from_bits(uint64_t b) { double x; memcpy(&x, &b, 8); return x; }
static inline uint64_t to_bits(double x) { uint64_t b; memcpy(&b, &x, 8); return b; }
static inline double fraction(uint64_t w) { return from_bits((w >> 12) | 0x3FF0000000000000ull) - 1.0; }
static inline double uniform(uint64_t *s) { return fraction(word(*s += GOLDEN)); }
static inline double gumbel(double u) { return -log(-log(1.0 - u) + 1e-300); }

/* contexts of one round, arms as columns, and their utilities; returns the best */
static double fill(uint64_t *state, const double *theta, double x[D][N], double *utility)
{
    double u[H][N], square[H][N];
    uint64_t s = *state;
    for (int i = 0; i < H * N; i++) (&u[0][0])[i] = fraction(word(s + (i + 1) * GOLDEN));
    s += H * N * GOLDEN;
    for (int k = 1; k < H; k++)
        for (int j = k; j > 0; j--)
            for (int i = 0; i < N; i++) {
                double a = u[j - 1][i], b = u[j][i];
                u[j - 1][i] = a < b ? a : b;
                u[j][i] = a < b ? b : a;
            }
    for (int i = 0; i < N; i++) square[0][i] = u[0][i];
    for (int k = 1; k < H; k++)
        for (int i = 0; i < N; i++) square[k][i] = u[k][i] - u[k - 1][i];
    for (int i = 0; i < H * N; i++) {
        uint64_t w = word(s + (i + 1) * GOLDEN);
        double t = fraction(w) - 0.5, z = t * t;
        double c = 1.0 + z * (-4.934802200544679 + z * (4.058712126416736 + z * (-1.3352627688518803
            + z * (0.2353306302721577 + z * (-0.02580689002587539 + z * (0.001929562652479866
            + z * (-0.00010458286368326585 + z * 4.166399462726949e-06)))))));
        double y = t * (3.1415926535897927 + z * (-5.1677127800497855 + z * (2.5501640398618677
            + z * (-0.599264528825224 + z * (0.08214587881631043 + z * (-0.0073703643265304155
            + z * (0.0004659870158043378 + z * -2.113362735205297e-05)))))));
        double r = sqrt((&square[0][0])[i]);
        (&x[0][0])[i] = r * from_bits(to_bits(c) ^ (w << 63));
        if (i < (D - H) * N) (&x[H][0])[i] = r * y;
    }
    *state = s + H * N * GOLDEN;
    for (int i = 0; i < (D % 2 ? N : 0); i++) {
        double rest = 1.0 / sqrt(1.0 - square[H - 1][i] + x[H - 1][i] * x[H - 1][i]);
        for (int k = 0; k < D; k++) x[k][i] *= rest;
    }
    double best = -INFINITY;
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int k = 0; k < D; k++) sum += theta[k] * x[k][i];
        utility[i] = sum;
        best = sum > best ? sum : best;
    }
    return best;
}

static int argmax(const double *v)
{
    int best = 0;
    for (int i = 1; i < N; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

/* the lower triangular S with S'S = M^-1 */
static void inverse_factor(double m[D][D], double s[D][D])
{
    double l[D][D];
    memset(l, 0, sizeof l);
    for (int i = 0; i < D; i++)
        for (int j = 0; j <= i; j++) {
            double sum = m[i][j];
            for (int k = 0; k < j; k++) sum -= l[i][k] * l[j][k];
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
    memset(s, 0, D * D * sizeof(double));
    for (int i = 0; i < D; i++) {
        s[i][i] = 1.0 / l[i][i];
        for (int j = 0; j < i; j++) {
            double sum = 0.0;
            for (int k = j; k < i; k++) sum -= l[i][k] * s[k][j];
            s[i][j] = sum / l[i][i];
        }
    }
}

/* average regret of so many rounds */
double simulate(long rounds, uint64_t seed, const double *theta, long exploration)
{
    uint64_t contexts = word(seed + GOLDEN), noise_of = word(seed + 2 * GOLDEN), answers = word(seed + 3 * GOLDEN);
    double x[D][N], utility[N], a[D][N], u[N], square[N], value[N];
    double m[D][D], s[D][D], estimate[D], z[D], p[D], w[D];
    double total = 0.0, scale = sqrt(D * log((double)rounds));
    memset(m, 0, sizeof m);
    memset(estimate, 0, sizeof estimate);
    for (long t = 0; t < rounds; t++) {
        double best = fill(&contexts, theta, x, utility);
        double latent = gumbel(uniform(&answers)) - gumbel(uniform(&answers));
        double coin = uniform(&noise_of);
        int first, second;
        if (t == exploration) inverse_factor(m, s);
        if (t < exploration) {
            first = (int)(coin * N);
            second = (int)(uniform(&noise_of) * (N - 1));
            second += second >= first;
        } else {
            for (int k = 0; k < D; k++) {
                for (int i = 0; i < N; i++) a[k][i] = s[k][0] * x[0][i];
                for (int j = 1; j <= k; j++)
                    for (int i = 0; i < N; i++) a[k][i] += s[k][j] * x[j][i];
            }
            for (int i = 0; i < N; i++) {
                double sum = 0.0, length = 0.0;
                for (int k = 0; k < D; k++) {
                    sum += estimate[k] * x[k][i];
                    length += a[k][i] * a[k][i];
                }
                u[i] = sum;
                square[i] = length;
            }
            double own = D / sqrt((double)(t + 1 - exploration)) * log(D * (double)rounds);
            if (coin < own) {
                for (int i = 0; i < N; i++) value[i] = gumbel(fraction(word(noise_of + (i + 1) * GOLDEN)));
                noise_of += N * GOLDEN;
            } else {
                double shared = gumbel(uniform(&noise_of));
                for (int i = 0; i < N; i++) value[i] = shared;
            }
            for (int i = 0; i < N; i++) {
                double noise = value[i] > scale ? scale : value[i] < -scale ? -scale : value[i];
                value[i] = u[i] + noise * sqrt(square[i]);
            }
            first = argmax(value);
            for (int i = 0; i < N; i++) {
                double sum = 0.0;
                for (int k = 0; k < D; k++) sum += (a[k][i] - a[k][first]) * (a[k][i] - a[k][first]);
                value[i] = u[i] + scale * sqrt(sum);
            }
            second = argmax(value);
        }
        total += best - 0.5 * (utility[first] + utility[second]);
        if (first == second) continue;
        double margin = 0.0;
        for (int k = 0; k < D; k++) {
            z[k] = x[k][first] - x[k][second];
            margin += z[k] * estimate[k];
        }
        int won = utility[first] - utility[second] + latent > 0.0;
        double step = 0.5 * (won ? 1.0 / (1.0 + exp(margin)) : -1.0 / (1.0 + exp(-margin)));
        for (int k = 0; k < D; k++) estimate[k] += step * z[k];
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) m[i][j] += z[i] * z[j];
        if (t < exploration) continue;
        double before = 1.0;
        for (int k = 0; k < D; k++) {
            p[k] = 0.0;
            for (int j = 0; j <= k; j++) p[k] += s[k][j] * z[j];
        }
        memset(w, 0, sizeof w);
        for (int k = 0; k < D; k++) {
            double after = before + p[k] * p[k], shrink = sqrt(before / after), share = p[k] / before;
            for (int j = 0; j <= k; j++) {
                double old = s[k][j];
                s[k][j] = shrink * (old - share * w[j]);
                w[j] += p[k] * old;
            }
            before = after;
        }
    }
    return total;
}
"""


def compiled(n_arms: int, n_features: int, sizes_known: bool) -> Callable[[int, int, list[float]], float] | None:
    """Average regret as a function of rounds, seed and theta, for problems of these sizes; None where gcc is missing.

    ``sizes_known`` compiles them in; otherwise the loop is told when it runs, as fastcolst's is. The exploration takes
    n_arms n_features rounds, as fastcolst's does.
    """
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "colstim.c"), Path(folder, "colstim.so")
        source.write_text(SOURCE)
        sizes = (f"-DN={n_arms}", f"-DD={n_features}") if sizes_known else ()
        subprocess.run([gcc, *FLAGS, *sizes, "-o", library, source, "-lmvec", "-lm"], check=True, capture_output=True)
        opened = ctypes.CDLL(str(library))
    if not sizes_known:
        opened.sizes(n_arms, n_features)
    loop = opened.simulate
    loop.restype = ctypes.c_double
    loop.argtypes = [ctypes.c_long, ctypes.c_uint64, ctypes.POINTER(ctypes.c_double), ctypes.c_long]

    def simulate(rounds: int, seed: int, theta: list[float]) -> float:
        return float(loop(rounds, seed, (ctypes.c_double * n_features)(*theta), n_arms * n_features))

    return simulate
