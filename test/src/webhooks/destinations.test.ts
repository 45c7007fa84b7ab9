import { networkInterfaces } from 'node:os';
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../../src/base/config.ts';
import { classOf } from '../../../src/webhooks/addresses.ts';
import { createDestinations, Refused, type Resolve } from '../../../src/webhooks/destinations.ts';

const nowhere: Resolve = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));
const at =
  (...addresses: string[]): Resolve =>
  () =>
    Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));

interface Setting {
  allowPrivate?: string[];
  resolve?: Resolve;
  loopback?: boolean;
}
/** `ok`, or why not. */
async function tell(url: string, { allowPrivate = [], resolve = nowhere, loopback = false }: Setting = {}) {
  const destinations = createDestinations({ allowPrivate, resolve, ownPorts: new Set([4788]) });
  try {
    await destinations.check(url, { loopback });
    return 'ok';
  } catch (error) {
    if (error instanceof Refused) return error.setting ? 'setting' : error.code;
    throw error;
  }
}

/** Everything that leads to this machine, to what is near it, or to what nobody may reach, in every spelling. */
const loopbacks = [
  '127.0.0.1',
  '127.1',
  '127.0.1',
  '127.255.255.254',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0x7f.0x0.0x0.0x1',
  '017700000001',
  '0177.0.0.1',
  '0177.0.0.01',
  '127.0.0.1.',
  '127.00.00.01',
  '①②⑦.⓪.⓪.①',
  '１２７.０.０.１',
  '127。0。0。1',
  '%31%32%37.0.0.1',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[0000:0000:0000:0000:0000:0000:0000:0001]',
  '[::0001]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::FFFF:127.0.0.1]',
];
const privates = [
  '10.0.0.1',
  '10.255.255.255',
  '167772161',
  '0xa000001',
  '012.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.0.1',
  '192.168.65535',
  '3232235777',
  '100.64.0.1',
  '100.127.255.255',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.7',
  '203.0.113.9',
  '[fc00::1]',
  '[fd12:3456:789a::1]',
  '[fdff:ffff::]',
  '[::ffff:10.0.0.1]',
  '[::ffff:192.168.1.1]',
  '[64:ff9b:1::a00:1]',
];
const nevers = [
  '0.0.0.0',
  '0',
  '0x0',
  '0.0.0.1',
  '0.255.255.255',
  '169.254.169.254',
  '169.254.1.1',
  '2852039166',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '0xa9.254.0251.254',
  '169.254.169.254.',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '4294967295',
  '[::]',
  '[fe80::1]',
  '[febf::1]',
  '[fec0::1]',
  '[ff02::1]',
  '[ff0e::1]',
  '[fd00:ec2::254]',
  '[fd20:ce::254]',
  '[::ffff:169.254.169.254]',
  '[::ffff:a9fe:a9fe]',
  '[::ffff:0.0.0.0]',
  '[::127.0.0.1]',
  '[::7f00:1]',
  '[::a9fe:a9fe]',
  '[::a00:1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b::192.168.1.1]',
  '[2002:7f00:1::]',
  '[2002:a9fe:a9fe::1]',
  '[2002:c0a8:101::1]',
  '[2001:0:4136:e378:8000:63bf:3fff:fdd2]',
  '[::ffff:0:127.0.0.1]',
  '[2606:4700::5efe:127.0.0.1]',
  '[2606:4700::200:5efe:10.0.0.1]',
  '[100::1]',
  '[2001:db8::1]',
];
const publics = [
  '1.1.1.1',
  '8.8.8.8',
  '11.0.0.1',
  '126.255.255.255',
  '128.0.0.1',
  '172.15.255.255',
  '172.32.0.1',
  '192.167.255.255',
  '192.169.0.1',
  '100.63.255.255',
  '100.128.0.1',
  '169.253.255.255',
  '223.255.255.255',
  '[2606:4700:4700::1111]',
  '[2a00:1450:4001::1]',
  '[::ffff:1.1.1.1]',
  '[64:ff9b::1.1.1.1]',
  '[2002:101:101::1]',
];

describe('addresses, in every spelling', () => {
  test(`${loopbacks.length + privates.length + nevers.length} that are near or nobody’s are refused, each with its own reason`, async () => {
    const wrong: string[] = [];
    for (const [hosts, expected] of [
      [loopbacks, 'setting'],
      [privates, 'setting'],
      [nevers, 'blocked_destination'],
      [publics, 'ok'],
    ] as const)
      for (const host of hosts) {
        const found = await tell(`http://${host}/hook`);
        if (found !== expected) wrong.push(`${host}: ${found} instead of ${expected}`);
      }
    expect(wrong).toEqual([]);
  });

  test('the local session may name loopback addresses, and nothing more by that', async () => {
    for (const host of loopbacks)
      expect([host, await tell(`http://${host}:9/`, { loopback: true })]).toEqual([host, 'blocked_destination']);
    for (const host of loopbacks)
      expect([host, await tell(`http://${host}:8080/`, { loopback: true })]).toEqual([host, 'ok']);
    for (const host of privates)
      expect([host, await tell(`http://${host}/`, { loopback: true })]).toEqual([host, 'setting']);
    for (const host of nevers)
      expect([host, await tell(`http://${host}/`, { loopback: true })]).toEqual([host, 'blocked_destination']);
  });

  test('a name is what all of its addresses are: one bad answer is enough', async () => {
    const name = 'http://hook.example/';
    expect(await tell(name, { resolve: at('1.1.1.1', '2606:4700:4700::1111') })).toBe('ok');
    expect(await tell(name, { resolve: at('1.1.1.1', '127.0.0.1') })).toBe('setting');
    expect(await tell(name, { resolve: at('1.1.1.1', '169.254.169.254'), loopback: true })).toBe('blocked_destination');
    expect(await tell(name, { resolve: at('fe80::1%eth0') })).toBe('blocked_destination');
    expect(await tell(name, { resolve: at('::ffff:10.0.0.1') })).toBe('setting');
    expect(await tell(name, { resolve: at() })).toBe('name_not_resolved');
    expect(await tell(name)).toBe('name_not_resolved');
  });

  test('metadata services by their names, wherever those lead', async () => {
    for (const host of ['metadata.google.internal', 'METADATA.google.internal.', 'metadata'])
      expect(await tell(`http://${host}/`, { resolve: at('1.1.1.1') })).toBe('blocked_destination');
  });

  test('no address at all falls through: what cannot be read is never reached', () => {
    for (const text of ['', 'x', '1.2.3', '1.2.3.4.5', ':::', 'g::1', '::1::']) expect(classOf(text)).toBe('never');
  });
});

