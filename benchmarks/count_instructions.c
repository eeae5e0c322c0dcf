/* A plugin of QEMU's user mode that counts the instructions of a program.

   The count is a 64-bit word of the file named by the argument `counter`, which the program may map
   and read while it runs. QEMU adds the instructions of a block when it enters the block. The
   declarations are those of qemu-plugin.h, version 1 (QEMU 4.2 to 8.2), which few systems install. */

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum { ADD_U64 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                              void *word, uint64_t amount);

EXPORTED int qemu_plugin_version = 1;

static uint64_t *counter;

static void on_translation(plugin_id id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, counter, qemu_plugin_tb_n_insns(block));
}

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
  static const char name[] = "counter=";
  (void)info;
  if (count != 1 || strncmp(arguments[0], name, sizeof name - 1)) return 1;
  const int file = open(arguments[0] + sizeof name - 1, O_RDWR);
  if (file < 0) return 1;
  counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counter == MAP_FAILED) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  return 0;
}
