import { expect, test } from 'vitest';
import { isRef, readRemote, RemoteRefused } from '../../../src/workspaces/remote.ts';

test.each([
  [
    'https://example.org/owner/thing.git',
    { scheme: 'https', url: 'https://example.org/owner/thing.git', name: 'thing' },
  ],
  ['https://example.org:8443/thing/', { scheme: 'https', url: 'https://example.org:8443/thing/', name: 'thing' }],
  ['HTTPS://Example.org/a/../thing', { scheme: 'https', url: 'https://example.org/thing', name: 'thing' }],
  ['https://[::1]/thing', { scheme: 'https', url: 'https://[::1]/thing', name: 'thing' }],
  [
    'ssh://git@example.org/owner/thing.git',
    { scheme: 'ssh', url: 'ssh://git@example.org/owner/thing.git', name: 'thing' },
  ],
  ['ssh://example.org:2222/thing', { scheme: 'ssh', url: 'ssh://example.org:2222/thing', name: 'thing' }],
  ['git@example.org:owner/thing.git', { scheme: 'ssh', url: 'git@example.org:owner/thing.git', name: 'thing' }],
  ['example.org:thing', { scheme: 'ssh', url: 'example.org:thing', name: 'thing' }],
  ['file:///srv/my%20thing.git', { scheme: 'file', path: '/srv/my thing.git', name: 'my thing' }],
])('%s is accepted', (text, remote) => {
  expect(readRemote(text)).toEqual(remote);
});

test.each([
  '',
  '-',
  '--upload-pack=touch /tmp/x',
  '-oProxyCommand=x',
  'ext::sh -c touch% /tmp/x',
  'EXT::x',
  'fd::17',
  'foo::bar',
  'http://example.org/x',
  'git://example.org/x',
  'ftp://example.org/x',
  'ftps://example.org/x',
  'javascript:alert(1)//',
  'https://token@example.org/x',
  'https://user:secret@example.org/x',
  'ssh://git:secret@example.org/x',
  'https://:secret@example.org/x',
  'ssh://-oProxyCommand=x/thing',
  'ssh://-oProxyCommand=touch@example.org/x',
  'ssh://example.org/-oProxyCommand=x',
  '-oProxyCommand=x:thing',
  'git@-oProxyCommand=x:thing',
  'git@example.org:-x',
  'git@example.org://x',
  'ssh://git@exa%20mple.org/x',
  'ssh://example.org',
  'https://example.org',
  'https:///x',
  'https://example.org/x?token=1',
  'https://example.org/x#ref',
  'file://server/share',
  'file:///a%00b',
  'file:thing',
  'file:///a%2fb',
  '/srv/thing',
  './thing',
  '../thing',
  'thing',
  'c:\\thing',
  'C:/thing',
  'https://example.org/a b',
  'https://example.org/a\nb',
  'https://example.org/a\tb',
  'https://exam\u0000ple.org/x',
  '\u00a0https://example.org/x',
  'https://example.org/\u0085',
  'ssh+git://example.org/x',
  'git@exam ple.org:x',
  'git+ssh://example.org/x',
])('%j is refused, and a secret in it is not repeated', (text) => {
  const refusal = (): unknown => {
    try {
      return readRemote(text);
    } catch (error) {
      return error;
    }
  };
  expect(refusal()).toBeInstanceOf(RemoteRefused);
  const { message } = refusal() as RemoteRefused;
  expect(message).toMatch(/\w+ .*\.$/);
  expect(message).not.toMatch(/secret|token@|ProxyCommand/);
});

test('refs are branches, tags and hashes, and nothing that git would take for something else', () => {
  for (const good of ['main', 'v1.0', 'feature/one', 'a'.repeat(40), 'späße', '@'])
    expect({ good, is: isRef(good) }).toEqual({ good, is: true });
  for (const bad of [
    '',
    '-b',
    '--upload-pack=x',
    'a..b',
    'a b',
    'a:b',
    'a~1',
    'a^',
    'a?',
    'a*',
    'a[',
    'a\\b',
    '/a',
    'a/',
    '.a',
    'a/.b',
    'a.',
    'a.lock',
    'a@{1}',
    'a\u0000',
    'a\nb',
    'a//b',
  ])
    expect({ bad, is: isRef(bad) }).toEqual({ bad, is: false });
});
