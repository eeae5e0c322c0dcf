/* Arrays in files of NumPy's format .npy, versions 1 to 3.
 *
 * A file is "\x93NUMPY", two bytes of version, the length of the header in 2 bytes (4 from version
 * 2 on), the header, and the elements. The header is a Python dictionary:
 * {'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static const char MAGIC[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, ALIGNED = 64, LONGEST_HEADER = 1 << 20, TEXT = 2048 };

/* What a header says. */
typedef struct {
  char order; /* of bytes: < > | = */
  char kind;  /* b i u f c V, or another that no array here has */
  size_t bytes;
  char descr[32];
  int fortran_order;
  int rank;
  size_t dims[MAX_RANK];
} header_t;

/* Returns what stands after 'key': in the header, or null. */
static const char *value_of(const char *text, const char *key) {
  const char *at = strstr(text, key);
  if (at == NULL) return NULL;
  at += strlen(key);
  while (*at == ' ' || *at == ':') at++;
  return at;
}

/* Takes the header apart; returns null, or what is wrong. */
static const char *parse(const char *text, header_t *found) {
  const char *at = value_of(text, "'descr'");
  if (at == NULL) return "its header has no element type";
  if (*at != '\'' && *at != '"') return "its elements are records";
  const char *end = strchr(at + 1, *at);
  if (end == NULL || end - at < 3 || (size_t)(end - at) > sizeof found->descr)
    return "its header has no element type";
  memcpy(found->descr, at + 1, (size_t)(end - at - 1));
  found->descr[end - at - 1] = '\0';
  const char *type = found->descr;
  found->order = strchr("<>|=", *type) != NULL ? *type++ : '=';
  found->kind = *type++;
  char *rest;
  found->bytes = strtoul(type, &rest, 10);
  if (*rest != '\0') found->bytes = 0; /* a time with its unit, which no array here has */

  at = value_of(text, "'fortran_order'");
  if (at == NULL) return "its header has no order of dimensions";
  found->fortran_order = *at == 'T';

  at = value_of(text, "'shape'");
  if (at == NULL || *at != '(') return "its header has no shape";
  found->rank = 0;
  for (at++; *at != ')' && *at != '\0';) {
    if (*at >= '0' && *at <= '9') {
      char *next;
      if (found->rank == MAX_RANK) return "its shape has too many dimensions";
      found->dims[found->rank++] = strtoull(at, &next, 10);
      at = next;
    } else {
      at++;
    }
  }
  return NULL;
}

/* Reads magic number, version and header; returns null, or what is wrong. */
static const char *read_header(FILE *file, header_t *found) {
  unsigned char head[12];
  if (fread(head, 1, MAGIC_BYTES + 2, file) != MAGIC_BYTES + 2 ||
      memcmp(head, MAGIC, MAGIC_BYTES) != 0)
    return "it is no .npy file of NumPy";
  const int version = head[MAGIC_BYTES];
  const size_t size_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) return "its version of the .npy format is not known";
  if (fread(head, 1, size_bytes, file) != size_bytes) return "it ends within its header";
  size_t size = 0;
  for (size_t i = size_bytes; i-- > 0;) size = size << 8 | head[i];
  if (size > LONGEST_HEADER) return "its header is too long";
  char *text = malloc(size + 1);
  if (text == NULL) return "there is not enough memory";
  const char *wrong = "it ends within its header";
  if (fread(text, 1, size, file) == size) {
    text[size] = '\0';
    wrong = parse(text, found);
  }
  free(text);
  return wrong;
}

/* Returns NumPy's letter for the elements of `array` in a file that is written. */
static char letter_of(const array_t *array) { return "biufcV"[array->kind]; }

static int takes(const array_t *array, const header_t *found) {
  if (found->bytes != array->element_bytes) return 0;
  if (found->kind == letter_of(array)) return 1;
  if (array->kind == NARROW) /* NumPy has no f1, but one that others add is called so */
    return found->kind == 'u' || (found->kind == 'f' && found->bytes == 1);
  return array->bits < 8 && array->kind != PRED && found->kind == 'V';
}

static void describe(const array_t *array, char *text, size_t size) {
  const char order = array->element_bytes == 1 ? '|' : '<';
  snprintf(text, size, "%c%c%zu", order, letter_of(array), array->element_bytes);
}

/* Writes a shape as NumPy does: (4, 2), (4,), (). */
static void shape_text(int rank, const size_t *dims, char *text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "(");
  for (int i = 0; i < rank && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, i ? ", %zu" : "%zu", dims[i]);
  if (at < size) snprintf(text + at, size - at, rank == 1 ? ",)" : ")");
}

/* Says what the file has and what it should have. */
static int mismatch(const char *path, const array_t *array, const header_t *found) {
  char want[32], shape[TEXT];
  describe(array, want, sizeof want);
  shape_text(found->rank, found->dims, shape, sizeof shape);
  return fault("%s: it has shape %s of '%s', but %s is %s, as '%s'", path, shape, found->descr,
               array->name, array->shape, want);
}

