// Writes an artifact that examples/hello can run: y = 4 * x for x of 2*n rows of 4.
#include "tests/unit/runtime/fixture.h"

int main(int, char** arguments) {
  nacre::test::write_file(nacre::test::scale_artifact(), arguments[1]);
}
