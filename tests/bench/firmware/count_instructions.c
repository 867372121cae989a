// A QEMU plugin that counts the instructions that each function of the program executes, and writes "COUNT NAME" lines
// into the file that its argument `out` names. The counts are exact, and nothing is added to the program.
//
// Debian has QEMU's plugin interface but not its header, so what is used of version 1 is declared here.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
const char* qemu_plugin_insn_symbol(const struct qemu_plugin_insn* instruction);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn* instruction, enum qemu_plugin_op op, void* counter, uint64_t add);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb*));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void*), void* data);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { kFunctions = 4096 };
static struct {
  char* name;
  uint64_t count;
} functions[kFunctions];  // the counters must not move
static int function_count;

static uint64_t* counter_of(const char* name) {
  for (int i = 0; i < function_count; ++i)
    if (!strcmp(functions[i].name, name)) return &functions[i].count;
  if (function_count == kFunctions) abort();
  functions[function_count].name = strdup(name);
  return &functions[function_count++].count;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    const char* name = qemu_plugin_insn_symbol(instruction);
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, counter_of(name ? name : "?"), 1);
  }
}

static void ended(qemu_plugin_id_t id, void* path) {
  (void)id;
  FILE* out = fopen(path, "w");
  if (!out) return;
  for (int i = 0; i < function_count; ++i) fprintf(out, "%llu %s\n", (unsigned long long)functions[i].count, functions[i].name);
  fclose(out);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info* info, int argc, char** argv) {
  (void)info;
  if (argc != 1 || strncmp(argv[0], "out=", 4)) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, strdup(argv[0] + 4));
  return 0;
}
