import { BlockList, isIPv4, isIPv6 } from 'node:net';

/**
 * What stands at an address: `public`; `loopback` and `private`, which may be let in; `never`, which may not: link-local,
 * multicast, metadata services of clouds, and what is no single place of its own.
 */
export type AddressClass = 'public' | 'loopback' | 'private' | 'never';

const listOf = (subnets: string[]): BlockList => {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [address = '', bits] = subnet.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    list.addSubnet(address, Number(bits), family);
  }
  return list;
};

const never4 = listOf([
  '0.0.0.0/8',
  '169.254.0.0/16',
  // Metadata and control services: Alibaba, Azure, Oracle.
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);
const private4 = listOf([
  '10.0.0.0/8',
  '100.64.0.0/10',
  '172.16.0.0/12',
  '192.168.0.0/16',
  // For documentation and benchmarks: nobody's, so whoever answers there is near.
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
]);
const loopback4 = listOf(['127.0.0.0/8']);

const never6 = listOf([
  '::/128',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
  // Metadata services: Amazon, Google.
  'fd00:ec2::/32',
  'fd20:ce::/32',
  // Teredo hides an IPv4 address; discard-only and documentation prefixes lead nowhere.
  '2001::/32',
  '100::/64',
  '2001:db8::/32',
  '3fff::/20',
]);
const private6 = listOf(['fc00::/7', '64:ff9b:1::/48']);

/** The sixteen bytes of an IPv6 address without a zone. */
function bytesOf(address: string): number[] {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address);
  const plain = dotted
    ? `${dotted[1]}${((Number(dotted[2]) << 8) | Number(dotted[3])).toString(16)}:${((Number(dotted[4]) << 8) | Number(dotted[5])).toString(16)}`
    : address;
  const [head = '', tail] = plain.split('::');
  const words = (text: string) => (text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16)));
  const before = words(head);
  const after = tail === undefined ? [] : words(tail);
  const gap = Array.from({ length: 8 - before.length - after.length }, () => 0);
  return [...before, ...gap, ...after].flatMap((word) => [word >> 8, word & 255]);
}

const dotted = (bytes: number[]): string => bytes.slice(0, 4).join('.');

/** The IPv4 address that an IPv6 one carries, and whether it is that very place or only a way there. */
function embedded(address: string): { address: string; same: boolean } | undefined {
  const bytes = bytesOf(address);
  const begins = (...prefix: number[]) => prefix.every((byte, index) => bytes[index] === byte);
  const zeros = (n: number) => bytes.slice(0, n).every((byte) => byte === 0);
  if (zeros(10) && bytes[10] === 255 && bytes[11] === 255) return { address: dotted(bytes.slice(12)), same: true };
  if (zeros(12) && !(zeros(15) && bytes[15]! <= 1)) return { address: dotted(bytes.slice(12)), same: false };
  // NAT64, IPv4-translated, 6to4, ISATAP.
  if (begins(0, 0x64, 0xff, 0x9b) && bytes.slice(4, 12).every((byte) => byte === 0))
    return { address: dotted(bytes.slice(12)), same: false };
  if (zeros(8) && bytes[8] === 255 && bytes[9] === 255 && bytes[10] === 0 && bytes[11] === 0)
    return { address: dotted(bytes.slice(12)), same: false };
  if (begins(0x20, 0x02)) return { address: dotted(bytes.slice(2)), same: false };
  if ((bytes[8]! & 0xfd) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe)
    return { address: dotted(bytes.slice(12)), same: false };
  return undefined;
}

/** An address in the form that it is compared in: without a zone, and as IPv4 where it is one in another dress. */
export function plainAddress(address: string): string {
  const [bare = ''] = address.split('%');
  if (!isIPv6(bare)) return bare;
  const inner = embedded(bare);
  return inner?.same ? inner.address : bare;
}

/** What stands at an IPv4 or IPv6 address, given in its usual spelling (as URLs and resolvers have it). */
export function classOf(address: string): AddressClass {
  const plain = plainAddress(address);
  if (isIPv4(plain)) {
    if (never4.check(plain)) return 'never';
    if (loopback4.check(plain)) return 'loopback';
    return private4.check(plain) ? 'private' : 'public';
  }
  if (!isIPv6(plain) || never6.check(plain, 'ipv6')) return 'never';
  if (plain === '::1' || bytesOf(plain).every((byte, index) => byte === (index === 15 ? 1 : 0))) return 'loopback';
  const inner = embedded(plain);
  // Through a translator: good for public places alone.
  if (inner) return classOf(inner.address) === 'public' ? 'public' : 'never';
  return private6.check(plain, 'ipv6') ? 'private' : 'public';
}
