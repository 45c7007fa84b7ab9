/** Paths as somebody would send them who wants out of a workspace; each as it stands in the query, after `path=`. */

const traversals = (): string[] => {
  const separators = [
    '/',
    '\\',
    '%2f',
    '%2F',
    '%5c',
    '%252f',
    '%c0%af',
    '%e0%80%af',
    '//',
    '/./',
    '%u2215',
    '%ef%bc%8f',
    '%E2%88%95',
  ];
  const ups = [
    '..',
    '%2e%2e',
    '.%2e',
    '%252e%252e',
    '%c0%ae%c0%ae',
    '..;',
    '...',
    '....',
    '%ef%bc%8e%ef%bc%8e',
    '..%00',
    '..%20',
    '..%09',
    '.%00.',
  ];
  const targets = ['outer/secret', 'etc/passwd', '.git/config', 'outer/fresh'];
  const prefixes = ['', 'sub', 'nowhere', '.'];
  const found: string[] = [];
  for (const separator of separators)
    for (const up of ups)
      for (const [index, target] of targets.entries())
        for (let depth = 1; depth <= 5; depth++) {
          const prefix = prefixes[(depth + index) % prefixes.length]!;
          const steps = Array.from({ length: depth }, () => up);
          found.push([...(prefix ? [prefix] : []), ...steps, target.replaceAll('/', separator)].join(separator));
        }
  return found;
};

/** Every way in which git's own folder has been written to get past a check. */
export const gitNames = [
  '.git',
  '.GIT',
  '.Git',
  '.giT',
  '.git.',
  '.git..',
  '.git ',
  '.git .',
  '.git. .',
  '.git::$INDEX_ALLOCATION',
  '.git:$I30:$INDEX_ALLOCATION',
  '.git::$DATA',
  '.git:x',
  'git~1',
  'GIT~1',
  'git~2',
  'git~1.',
  '.g\u200cit',
  '.gi\u200dt',
  '\ufeff.git',
  '.git\u200b',
  '.\u200egit',
  '.git\u202e',
  '.g\u2060it',
  '.g\u206ait',
  '.gi\u00adt',
  '.git\ufe0f',
  '\uff0egit',
  '.\uff47\uff49\uff54',
  '\u2024git',
  '.G\u0131t',
  '.\u24d6it',
  '.git\\config',
  'x\\.git',
  '.g\u034fit',
];

const gits = (): string[] => {
  const prefixes = ['', 'sub/', 'sub/deep/', 'to-sub/'];
  const suffixes = [
    '',
    '/',
    '/config',
    '/hooks/post-checkout',
    '/HEAD',
    '/../.git/config',
    '\\config',
    '/config%00.txt',
  ];
  return gitNames.flatMap((name) =>
    prefixes.flatMap((prefix) => suffixes.map((suffix) => `${prefix}${encodeURIComponent(name)}${suffix}`)),
  );
};

/** Links that the workspace holds: name, target, and whether it stays inside. */
export const links: [name: string, target: string, inside: boolean][] = [
  ['to-outer', '../outer', false],
  ['to-outer-absolute', '{outer}', false],
  ['to-secret', '../outer/secret', false],
  ['to-secret-absolute', '{outer}/secret', false],
  ['to-root', '/', false],
  ['to-proc', '/proc/self', false],
  ['to-fd', '/proc/self/fd', false],
  ['to-cwd', '/proc/self/cwd', false],
  ['to-parent', '..', false],
  ['to-far-up', '../../../../../../../../etc', false],
  ['over-sub', 'sub/../../outer/secret', false],
  ['over-link', 'to-sub/../../../outer/secret', false],
  ['over-itself', '../ws/../outer/secret', false],
  ['chain-out', 'chain-out-1', false],
  ['chain-out-1', 'sub/chain-out-2', false],
  ['loop', 'loop', false],
  ['ping', 'pong', false],
  ['pong', 'ping', false],
  ['to-git', '.git', false],
  ['to-git-config', '.git/config', false],
  ['absolute-git', '{ws}/.git/config', false],
  ['sibling', '{ws}-other/secret', false],
  ['absolute-up', '{ws}/../outer/secret', false],
  ['to-sub', 'sub', true],
  ['to-file', 'sub/inside', true],
  ['absolute-in', '{ws}/sub/inside', true],
  ['up-and-in', 'sub/../sub/./inside', true],
  ['double', 'to-file', true],
  ['dangling', 'sub/nothing', true],
];

