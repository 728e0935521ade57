#!/bin/sh
# Puts what was built where programs, compilers and the manual look. `make install` runs it.
#
#   PREFIX=/usr/local DESTDIR= BUILD=target/release packaging/install.sh [uninstall | pvm3]
#
# pvm3: PVM's interface alone, which needs no more than libpvm3.so to be built.
#
# PREFIX/bin/towpath                     without symbols, which stand in lib/debug/bin/towpath.debug
# PREFIX/bin/towpath-apps                what `towpath demo` starts
# PREFIX/lib/libtowpath_c.so.0.VERSION   the C interface, with the links of its soname
# PREFIX/lib/towpath/libpvm3.so.3        PVM's interface, apart from a PVM that is installed
# PREFIX/lib/pkgconfig/towpath.pc        and towpath-pvm3.pc
# PREFIX/include/towpath.h               and towpath-pvm3/pvm3.h
# PREFIX/share/man/man1                  and completions for bash, zsh and fish
# PREFIX/share/towpath/installed         what was installed, directories that were made for it with
#                                        a slash: `uninstall` removes it, and an update what it has
#                                        no more. It is written as files are put, so that what was
#                                        begun can be removed, too.
set -eu
# For everybody, whoever installs it.
umask 022
here=$(cd "$(dirname "$0")/.." && pwd)
: "${PREFIX:=/usr/local}" "${DESTDIR:=}" "${BUILD:=$here/target/release}"
case $PREFIX in /*) ;; *) echo "error: PREFIX=$PREFIX is not absolute" >&2; exit 1 ;; esac
list=$PREFIX/share/towpath/installed

if [ "${1:-}" = uninstall ]; then
    if ! [ -f "$DESTDIR$list" ]; then
        echo "error: nothing is installed: there is no $DESTDIR$list" >&2
        echo "hint: name the PREFIX and DESTDIR that it was installed with" >&2
        exit 1
    fi
    folders=$(sed -n 's,/$,,p' "$DESTDIR$list" | sort -ru)
    sed '/\/$/d' "$DESTDIR$list" | while IFS= read -r file; do rm -f "$DESTDIR$file"; done
    rm -f "$DESTDIR$list"
    # Those that others use by now are not empty.
    echo "$folders" | while IFS= read -r dir; do rmdir "$DESTDIR$dir" 2>/dev/null || :; done
    exit 0
fi

case ${1:-} in
'') built="towpath towpath-apps libtowpath_c.so libpvm3.so" ;;
pvm3) built=libpvm3.so ;;
*) echo "error: $1 is neither uninstall nor pvm3" >&2; exit 1 ;;
esac
for file in $built; do
    [ -f "$BUILD/$file" ] && continue
    echo "error: $BUILD/$file is not built" >&2
    echo "hint: \`make install\` builds it first" >&2
    exit 1
done
work=$(mktemp -d)
new=
trap 'rm -rf "$work"; [ -z "$new" ] || rm -f "$new"' EXIT

# note LINE: LINE is in the list.
note() {
    echo "$1" >>"$work/installed"
    [ ! -d "$DESTDIR$(dirname "$list")" ] || echo "$1" >>"$DESTDIR$list"
}

# folder DIR: DIR, and those above it that are missing.
folder() {
    [ ! -d "$DESTDIR$1" ] || return 0
    folder "$(dirname "$1")"
    mkdir "$DESTDIR$1"
    note "$1/"
}

# put MODE FILE PLACE: a file at PREFIX/PLACE, by a rename, so that what runs keeps its own.
put() {
    folder "$(dirname "$PREFIX/$3")"
    note "$PREFIX/$3"
    new=$DESTDIR$PREFIX/$3.new
    cp "$2" "$new"
    chmod "$1" "$new"
    mv -f "$new" "$DESTDIR$PREFIX/$3"
    new=
}

# link TARGET PLACE: a symbolic link at PREFIX/PLACE.
link() {
    folder "$(dirname "$PREFIX/$2")"
    note "$PREFIX/$2"
    ln -sf "$1" "$DESTDIR$PREFIX/$2"
}

# keep_list FILE: FILE is the list from now on.
keep_list() {
    sort -u "$1" >"$DESTDIR$list.new"
    mv -f "$DESTDIR$list.new" "$DESTDIR$list"
}

# Before anything else there is a list.
: >"$work/before"
[ ! -f "$DESTDIR$list" ] || cp "$DESTDIR$list" "$work/before"
mkdir -p "$DESTDIR/"
folder "$(dirname "$list")"
[ ! -f "$work/installed" ] || sort -u "$work/before" "$work/installed" >"$DESTDIR$list"

# without_symbols NAME PLACE MODE: what was built, its symbols apart under lib/debug.
without_symbols() {
    cp "$BUILD/$1" "$work/$1"
    if command -v objcopy >/dev/null; then
        debug=$(basename "$2").debug
        objcopy --only-keep-debug "$work/$1" "$work/$debug"
        objcopy --strip-unneeded "$work/$1"
        (cd "$work" && objcopy --add-gnu-debuglink="$debug" "$1")
        put 644 "$work/$debug" "lib/debug/$(dirname "$2")/$debug"
    else
        echo "note: no objcopy (Debian: binutils): $2 keeps its symbols" >&2
    fi
    put "$3" "$work/$1" "$2"
}

without_symbols libpvm3.so lib/towpath/libpvm3.so.3.4.6 644
link libpvm3.so.3.4.6 lib/towpath/libpvm3.so.3
link libpvm3.so.3 lib/towpath/libpvm3.so
# The group functions are in libpvm3 too; programs that name this library find it there.
${CC:-cc} -shared -nostdlib -o "$work/libgpvm3" -Wl,-soname,libgpvm3.so.3 -Wl,--no-as-needed \
    "$DESTDIR$PREFIX/lib/towpath/libpvm3.so.3"
put 644 "$work/libgpvm3" lib/towpath/libgpvm3.so.3.4.6
link libgpvm3.so.3.4.6 lib/towpath/libgpvm3.so.3
link libgpvm3.so.3 lib/towpath/libgpvm3.so
# So are the Fortran entry points; this is a linker script.
printf 'INPUT ( -lpvm3 )\n' >"$work/libfpvm3.a"
put 644 "$work/libfpvm3.a" lib/towpath/libfpvm3.a

for header in pvm3.h fpvm3.h pvmtev.h pvmproto.h; do
    put 644 "$here/include/$header" "include/towpath-pvm3/$header"
done

# package NAME LIBRARY FOLDER HEADERS DESCRIPTION VERSION
package() {
    # Where the dynamic linker looks by itself. (In /usr/local/lib only once ldconfig has run.)
    case $PREFIX/$3 in
    /usr/lib) path= ;;
    *) path=' -Wl,-rpath,${libdir}' ;;
    esac
    {
        printf 'prefix=%s\nlibdir=${prefix}/%s\nincludedir=${prefix}/%s\n\n' "$PREFIX" "$3" "$4"
        printf 'Name: %s\nDescription: %s\nVersion: %s\n' "$1" "$5" "$6"
        printf 'Libs: -L${libdir} -l%s%s\nCflags: -I${includedir}\n' "$2" "$path"
    } >"$work/$1.pc"
    put 644 "$work/$1.pc" "lib/pkgconfig/$1.pc"
}
package towpath-pvm3 pvm3 lib/towpath include/towpath-pvm3 "PVM 3.4.6 on Towpath" 3.4.6
if [ "${1:-}" = pvm3 ]; then
    cat "$work/before" >>"$work/installed"
    keep_list "$work/installed"
    exit 0
fi

version=$("$BUILD/towpath" --version | sed 's/.* //')
without_symbols towpath bin/towpath 755
without_symbols towpath-apps bin/towpath-apps 755
without_symbols libtowpath_c.so "lib/libtowpath_c.so.0.$version" 644
link "libtowpath_c.so.0.$version" lib/libtowpath_c.so.0
link libtowpath_c.so.0 lib/libtowpath_c.so
put 644 "$here/include/towpath.h" include/towpath.h
package towpath towpath_c lib include "Tasks, messages and groups of Towpath, from C" "$version"

"$BUILD/towpath" manual "$work/manual"
for page in "$work"/manual/man1/*; do
    put 644 "$page" "share/man/man1/$(basename "$page")"
done
put 644 "$work/manual/towpath.bash" share/bash-completion/completions/towpath
put 644 "$work/manual/_towpath" share/zsh/site-functions/_towpath
put 644 "$work/manual/towpath.fish" share/fish/vendor_completions.d/towpath.fish
# What an older version had and this one has not.
sort -ru "$work/before" >"$work/sorted"
grep -vxF -f "$work/installed" "$work/sorted" >"$work/old" || :
sed '/\/$/d' "$work/old" | while IFS= read -r file; do rm -f "$DESTDIR$file"; done
sed -n '/\/$/p' "$work/old" | while IFS= read -r dir; do
    rmdir "$DESTDIR$dir" 2>/dev/null || echo "$dir" >>"$work/installed"
done
keep_list "$work/installed"
echo "installed under $DESTDIR$PREFIX; \`make uninstall PREFIX=$PREFIX\` removes it"
