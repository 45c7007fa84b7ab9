import { lookup } from 'node:dns/promises';
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Fault } from '../api/error.ts';
import { ConfigError } from '../base/config.ts';
import { classOf, plainAddress } from './addresses.ts';

export interface Address {
  address: string;
  family: 4 | 6;
}

/** Every address of a name. Rejects when it has none. */
export type Resolve = (name: string) => Promise<Address[]>;

/** Where a delivery may go: an address that was checked, for a connection to just that one. */
export interface Destination {
  url: URL;
  addresses: Address[];
}

/** A destination that is refused; the message is for a person. */
export class Refused extends Error {
  readonly code: 'blocked_destination' | 'name_not_resolved';
  /** The setting that would let it in, if one can. */
  readonly setting: string | null;
  constructor(code: Refused['code'], message: string, setting: string | null = null) {
    super(message);
    this.code = code;
    this.setting = setting;
  }

  /** As a request's answer has it. */
  fault(): Fault {
    return new Fault('invalid_request', this.message, {
      param: 'url',
      details: {
        errors: [{ path: '/url', message: this.message }],
        reason: this.code,
        ...(this.setting ? { setting: this.setting } : {}),
      },
    });
  }
}

const setting = 'webhooks.allow_private';
/** Ports of other protocols, at which a POST can do harm (the Fetch standard's list, but for what serves HTTP as well). */
const badPorts = new Set([
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);
const metadataNames = new Set(['metadata', 'metadata.google.internal', 'instance-data', 'instance-data.ec2.internal']);

const refuse = (message: string, name: string | null = null) => new Refused('blocked_destination', message, name);

/** An entry of the setting: a name, an address or a network, and perhaps one port. */
interface Allowed {
  holds(host: string, address: string, port: number): boolean;
}

/** Reads an entry such as `127.0.0.1:5678`, `10.0.0.0/8`, `[fd00::1]:80`, `n8n.lan`. Undefined when it is none. */
export function readAllowed(entry: string): Allowed | undefined {
  const [, bracketed, bare, portText] = /^(?:\[([^\]]+)\]|([^[\]]+?))(?::(\d{1,5}))?$/.exec(entry.trim()) ?? [];
  // Without brackets an IPv6 address has no port.
  const whole = isIPv6(entry.trim().split('/')[0]!);
  const host = whole ? entry.trim() : (bracketed ?? bare);
  const port = whole || portText === undefined ? undefined : Number(portText);
  if (host === undefined || (port !== undefined && port > 65_535)) return undefined;
  const fits = (given: number) => port === undefined || port === given;
  const [address = '', bits, ...rest] = host.split('/');
  if (isIP(address)) {
    const width = isIPv4(address) ? 32 : 128;
    if (rest.length > 0 || (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= width))) return undefined;
    const list = new BlockList();
    list.addSubnet(address, bits === undefined ? width : Number(bits), isIPv4(address) ? 'ipv4' : 'ipv6');
    return {
      holds: (_host, given, at) => fits(at) && list.check(given, isIPv4(given) ? 'ipv4' : 'ipv6'),
    };
  }
  if (bits !== undefined || !/^[a-z0-9_.-]+$/i.test(host)) return undefined;
  const name = host.toLowerCase().replace(/\.$/, '');
  return { holds: (given, _address, at) => given === name && fits(at) };
}

/** Reads a destination's words; where its name leads is asked by `check`. Throws Refused. */
export function readUrl(text: string): URL {
  // What the parser would drop in silence is no address that somebody meant.
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[\u0000-\u0020\u007f]/.test(text)) throw refuse('A webhook’s address has no spaces or control characters.');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw refuse('A webhook’s address begins with http:// or https://.');
  if (url.username !== '' || url.password !== '')
    throw refuse('A webhook’s address holds no user name and no password: its deliveries are signed.');
  if (url.hash !== '') throw refuse('A webhook’s address has no fragment: it would not be sent.');
  if (url.hostname === '' || url.hostname.length > 253) throw refuse('A webhook’s address needs a host.');
  const port = portOf(url);
  if (port === 0 || badPorts.has(port)) throw refuse(`Port ${port} is another protocol’s; nothing is POSTed there.`);
  return url;
}

const portOf = ({ port, protocol }: URL): number => (port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port));
const hostOf = ({ hostname }: URL): string =>
  hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.+$/, '')
    .toLowerCase();

interface Needs {
  /** Entries of `webhooks.allow_private`. */
  allowPrivate: string[];
  resolve: Resolve;
  /** Ports that this daemon listens on. */
  ownPorts: ReadonlySet<number>;
}

/** Where deliveries may go (contract section 9, "Destination"). */
export function createDestinations({ allowPrivate, resolve, ownPorts }: Needs) {
  const allowed = allowPrivate.map((entry) => {
    const read = readAllowed(entry);
    if (read) return read;
    throw new ConfigError(`"${entry}" in ${setting} is no name, address or network, such as "127.0.0.1:5678".`);
  });

  const checkAddress = (url: URL, address: string, loopback: boolean): void => {
    const host = hostOf(url);
    const port = portOf(url);
    const plain = plainAddress(address);
    const where = host === plain ? host : `${host} (${plain})`;
    const kind = classOf(plain);
    if (kind === 'never') throw refuse(`${where} is never sent to: it is link-local, multicast, metadata or reserved.`);
    if (ownPorts.has(port) && (kind === 'loopback' || isOurs(plain)))
      throw refuse(`${where}:${port} is this daemon itself, and is never sent to.`);
    if (kind === 'public' || (kind === 'loopback' && loopback)) return;
    if (allowed.some((entry) => entry.holds(host, plain, port))) return;
    throw refuse(
      `${where} is on this machine or in a private network. Name "${plain.includes(':') ? `[${plain}]` : plain}:${port}" in the setting ${setting} to allow it.`,
      setting,
    );
  };

  return {
    /**
     * Finds out where an address leads and checks every answer. `loopback`: the local session named it. Rejects with Refused.
     */
    async check(text: string, { loopback }: { loopback: boolean }): Promise<Destination> {
      const url = readUrl(text);
      const host = hostOf(url);
      if (metadataNames.has(host)) throw refuse(`${host} is a metadata service, and is never sent to.`);
      const family = isIP(host);
      const addresses =
        family === 0
          ? await resolve(host).catch((error: unknown) => {
              const { code = 'unknown' } = error as { code?: string };
              throw new Refused('name_not_resolved', `The name ${host} leads nowhere (${code}).`);
            })
          : [{ address: host, family: family as 4 | 6 }];
      if (addresses.length === 0) throw new Refused('name_not_resolved', `The name ${host} leads nowhere.`);
      for (const { address } of addresses) checkAddress(url, address, loopback);
      return { url, addresses };
    },
  };
}
export type Destinations = ReturnType<typeof createDestinations>;

const isOurs = (address: string): boolean =>
  Object.values(networkInterfaces()).some((list) => list?.some((one) => plainAddress(one.address) === address));

/** The system's own resolver: hosts file, DNS and all. */
export const systemResolve: Resolve = async (name) => (await lookup(name, { all: true, verbatim: true })) as Address[];
