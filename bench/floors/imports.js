// The floor of P10 and P9: a node process that imports fastify and better-sqlite3, says so, and waits to be ended.
import Database from 'better-sqlite3';
import fastify from 'fastify';

setInterval(() => {}, 1_000_000);
process.stdout.write(`${typeof Database} ${typeof fastify}\n`);
