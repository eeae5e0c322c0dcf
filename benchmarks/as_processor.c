/* Loaded before a program: its CPUID instructions report fewer instruction sets than there are.

   Linux lets a process ask for a fault at each CPUID. The handler answers in its place. HIDE_7_B and
   the others, set by as_processor.py, are the bits to clear in leaf 7 and in the register state of
   leaf 13. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012

static struct sigaction others;

static void answer(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const uint8_t *code = (const uint8_t *)registers[REG_RIP];
  if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
    sigaction(number, &others, NULL); /* a fault of the program: it faults again, unhandled */
    return;
  }
  uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
  uint32_t a, b, c, d;
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1L);
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0L);
  if (leaf == 7 && part == 0) {
    b &= ~HIDE_7_B;
    c &= ~HIDE_7_C;
    d &= ~HIDE_7_D;
  } else if (leaf == 7 && part == 1) {
    a &= ~HIDE_7_1_A;
    d &= ~HIDE_7_1_D;
  } else if (leaf == 13 && part == 0) {
    a &= ~HIDE_STATE;
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, &others);
  if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0L) != 0) {
    static const char message[] = "this machine cannot hide instruction sets\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(127);
    _exit(127);
  }
}
