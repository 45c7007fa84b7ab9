import { fileURLToPath } from 'node:url';

/** Where a repository is cloned from. `url` is as git takes it, and holds nothing secret. */
export type Remote =
  | { scheme: 'https' | 'ssh'; url: string; name: string }
  /** A folder of this machine. */
  | { scheme: 'file'; path: string; name: string };

/** A URL or ref that is not accepted; the message is for a person and never repeats what may hold a secret. */
export class RemoteRefused extends Error {}

// oxlint-disable-next-line no-control-regex -- control characters are meant
const control = /[\x00-\x20\x7f\u0080-\u00a0\u2028\u2029\ufeff]/;
/** What a host may be called; no leading dash, which ssh would take for an option. */
const host = /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$|^\[[0-9a-f:.]+\]$/i;
const user = /^[a-z0-9_][a-z0-9._-]*$/i;
const kinds = 'Use https://host/path, ssh://user@host/path, user@host:path or file:///path.';

const nameOf = (path: string): string => {
  const last =
    path
      .replace(/\/+$/, '')
      .replace(/(\/)?\.git$/, '')
      .split(/[/:]/)
      .at(-1) ?? '';
  try {
    return decodeURIComponent(last).slice(0, 120) || 'repository';
  } catch {
    return 'repository';
  }
};

/** Reads what somebody gave as a repository's URL. Throws RemoteRefused. */
export function readRemote(text: string): Remote {
  if (control.test(text)) throw new RemoteRefused('The URL holds spaces or control characters.');
  if (text.startsWith('-')) throw new RemoteRefused('The URL begins with a dash, which git would take for an option.');
  if (/^[a-z0-9+.-]*::/i.test(text))
    throw new RemoteRefused(`Transports that run a program (ext::…) are not used. ${kinds}`);
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return readUrl(text);
  const [, who, where = '', path = ''] = /^(?:([^@/:]+)@)?(\[[^\]]+\]|[^@/:]+):(.+)$/.exec(text) ?? [];
  if (!where || path.startsWith('//')) throw new RemoteRefused(`This is no URL of a repository. ${kinds}`);
  // A word and a colon may be anything: a drive, another scheme.
  if (who === undefined && !where.includes('.') && !where.startsWith('['))
    throw new RemoteRefused(`This is no URL of a repository. ${kinds}`);
  if ((who !== undefined && !user.test(who)) || !host.test(where) || path.startsWith('-'))
    throw new RemoteRefused('The user, host or path of the URL is not one that ssh takes.');
  return { scheme: 'ssh', url: text, name: nameOf(path) };
}

function readUrl(text: string): Remote {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new RemoteRefused(`This is no URL of a repository. ${kinds}`);
  }
  const scheme = url.protocol.slice(0, -1);
  if (scheme !== 'https' && scheme !== 'ssh' && scheme !== 'file')
    throw new RemoteRefused(`Repositories are not cloned over ${scheme.slice(0, 20)}. ${kinds}`);
  if (url.password !== '' || (scheme === 'https' && url.username !== ''))
    throw new RemoteRefused('The URL holds a password or token, which would be stored and shown. Leave it out.');
  if (url.search !== '' || url.hash !== '')
    throw new RemoteRefused('The URL of a repository has no ? or #; name a ref beside it.');
  if (scheme === 'file') {
    if (url.host !== '') throw new RemoteRefused('A file: URL names a folder of this machine: file:///path.');
    try {
      const path = fileURLToPath(url);
      if (path.includes('\0')) throw new RemoteRefused('The path holds a NUL.');
      return { scheme, path, name: nameOf(path) };
    } catch {
      throw new RemoteRefused('This is no path of this machine.');
    }
  }
  if (!host.test(url.hostname)) throw new RemoteRefused('The host of the URL is not a name or address.');
  if (url.username !== '' && !user.test(url.username))
    throw new RemoteRefused('The user of the URL is not one that ssh takes.');
  if (url.pathname.length < 2 || url.pathname.startsWith('/-'))
    throw new RemoteRefused('The path of the URL is not that of a repository.');
  return { scheme, url: url.href, name: nameOf(url.pathname) };
}

// oxlint-disable-next-line no-control-regex -- control characters are meant
const ref = /^(?!.*(?:\/\/|\.\.|\/\.|@\{|\.lock(?:\/|$)))[^\x00-\x20\x7f~^:?*[\\./-][^\x00-\x20\x7f~^:?*[\\]{0,254}$/;

/** Whether this can be a branch, a tag or a commit's hash. */
export const isRef = (text: string): boolean => ref.test(text) && !/[/.]$/.test(text);

/** Whether this is a commit's whole hash. */
export const isCommit = (text: string): boolean => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
