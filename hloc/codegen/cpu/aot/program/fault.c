/* Says on stderr what is wrong, after the name of the program. */
#include <stdarg.h>
#include <stdio.h>

#include "program.h"

const char *program_name = "model";

int fault(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fprintf(stderr, "%s: ", program_name);
  vfprintf(stderr, format, values);
  fputc('\n', stderr);
  va_end(values);
  return 1;
}
