/* Runs a module on .npy files: arguments from files, results to files or, shortened, to stdout. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"

enum { OK = 0, FAULT = 1, USAGE = 2, MOST_RUNS = 1000, MOST_NAMED = 4 };
static const double MOST_SECONDS = 0.3;

/* The command line. */
typedef struct {
  const char *output; /* null if results go to stdout */
  const char *const *files;
  int file_count;
  int is_random, is_timed;
  unsigned long long seed, runs; /* 0 runs: as many as fit into MOST_SECONDS */
} options_t;

static int usage_fault(const char *format, const char *what) {
  fault(format, what);
  fprintf(stderr, "see `%s --help`\n", program_name);
  return USAGE;
}

static void list(const char *title, int count, const array_t *array) {
  printf("\n%s:%s\n", title, count ? "" : " none");
  for (int i = 0; i < count; i++)
    printf("  %-6s %-*s%s\n", array[i].name, *array[i].note ? 24 : 0, array[i].shape, array[i].note);
}

static int help(void) {
  printf("usage: %s [options]", program_name);
  if (program.arguments > MOST_NAMED)
    printf(" arg0.npy ... arg%d.npy", program.arguments - 1);
  else
    for (int i = 0; i < program.arguments; i++) printf(" arg%d.npy", i);
  printf("\n\nRuns HLO module %s, compiled for %s.\n", program.module, program.machine);
  list("arguments", program.arguments, program.argument);
  list("results", program.results, program.result);
  printf("\noptions:\n"
         "  -o NAME          write NAME0.npy, NAME1.npy ..., or NAME itself if it ends in .npy and\n"
         "                   there is one result; without it the first values go to stdout\n"
         "  --random[=SEED]  random arguments in place of files, from SEED, 0 if not given\n"
         "  --time[=N]       run N times and print how long a run takes; without N up to %d\n"
         "                   times or %g s\n"
         "  -h, --help       show this help\n\n"
         "Elements are those of numpy.save. Of floats that NumPy lacks (bf16, f8e4m3fn ...) a file\n"
         "has the bits: void or unsigned integers of their width are read, void is written.\n"
         "Integers below a byte are bytes.\n",
         MOST_RUNS, MOST_SECONDS);
  return OK;
}

/* Reads a whole number of at least `least`; returns 1 if there is one. */
static int is_number(const char *text, unsigned long long least, unsigned long long *found) {
  char *end;
  if (*text < '0' || *text > '9') return 0;
  *found = strtoull(text, &end, 10);
  return *end == '\0' && *found >= least;
}

/* Returns OK, USAGE after saying what is wrong, or -1 for a call that asks for help. */
static int read_options(int count, char **words, options_t *found) {
  static const options_t none;
  *found = none;
  const char **files = calloc((size_t)count + 1, sizeof *files);
  if (files == NULL) return fault("there is not enough memory");
  found->files = files;
  for (int i = 1; i < count; i++) {
    const char *word = words[i];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) return -1;
    if (strcmp(word, "-o") == 0) {
      if (++i == count) return usage_fault("%s needs a name", word);
      found->output = words[i];
    } else if (strcmp(word, "--random") == 0) {
      found->is_random = 1;
    } else if (strncmp(word, "--random=", 9) == 0) {
      found->is_random = 1;
      if (!is_number(word + 9, 0, &found->seed))
        return usage_fault("%s: expected a whole number", word);
    } else if (strcmp(word, "--time") == 0) {
      found->is_timed = 1;
    } else if (strncmp(word, "--time=", 7) == 0) {
      found->is_timed = 1;
      if (!is_number(word + 7, 1, &found->runs))
        return usage_fault("%s: expected a whole number, 1 or more", word);
    } else if (word[0] == '-' && word[1] != '\0') {
      return usage_fault("unknown option %s", word);
    } else {
      files[found->file_count++] = word;
    }
  }
  if (found->is_random && found->file_count)
    return usage_fault("--random takes no files, and %s was given", found->files[0]);
  if (!found->is_random && found->file_count != program.arguments) {
    fault("number of files: %d, and of arguments: %d", found->file_count, program.arguments);
    return usage_fault("%s", "give one file per argument, or --random");
  }
  return OK;
}

/* Returns memory that code can use, or ends the program. */
static void *memory(size_t bytes) {
  void *found = aligned_alloc(program.alignment, (bytes / program.alignment + 1) * program.alignment);
  if (found == NULL) {
    fault("there is not enough memory");
    exit(FAULT);
  }
  return found;
}

static void *memory_of(const array_t *array) {
  return memory(elements_of(array) * array->element_bytes);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Runs once more and more often, and says on stderr how long that took. */
static void measure(const options_t *options, double first, const void *const *inputs,
                    void *const *outputs, void *temp) {
  const size_t most = options->runs ? (size_t)options->runs : MOST_RUNS;
  double *took = memory(most * sizeof *took), total = 0;
  size_t runs = 0;
  while (runs < most && (options->runs || total < MOST_SECONDS)) {
    const double started = seconds();
    program.run(inputs, outputs, temp);
    took[runs] = seconds() - started;
    total += took[runs++];
  }
  qsort(took, runs, sizeof *took, compare);
  const char *variant = program.variant ? program.variant() : NULL;
  fprintf(stderr, "first run %.3g us, then %zu runs: best %.3g us, median %.3g us%s%s\n",
          first * 1e6, runs, took[0] * 1e6, took[runs / 2] * 1e6, variant ? ", code for " : "",
          variant ? variant : "");
  free(took);
}

static int give_out(const options_t *options, void *const *outputs) {
  const char *output = options->output;
  const size_t size = output ? strlen(output) : 0;
  const int has_ending = size > 4 && strcmp(output + size - 4, ".npy") == 0;
  const int stem = (int)(has_ending ? size - 4 : size);
  int status = OK;
  for (int i = 0; i < program.results && status == OK; i++) {
    if (output == NULL) {
      print_values(&program.result[i], outputs[i]);
      continue;
    }
    char *path = memory(size + 32);
    if (has_ending && program.results == 1)
      strcpy(path, output);
    else
      snprintf(path, size + 32, "%.*s%d.npy", stem, output, i);
    status = write_npy(path, &program.result[i], outputs[i]);
    free(path);
  }
  if (fflush(stdout) != 0) return fault("cannot write to stdout");
  return status;
}

int main(int count, char **words) {
  if (count > 0) program_name = words[0];
  options_t options;
  const int status = read_options(count, words, &options);
  if (status < 0) return help();
  if (status != OK) return status;

  const void **inputs = memory((size_t)program.arguments * sizeof *inputs);
  void **outputs = memory((size_t)program.results * sizeof *outputs);
  for (int i = 0; i < program.arguments; i++) {
    const array_t *array = &program.argument[i];
    void *data = memory_of(array);
    if (options.is_random)
      fill_random(array, data, options.seed * 1000 + (unsigned long long)i);
    else if (read_npy(options.files[i], array, data))
      return FAULT;
    inputs[i] = data;
  }
  for (int i = 0; i < program.results; i++) outputs[i] = memory_of(&program.result[i]);
  void *temp = memory(program.temp_bytes);

  const double started = seconds();
  const int failed = program.run(inputs, outputs, temp);
  const double first = seconds() - started;
  if (failed == 3) return fault("this processor lacks what the code needs: %s", program.machine);
  if (failed) return fault("the module returned %d", failed);
  if (options.is_timed) measure(&options, first, inputs, outputs, temp);
  return give_out(&options, outputs);
}
