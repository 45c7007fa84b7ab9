import { BlockList, isIP } from 'node:net';
import type { Network } from '../../api/network.ts';

const ranges: Record<'loopback' | 'never' | 'local', readonly string[]> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  /** This host, link-local (and with it the metadata of clouds), multicast, reserved, and what hides an address in another. */
  never: [
    '0.0.0.0/8',
    '169.254.0.0/16',
    '192.0.0.0/24',
    '224.0.0.0/4',
    '240.0.0.0/4',
    '100.100.100.200/32',
    '168.63.129.16/32',
    '::/128',
    '::/96',
    '64:ff9b::/96',
    '64:ff9b:1::/48',
    '2001::/32',
    '2002::/16',
    'fe80::/10',
    'fec0::/10',
    'ff00::/8',
    'fd00:ec2::/32',
  ],
  /** Networks of a house, a firm or a provider; and addresses for tests and documentation. */
  local: [
    '10.0.0.0/8',
    '100.64.0.0/10',
    '172.16.0.0/12',
    '192.168.0.0/16',
    '192.0.2.0/24',
    '198.18.0.0/15',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '2001:db8::/32',
    'fc00::/7',
  ],
};

const listOf = (all: readonly string[], family: 'ipv4' | 'ipv6'): BlockList => {
  const list = new BlockList();
  for (const range of all) {
    const [network = '', bits] = range.split('/');
    if (network.includes(':') === (family === 'ipv6')) list.addSubnet(network, Number(bits), family);
  }
  return list;
};

/** One for each family: a list takes an IPv4 address for the IPv6 one that holds it. */
const lists = Object.entries(ranges).map(([kind, all]) => ({
  kind: kind as keyof typeof ranges,
  ipv4: listOf(all, 'ipv4'),
  ipv6: listOf(all, 'ipv6'),
}));

/** What lies at an address (IPv4 or IPv6, also one inside the other). */
export function kindOf(address: string): 'public' | keyof typeof ranges {
  const inner = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
  const version = isIP(inner);
  if (version === 0) return 'never';
  const family = version === 6 ? 'ipv6' : 'ipv4';
  // In hexadecimal nobody means it; a URL has the short form of an address.
  if (family === 'ipv6' && URL.parse(`http://[${inner}]`)?.hostname.startsWith('[::ffff:') !== false) return 'never';
  return lists.find((list) => list[family].check(inner, family))?.kind ?? 'public';
}

/** A host as it is asked for: without brackets and the last dot, in small letters. */
const plain = (host: string): string =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

/** An entry of a policy: `host`, `*.suffix` or an address, with `:port` or for all ports. */
function partsOf(entry: string): { pattern: string; only: number | null } {
  const [, pattern = '', port] = isIP(entry) === 0 ? (/^(.*?)(?::(\d+))?$/.exec(entry) ?? []) : [entry, entry];
  return { pattern: plain(pattern), only: port === undefined ? null : Number(port) };
}

/** How a policy lets a host and port be reached: by its own name, because others are, or not at all. */
export function allowanceOf(policy: Network, host: string, port: number): 'named' | 'general' | 'none' {
  if (policy === 'deny') return 'none';
  if (policy === 'allow') return 'general';
  const name = plain(host);
  let allowance: 'general' | 'none' = 'none';
  for (const entry of policy.allowed_hosts) {
    const { pattern, only } = partsOf(entry);
    if (only !== null && only !== port) continue;
    if (pattern === name) return 'named';
    if (pattern.startsWith('*.') && name.endsWith(pattern.slice(1))) allowance = 'general';
  }
  return allowance;
}

/**
 * Whether an address that a host was resolved to may be connected to. Public ones may; those of a local network when the host
 * itself is named; loopback and what is never meant only when the address, or `localhost`, is.
 */
export function isReachable(allowance: 'named' | 'general', host: string, address: string): boolean {
  const kind = kindOf(address);
  if (kind === 'public') return true;
  if (allowance !== 'named') return false;
  const isMeant = isIP(plain(host)) !== 0 || (kind === 'loopback' && plain(host) === 'localhost');
  return kind === 'local' || isMeant;
}

/** A policy that lets these hosts be reached besides. */
export const widened = (policy: Network, hosts: readonly string[]): Network =>
  policy === 'allow' || hosts.length === 0
    ? policy
    : { allowed_hosts: [...(policy === 'deny' ? [] : policy.allowed_hosts), ...hosts] };
