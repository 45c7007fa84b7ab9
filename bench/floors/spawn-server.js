// The floor of P4: a bare node http server that starts `sh -c` itself and streams what comes. Answers `{ url }`.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

const runs = new Map();
let last = 0;
const server = createServer((request, response) => {
  if (request.method === 'POST') {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const { prompt } = JSON.parse(Buffer.concat(parts));
      const id = String(++last);
      const run = { output: [], readers: [] };
      runs.set(id, run);
      const child = spawn('/bin/sh', ['-c', prompt], { stdio: ['ignore', 'pipe', 'inherit'] });
      child.stdout.on('data', (bytes) => {
        const event = `event: tool.output\ndata: ${JSON.stringify({ text: bytes.toString() })}\n\n`;
        run.output.push(event);
        for (const reader of run.readers) reader.write(event);
      });
      child.on('close', () => {
        run.over = true;
        for (const reader of run.readers) reader.end();
      });
      response.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify({ id }));
    });
    return;
  }
  const run = runs.get(request.url.split('/')[3]);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of run.output) response.write(event);
  if (run.over) response.end();
  else run.readers.push(response);
});
process.on('disconnect', () => process.exit(0));
server.listen(0, '127.0.0.1', () => process.send({ url: `http://127.0.0.1:${server.address().port}` }));
