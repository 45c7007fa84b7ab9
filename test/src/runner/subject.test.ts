import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { grantFor, subjectOf } from '../../../src/runner/subject.ts';

const of = (call: object, category: string, workspace = '/ws') => subjectOf(call as never, category, workspace);
const execute = (rawInput: object, more: object = {}) => of({ title: 't', name: 'Bash', rawInput, ...more }, 'execute');

describe('what a call is', () => {
  test.each([
    ['a command', execute({ command: 'npm test' }), { kind: 'command', tool: 'Bash', pattern: 'npm test' }],
    [
      'a command with words about it',
      execute({ command: 'ls', description: 'List' }),
      { kind: 'command', tool: 'Bash', pattern: 'ls' },
    ],
    [
      'a command over lines',
      execute({ command: 'ls\n\trm x' }),
      { kind: 'command', tool: 'Bash', pattern: 'ls\n\trm x' },
    ],
    [
      'a command that is given more',
      execute({ timeout: 5, command: 'ls' }),
      { kind: 'call', tool: 'Bash', pattern: '{"command":"ls","timeout":5}' },
    ],
    [
      'a command of words',
      execute({ command: ['sh', '-c', 'ls'] }),
      { kind: 'call', tool: 'Bash', pattern: '{"command":["sh","-c","ls"]}' },
    ],
    [
      'a command of which only words are given',
      of({ title: 'ls', content: [{ content: { text: 'in /ws' } }] }, 'execute'),
      { kind: 'call', tool: 'execute', pattern: '["ls","in /ws"]' },
    ],
    [
      'an edit',
      of(
        { name: 'Write', locations: [{ path: '/ws/a/b.ts' }], rawInput: { file_path: '/ws/a/b.ts', content: 'x' } },
        'edit',
      ),
      { kind: 'path', tool: 'edit', pattern: 'a/b.ts' },
    ],
    [
      'an edit outside',
      of({ locations: [{ path: '/wsx/a' }] }, 'edit'),
      { kind: 'path', tool: 'edit', pattern: '/wsx/a' },
    ],
    [
      'an edit by a way back',
      of({ locations: [{ path: '/ws/../etc/passwd' }] }, 'edit'),
      { kind: 'path', tool: 'edit', pattern: '/ws/../etc/passwd' },
    ],
    [
      'an edit of one file that says another',
      of({ locations: [{ path: '/ws/a' }], rawInput: { file_path: '/etc/passwd' }, name: 'Write' }, 'edit'),
      { kind: 'call', tool: 'Write', pattern: '{"file_path":"/etc/passwd"}' },
    ],
    ['an edit of two files', of({ locations: [{ path: '/ws/a' }, { path: '/ws/b' }] }, 'edit'), null],
    [
      'a tool of a connection',
      of({ title: 'issues_create', rawInput: { b: { d: 1, c: 2 }, a: [] } }, 'other'),
      { kind: 'call', tool: 'issues_create', pattern: '{"a":[],"b":{"c":2,"d":1}}' },
    ],
    ['a tool that does not say what it is given', of({ title: 'issues_create' }, 'other'), null],
    ['nothing', subjectOf(null, 'execute', '/ws'), null],
    ['an empty command', execute({ command: ' ' }), null],
    ['a command that is too long to be read', execute({ command: 'x'.repeat(8193) }), null],
    ['a command with a character that turns the line round', execute({ command: 'ls \u202e' }), null],
    ['a command with a space that is none', execute({ command: 'rm\u00a0x' }), null],
    ['a command with a carriage return', execute({ command: 'rm x\rls' }), null],
    ['a path over two lines', of({ locations: [{ path: '/ws/a\nb' }] }, 'edit'), null],
  ])('%s', (_, found, expected) => expect(found).toEqual(expected));
});

/** Commands that look alike to whoever is careless: one piece of one replaced, added to, repeated. */
const piece = fc.constantFrom(
  'npm',
  'test',
  'rm',
  '-rf',
  '/',
  '.',
  '*',
  ' ',
  '  ',
  '\t',
  '\n',
  ';',
  '&&',
  '|',
  '$(',
  ')',
  '`',
  "'",
  '"',
  '\\',
  '#',
  '>',
  '{',
  '}',
  '?',
  '[a]',
  '%',
  '.*',
  '^',
  '$',
  '{"command":"npm"}',
  'a\u0301',
  '\u00e1',
  'ls',
);
const command = fc.array(piece, { minLength: 1, maxLength: 8 }).map((pieces) => pieces.join(''));
const alike = command.chain((one) =>
  fc.tuple(
    fc.constant(one),
    fc.oneof(
      fc.constant(one),
      command,
      piece.map((more) => one + more),
      piece.map((more) => more + one),
      fc.constant(one.trim()),
      fc.constant(one.toUpperCase()),
      fc.constant(one.slice(0, -1)),
      fc.constant(one.normalize('NFD')),
      fc.nat({ max: 9 }).map((at) => one.slice(0, at) + ' ' + one.slice(at)),
    ),
  ),
);

test('a grant of a command lets just this command through, whatever it is made of', () => {
  fc.assert(
    fc.property(alike, ([one, other]) => {
      const grant = execute({ command: one });
      const grants = grant ? [grant] : [];
      expect(grantFor(execute({ command: other }), grants) !== undefined).toBe(grant !== null && one === other);
      // Neither as what another tool is given, nor with anything besides.
      expect(grantFor(execute({ command: other }, { name: 'Other' }), grants)).toBeUndefined();
      expect(grantFor(execute({ command: other, sandbox: false }), grants)).toBeUndefined();
      expect(
        grantFor(of({ title: other, name: 'Bash', rawInput: { command: other } }, 'other'), grants),
      ).toBeUndefined();
    }),
    { numRuns: 2_000 },
  );
});

test('a grant of a call lets through what is given the same, in whatever order it is named, and nothing else', () => {
  const value = fc.jsonValue({ maxDepth: 2 });
  const given = fc.dictionary(fc.constantFrom('a', 'b', 'command', 'path'), value, { minKeys: 1, maxKeys: 3 });
  const same = (a: unknown, b: unknown): boolean => {
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null)
      return JSON.stringify(a) === JSON.stringify(b);
    const names = Object.keys(a);
    return (
      Array.isArray(a) === Array.isArray(b) &&
      names.length === Object.keys(b).length &&
      names.every((name) => Object.hasOwn(b, name) && same(a[name as never], b[name as never]))
    );
  };
  fc.assert(
    fc.property(given, fc.option(given), (one, other) => {
      const reversed = Object.fromEntries(Object.entries(one).toReversed());
      const call = (rawInput: object) => of({ title: 'tool', rawInput }, 'mcp');
      const grant = call(one);
      const grants = grant ? [grant] : [];
      const asked = other ?? reversed;
      expect(grantFor(call(asked), grants) !== undefined).toBe(grant !== null && same(one, asked));
    }),
    { numRuns: 1_000 },
  );
});
