import { createServer as createHttp, request } from 'node:http';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { Network } from '../../../src/api/network.ts';
import { Egress } from '../../../src/runner/sandbox/egress.ts';
import { allowanceOf, isReachable, kindOf, widened } from '../../../src/runner/sandbox/hosts.ts';
import { ownProgram } from '../../../src/base/root.ts';
import { Place } from '../../kit/runner.ts';
import { machine, noSandbox, sandboxSpec } from '../../kit/sandbox.ts';

describe('which hosts a policy names', () => {
  const hosts = (...allowed_hosts: string[]): Network => ({ allowed_hosts });
  const cases: [Network, string, number, ReturnType<typeof allowanceOf>][] = [
    ['deny', 'example.com', 443, 'none'],
    ['allow', 'example.com', 443, 'general'],
    [hosts(), 'example.com', 443, 'none'],
    [hosts('example.com'), 'example.com', 443, 'named'],
    [hosts('example.com'), 'EXAMPLE.com.', 80, 'named'],
    [hosts('example.com'), 'www.example.com', 443, 'none'],
    [hosts('example.com'), 'badexample.com', 443, 'none'],
    [hosts('example.com'), 'example.com.evil.org', 443, 'none'],
    [hosts('*.example.com'), 'www.example.com', 443, 'general'],
    [hosts('*.example.com'), 'a.b.example.com', 443, 'general'],
    [hosts('*.example.com'), 'example.com', 443, 'none'],
    [hosts('*.example.com'), 'badexample.com', 443, 'none'],
    [hosts('example.com:8443'), 'example.com', 443, 'none'],
    [hosts('example.com:8443'), 'example.com', 8443, 'named'],
    [hosts('::1'), '::1', 80, 'named'],
    [hosts('[::1]:80'), '[::1]', 80, 'named'],
    [hosts('[::1]:80'), '::1', 81, 'none'],
    [hosts('127.0.0.1'), '127.0.0.1', 80, 'named'],
  ];
  test.each(cases)('%j lets %s:%i be reached: %4$s', (policy, host, port, allowance) => {
    expect(allowanceOf(policy, host, port)).toBe(allowance);
  });

  test('more hosts are added to what is allowed, and to nothing that is denied altogether but them', () => {
    expect(widened('allow', ['a'])).toBe('allow');
    expect(widened('deny', ['a'])).toEqual(hosts('a'));
    expect(widened('deny', [])).toBe('deny');
    expect(widened(hosts('b'), ['a'])).toEqual(hosts('b', 'a'));
  });
});

describe('what lies at an address', () => {
  test.each([
    ['1.1.1.1', 'public'],
    ['2606:4700::1111', 'public'],
    ['127.0.0.1', 'loopback'],
    ['127.8.9.1', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'never'],
    ['10.1.2.3', 'local'],
    ['172.31.0.1', 'local'],
    ['172.32.0.1', 'public'],
    ['192.168.1.1', 'local'],
    ['100.64.0.1', 'local'],
    ['fd12::1', 'local'],
    ['169.254.169.254', 'never'],
    ['100.100.100.200', 'never'],
    ['168.63.129.16', 'never'],
    ['fd00:ec2::254', 'never'],
    ['0.0.0.0', 'never'],
    ['::', 'never'],
    ['::7f00:1', 'never'],
    ['64:ff9b::7f00:1', 'never'],
    ['2002:7f00:1::', 'never'],
    ['fe80::1', 'never'],
    ['224.0.0.1', 'never'],
    ['255.255.255.255', 'never'],
    ['nonsense', 'never'],
  ])('%s is %s', (address, kind) => expect(kindOf(address)).toBe(kind));

  test('an inner address is reached only by a name that means it', () => {
    expect(isReachable('general', 'example.com', '1.1.1.1')).toBe(true);
    expect(isReachable('general', 'example.com', '10.0.0.1')).toBe(false);
    expect(isReachable('named', 'git.corp', '10.0.0.1')).toBe(true);
    expect(isReachable('named', 'packages.example', '127.0.0.1')).toBe(false);
    expect(isReachable('named', 'localhost', '127.0.0.1')).toBe(true);
    expect(isReachable('named', 'localhost', '169.254.169.254')).toBe(false);
    expect(isReachable('named', '169.254.169.254', '169.254.169.254')).toBe(true);
  });
});

/** A server on 127.0.0.1 for the length of a test. */
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});
async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

