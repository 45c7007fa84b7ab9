/** A port on 127.0.0.1 inside a sandbox that leads to a unix socket, whose path inside is given. */
export interface Way {
  port: number;
  socket: string;
}

/** The ways out of a sandbox, where programs inside find them. */
export const ways = {
  gateway: { port: 4100, socket: '/run/agentctl/gateway.sock' },
  egress: { port: 4101, socket: '/run/agentctl/egress.sock' },
} as const satisfies Record<string, Way>;

/** What passes connections on inside: socat's absolute path, or argv of a program of ours. */
export type Relay = { socat: string } | { own: readonly [string, string] };

/**
 * Starts the relays, waits until their ports are open, and becomes the command. The first argument: the ports, in hexadecimal
 * as /proc/net/tcp has them; then five words for each relay, then `--`. A relay is a child of the sandbox's
 * first process and not of the harness.
 */
const launcher = `
ports=$1
shift
start() {
  ("$@" >/dev/null 2>&1 </dev/null &)
}
while [ "$1" != -- ]; do
  start "$1" "$2" "$3" "$4" "$5"
  shift 5
done
shift
opened() {
  while read -r _ local _ state _; do
    [ "$local $state" = "0100007F:$1 0A" ] && return 0
  done </proc/net/tcp
  return 1
}
left=2000
for port in $ports; do
  until opened "$port"; do
    left=$((left - 1))
    [ $left -gt 0 ] || exit 125
    sleep 0.003
  done
done
exec "$@"
`;

const hexadecimal = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0');

/** `command` behind relays for these ways; as it is when there are none. */
export function withRelays(relay: Relay, open: readonly Way[], command: readonly string[]): string[] {
  if (open.length === 0) return [...command];
  // Five words each.
  const relays = open.flatMap(({ port, socket }) =>
    'socat' in relay
      ? // A connection that is closed on one side may go on for long on the other.
        [relay.socat, '-t', '86400', `TCP-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr`, `UNIX-CONNECT:${socket}`]
      : [...relay.own, String(port), socket, '127.0.0.1'],
  );
  const ports = open.map(({ port }) => hexadecimal(port)).join(' ');
  return ['/bin/sh', '-c', launcher, 'sh', ports, ...relays, '--', ...command];
}

/** What programs inside must know to use the way out. Their own servers inside are reached directly. */
export const proxyEnvironment = (): Record<string, string> => {
  const proxy = `http://127.0.0.1:${ways.egress.port}`;
  const direct = 'localhost,127.0.0.1,::1';
  return {
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
    NO_PROXY: direct,
    no_proxy: direct,
    NODE_USE_ENV_PROXY: '1',
  };
};
