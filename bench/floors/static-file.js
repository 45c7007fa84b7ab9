// The floor of P3: one file over bare node http. `node static-file.js <file>` answers `{ url }`.
import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';

const [path] = process.argv.slice(2);
const server = createServer((_request, response) => {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'content-length': statSync(path).size,
  });
  createReadStream(path).pipe(response);
});
process.on('disconnect', () => process.exit(0));
server.listen(0, '127.0.0.1', () => process.send({ url: `http://127.0.0.1:${server.address().port}` }));
