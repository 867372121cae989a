#!/bin/bash
# size/runtime.sh LIBNACRE.so LIBNACRE.a COMPILER [PREFIX]: bytes of code and constants, and what the library wants of others.
# PREFIX goes before the names of the binary tools: aarch64-linux-gnu-.
set -euo pipefail
limit=65536
shared=$1 static=$2 compiler=$3 prefix=${4:-}

# Everything that is mapped and never written: text, constants, and what the dynamic linker reads.
total=$("${prefix}size" "$shared" | awk 'NR == 2 { print $1 }')
"${prefix}size" -A "$shared" | awk '$2 ~ /^[0-9]+$/ && $1 ~ /^\.(text|rodata|eh_frame)/ { print "  " $1, $2 }'
echo "text and read-only data: $total bytes of $limit"
[ "$total" -le "$limit" ]
# Without what the dynamic linker reads.
limit=51200
total=$("${prefix}size" -A "$shared" | awk '$1 == ".text" || $1 == ".rodata" { total += $2 } END { print total }')
echo "code and constants: $total bytes of $limit"
[ "$total" -le "$limit" ]

needed=$("${prefix}readelf" -d "$shared" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | tr '\n' ' ')
echo "needs: $needed"
[ "$needed" = "libc.so.6 " ]

# With the C library alone (on other machines, and what the compiler brings: swapped bytes, cleared caches), nothing may be missing; and no name that it brings may be another's.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$compiler" -shared -nostdlib -Wl,--whole-archive "$static" -Wl,--no-whole-archive -Wl,-z,defs -lc ${prefix:+-lgcc} -o "$folder/all.so"
foreign=$("${prefix}nm" --defined-only -g "$static" | awk 'NF == 3 && $3 !~ /^(nacre_|_Z.*(5nacre|17nacre_flatbuffers))/ { print $3 }')
echo "names of others: ${foreign:-none}"
[ -z "$foreign" ]
