#!/bin/bash
# install/hello.sh BUILD SOURCE ARTIFACT_MAKER LIBDIR
set -euo pipefail
build=$1 source=$2 maker=$3 libdir=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --component runtime --prefix "$folder/prefix" >/dev/null
"$maker" "$folder/hello.nacre"

cmake -S "$source/examples/hello" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null
cmake --build "$folder/build" >/dev/null
with_cmake=$("$folder/build/hello" "$folder/hello.nacre")

export PKG_CONFIG_PATH=$folder/prefix/$libdir/pkgconfig
flags=$(pkg-config --cflags --libs nacre)
# shellcheck disable=SC2086  # several flags
cc -std=c11 -Wall -Wextra -Werror "$source/examples/hello/hello.c" $flags -o "$folder/hello"
with_pkg_config=$(LD_LIBRARY_PATH=$folder/prefix/$libdir "$folder/hello" "$folder/hello.nacre")

expected=$'4 8 12 16\n20 24 28 32'
echo "$with_cmake"
[ "$with_cmake" = "$expected" ]
[ "$with_pkg_config" = "$expected" ]
! "$folder/build/hello" "$folder/none.nacre" 2>"$folder/error"
grep -q "cannot read $folder/none.nacre: No such file or directory" "$folder/error"
