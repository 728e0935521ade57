#!/bin/sh
# Puts a built library where programs and compilers look: the library under PVM's names, its
# companions, headers, pkg-config files.
#
#   install.sh LIBPVM3_SO PREFIX
set -eu
[ $# -eq 2 ] || { echo "usage: $0 LIBPVM3_SO PREFIX" >&2; exit 2; }
so=$1 prefix=$2
here=$(cd "$(dirname "$0")" && pwd)
lib=$prefix/lib
mkdir -p "$lib/pkgconfig" "$prefix/include"
cp "$so" "$lib/libpvm3.so.3.4.6"
ln -sf libpvm3.so.3.4.6 "$lib/libpvm3.so.3"
ln -sf libpvm3.so.3 "$lib/libpvm3.so"
# The group functions are in libpvm3 too; programs that name this library find it there.
${CC:-cc} -shared -nostdlib -o "$lib/libgpvm3.so.3.4.6" -Wl,-soname,libgpvm3.so.3 \
    -Wl,--no-as-needed "$lib/libpvm3.so.3"
ln -sf libgpvm3.so.3.4.6 "$lib/libgpvm3.so.3"
ln -sf libgpvm3.so.3 "$lib/libgpvm3.so"
# So are the Fortran entry points; this is a linker script.
printf 'INPUT ( -lpvm3 )\n' > "$lib/libfpvm3.a"
for header in pvm3.h fpvm3.h pvmtev.h pvmproto.h; do
    cp "$here/../../include/$header" "$prefix/include/$header"
done
for name in pvm3 gpvm3 fpvm3; do
    {
        printf 'prefix=%s\nlibdir=${prefix}/lib\nincludedir=${prefix}/include\n\n' "$prefix"
        printf 'Name: %s\nDescription: PVM 3.4.6 on Towpath\nVersion: 3.4.6\n' "$name"
        printf 'Libs: -L${libdir} -l%s\nCflags: -I${includedir}\n' "$name"
    } > "$lib/pkgconfig/$name.pc"
done
