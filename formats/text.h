// Composes messages in a fixed buffer, without the printf family: the runtime needs little of it,
// and never allocates.
#ifndef NACRE_FORMATS_TEXT_H
#define NACRE_FORMATS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What does not fit is cut; the text always ends in 0.
struct nacre_text {
  char* buffer;
  size_t capacity;  // > 0
  size_t length;
};

void nacre_text_start(struct nacre_text* text, char* buffer, size_t capacity);
void nacre_text_string(struct nacre_text* text, const char* string);
void nacre_text_number(struct nacre_text* text, int64_t number);

// In `pattern`, %s takes a const char*, %d an int64_t, and every other character stands for itself.
// All numbers must be cast: int64_t is what the callee takes.
void nacre_text_add(struct nacre_text* text, const char* pattern, ...);

#ifdef __cplusplus
}
#endif
#endif