const overLinks = (): string[] => {
  const suffixes = [
    '',
    '/secret',
    '/passwd',
    '/etc/passwd',
    '/outer/secret',
    '/environ',
    '/root/etc/passwd',
    '/..',
    '/../outer/secret',
    '/config',
    '/inside',
    '/fresh',
    '/self/root/etc/passwd',
    '%2fsecret',
    '%00',
    '/.',
  ];
  return links.flatMap(([name]) => suffixes.map((suffix) => name + suffix));
};

const oddities = (): string[] => {
  const nul = ['%00', 'a%00', '%00/etc/passwd', 'sub/inside%00.png', 'sub%00/inside', 'sub/%00../outer/secret'];
  const absolute = [
    '/',
    '//',
    '/etc/passwd',
    '//etc/passwd',
    '/./etc/passwd',
    '%2fetc%2fpasswd',
    '///etc/passwd',
    'file:///etc/passwd',
    'file:%2f%2f/etc/passwd',
    '/proc/self/environ',
    '/proc/self/root/etc/passwd',
    '/dev/fd/0',
    '~root/.ssh',
    '~/x',
    '$HOME/x',
    'C:%5CWindows',
    'c:/x',
    '%5C%5C?%5CC:%5Cx',
    '%5C%5Cserver%5Cshare',
    '/private/x',
  ];
  const empties = [
    '',
    '/',
    './',
    '.',
    '..',
    'sub/',
    'sub//inside',
    '/sub',
    './sub/inside',
    'sub/./inside',
    'sub/.',
    'sub/..',
    '%20',
    '%09',
    '%0a',
    '%0d%0aX:1',
    'a%0d%0ab',
  ];
  const broken = [
    '%',
    '%2',
    '%zz',
    '%ff',
    '%c3',
    '%c3%28',
    '%ed%a0%80',
    '%ed%b0%80',
    '%f8%88%80%80%80',
    '%c0%80',
    '%fe%ff',
    'sub%2',
    '%u0000',
    '%f4%90%80%80',
  ];
  const long = [
    'a'.repeat(255),
    'a'.repeat(256),
    'a'.repeat(4096),
    'a'.repeat(4097),
    `${'a/'.repeat(2047)}a`,
    `${'a/'.repeat(2048)}a`,
    `${'../'.repeat(1200)}etc/passwd`,
    '%e2%82%ac'.repeat(85),
    '%e2%82%ac'.repeat(86),
    `${'sub/../'.repeat(500)}x`,
  ];
  const own = ['.agentctl-tmp-1', 'sub/.agentctl-tmp-x', '.agentctl-tmp-/x'];
  const special = [
    'fifo',
    'fifo/x',
    'socket',
    'sub',
    'sub/deep',
    'sub/inside/x',
    'unreadable',
    'unreadable/x',
    'hidden/x',
  ];
  const twice = [
    'a&path=..%2f..%2fetc%2fpasswd',
    '..&path=sub',
    'sub;path=..',
    'sub%26path=..',
    'sub#..',
    'sub%23/../x',
    'a+b',
    'a%2bb',
  ];
  return [...nul, ...absolute, ...empties, ...broken, ...long, ...own, ...special, ...twice];
};

/** Pieces of all of it thrown together. */
function mixtures(random: () => number, count: number): string[] {
  const pieces = [
    '..',
    '.',
    '',
    'sub',
    'to-sub',
    'to-outer',
    'to-parent',
    'outer',
    'secret',
    '.git',
    'config',
    '%2e%2e',
    '%00',
    '\\',
    'inside',
    'chain-out',
    'etc',
    'passwd',
    'fresh',
    '%2f',
    'x',
  ];
  const joins = ['/', '/', '/', '//', '%2f', '\\', ''];
  const pick = <T>(from: T[]): T => from[Math.floor(random() * from.length)]!;
  return Array.from({ length: count }, () => {
    let text = pick(pieces);
    for (let more = Math.floor(random() * 7); more > 0; more--) text += pick(joins) + pick(pieces);
    return text;
  });
}

/** All of them, each once. */
export const payloads = (random: () => number): string[] => [
  ...new Set([...traversals(), ...gits(), ...overLinks(), ...oddities(), ...mixtures(random, 700)]),
];
