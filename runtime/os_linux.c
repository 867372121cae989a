#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/os.h"

const void* nacre_os_map_file(const char* path, size_t* size, const char** reason) {
  // Not to wait for whoever might write into a pipe.
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    *reason = strerror(errno);
    return NULL;
  }
  struct stat info;
  const void* bytes = NULL;
  if (fstat(file, &info)) {
    *reason = strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    *reason = "not a file";
  } else if (info.st_size <= 0) {
    *reason = "it is empty";
  } else {
    *size = (size_t)info.st_size;
    void* mapping = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping == MAP_FAILED)
      *reason = strerror(errno);
    else
      bytes = mapping;
  }
  close(file);
  return bytes;
}

bool nacre_os_append(const char* path, const void* bytes, size_t size) {
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return false;
  // One write, so that lines of several processes do not mix.
  bool good = write(file, bytes, size) == (ssize_t)size;
  return !close(file) && good;
}

static bool write_all(int file, const uint8_t* bytes, size_t size) {
  while (size) {
    ssize_t done = write(file, bytes, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes += done;
    size -= (size_t)done;
  }
  return true;
}

const char* nacre_os_write(const char* path, const void* head, size_t head_size, const void* body,
                           size_t body_size) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return strerror(errno);
  bool good = write_all(file, head, head_size) && write_all(file, body, body_size);
  int reason = good ? 0 : errno;
  if (close(file) && good) return strerror(errno);
  return good ? NULL : strerror(reason);
}

const char* nacre_os_variable(const char* name) { return secure_getenv(name); }

void* nacre_os_pages(size_t size) {
  void* pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

void nacre_os_unmap(const void* address, size_t size) { munmap((void*)(uintptr_t)address, size); }

int nacre_os_protect(void* address, size_t size, int rights) {
  int flags = PROT_READ;
  if (rights & NACRE_PROTECT_WRITE) flags |= PROT_WRITE;
  if (rights & NACRE_PROTECT_EXECUTE) flags |= PROT_EXEC;
  return mprotect(address, size, flags);
}

void* nacre_os_allocate(size_t size) {
  void* memory;
  return posix_memalign(&memory, 64, size ? size : 64) ? NULL : memory;
}

void nacre_os_free(void* memory) { free(memory); }

uint64_t nacre_os_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t nacre_os_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  return (uint32_t)CPU_COUNT(&set);
}

void nacre_os_yield(void) { sched_yield(); }

void nacre_os_wait(atomic_uint* word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void nacre_os_wake(atomic_uint* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
