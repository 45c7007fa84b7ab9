import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packageRoot } from '../src/base/root.ts';

/** The rules of the house (src/README.md), each with its reason. What a rule forbids is listed with its line. */

const files = globSync(['src/**/*.{ts,tsx}', 'daemon/**/*.{ts,tsx}', 'cli/**/*.{ts,tsx}'], {
  cwd: packageRoot,
}).toSorted();
const sources = new Map(files.map((file) => [file, readFileSync(join(packageRoot, file), 'utf8')]));
const src = files.filter((file) => file.startsWith('src/'));
const program = files.filter((file) => !file.startsWith('cli/'));

const string = String.raw`'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|` + '`(?:\\\\.|[^`\\\\])*`';
const regex = String.raw`(?<=[(=,:[!&|?{};\n]\s*)\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*`;
const comment = String.raw`\/\/[^\n]*|\/\*[\s\S]*?\*\/`;
const blank = (text: string) => text.replace(/[^\n]/g, ' ');

/**
 * The text with comments blanked out, and what is in quotation marks, too, when `quoted` is false (templates stay, as they hold
 * code); lines stay lines.
 */
const codeOf = (file: string, quoted: boolean): string =>
  sources
    .get(file)!
    .replace(new RegExp(`(${string}|${regex})|(${comment})`, 'g'), (whole, text: string | undefined) =>
      text === undefined || (!quoted && !text.startsWith('`')) ? blank(whole) : whole,
    );

/** `file:line what` of each match in these files. */
function find(pattern: RegExp, among: string[], { quoted = false } = {}): string[] {
  return among.flatMap((file) =>
    [...codeOf(file, quoted).matchAll(new RegExp(pattern, 'g'))].map((match) => {
      const line = codeOf(file, quoted).slice(0, match.index).split('\n').length;
      return `${file}:${line} ${match[0].trim()}`;
    }),
  );
}

interface Import {
  file: string;
  /** A file of ours, from the package's root, or the name of a package. */
  target: string;
  ours: boolean;
}

