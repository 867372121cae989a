#include "formats/text.h"

#include <stdarg.h>

static void put(struct nacre_text* text, char c) {
  if (text->length + 1 >= text->capacity) return;
  text->buffer[text->length++] = c;
  text->buffer[text->length] = 0;
}

void nacre_text_start(struct nacre_text* text, char* buffer, size_t capacity) {
  text->buffer = buffer;
  text->capacity = capacity;
  text->length = 0;
  buffer[0] = 0;
}

void nacre_text_string(struct nacre_text* text, const char* string) {
  while (*string) put(text, *string++);
}

void nacre_text_number(struct nacre_text* text, int64_t number) {
  char digits[20];
  int count = 0;
  // The magnitude of INT64_MIN does not fit in int64_t.
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  if (number < 0) put(text, '-');
  do {
    digits[count++] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest);
  while (count) put(text, digits[--count]);
}

void nacre_text_add(struct nacre_text* text, const char* pattern, ...) {
  va_list values;
  va_start(values, pattern);
  for (const char* c = pattern; *c; ++c) {
    if (c[0] == '%' && c[1] == 's') {
      nacre_text_string(text, va_arg(values, const char*));
      ++c;
    } else if (c[0] == '%' && c[1] == 'd') {
      nacre_text_number(text, va_arg(values, int64_t));
      ++c;
    } else {
      put(text, *c);
    }
  }
  va_end(values);
}
