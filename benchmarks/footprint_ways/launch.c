/* launch PROGRAM [WORD...]: runs a program and prints its seconds and its peak memory in bytes.
 *
 * It is small itself, since Linux counts the memory of the process that starts another one as the
 * other's until that has begun.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **words) {
  if (count < 2) return 2;
  const double started = seconds();
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    execvp(words[1], words + 1);
    _exit(127);
  }
  int status;
  struct rusage usage;
  if (wait4(child, &status, 0, &usage) != child) return 1;
#ifdef __APPLE__
  const long long unit = 1;
#else
  const long long unit = 1024;
#endif
  printf("%.9f %lld\n", seconds() - started, usage.ru_maxrss * unit);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
