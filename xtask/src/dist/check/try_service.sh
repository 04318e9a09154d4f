# Runs the command of the systemd unit as the user of the package.
# busybox has a setpriv without --reuid and prefers its own, so the path is absolute.
set -eu
fail() {
    echo "$1" >&2
    cat /tmp/log /tmp/out >&2 || true
    exit 1
}
unit=/usr/lib/systemd/system/stead.service
command=$(sed -n 's/^ExecStart=//p' $unit)
grep -q '^WantedBy=multi-user.target$' $unit || fail "the unit cannot be enabled"
[ "$(stat -c '%U %G %a' /var/lib/stead)" = 'stead stead 700' ] || fail "the home belongs to somebody else"
[ "$(stat -c '%U %G %a' /etc/stead/stead.toml)" = 'root stead 640' ] || fail "the settings belong to somebody else"
stead config check /etc/stead/stead.toml >/tmp/out 2>&1 || fail "the settings are wrong"
export STEAD_HOME=/var/lib/stead
/usr/bin/setpriv --reuid stead --regid stead --clear-groups $command </dev/null >/tmp/log 2>&1 &
tries=0
until stead status >/tmp/out 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "the service did not start"
    sleep 0.1
done
stead agent-type create --data '{"id": "files", "workspace": {"enabled": true, "provider": "memory"}}' >/tmp/out 2>&1 || fail "no agent type"
session=$(stead session create --agent-type files) || fail "no session"
stead tool call "$session" write --arg path=a.txt --arg content=hello >/tmp/out 2>&1 || fail "write failed"
stead stop >/tmp/out 2>&1 || fail "stead stop failed"
