#!/bin/sh
# Starts one ZooKeeper server, configured by the variables of the official image, so that the two are interchangeable.
set -eu

conf=${ZOO_CONF_DIR:-/conf}
data=${ZOO_DATA_DIR:-/data}
datalog=${ZOO_DATA_LOG_DIR:-/datalog}
logs=${ZOO_LOG_DIR:-/logs}
user=1000
mkdir -p "$conf" "$data" "$datalog" "$logs"

# A configuration that is there already (mounted, or from before a restart) is the user's own.
if [ ! -f "$conf/zoo.cfg" ]; then
  {
    cat <<CONFIG
dataDir=$data
dataLogDir=$datalog
tickTime=${ZOO_TICK_TIME:-2000}
initLimit=${ZOO_INIT_LIMIT:-5}
syncLimit=${ZOO_SYNC_LIMIT:-2}
autopurge.snapRetainCount=${ZOO_AUTOPURGE_SNAPRETAINCOUNT:-3}
autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}
maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}
standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}
admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}
CONFIG
    if [ -n "${ZOO_4LW_COMMANDS_WHITELIST:-}" ]; then
      printf '4lw.commands.whitelist=%s\n' "$ZOO_4LW_COMMANDS_WHITELIST"
    fi
    # Both are lists separated by spaces; without globbing, as a whitelist may be `*`.
    set -f
    for line in ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181} ${ZOO_CFG_EXTRA:-}; do
      printf '%s\n' "$line"
    done
    set +f
  } >"$conf/zoo.cfg"
fi
if [ ! -f "$conf/log4j.properties" ]; then
  cat >"$conf/log4j.properties" <<'LOGGING'
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} [%t] %-5p %c{1} - %m%n
LOGGING
fi
[ -f "$data/myid" ] || printf '%s\n' "${ZOO_MY_ID:-1}" >"$data/myid"

java=/usr/share/java
classpath=$conf:$java/zookeeper.jar:$java/zookeeper-jute.jar:$java/slf4j-log4j12.jar:$java/log4j-1.2.jar
classpath=$classpath:$java/netty-codec.jar:$java/netty-resolver.jar

# The flags are lists by their nature, hence unquoted. `exec` keeps the process id, so that SIGTERM reaches the server.
# shellcheck disable=SC2086
set -- java -Xmx"${ZK_SERVER_HEAP:-1000}"m ${SERVER_JVMFLAGS:-} ${JVMFLAGS:-} -cp "$classpath" \
  org.apache.zookeeper.server.quorum.QuorumPeerMain "$conf/zoo.cfg"
if [ "$(id -u)" = 0 ]; then
  chown -R "$user:$user" "$conf" "$data" "$datalog" "$logs"
  exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
fi
exec "$@"
