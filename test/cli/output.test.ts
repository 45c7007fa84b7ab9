import stringWidth from 'string-width';
import { describe, expect, it } from 'vitest';
import { type ListView, Output, type OutputFlags } from '../../cli/output.ts';
import { wrapped } from '../../cli/width.ts';
import { yaml } from '../../cli/yaml.ts';

interface Thing {
  id: string;
  name: string;
}

const view: ListView<Thing> = {
  id: ({ id }) => id,
  name: ({ name }) => name,
  empty: 'Nothing yet: make one.',
  columns: [
    { title: 'ID', value: ({ id }) => id },
    { title: 'NAME', value: ({ name }) => name, flex: true, style: () => 'green' },
    { title: 'MORE', value: () => 'more', wide: true },
    { title: 'N', value: () => '7', right: true },
  ],
};

const print = async (flags: OutputFlags, data: Thing[], { isTTY = false, columns = 30, env = {} } = {}) => {
  let stdout = '';
  let stderr = '';
  const streams = {
    stdout: { write: (text: string) => (stdout += text), isTTY, columns },
    stderr: { write: (text: string) => (stderr += text), isTTY },
  };
  await new Output(flags, streams, env).list({ data, next_cursor: null }, view);
  return { stdout, stderr };
};

const two = [
  { id: 'a1', name: 'one' },
  { id: 'b2', name: 'two 日本 \u001B[31mred\nline' },
];

describe('list', () => {
  it('is a table of clean text that knows wide characters', async () => {
    expect((await print({}, two)).stdout).toBe(
      'ID  NAME               N\na1  one                7\nb2  two 日本 red line  7\n',
    );
  });

  it('is the body with --json, as it came', async () => {
    expect((await print({ json: true }, two)).stdout).toBe(`${JSON.stringify({ data: two, next_cursor: null })}\n`);
  });

  it('is ids with -q, names with -o name, more with -o wide', async () => {
    expect((await print({ quiet: true }, two)).stdout).toBe('a1\nb2\n');
    expect((await print({ output: 'name' }, two)).stdout).toBe('one\ntwo 日本 red line\n');
    expect((await print({ output: 'wide' }, two)).stdout).toContain('MORE');
  });

  it('says what to do when it is empty, on standard error', async () => {
    expect(await print({}, [])).toEqual({ stdout: '', stderr: 'Nothing yet: make one.\n' });
    expect(await print({ json: true }, [])).toEqual({ stdout: '{"data":[],"next_cursor":null}\n', stderr: '' });
  });

  it('fits the terminal unless --no-trunc', async () => {
    const long = [{ id: 'a1', name: 'x'.repeat(100) }];
    const lines = async (flags: OutputFlags) =>
      (await print({ color: false, ...flags }, long, { isTTY: true })).stdout.trimEnd().split('\n');
    expect((await lines({})).map((line) => stringWidth(line))).toEqual([30, 30]);
    expect((await lines({}))[1]).toContain('…');
    expect(stringWidth((await lines({ trunc: false }))[1] ?? '')).toBeGreaterThan(100);
  });

  it('has colours on a terminal alone, and not with NO_COLOR or --no-color', async () => {
    const escape = '\u001B[';
    expect((await print({}, two, { isTTY: true })).stdout).toContain(escape);
    expect((await print({}, two)).stdout).not.toContain(escape);
    expect((await print({ color: false }, two, { isTTY: true })).stdout).not.toContain(escape);
    expect((await print({}, two, { isTTY: true, env: { NO_COLOR: '1' } })).stdout).not.toContain(escape);
  });
});

describe('wrapped', () => {
  it('breaks at spaces and hangs', async () => {
    expect(wrapped('! one two three four', 10, '  ')).toBe('! one two\n  three\n  four');
  });
});

describe('yaml', () => {
  it('quotes what might be read as something else', async () => {
    const value = {
      a: 'plain text',
      b: 'true',
      c: '1',
      d: '',
      e: null,
      f: [1, { g: 'x: y' }, []],
      h: {},
      'odd key:': 'a\nb',
    };
    expect(yaml(value)).toBe(
      'a: plain text\nb: "true"\nc: "1"\nd: ""\ne: null\nf:\n  - 1\n  - g: "x: y"\n  - []\nh: {}\n"odd key:": "a\\nb"',
    );
  });
});