describe('the way out', () => {
  const names: Record<string, string[]> = {
    'good.test': ['127.0.0.1'],
    'inner.test': ['10.255.255.1'],
    'both.test': ['169.254.169.254', '127.0.0.1'],
  };

  async function start(policy: Network) {
    const refused: string[] = [];
    const folder = mkdtempSync(join(tmpdir(), 'agentctl-egress-'));
    const path = join(folder, 'egress.sock');
    const egress = await Egress.open({
      policy,
      path,
      refused: (host) => refused.push(host),
      resolve: async (host) => names[host] ?? Promise.reject(new Error(`no such name ${host}`)),
    });
    open.push(async () => {
      await egress.close();
      rmSync(folder, { recursive: true, force: true });
    });
    return { path, refused };
  }

  const tunnel = (path: string, target: string, send = 'hello'): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(path);
      let text = '';
      socket.on('data', (bytes: Buffer) => {
        if (text === '' && bytes.includes(' 200 ')) socket.end(send);
        text += bytes.toString();
      });
      socket.on('close', () => resolve(text));
      socket.on('error', () => {});
      socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    });

  test('a tunnel leads to what is allowed, and half of it may be closed', async () => {
    const port = await listening(
      createServer({ allowHalfOpen: true }, (socket) => {
        let heard = '';
        socket.on('data', (bytes: Buffer) => (heard += bytes.toString()));
        socket.on('end', () => socket.end(`heard ${heard}`));
      }),
    );
    const { path, refused } = await start({ allowed_hosts: ['127.0.0.1'] });
    expect(await tunnel(path, `127.0.0.1:${port}`)).toMatch(/^HTTP\/1.1 200 .*\r\n\r\nheard hello$/s);
    expect(refused).toEqual([]);
  });

  test('a host that is not allowed, or lies where it should not, is refused, told once, and never connected to', async () => {
    let connections = 0;
    const port = await listening(createServer(() => (connections += 1)));
    const { path, refused } = await start({ allowed_hosts: ['good.test', 'both.test', 'inner.test:443'] });
    for (const target of ['other.test', 'good.test', 'both.test', 'inner.test', '127.0.0.1', '[::1]', 'localhost'])
      expect(await tunnel(path, `${target}:${port}`)).toMatch(/^HTTP\/1.1 403 .*does not let this run reach/s);
    await tunnel(path, `other.test:${port}`);
    expect(refused).toEqual(
      ['other.test', 'good.test', 'both.test', 'inner.test', '127.0.0.1', '::1', 'localhost'].map(
        (host) => `${host}:${port}`,
      ),
    );
    expect(connections).toBe(0);
    expect(await tunnel(path, 'nonsense')).toMatch(/^HTTP\/1.1 400/);
    expect(await tunnel(path, 'good.test:70000')).toMatch(/^HTTP\/1.1 400/);
  });

  test('plain http goes on with the host’s own name, and without what is for the proxy', async () => {
    const seen: unknown[] = [];
    const server = createHttp((message, reply) => {
      seen.push([message.method, message.url, message.headers.host, message.headers['proxy-authorization']]);
      message.pipe(reply);
    });
    const port = await listening(server);
    const { path } = await start({ allowed_hosts: ['localhost', '127.0.0.1'] });
    names.localhost = ['127.0.0.1'];
    const get = (url: string): Promise<string> =>
      new Promise((resolve, reject) => {
        const headers = { host: 'liar.test', 'proxy-authorization': 'Basic x' };
        request({ socketPath: path, method: 'POST', path: url, headers }, (answer) => {
          let text = `${answer.statusCode} `;
          answer.on('data', (bytes: Buffer) => (text += bytes.toString())).on('end', () => resolve(text));
        })
          .on('error', reject)
          .end('body');
      });
    expect(await get(`http://localhost:${port}/a?b`)).toBe('200 body');
    expect(await get(`http://other.test:${port}/`)).toMatch(/^403 The sandbox does not let/);
    expect(await get('/a')).toMatch(/^400/);
    expect(seen).toEqual([['POST', '/a?b', `localhost:${port}`, undefined]]);
  });
});

const relays = machine.available
  ? ([
      ['socat', sandboxSpec().relay],
      ['a program of ours', { own: ownProgram('inside.js', 'src/runner/sandbox/inside.ts') }],
    ] as const)
  : [];

describe('from inside of a sandbox', () => {
  test.skipIf(noSandbox).each(relays)('the first command already has its way out, by %s', async (_name, relay) => {
    const port = await listening(createHttp((_message, reply) => reply.end('from outside')));
    await using place = new Place();
    const network: Network = { allowed_hosts: [`127.0.0.1:${port}`] };
    const script = [
      `#!${process.execPath}`,
      'const http = require("node:http");',
      'const { hostname, port } = new URL(process.env.HTTP_PROXY);',
      'const get = (options) => new Promise((done) => http.get(options, (answer) => answer.statusCode === 200',
      '  ? answer.on("data", (bytes) => done(String(bytes))) : done(answer.statusCode)).on("error", (e) => done(e.code)));',
      '(async () => {',
      `  console.log(await get({ hostname, port, path: "http://127.0.0.1:${port}/" }));`,
      '  console.log(await get({ hostname, port, path: "http://203.0.113.7/" }));',
      `  console.log(await get({ hostname: "127.0.0.1", port: ${port} }));`,
      '})();',
    ].join('\n');
    const runner = place.start(place.spec(script, { sandbox: sandboxSpec({ network, relay }) }));
    const final = await runner.final();
    expect(final.text).toBe('from outside\n403\nECONNREFUSED\n');
    expect(runner.events('log').map(({ text }) => text)).toEqual([
      expect.stringMatching(/did not let this run reach 203\.0\.113\.7\. .*--allow-host 203\.0\.113\.7/),
    ]);
  });

  test.skipIf(noSandbox)('with the network denied there is no way out at all', async () => {
    await using place = new Place();
    const runner = place.start(
      place.spec('echo "[$HTTP_PROXY]"; ls -A /run; cat /proc/net/dev | wc -l', {
        sandbox: sandboxSpec({ network: 'deny' }),
      }),
    );
    expect((await runner.final()).text).toBe('[]\n3\n');
  });
});
