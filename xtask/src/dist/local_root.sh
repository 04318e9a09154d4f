# local_root.sh DEST FILE…: copies files of this machine to the root DEST, with the libraries that they load, and makes
# the programs of busybox. A FILE may be a program of PATH, a path, or a folder.
set -eu
dest=$1
shift
PATH=/usr/bin:/bin:/usr/sbin:/sbin
mkdir -p "$dest/bin" "$dest/etc" "$dest/tmp" "$dest/root" "$dest/var/lib" "$dest/proc" "$dest/dev" "$dest/sys" "$dest/run"
for file; do
    case $file in /*) ;; *) file=$(command -v "$file") ;; esac
    find "$file" \( -type f -o -type l \) | while read -r file; do
        real=$(realpath "$file")
        printf '%s\n' "$file" "$real"
        ldd "$real" 2>/dev/null | grep -o '/[^ ]*' || true
    done
done | sort -u | while read -r file; do
    # The root has real folders, so a path must not lead through a link such as /lib.
    echo "$(realpath "$(dirname "$file")")/$(basename "$file")"
    realpath "$file"
done | sort -u | sed 's,^/,,' > "$dest/.list"
tar -C / -cf - --no-recursion --files-from "$dest/.list" | tar -C "$dest" -xf -
rm "$dest/.list"
# Where this machine has /bin as a link to /usr/bin, the root has it too.
for name in bin sbin lib lib64; do
    [ -L "/$name" ] || continue
    mkdir -p "$dest/usr/$name"
    if [ -d "$dest/$name" ]; then rmdir "$dest/$name"; fi
    ln -s "usr/$name" "$dest/$name"
done
cp "$(command -v busybox)" "$dest/bin/busybox"
for name in $(busybox --list); do
    [ -e "$dest/bin/$name" ] || [ -e "$dest/sbin/$name" ] || ln -s busybox "$dest/bin/$name"
done
printf 'root:x:0:0:root:/root:/bin/sh\n' > "$dest/etc/passwd"
printf 'root:x:0:\n' > "$dest/etc/group"
chmod 1777 "$dest/tmp"