static void reverse_bytes(char *data, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++, data += bytes) {
    for (size_t j = 0; j < bytes / 2; j++) {
      const char kept = data[j];
      data[j] = data[bytes - 1 - j];
      data[bytes - 1 - j] = kept;
    }
  }
}

/* Brings elements of less than a byte into the form that code expects; returns 0, or 1 after
 * saying which does not fit. */
static int narrowed(const char *path, const array_t *array, const header_t *found, char *data) {
  const size_t count = elements_of(array);
  const int least = array->kind == SIGNED ? -(1 << (array->bits - 1)) : 0;
  const int most = least + (1 << array->bits) - 1;
  for (size_t i = 0; i < count; i++) {
    if (array->kind == PRED) {
      data[i] = data[i] != 0;
      continue;
    }
    const int value = array->kind == SIGNED ? (int)(signed char)data[i] : (int)(unsigned char)data[i];
    if (found->kind != 'V' && (value < least || value > most))
      return fault("%s: element %zu is %d, but those of %s are %d to %d", path, i, value,
                   array->shape, least, most);
    data[i] = (char)(value & ((1 << array->bits) - 1));
  }
  return 0;
}

/* Brings the elements of a file, in its order, to `data`, in that of the code. */
static int take_elements(const char *path, const array_t *array, const header_t *found, char *raw,
                         void *data) {
  const size_t parts = array->kind == COMPLEX ? 2 : 1, bytes = array->element_bytes;
  if (found->order == '>') reverse_bytes(raw, elements_of(array) * parts, bytes / parts);
  if (array->bits < 8 && array->kind != NARROW && narrowed(path, array, found, raw)) return 1;
  size_t from[MAX_RANK], to[MAX_RANK], step = bytes;
  for (int i = 0; i < array->rank; i++) {
    const int dim = found->fortran_order ? i : array->rank - 1 - i;
    from[dim] = step;
    step *= array->dims[dim];
  }
  memory_steps(array, to);
  copy_elements(array, data, to, raw, from);
  return 0;
}

int read_npy(const char *path, const array_t *array, void *data) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return fault("%s: %s", path, strerror(errno));
  header_t found;
  const size_t size = elements_of(array) * array->element_bytes;
  char *raw = NULL;
  int status = 1;
  const char *wrong = read_header(file, &found);
  if (wrong != NULL) {
    fault("%s: %s", path, wrong);
  } else if (!takes(array, &found) || found.rank != array->rank ||
             (array->rank && memcmp(found.dims, array->dims, (size_t)array->rank * sizeof(size_t)))) {
    mismatch(path, array, &found);
  } else if ((raw = malloc(size + 1)) == NULL) {
    fault("%s: there is not enough memory", path);
  } else if (fread(raw, 1, size, file) != size) {
    fault("%s: it ends before its %zu bytes of elements", path, size);
  } else {
    status = take_elements(path, array, &found, raw, data);
  }
  free(raw);
  fclose(file);
  return status;
}

/* Writes magic number, version 1.0 and header, whose end is aligned. */
static void write_header(FILE *file, const array_t *array) {
  char descr[32], shape[TEXT], text[TEXT + 128];
  describe(array, descr, sizeof descr);
  shape_text(array->rank, array->dims, shape, sizeof shape);
  const int used = snprintf(text, sizeof text,
                            "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  const size_t head = MAGIC_BYTES + 4;
  const size_t size = (head + (size_t)used + 1 + ALIGNED - 1) / ALIGNED * ALIGNED - head;
  fwrite(MAGIC, 1, MAGIC_BYTES, file);
  fputc(1, file);
  fputc(0, file);
  fputc((int)(size & 255), file);
  fputc((int)(size >> 8), file);
  fprintf(file, "%-*s\n", (int)size - 1, text);
}

int write_npy(const char *path, const array_t *array, const void *data) {
  const size_t count = elements_of(array), bytes = array->element_bytes;
  char *raw = malloc(count * bytes + 1);
  if (raw == NULL) return fault("%s: there is not enough memory", path);
  size_t from[MAX_RANK], to[MAX_RANK], step = bytes;
  for (int i = array->rank - 1; i >= 0; i--) {
    to[i] = step;
    step *= array->dims[i];
  }
  memory_steps(array, from);
  copy_elements(array, raw, to, data, from);
  if (array->bits < 8 && array->kind == SIGNED) { /* the sign fills the byte */
    const int sign = 1 << (array->bits - 1);
    for (size_t i = 0; i < count; i++) raw[i] = (char)((raw[i] ^ sign) - sign);
  }
  FILE *file = fopen(path, "wb");
  if (file != NULL) {
    write_header(file, array);
    fwrite(raw, 1, count * bytes, file);
  }
  const int failed = file == NULL || ferror(file) || fclose(file) != 0;
  free(raw);
  return failed ? fault("cannot write %s: %s", path, strerror(errno)) : 0;
}
