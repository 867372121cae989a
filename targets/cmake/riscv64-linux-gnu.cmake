# Debian's cross compiler for riscv64 (gcc-riscv64-linux-gnu, g++-riscv64-linux-gnu): the runtime alone.
#   cmake -B build-riscv64 -DCMAKE_TOOLCHAIN_FILE=targets/cmake/riscv64-linux-gnu.cmake -DNACRE_HOST=OFF -DNACRE_TESTS=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
