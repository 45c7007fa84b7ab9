import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decode, encode, heartbeat, retry, type SentEvent } from '../../../src/api/sse.ts';

async function* pieces(bytes: Uint8Array, cuts: number[]): AsyncGenerator<Uint8Array> {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  let from = 0;
  for (const to of [...at, bytes.length]) {
    yield bytes.slice(from, to);
    from = to;
  }
}

const all = async (stream: AsyncIterable<SentEvent>): Promise<SentEvent[]> => {
  const found: SentEvent[] = [];
  for await (const event of stream) found.push(event);
  return found;
};

describe('server-sent events', () => {
  it('are read as they were written, however the bytes are cut', async () => {
    const event = fc.record({
      id: fc.nat().map(String),
      event: fc.constantFrom('run.started', 'message.delta', 'log'),
      data: fc.jsonValue().map((value) => JSON.stringify(value)),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 8 }),
        fc.array(fc.nat(), { maxLength: 12 }),
        async (events, cuts) => {
          const text = retry(1000) + events.map((one) => encode(one) + heartbeat).join('');
          expect(await all(decode(pieces(new TextEncoder().encode(text), cuts)))).toEqual(events);
        },
      ),
    );
  });

  it('drop a half one at the end', async () => {
    const text = `${encode({ id: '1', event: 'log', data: '{}' })}id: 2\nevent: log\ndata: {}`;
    expect(await all(decode(pieces(new TextEncoder().encode(text), [])))).toHaveLength(1);
  });
});
