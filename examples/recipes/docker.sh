#!/bin/sh
# Run a command with its own Docker daemon: sh docker.sh COMMAND [ARGS]...
# Behind a bentpipe path, that daemon's `--network host` is the path's end.
set -eu
dir=$(mktemp -d)
export DOCKER_HOST="unix://$dir/socket"
dockerd --host "$DOCKER_HOST" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
    --bridge none --iptables=false --ip6tables=false --storage-driver vfs >"$dir/log" 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon || true; umount "$dir/exec/netns/default" 2>/dev/null || true; rm -rf "$dir"' EXIT
until docker info >/dev/null 2>&1; do
    kill -0 $daemon 2>/dev/null || { tail -n 3 "$dir/log" >&2; trap - EXIT; exit 1; }
    sleep 0.2
done
"$@"
