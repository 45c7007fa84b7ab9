import { connect, createServer } from 'node:net';

/**
 * The program that stands inside a sandbox where there is no socat: `<port> <socket> <address>`. Connections to the port of that
 * address are passed on to the unix socket.
 */
const [port, path = '', address] = process.argv.slice(2);
const server = createServer({ allowHalfOpen: true }, (near) => {
  const far = connect({ path, allowHalfOpen: true });
  near.pipe(far).pipe(near);
  near.on('error', () => far.destroy());
  far.on('error', () => near.destroy());
});
server.listen(Number(port), address);
