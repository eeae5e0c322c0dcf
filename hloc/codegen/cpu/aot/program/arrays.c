/* Arrays in memory: steps between elements, random values, and a few values on stdout. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

enum { SHOWN = 8 };

size_t elements_of(const array_t *array) {
  size_t count = 1;
  for (int i = 0; i < array->rank; i++) count *= array->dims[i];
  return count;
}

void memory_steps(const array_t *array, size_t *steps) {
  size_t step = array->element_bytes;
  for (int i = array->rank - 1; i >= 0; i--) {
    steps[array->order[i]] = step;
    step *= array->dims[array->order[i]];
  }
}

void copy_elements(const array_t *array, char *to, const size_t *to_steps, const char *from,
                   const size_t *from_steps) {
  size_t index[MAX_RANK] = {0};
  for (size_t left = elements_of(array); left > 0; left--) {
    size_t to_at = 0, from_at = 0;
    for (int i = 0; i < array->rank; i++) {
      to_at += index[i] * to_steps[i];
      from_at += index[i] * from_steps[i];
    }
    memcpy(to + to_at, from + from_at, array->element_bytes);
    for (int i = array->rank - 1; i >= 0 && ++index[i] == array->dims[i]; i--) index[i] = 0;
  }
}

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void store(void *data, uint64_t bits, size_t bytes) {
  unsigned char *at = data;
  for (size_t i = 0; i < bytes; i++) at[i] = (unsigned char)(bits >> (8 * i));
}

static uint64_t load(const void *data, size_t bytes) {
  const unsigned char *at = data;
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes; i++) bits |= (uint64_t)at[i] << (8 * i);
  return bits;
}

/* Floats have either sign and lie between 1/2 and 1, whatever the format; integers below 10. */
void fill_random(const array_t *array, void *data, unsigned long long seed) {
  const int is_complex = array->kind == COMPLEX;
  const size_t bytes = array->element_bytes / (is_complex ? 2 : 1);
  const size_t count = elements_of(array) * (is_complex ? 2 : 1);
  const int is_float = is_complex || array->kind == FLOAT || array->kind == NARROW;
  const int low_bits = array->exponent_bits + array->mantissa_bits;
  const int width = is_complex ? array->bits / 2 : array->bits;
  const uint64_t below = array->kind == PRED ? 2 : 10;
  const uint64_t largest = array->bits - (array->kind == SIGNED) >= 4
                               ? below
                               : (uint64_t)1 << (array->bits - (array->kind == SIGNED));
  uint64_t state = seed;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = next_random(&state);
    if (is_float) {
      const uint64_t exponent = ((uint64_t)1 << (array->exponent_bits - 1)) - 2;
      const uint64_t sign = low_bits < width ? bits >> 63 : 0;
      const uint64_t mantissa = bits & (((uint64_t)1 << array->mantissa_bits) - 1);
      bits = sign << low_bits | exponent << array->mantissa_bits | mantissa;
    } else {
      bits = (bits >> 8) % (array->kind == PRED ? below : largest);
    }
    store((char *)data + i * bytes, bits, bytes);
  }
}

static void print_value(const array_t *array, const char *at) {
  const size_t bytes = array->element_bytes;
  const uint64_t bits = load(at, bytes < 8 ? bytes : 8);
  const uint64_t sign = (uint64_t)1 << (array->bits < 64 ? array->bits - 1 : 63);
  float f[2];
  double d[2];
  if (array->kind == PRED) {
    printf(" %s", bits ? "true" : "false");
  } else if (array->kind == SIGNED) {
    printf(" %lld", (long long)((bits ^ sign) - sign));
  } else if (array->kind == UNSIGNED) {
    printf(" %llu", (unsigned long long)bits);
  } else if (array->kind == FLOAT && bytes == 4) {
    memcpy(f, at, sizeof f[0]);
    printf(" %.9g", (double)f[0]);
  } else if (array->kind == FLOAT && bytes == 8) {
    memcpy(d, at, sizeof d[0]);
    printf(" %.17g", d[0]);
  } else if (array->kind == COMPLEX && bytes == 8) {
    memcpy(f, at, sizeof f);
    printf(" (%.9g,%.9g)", (double)f[0], (double)f[1]);
  } else if (array->kind == COMPLEX) {
    memcpy(d, at, sizeof d);
    printf(" (%.17g,%.17g)", d[0], d[1]);
  } else {
    printf(" 0x%0*llx", (int)(2 * bytes), (unsigned long long)bits);
  }
}

void print_values(const array_t *array, const void *data) {
  const size_t count = elements_of(array);
  size_t steps[MAX_RANK], index[MAX_RANK] = {0};
  memory_steps(array, steps);
  printf("%s %s", array->name, array->shape);
  for (size_t n = 0; n < count && n < SHOWN; n++) {
    size_t at = 0;
    for (int i = 0; i < array->rank; i++) at += index[i] * steps[i];
    print_value(array, (const char *)data + at);
    for (int i = array->rank - 1; i >= 0 && ++index[i] == array->dims[i]; i--) index[i] = 0;
  }
  printf(count > SHOWN ? " ...\n" : "\n");
}
