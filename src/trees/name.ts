import { isUtf8 } from 'node:buffer';

/**
 * Inside this room a path is a string with one character per byte (latin1): file names are bytes, and such strings are small,
 * quick to compare, and order as bytes do. At the door it is text: UTF-8 decoded, and each byte that is not UTF-8 stands as a
 * lone surrogate U+DC80..U+DCFF, so that every name survives the way out (JSON included) and back.
 */
export type Bytes = string;

// oxlint-disable-next-line no-control-regex -- all of ASCII is meant
const ascii = /^[\x00-\x7f]*$/;

/** Whether there is no byte above 127. */
export const isAscii = (path: Bytes): boolean => ascii.test(path);

/** What node:fs takes for this path: the bytes exactly. */
export const toOs = (path: Bytes): string | Buffer => (ascii.test(path) ? path : Buffer.from(path, 'latin1'));

/** The path as text. */
export function toText(path: Bytes): string {
  if (ascii.test(path)) return path;
  const bytes = Buffer.from(path, 'latin1');
  if (isUtf8(bytes)) return bytes.toString();
  let text = '';
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at]!;
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const one = bytes.subarray(at, at + length);
    if (one.length === length && isUtf8(one)) {
      text += one.toString();
      at += length;
    } else {
      text += String.fromCharCode(0xdc00 + first);
      at += 1;
    }
  }
  return text;
}

/** The bytes of a text that came from `toText`, or from a user. */
export function toBytes(text: string): Bytes {
  if (ascii.test(text)) return text;
  if (text.isWellFormed()) return Buffer.from(text).toString('latin1');
  let path = '';
  for (const one of text) {
    const code = one.codePointAt(0)!;
    path += code >= 0xdc80 && code <= 0xdcff ? String.fromCharCode(code - 0xdc00) : Buffer.from(one).toString('latin1');
  }
  return path;
}

/** `folder` and `name` with a slash between, or the name alone below the root, which is ''. */
export const below = (folder: Bytes, name: Bytes): Bytes => (folder === '' ? name : `${folder}/${name}`);

/** The folder of a path and the last name of it. */
export function split(path: Bytes): [folder: Bytes, name: Bytes] {
  const at = path.lastIndexOf('/');
  return at < 0 ? ['', path] : [path.slice(0, at), path.slice(at + 1)];
}
