#include "runtime/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/container.h"
#include "runtime/os.h"

// The pages of a file of `size` bytes at an address, or, without one, `addresses` of which the first are the file's. NULL, or why not.
static const char* map(const char* path, size_t size, void** at, size_t addresses) {
  const char* reason = NULL;
  struct stat info;
  // Not to wait for whoever might write into a pipe.
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return strerror(errno);
  if (fstat(file, &info)) {
    reason = strerror(errno);
  } else if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != size) {
    reason = "it is of another model, or damaged";
  } else {
    void* pages = mmap(*at, addresses, PROT_READ, MAP_PRIVATE | (*at ? MAP_FIXED : 0), file, 0);
    if (pages == MAP_FAILED)
      reason = strerror(errno);
    else
      *at = pages;
  }
  close(file);
  return reason;
}

nacre_status nacre_weights_map(const char* path, const nacre_open_options* options, const void** bytes, size_t* size,
                               size_t* artifact_size, struct nacre_text* why) {
  const struct nacre_file_header* header = *bytes;
  const struct nacre_weights_end end = {NACRE_WEIGHTS_MAGIC, header->apart_digest, {0}};
  size_t own = *size, whole = (size_t)header->file_size, all = whole + sizeof end;
  char beside[4096 + sizeof ".weights"];  // as long as a path can be that was opened
  struct nacre_text name;
  nacre_text_start(&name, beside, sizeof beside);
  nacre_text_add(&name, "%s.weights", path);
  const char* weights = options && options->weights ? options->weights : beside;
  const char* reason = "the artifact is damaged";
  void *first = NULL, *rest = NULL;
  if (all > own && whole >= own) reason = map(path, own, &first, all);
  if (first) {
    rest = (uint8_t*)first + own;
    reason = map(weights, all - own, &rest, all - own);
    if (!reason && memcmp((uint8_t*)first + whole, &end, sizeof end)) reason = "it is of another model, or damaged";
    if (reason) nacre_os_unmap(first, all);
  }
  if (reason) {
    nacre_text_add(why, "its weights are in a file of their own, and %s cannot be it: %s", weights, reason);
    return NACRE_IO_ERROR;
  }
  nacre_os_unmap(*bytes, own);
  *bytes = first;
  *size = all;
  *artifact_size = whole;
  return NACRE_OK;
}