/** Every import, export-from and import() of a file, type-only ones included. */
function importsOf(file: string): Import[] {
  const code = codeOf(file, true);
  const found = [
    ...code.matchAll(/^(?:import|export)\b[^'"`;]*?\bfrom\s*'([^']+)'/gm),
    ...code.matchAll(/^import\s*'([^']+)'/gm),
    ...code.matchAll(/\bimport\(\s*'([^']+)'\s*\)/g),
  ];
  return found.map(([, name = '']) => {
    const ours = name.startsWith('.');
    const [scope, second] = name.split('/');
    const target = ours
      ? normalize(join(dirname(file), name))
      : name.startsWith('@')
        ? `${scope}/${second}`
        : name.startsWith('node:')
          ? name
          : scope!;
    return { file, target, ours };
  });
}

const imports = files.flatMap(importsOf);
const inside = imports.filter(({ ours }) => ours);

/** `src/runs/store.ts` is in the room `runs`; `src/app.ts` is `app`; all of daemon is `daemon`. */
const roomOf = (file: string): string => {
  const [first = '', second = ''] = file.split('/');
  return first === 'src' ? second.replace(/\.ts$/, '') : first;
};

const floors: Record<string, number> = {
  api: 0,
  base: 1,
  events: 2,
  operations: 2,
  access: 2,
  agents: 2,
  agent: 2,
  harness: 2,
  trees: 2,
  providers: 2,
  projects: 3,
  workspaces: 3,
  files: 3,
  checkpoints: 3,
  storage: 3,
  artifacts: 3,
  sessions: 3,
  inputs: 3,
  grants: 3,
  connections: 3,
  webhooks: 3,
  runner: 3,
  usage: 3,
  credits: 3,
  runs: 4,
  app: 5,
};

/** Imports that lead where they may not, as `from → to`. */
const wrong = (isWrong: (one: Import) => boolean): string[] =>
  inside.filter(isWrong).map(({ file, target }) => `${file} → ${target}`);

describe('the scanner sees what is there', () => {
  test('all files of the three programs are read, and every import leads to one', () => {
    expect(files.length).toBeGreaterThan(100);
    expect(inside.length).toBeGreaterThan(300);
    expect(wrong(({ target }) => !sources.has(target) && !existsSync(join(packageRoot, target)))).toEqual([]);
  });

  test('every room of src has its floor', () => {
    expect([...new Set(src.map(roomOf))].filter((room) => floors[room] === undefined)).toEqual([]);
  });
});

describe('floors: what is below does not know what is above, so that each room can be read, tested and replaced alone', () => {
  for (const room of Object.keys(floors).filter((name) => src.some((file) => roomOf(file) === name)))
    test(`src/${room} imports from lower floors and itself alone; rooms of one floor do not know each other`, () => {
      const allowed = (target: string) =>
        target.startsWith('src/') && (roomOf(target) === room || floors[roomOf(target)]! < floors[room]!);
      expect(wrong(({ file, target }) => file.startsWith('src/') && roomOf(file) === room && !allowed(target))).toEqual(
        [],
      );
    });

  test('src/api imports nothing of ours: it is what everybody may have, the CLI and other people’s clients included', () => {
    expect(wrong(({ file, target }) => file.startsWith('src/api/') && !target.startsWith('src/api/'))).toEqual([]);
  });

  test('nothing in src imports src/app.ts: who is put together there must not look at who does it', () => {
    expect(wrong(({ file, target }) => file.startsWith('src/') && target === 'src/app.ts')).toEqual([]);
  });

  test('daemon knows src/app.ts, src/api and the tools of src/base, and no room: it is HTTP around the app and nothing else', () => {
    const allowed = /^(daemon\/|src\/app\.ts$|src\/api\/|src\/base\/)/;
    expect(wrong(({ file, target }) => file.startsWith('daemon/') && !allowed.test(target))).toEqual([]);
  });

  test('cli knows src/api alone: it is a client among clients, and never touches the store or the daemon', () => {
    expect(wrong(({ file, target }) => file.startsWith('cli/') && !/^(cli|src\/api)\//.test(target))).toEqual([]);
  });

  test('runs does not know webhooks: a webhook’s failure cannot change a run because the arrow does not exist', () => {
    expect(wrong(({ file, target }) => roomOf(file) === 'runs' && roomOf(target) === 'webhooks')).toEqual([]);
  });
});

test('no import ring, type imports included: what forms a ring can only be understood all at once', () => {
  const rings = new Set<string>();
  const done = new Set<string>();
  const walk = (file: string, path: string[]) => {
    const at = path.indexOf(file);
    if (at >= 0) {
      const ring = path.slice(at);
      const first = ring.indexOf(ring.toSorted()[0]!);
      rings.add([...ring.slice(first), ...ring.slice(0, first), ring[first]].join(' → '));
      return;
    }
    if (done.has(file)) return;
    for (const { target } of inside.filter((one) => one.file === file)) walk(target, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
  expect([...rings]).toEqual([]);
});

describe('rooms have one door', () => {
  test('store.ts and state.ts are imported by their own room alone: SQL and transitions are nobody else’s business', () => {
    const secret = (target: string) => ['store.ts', 'state.ts'].includes(basename(target)) && target.startsWith('src/');
    expect(wrong(({ file, target }) => secret(target) && dirname(file) !== dirname(target))).toEqual([]);
  });

  test('no barrels: an index.ts hides where a thing comes from and makes rings', () => {
    expect(files.filter((file) => /(^|\/)index\.tsx?$/.test(file))).toEqual([]);
    expect(find(/^export \* from\b.*/m, files)).toEqual([]);
  });

  test('no file is called utils, helpers, manager, service, impl or common: a name must say what is in it', () => {
    const names =
      /^(utils?|helpers?|managers?|services?|impl|common|misc|shared)$|(-|\.)(utils?|helpers?|manager|service|impl)$/i;
    expect(
      files.filter((file) => names.test(basename(file).replace(/\.tsx?$/, '')) && file !== 'src/api/common.ts'),
    ).toEqual([]);
  });
});

describe('SQL', () => {
  const mayHaveSql = (file: string) => basename(file) === 'store.ts' || file.startsWith('src/base/');
  const others = files.filter((file) => !mayHaveSql(file));

  test('stands in store.ts files and src/base alone, so that a table has one place that knows its columns', () => {
    const statement =
      /['`]\s*(SELECT|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX)|ALTER TABLE|DROP TABLE|PRAGMA)\b[^'`]{0,40}/;
    expect(find(statement, others, { quoted: true })).toEqual([]);
    expect(find(/\b(db|sqlite)\s*\.\s*(get|all|run|insert|prepare|exec|pragma)\s*[(<]/, others)).toEqual([]);
  });

  const tables: Record<string, string[]> = {
    agents: ['agents', 'agent_revisions'],
    access: ['settings', 'organizations', 'users', 'memberships', 'api_keys', 'browser_sessions'],
    events: ['events', 'announcements'],
    operations: ['operations'],
    projects: ['projects'],
    workspaces: ['workspaces'],
    files: ['transfers'],
    checkpoints: ['checkpoints', 'restores', 'diffs', 'upkeep'],
    artifacts: ['artifacts'],
    sessions: ['sessions'],
    inputs: ['inputs'],
    usage: ['model_calls', 'run_figures'],
    credits: ['credit_accounts', 'credit_entries'],
    grants: ['grants'],
    runs: ['runs'],
    webhooks: ['webhooks', 'webhook_secrets', 'webhook_events', 'webhook_deliveries'],
    base: ['idempotency', 'sqlite_master'],
  };
  test('of a store is about its own tables: a question across rooms is handed in by app.ts', () => {
    const foreign = files.filter(mayHaveSql).flatMap((file) =>
      [...codeOf(file, true).matchAll(/\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_]+)\b|\b(?:insert|update)Sql\('([a-z_]+)'/g)]
        .map(([, one, two]) => one ?? two!)
        .filter((table) => Object.values(tables).flat().includes(table) && !tables[roomOf(file)]?.includes(table))
        .map((table) => `${file}: ${table}`),
    );
    expect(foreign).toEqual([]);
  });

  test('tables are all somebody’s', () => {
    const schema = globSync('src/schema/*.sql', { cwd: packageRoot }).map((file) =>
      readFileSync(join(packageRoot, file), 'utf8'),
    );
    const made = schema.flatMap((text) => [...text.matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => name!));
    expect(made.filter((name) => !Object.values(tables).flat().includes(name))).toEqual([]);
  });
});

describe('one owner for each outside tool: who wants another one, or to leave it, has one place to change', () => {
  const owners: Record<string, RegExp> = {
    '@agentclientprotocol/sdk': /^src\/(runner|harness)\//,
    '@ai-sdk/anthropic': /^src\/agent\/model\.ts$/,
    '@ai-sdk/google': /^src\/agent\/model\.ts$/,
    '@ai-sdk/openai': /^src\/agent\/model\.ts$/,
    '@ai-sdk/openai-compatible': /^src\/agent\/model\.ts$/,
    ai: /^src\/agent\//,
    '@fastify/swagger': /^daemon\/docs\.ts$/,
    '@fastify/swagger-ui': /^daemon\/docs\.ts$/,
    '@pydantic/genai-prices': /^src\/providers\//,
    // Each compiles schemas of another kind: bodies, settings, what an agent asks for, what it must answer, scripts.
    ajv: /^(daemon\/validate|src\/base\/config|src\/inputs\/inputs|src\/runner\/answer-form|src\/agent\/scripted\/script)\.ts$/,
    'ajv-formats': /^(daemon\/validate|src\/runner\/answer-form)\.ts$/,
    'better-sqlite3': /^src\/base\/db\.ts$/,
    chokidar: /^src\/workspaces\/watch\.ts$/,
    'close-with-grace': /^daemon\/main\.ts$/,
    commander: /^cli\//,
    diff: /^src\/trees\/hunks\.ts$/,
    'content-disposition': /^daemon\/bytes\.ts$/,
    'env-paths': /^src\/api\/home\.ts$/,
    'eventsource-parser': /^src\/api\/sse\.ts$/,
    execa: /^src\/(runner|harness)\/|^src\/workspaces\/git\.ts$/,
    fastify: /^daemon\//,
    ink: /^cli\//,
    jose: /^src\/access\/oauth\.ts$/,
    mime: /^src\/base\/media\.ts$/,
    'node:child_process':
      /^src\/(runner|harness)\/|^src\/agent\/tools\/process\.ts$|^src\/workspaces\/git\.ts$|^src\/trees\/flush\.ts$|^cli\//,
    pino: /^(daemon|src\/base)\/log\.ts$/,
    react: /^cli\//,
    'rotating-file-stream': /^daemon\/log\.ts$/,
    'simple-git': /^src\/workspaces\//,
    'smol-toml': /^src\/base\/config\.ts$/,
    'string-width': /^cli\//,
    typebox: /^src\/api\/|^src\/base\/config(-providers)?\.ts$|^daemon\/validate\.ts$/,
    uuid: /^src\/base\/clock\.ts$/,
  };
  const outside = imports.filter(({ ours, target }) => !ours && (!target.startsWith('node:') || target in owners));

  test('every package that is imported has an owner here', () => {
    expect([...new Set(outside.map(({ target }) => target))].filter((name) => !(name in owners))).toEqual([]);
  });

  for (const [name, owner] of Object.entries(owners))
    test(`${name} is imported by its owner alone`, () => {
      expect(
        outside.filter(({ file, target }) => target === name && !owner.test(file)).map(({ file }) => file),
      ).toEqual([]);
    });
});

describe('what differs from call to call comes in by one way, so that tests need neither luck nor sleep', () => {
  test('the environment is read where a program begins, and handed on from there', () => {
    const begins = [
      'daemon/main.ts',
      'src/base/root.ts',
      'src/runner/main.ts',
      'src/agent/main.ts',
      'src/agent/scripted/main.ts',
      'cli/main.ts',
    ];
    expect(
      find(
        /\bprocess\.env\b|\benv\b[^;]*=\s*process\b/,
        files.filter((file) => !begins.includes(file)),
      ),
    ).toEqual([]);
  });

  test('time and chance come from base/clock in src and daemon, but for the client and the check of signatures, which run in other people’s programs', () => {
    const sources =
      /\bDate\.now\s*\(|\bnew Date\(\s*\)|\bMath\.random\s*\(|\brandomUUID\s*\(|\brandomBytes\s*\(|\bgetRandomValues\s*\(|\bperformance\.now\s*\(/;
    expect(
      find(
        sources,
        program.filter((file) => !['src/base/clock.ts', 'src/api/client.ts', 'src/api/signature.ts'].includes(file)),
      ),
    ).toEqual([]);
  });
});

describe('files that can be read', () => {
  test('no file has more than 400 lines: what is longer is about more than one thing', () => {
    const long = files
      .map((file) => [file, sources.get(file)!.trimEnd().split('\n').length] as const)
      .filter(([, lines]) => lines > 400);
    expect(long).toEqual([]);
  });

  test('no any without a reason in the line above: it switches the compiler off for all that it touches', () => {
    const reasoned = (where: string) => {
      const [file = '', line] = where.split(' ')[0]!.split(':');
      return /no-explicit-any -- \S/.test(sources.get(file)!.split('\n')[Number(line) - 2] ?? '');
    };
    const found = find(/(?<=[:<|,(]\s*)any\b(?!\s*[:(.=])|\bas any\b|\bany\[\]/, files);
    expect(found.filter((where) => !reasoned(where))).toEqual([]);
  });

  test('every exported function and class of src and daemon has a sentence of its own', () => {
    const silent = program
      // What a store or a route does is said by its SQL or its row; a factory stands for what it makes, at its door.
      .filter((file) => basename(file) !== 'store.ts' && !file.startsWith('daemon/routes/'))
      .flatMap((file) => {
        const lines = sources.get(file)!.split('\n');
        return lines.flatMap((line, index) => {
          const [, name] =
            /^export (?:abstract )?(?:async )?(?:function\*?|class) (\w+)/.exec(line) ??
            /^export const (\w+)[^=]*= (?:async )?(?:<[^>]*>)?\(/.exec(line) ??
            [];
          return name && !(lines[index - 1] ?? '').endsWith('*/') ? [`${file}:${index + 1} ${name}`] : [];
        });
      });
    expect(silent).toEqual([]);
  });
});

describe('failures', () => {
  test('only daemon/errors.ts reads the status of a Fault: who throws one says what is the matter, not what HTTP calls it', () => {
    expect(
      find(
        /\bfault\.status\b|\bfailures\[[^\]]*\]\.status\b/i,
        files.filter((file) => !['daemon/errors.ts', 'src/api/error.ts'].includes(file)),
      ),
    ).toEqual([]);
  });
});
