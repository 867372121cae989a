# Debian's cross compiler for 32-bit Arm with hardware floats (gcc-arm-linux-gnueabihf, g++-arm-linux-gnueabihf): the runtime alone.
#   cmake -B build-arm -DCMAKE_TOOLCHAIN_FILE=targets/cmake/arm-linux-gnueabihf.cmake -DNACRE_HOST=OFF -DNACRE_TESTS=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
