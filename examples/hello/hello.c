// Runs an artifact on two rows of four numbers. README.md says how to make one and how to build
// this.
#include <nacre/dtype.h>
#include <nacre/nacre.h>
#include <stdio.h>

int main(int argc, char** argv) {
  nacre_model* model;
  nacre_session* session;
  nacre_error error;
  if (nacre_model_open(argc > 1 ? argv[1] : "hello.nacre", NULL, &model, &error))
    return fprintf(stderr, "%s\n", error.message), 1;
  if (nacre_session_make(model, NULL, NULL, 0, &session)) return fprintf(stderr, "no memory\n"), 1;
  float x[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, y[2][4];
  nacre_tensor input = {x, (int64_t[]){2, 4}, NULL, 2, NACRE_f32};
  nacre_buffer output = {y, sizeof y};
  if (nacre_run(session, 0, &input, 1, &output, 1))
    return fprintf(stderr, "%s\n", nacre_session_message(session)), 1;
  for (int row = 0; row < 2; ++row)
    printf("%g %g %g %g\n", y[row][0], y[row][1], y[row][2], y[row][3]);
  nacre_session_destroy(session);
  nacre_model_close(model);
}
