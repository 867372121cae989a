# Debian's cross compiler for aarch64 (gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu): the runtime alone.
#   cmake -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=targets/cmake/aarch64-linux-gnu.cmake -DNACRE_HOST=OFF -DNACRE_TESTS=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
