# Keeps the shared server: starts it and stops it when no test process has held the clients'
# lock for a while. usage: watch.sh FOLDER IDLE_SECONDS COMMAND...
folder=$1 idle_limit=$2
shift 2
"$@" >/dev/null 2>"$folder/log" </dev/null &
pid=$!
idle=0
while sleep 2 && kill -0 "$pid" 2>/dev/null; do
    if flock --nonblock --exclusive "$folder/clients.lock" true; then
        idle=$((idle + 2))
    else
        idle=0
    fi
    [ "$idle" -lt "$idle_limit" ] && continue
    # Under the start lock nobody can become a client; look once more.
    exec 9>"$folder/start.lock"
    flock --exclusive 9
    if flock --nonblock --exclusive "$folder/clients.lock" true; then
        rm -f "$folder/port"
        kill -INT "$pid"
        wait "$pid"
        rm -rf "$folder/data"
        exit 0
    fi
    exec 9>&-
    idle=0
done
kill -INT "$pid" 2>/dev/null
wait "$pid"
