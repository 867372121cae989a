// The few things that the runtime wants of an operating system.
#ifndef NACRE_RUNTIME_OS_H
#define NACRE_RUNTIME_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The largest pages that systems of this machine have: what segments of code images do not share, so
// that each can have rights of its own. A system with smaller ones takes multiples of them.
#if defined(__aarch64__)
#define NACRE_PAGE ((size_t)65536)
#else
#define NACRE_PAGE ((size_t)4096)
#endif

// A whole file, read only. NULL: `*reason` says why, in the system's words.
const void* nacre_os_map_file(const char* path, size_t* size, const char** reason);

// Adds to the end of a file, which is made if there is none. False: the system refuses.
bool nacre_os_append(const char* path, const void* bytes, size_t size);
// A file of two parts, in place of what was there. NULL, or why not, in the system's words.
const char* nacre_os_write(const char* path, const void* head, size_t head_size, const void* body,
                           size_t body_size);
// A variable of the environment, or NULL.
const char* nacre_os_variable(const char* name);

// Zeroed pages that can be written; NULL without memory. `size` is a multiple of NACRE_PAGE.
void* nacre_os_pages(size_t size);
void nacre_os_unmap(const void* address, size_t size);

enum { NACRE_PROTECT_READ = 0, NACRE_PROTECT_WRITE = 1, NACRE_PROTECT_EXECUTE = 2 };
// 0, or not: the system refuses.
int nacre_os_protect(void* address, size_t size, int rights);

// Memory aligned to 64 bytes, NULL if there is none.
void* nacre_os_allocate(size_t size);
void nacre_os_free(void* memory);

uint64_t nacre_os_now_ns(void);

// Processors that this thread may use.
uint32_t nacre_os_processors(void);
void nacre_os_yield(void);
// Sleeps while `*word` is `value`; may return early.
void nacre_os_wait(atomic_uint* word, uint32_t value);
// Wakes all who sleep on `word`.
void nacre_os_wake(atomic_uint* word);

#endif
