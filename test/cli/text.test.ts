import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clean, cleanLine, lines } from '../../cli/text.ts';

describe('clean', () => {
  it.each([
    ['colours', '\u001B[31mred\u001B[0m', 'red'],
    ['cursor movement and clearing', 'a\u001B[2J\u001B[Hb\u001B[1;1fc', 'abc'],
    ['a title', '\u001B]0;owned\u0007text', 'text'],
    ['a link', '\u001B]8;;http://evil\u001B\\click\u001B]8;;\u001B\\', 'click'],
    ['the clipboard', '\u001B]52;c;cm0gLXJm\u0007x', 'x'],
    ['a device control string with its tail', '\u001BP1$tx\u001B\\y', 'y'],
    ['an application command', '\u001B_Gf=100;AAAA\u001B\\z', 'z'],
    ['8-bit controls', '\u009B31mred\u009D0;title\u009C.', 'red.'],
    ['a charset switch', '\u001B(0q\u001B(B', 'q'],
    ['a lone escape at the end', 'x\u001B', 'x'],
    ['an unfinished sequence', 'x\u001B[31', 'x'],
    ['an unfinished title', 'x\u001B]0;title', 'x'],
    ['bell and backspace', 'rm\u0008\u0008ls\u0007', 'rmls'],
    ['bidirectional overrides', 'abc\u202Etxt.exe\u2066\u2069', 'abctxt.exe'],
    ['invisible characters', 'pass\u200Bword\uFEFF\u00AD', 'password'],
    ['tag characters', 'a\u{E0041}\u{E007F}b', 'ab'],
    ['line and paragraph separators', 'a\u2028b\u2029c', 'a\nb\nc'],
    ['a progress line', 'one\n10%\r50%\r100%\ntwo\r\nthree', 'one\n100%\ntwo\nthree'],
    ['a lone surrogate', 'a\uD800b', 'a\uFFFDb'],
  ])('takes out %s', (_, given, left) => {
    expect(clean(given)).toBe(left);
  });

  it('leaves line breaks, tabs, other scripts and joined emoji', () => {
    const text = 'tab\there\nשלום שלום\n日本語 👩‍👩‍👧 é नमस्ते';
    expect(clean(text)).toBe(text);
  });

  it('leaves nothing that a terminal obeys, whatever comes', () => {
    const nasty = fc.constantFrom(
      '\u001B',
      '[',
      ']',
      '0;',
      '31m',
      '\u0007',
      '\u009B',
      '\u0090',
      '\\',
      'P',
      'x',
      '\r',
      '\n',
      '\u202E',
      ';',
      '\u001B\\',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(nasty, fc.string()), { maxLength: 30 }), (parts) => {
        // oxlint-disable-next-line no-control-regex
        const obeyed = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/;
        expect(clean(parts.join(''))).not.toMatch(obeyed);
      }),
    );
  });
});

describe('cleanLine', () => {
  it('makes one line', () => {
    expect(cleanLine(' a\n  b\tc \u001B[1m')).toBe('a b c');
  });
});

describe('lines', () => {
  it('never lets a sequence through that came in two pieces', () => {
    const seen: string[] = [];
    const writer = lines((line) => seen.push(line));
    for (const piece of ['a\u001B', '[31mb\nc', '\u001B]0;ti', 'tle\u0007d']) writer.push(piece);
    writer.end();
    expect(seen).toEqual(['ab', 'cd']);
  });
});
