import Database from 'better-sqlite3';
import fastify from 'fastify';
import { createHash, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { v7 } from 'uuid';

/**
 * The floor of P5: fastify that checks a token and does the product's SQL on a copy of its database, WAL and FULL, with answers
 * of the same bytes. `node sql-server.ts <database> <organization> <token>` answers `{ url }`.
 */
const [path = '', organization = '', token = ''] = process.argv.slice(2);
const sqlite = new Database(path);
sqlite.pragma('journal_mode = WAL');
sqlite.pragma('synchronous = FULL');
sqlite.pragma('cache_size = -16384');
const hash = (text: string) => createHash('sha256').update(text).digest();
const expected = hash(token);
const server = fastify({ logger: false });
server.addHook('onRequest', async (request, reply) => {
  const [, given = ''] = /^Bearer +(\S+)$/.exec(request.headers.authorization ?? '') ?? [];
  if (!timingSafeEqual(hash(given), expected)) return reply.code(401).send();
});

const json = ['limits', 'metadata', 'error', 'usage', 'isolation', 'checkpoint_ids', 'changes', 'runner'];
const hidden = new Set(['key', 'text', 'changes', 'spool_offset', 'runner', 'cancel_requested_at']);
const toRun = (row: Record<string, unknown>) => {
  const run: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(row))
    if (!hidden.has(name)) run[name] = value !== null && json.includes(name) ? JSON.parse(value as string) : value;
  return { ...run, run_id: row.id, pending_input: [] };
};
const find = sqlite.prepare('SELECT * FROM runs WHERE id = ?');
const list = sqlite.prepare('SELECT * FROM runs WHERE organization_id = ? ORDER BY key DESC LIMIT ?');
server.get<{ Params: { id: string } }>('/v1/runs/:id', async ({ params }, reply) =>
  reply
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(toRun(find.get(params.id) as Record<string, unknown>))),
);
server.get<{ Querystring: { limit: string } }>('/v1/runs', async ({ query }, reply) => {
  const limit = Number(query.limit);
  const rows = list.all(organization, limit + 1) as Record<string, unknown>[];
  const page = {
    data: rows.slice(0, limit).map(toRun),
    next_cursor: rows.length > limit ? String(rows[limit]!.key) : null,
  };
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(page));
});

const columns = [
  'id',
  'organization_id',
  'name',
  'description',
  'persistence',
  'status',
  'archived',
  'archived_at',
  'delete_after',
];
const insert = sqlite.prepare(
  `INSERT INTO projects (${columns.join(', ')}, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
);
const known = sqlite.prepare(
  'SELECT fingerprint, status, headers, body FROM idempotency WHERE organization_id = ? AND key = ?',
);
const remember = sqlite.prepare(
  `INSERT INTO idempotency (organization_id, key, fingerprint, resource_id, status, headers, body, created_at)
   VALUES (?, ?, ?, ?, 201, '{}', ?, ?)`,
);
const begin = sqlite.prepare('BEGIN IMMEDIATE');
const commit = sqlite.prepare('COMMIT');
server.post<{ Body: { name: string } }>('/v1/projects', async (request, reply) => {
  const { name } = request.body;
  const key = request.headers['idempotency-key'] as string | undefined;
  begin.run();
  const id = v7();
  const at = new Date().toISOString();
  const project = {
    id,
    organization_id: organization,
    name,
    description: null,
    persistence: 'persistent',
    status: 'active',
    archived: false,
    archived_at: null,
    delete_after: null,
    metadata: {},
    created_at: at,
    updated_at: at,
  };
  const seen = key && known.get(organization, key);
  const body = JSON.stringify(project);
  insert.run(id, organization, name, null, 'persistent', 'active', 0, null, null, '{}', at, at);
  if (key && !seen)
    remember.run(
      organization,
      key,
      createHash('sha256').update(`POST ${request.url} ${name}`).digest('base64url'),
      id,
      body,
      at,
    );
  commit.run();
  return reply.code(201).type('application/json; charset=utf-8').send(body);
});
await server.listen({ host: '127.0.0.1', port: 0 });
process.on('disconnect', () => process.exit(0));
process.send!({ url: `http://127.0.0.1:${(server.server.address() as AddressInfo).port}` });
