import { describe, expect, it } from 'vitest';
import { idOf } from '../../cli/ids.ts';
import type { Client } from '../../src/api/client.ts';

const a = '019a3b2c-4d5e-7000-8000-000000000001';
const b = '019a3b2c-4d5e-7000-8000-000000000002';
const c = '019a9999-4d5e-7000-8000-000000000003';

const lists: Record<string, object[]> = {
  listRuns: [a, b, c].map((id) => ({ id, prompt: `prompt of ${id.slice(-1)}` })),
  listProjects: [
    { id: a, name: 'shop' },
    { id: b, name: 'shop' },
    { id: c, name: '019a' },
  ],
  listSessions: [],
};
const asked: [string, unknown][] = [];
const client = {
  async *each(id: string, { query }: { query: unknown }) {
    asked.push([id, query]);
    yield* lists[id] ?? [];
  },
} as unknown as Client;

describe('idOf', () => {
  it('takes whole ids as they are, in either case', async () => {
    expect(await idOf(client, 'run', a.toUpperCase())).toBe(a);
  });

  it('takes a unique beginning, a name and @last', async () => {
    expect(await idOf(client, 'run', '019a9')).toBe(c);
    expect(await idOf(client, 'project', '019a')).toBe(c);
    expect(await idOf(client, 'run', '@last')).toBe(a);
  });

  it('asks for the runs of the time that a beginning names', async () => {
    asked.length = 0;
    await idOf(client, 'run', '019a9');
    const made = Number.parseInt(c.replaceAll('-', '').slice(0, 12), 16);
    const { from, to } = asked[0]![1] as { from: string; to: string };
    expect(Date.parse(from)).toBeLessThan(made);
    expect(Date.parse(to)).toBeGreaterThan(made);
  });

  it('lists the candidates when there are several', async () => {
    await expect(idOf(client, 'run', '019a3')).rejects.toMatchObject({
      code: 2,
      message: expect.stringContaining(`${b}  prompt of 2`) as string,
    });
    await expect(idOf(client, 'project', 'shop')).rejects.toMatchObject({ code: 2 });
  });

  it('says so when there is none, and why', async () => {
    await expect(idOf(client, 'run', 'ffff')).rejects.toMatchObject({ code: 3 });
    await expect(idOf(client, 'run', '019')).rejects.toMatchObject({
      code: 3,
      message: expect.stringContaining('at least 4') as string,
    });
    await expect(idOf(client, 'session', '@last')).rejects.toMatchObject({ code: 3 });
  });
});
