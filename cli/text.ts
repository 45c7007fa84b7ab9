import { stripVTControlCharacters } from 'node:util';

// What stripVTControlCharacters leaves: the strings of DCS, OSC, APC, PM and SOS with their text, ended or not.
const controlStrings =
  // oxlint-disable-next-line no-control-regex
  /(?:\u001B[PX\]^_]|[\u0090\u0098\u009D-\u009F])[^\u0007\u001B\u009C\n]*(?:\u0007|\u001B\\|\u009C)?/g;
// oxlint-disable-next-line no-control-regex
const escapes = /\u001B(?:\[[0-?]*[ -/]*[@-~]?|[ -/]*[0-~])?|\u009B[0-?]*[ -/]*[@-~]?/g;
// Controls but tab and line feed; bidirectional marks, overrides and isolates; invisible separators, tags and fillers.
// The joiners U+200C and U+200D stay: scripts and emoji need them.
const unseen =
  // oxlint-disable-next-line no-control-regex, no-misleading-character-class
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B\u200E\u200F\u202A-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;

/** Text of an agent, a tool or a name, safe to show: no control or escape sequences, nothing that reorders or hides. Line breaks and tabs stay. */
export function clean(text: string): string {
  const plain = text.replaceAll(/\r\n/g, '\n').replaceAll(/[\u2028\u2029\u0085]/g, '\n');
  const bare = stripVTControlCharacters(plain.replace(controlStrings, '').replace(escapes, ''));
  return overwritten(bare)
    .replace(unseen, '')
    .replaceAll(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');
}

/** The same on one line. */
export const cleanLine = (text: string): string =>
  clean(text)
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll('\t', ' ')
    .trim();

/** What a terminal would be left with after carriage returns: the last state of a progress line. */
function overwritten(text: string): string {
  if (!text.includes('\r')) return text;
  return text
    .split('\n')
    .map((line) => line.split('\r').findLast((part) => part !== '') ?? '')
    .join('\n');
}

/** Cuts a stream of untrusted text into whole clean lines, so that no escape sequence is torn apart. */
export function lines(write: (line: string) => void): { push(text: string): void; end(): void } {
  let rest = '';
  return {
    push(text) {
      const parts = (rest + text).split('\n');
      rest = parts.pop() ?? '';
      for (const part of parts) write(clean(part));
    },
    end() {
      if (rest) write(clean(rest));
      rest = '';
    },
  };
}
