import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/**
 * The spool: the append-only file in which a runner leaves everything that happened, and from which the daemon reads.
 *
 * Eight bytes `AGSPOOL1`, then frames: payload length (u32, little endian), CRC-32 of the payload (u32), payload. The
 * payload's first byte is `e` (an event draft, JSON text that starts with `{"type":"<type>",`) or `c` (a control record,
 * JSON). The format is frozen: a new daemon reads the spools of old runners; a change gets another magic.
 */
export const spoolMagic = Buffer.from('AGSPOOL1');

/** No frame is longer, in bytes; a longer length field means that the file is damaged. */
export const maxFrame = 8 * 1_048_576;
const header = 8;

export type FrameKind = 'e' | 'c';
export interface Frame {
  kind: FrameKind;
  /** JSON text. */
  text: string;
  /** Where the next frame starts, in bytes from the start of the file. */
  end: number;
}

/** The bytes of one frame. */
export function encodeFrame(kind: FrameKind, text: string): Buffer {
  const length = Buffer.byteLength(text) + 1;
  if (length > maxFrame) throw new RangeError(`A spool frame of ${length} bytes is over the bound of ${maxFrame}.`);
  const frame = Buffer.allocUnsafe(header + length);
  frame.writeUInt32LE(length, 0);
  frame.write(kind, header, 'latin1');
  frame.write(text, header + 1, 'utf8');
  frame.writeUInt32LE(crc32(frame.subarray(header)), 4);
  return frame;
}

/** A spool that does not hold what its frames say. */
export class SpoolDamaged extends Error {}

/**
 * The whole frames of `bytes`, which stand at `offset` in the file; what is cut off at the end is left for the next read.
 * Throws SpoolDamaged where a checksum or length is wrong.
 */
export function decodeFrames(bytes: Buffer, offset: number): Frame[] {
  const frames: Frame[] = [];
  let at = 0;
  if (offset === 0) {
    if (bytes.length < spoolMagic.length) return frames;
    if (!bytes.subarray(0, spoolMagic.length).equals(spoolMagic))
      throw new SpoolDamaged('This is no spool of version 1.');
    at = spoolMagic.length;
  }
  while (bytes.length - at >= header) {
    const length = bytes.readUInt32LE(at);
    if (length === 0 || length > maxFrame)
      throw new SpoolDamaged(`The frame at ${offset + at} has an impossible length.`);
    if (bytes.length - at - header < length) break;
    const payload = bytes.subarray(at + header, at + header + length);
    if (crc32(payload) !== bytes.readUInt32LE(at + 4))
      throw new SpoolDamaged(`The frame at ${offset + at} fails its checksum.`);
    at += header + length;
    frames.push({
      kind: payload.toString('latin1', 0, 1) as FrameKind,
      text: payload.toString('utf8', 1),
      end: offset + at,
    });
  }
  return frames;
}

/**
 * Reads the frames after `offset`, up to about `budget` bytes (a single longer frame is read whole). A missing file has no
 * frames. Throws SpoolDamaged.
 */
export function readSpool(path: string, offset: number, budget = 262_144): Frame[] {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  try {
    const available = fstatSync(file).size - offset;
    let wanted = Math.min(available, budget);
    for (;;) {
      if (wanted <= 0) return [];
      const bytes = Buffer.allocUnsafe(wanted);
      const read = readSync(file, bytes, 0, wanted, offset);
      const frames = decodeFrames(bytes.subarray(0, read), offset);
      if (frames.length > 0 || wanted === available || read < wanted) return frames;
      wanted = Math.min(available, maxFrame + header + spoolMagic.length);
      if (read >= wanted) return frames;
    }
  } finally {
    closeSync(file);
  }
}
