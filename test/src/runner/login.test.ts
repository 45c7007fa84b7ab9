import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { builtinRows } from '../../../src/harness/builtin.ts';
import { loginMounts } from '../../../src/runner/sandbox/login.ts';
import { Place } from '../../kit/runner.ts';

const logins = builtinRows.flatMap(({ id, login }) => (login ? [{ id, login }] : []));

test.each(logins)(
  'the login of $id: its folders to write, and in them only to read what runs commands',
  async (row) => {
    const { login } = row;
    await using place = new Place();
    const home = join(place.root, 'home');
    const [linked, ...there] = login.guard.map((name) => join(home, name));
    for (const name of login.write) mkdirSync(join(home, name), { recursive: true });
    for (const path of there) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, '');
    }
    // A link is left as it is: what it leads to is not in the sandbox, or is guarded there by its own name.
    if (linked) symlinkSync(place.root, linked);
    const mounts = loginMounts(place.spec('', { env: { HOME: home } }), login);
    const of = (kind: string) => mounts.filter((mount) => mount.kind === kind).map(({ path }) => path);
    const written = login.write.map((name) => join(home, name));
    expect(of('write')).toEqual([home, ...written]);
    expect(of('read')).toEqual(there);
    expect(there.filter((path) => !written.some((folder) => path.startsWith(`${folder}/`)))).toEqual([]);
  },
);