test.each([
  'ftp://1.1.1.1/',
  'file:///etc/passwd',
  'javascript:alert(1)',
  'gopher://1.1.1.1/',
  '//1.1.1.1/',
  '1.1.1.1',
  '',
  'http://',
  'http:///',
  'http://user@1.1.1.1/',
  'http://user:word@1.1.1.1/',
  'http://@1.1.1.1:x/',
  'http://1.1.1.1:0/',
  'http://1.1.1.1:22/',
  'http://1.1.1.1:25/',
  'https://1.1.1.1:6667/',
  'http://1.1.1.1:65536/',
  'http://1.1.1.1/#part',
  'http://1.1.1.1/ with spaces',
  'http://1.1.1.1/\u0000',
  'http://1.1.1.1/\r\nHost: x',
  'http://1.1.\t1.1/',
  'http://[::1',
  'http://256.256.256.256/',
  'http://1.1.1.1.1.1.1.0x/',
])('%j is no address for a webhook', async (url) => {
  expect(await tell(url, { loopback: true })).toBe('blocked_destination');
});

describe('the daemon itself is never sent to', () => {
  const ours = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const hosts = [
    ...loopbacks,
    ...ours.filter(({ family }) => family === 'IPv4').map(({ address }) => address),
    ...ours
      .filter(({ family, address }) => family === 'IPv6' && !address.startsWith('fe80'))
      .map(({ address }) => `[${address}]`),
  ];
  test.each(hosts)('not as %s, whoever asks and whatever is allowed', async (host) => {
    const all = { loopback: true, allowPrivate: ['0.0.0.0/0', '::/0'] };
    expect(await tell(`http://${host}:4788/v1/runs`, all)).toBe('blocked_destination');
    expect(await tell(`http://${host}:4789/v1/runs`, all)).toBe('ok');
  });

  test('nor by a name', async () => {
    const resolve = at('127.0.0.1');
    expect(await tell('http://my.example:4788/', { resolve, loopback: true })).toBe('blocked_destination');
  });
});

describe('webhooks.allow_private', () => {
  test.each([
    ['127.0.0.1:5678', 'http://127.0.0.1:5678/', 'ok'],
    ['127.0.0.1:5678', 'http://127.0.0.1:5679/', 'setting'],
    ['127.0.0.1:5678', 'http://0x7f.1:5678/', 'ok'],
    ['127.0.0.1', 'http://127.0.0.1:5679/', 'ok'],
    ['10.0.0.0/8', 'http://10.9.8.7/', 'ok'],
    ['10.0.0.0/8', 'http://192.168.0.1/', 'setting'],
    ['10.0.0.0/8:443', 'https://10.9.8.7/', 'ok'],
    ['10.0.0.0/8:443', 'http://10.9.8.7/', 'setting'],
    ['[fd00::1]:8080', 'http://[fd00::1]:8080/', 'ok'],
    ['[fd00::1]:8080', 'http://[fd00::1]:8081/', 'setting'],
    ['fd00::/8', 'http://[fd00::7]/', 'ok'],
    ['n8n.lan', 'http://n8n.lan/', 'ok'],
    ['N8N.lan:80', 'http://n8n.LAN./', 'ok'],
    ['n8n.lan:81', 'http://n8n.lan/', 'setting'],
    ['n8n.lan', 'http://other.lan/', 'setting'],
    ['0.0.0.0/0', 'http://169.254.169.254/', 'blocked_destination'],
    ['169.254.169.254', 'http://169.254.169.254/', 'blocked_destination'],
  ])('%s for %s: %s', async (entry, url, expected) => {
    expect(await tell(url, { allowPrivate: [entry], resolve: at('192.168.7.7') })).toBe(expected);
  });

  test.each(['10.0.0.0/33', 'a b', 'http://x', '1.2.3.4:99999', '', 'fd00::/129', 'x/8'])(
    '%j is refused at the start',
    (entry) => {
      expect(() => createDestinations({ allowPrivate: [entry], resolve: nowhere, ownPorts: new Set() })).toThrow(
        ConfigError,
      );
    },
  );

  test('the refusal names the setting and what to put there', async () => {
    const destinations = createDestinations({ allowPrivate: [], resolve: nowhere, ownPorts: new Set() });
    const error = await destinations.check('http://10.1.2.3:99/x', { loopback: true }).catch((reason: Error) => reason);
    expect(error).toMatchObject({
      setting: 'webhooks.allow_private',
      message: expect.stringContaining('"10.1.2.3:99"'),
    });
  });
});
