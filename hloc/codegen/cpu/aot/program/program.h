/* What the files of a program made by `hloc --emit=exe` know of each other. */
#ifndef HLOC_PROGRAM_H
#define HLOC_PROGRAM_H

#include <stddef.h>

enum { MAX_RANK = 64 }; /* as NumPy's */

/* Kinds of elements. NARROW is a float that NumPy lacks; files have its bits. */
typedef enum { PRED, SIGNED, UNSIGNED, FLOAT, COMPLEX, NARROW } kind_t;

/* One argument or result. */
typedef struct {
  const char *name;  /* arg0, out0 */
  const char *shape; /* as HLO writes it, f32[4,2] */
  const char *note;  /* the parameter it comes from, or "" */
  kind_t kind;
  int bits;          /* of an element, as HLO counts them; 4 of s4 */
  int exponent_bits; /* of a float */
  int mantissa_bits;
  size_t element_bytes; /* in memory and in a file */
  int rank;
  const size_t *dims;
  const int *order; /* the dimensions, that with the largest step in memory first */
} array_t;

/* The module, as `table.c` says it. */
typedef struct {
  const char *module;
  const char *machine;
  int arguments, results;
  const array_t *argument, *result;
  size_t temp_bytes, alignment;
  int (*run)(const void *const *inputs, void *const *outputs, void *temp);
  const char *(*variant)(void); /* the processor whose code runs, or null */
} program_t;

extern const program_t program;

/* npy.c: both return 0, or say on stderr what is wrong and return 1. */
int read_npy(const char *path, const array_t *array, void *data);
int write_npy(const char *path, const array_t *array, const void *data);

/* arrays.c */
size_t elements_of(const array_t *array);
void memory_steps(const array_t *array, size_t *steps); /* bytes, one per dimension */
void copy_elements(const array_t *array, char *to, const size_t *to_steps, const char *from,
                   const size_t *from_steps);
void fill_random(const array_t *array, void *data, unsigned long long seed);
void print_values(const array_t *array, const void *data);

/* fault.c: says on stderr what is wrong, after the name of the program; returns 1. */
extern const char *program_name;
int fault(const char *format, ...);

#endif
