# Git LFS without git-lfs: makes a pointer of a file (clean) and a file of a pointer (smudge), with the objects of this repository.
# Git runs it in the workspace, for files whose attributes say filter=lfs. Its pointers and its objects are git-lfs's own.
version='version https://git-lfs.github.com/spec/v1'
lfs=$(git rev-parse --git-common-dir)/lfs
mkdir -p "$lfs/tmp" || exit 1
held=$(mktemp "$lfs/tmp/XXXXXXXX") || exit 1
trap 'rm -f "$held"' EXIT
cat >"$held" || exit 1
size=$(($(wc -c <"$held")))
is_pointer() { [ "$size" -lt 1024 ] && [ "$(head -n 1 "$held" | tr -d '\000')" = "$version" ]; }
place() { printf '%s/objects/%.2s/%.2s/%s' "$lfs" "$1" "${1#??}" "$1"; }
case $1 in
clean)
    # What is empty or a pointer already is its own pointer.
    if [ "$size" = 0 ] || is_pointer; then cat "$held"; exit; fi
    oid=$(sha256sum <"$held" | cut -c 1-64)
    [ "${#oid}" = 64 ] || exit 1
    object=$(place "$oid")
    if [ ! -f "$object" ]; then mkdir -p "${object%/*}" && mv "$held" "$object" || exit 1; fi
    printf '%s\noid sha256:%s\nsize %s\n' "$version" "$oid" "$size"
    ;;
smudge)
    if ! is_pointer; then cat "$held"; exit; fi
    oid=$(sed -n 's/^oid sha256:\([0-9a-f]\{64\}\)$/\1/p' "$held")
    object=$(place "$oid")
    if [ "${#oid}" = 64 ] && [ -f "$object" ]; then cat "$object"; exit; fi
    echo "$2 stays a Git LFS pointer: its content is not in this workspace. The git tool's fetch brings it." >&2
    cat "$held"
    ;;
*) exit 2 ;;
esac
