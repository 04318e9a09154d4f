# clean_root.sh ROOT PATH SCRIPT…: runs SCRIPT with ROOT as its root, in its own mount, process and network namespaces.
# pivot_root and not chroot, because the kernel refuses user namespaces to a process in a chroot.
set -eu
exec unshare --mount --pid --net --ipc --uts --fork --kill-child --propagation private sh -c '
    set -eu
    root=$1 path=$2
    shift 2
    mount --bind "$root" "$root"
    mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/tmp" "$root/old"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs tmpfs "$root/tmp"
    ip link set lo up
    cd "$root"
    pivot_root . old
    cd /
    exec env -i PATH="$path" HOME=/root sh -c "umount -l /old; rmdir /old; exec sh -c \"\$@\"" sh "$@"
' sh "$@"
