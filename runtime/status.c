#include <nacre/nacre.h>

const char* nacre_status_text(nacre_status status) {
  switch (status) {
    case NACRE_OK:
      return "no error";
    case NACRE_BAD_ARGUMENT:
      return "bad argument";
    case NACRE_IO_ERROR:
      return "the file cannot be read";
    case NACRE_BAD_ARTIFACT:
      return "not a nacre artifact, or a damaged one";
    case NACRE_UNSUPPORTED_VERSION:
      return "the artifact is of another version than this runtime";
    case NACRE_UNSUPPORTED_DEVICE:
      return "the artifact has no code for this processor";
    case NACRE_GUARD_MISS:
      return "no variant accepts these inputs";
    case NACRE_OUT_OF_MEMORY:
      return "out of memory";
    case NACRE_DATA_ERROR:
      return "the model raised an error on these data";
    case NACRE_MISSING_IMPORT:
      return "a function of the application is missing";
    case NACRE_NOT_FOUND:
      return "not found";
    case NACRE_THREAD_ERROR:
      return "threads cannot be started";
    case NACRE_DEVICE_LOST:
#ifdef NACRE_CUDA
      return "the GPU failed";
#else
      break;
#endif
  }
  return "unknown status";
}
