/* Written by hloc for the target c.

   void hloc_entry(void **table): slot 0 is the arena of temporaries, slot 1 a flag (int32_t) that
   ends loops early when it is not 0; then come constants, parameters, results, host functions. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Helpers of instructions that C has no operator for. */

static inline float f32_of_bits(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }
static inline double f64_of_bits(uint64_t bits) { double x; memcpy(&x, &bits, sizeof x); return x; }
static inline uint32_t bits_of_f32(float x) { uint32_t b; memcpy(&b, &x, sizeof b); return b; }
static inline uint64_t bits_of_f64(double x) { uint64_t b; memcpy(&b, &x, sizeof b); return b; }

/* NaN is handed on, and -0 is below +0: neither holds for fmin and fmax. */
static inline float minimumf(float x, float y) {
  return x != x ? x : y != y ? y : x < y || (x == y && signbit(x)) ? x : y;
}
static inline double minimum(double x, double y) {
  return x != x ? x : y != y ? y : x < y || (x == y && signbit(x)) ? x : y;
}
static inline float maximumf(float x, float y) {
  return x != x ? x : y != y ? y : x > y || (x == y && !signbit(x)) ? x : y;
}
static inline double maximum(double x, double y) {
  return x != x ? x : y != y ? y : x > y || (x == y && !signbit(x)) ? x : y;
}

static inline int ctpop(uint64_t x, int width) {
  int n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}
static inline int ctlz(uint64_t x, int width) {
  for (; x; x >>= 1) width--;
  return width;
}

static inline float logisticf(float x) { return 1 / (1 + expf(-x)); }
static inline double logistic(double x) { return 1 / (1 + exp(-x)); }
