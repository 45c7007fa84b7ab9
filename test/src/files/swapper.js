// Swaps a folder and a link that leads out, as fast as it can, until its standard input ends.
import { renameSync } from 'node:fs';
import { join } from 'node:path';

const [ws] = process.argv.slice(2);
const at = (name) => join(ws, name);
let swaps = 0;
let junk = 0;
process.stdin.resume();
process.stdin.on('end', () => {
  process.stdout.write(`${swaps}\n`);
  process.exit(0);
});
const move = (from, to) => {
  for (;;)
    try {
      return renameSync(at(from), at(to));
    } catch {
      // A writer made its folder again while there was none by that name.
      try {
        renameSync(at(to), at(`junk-${++junk}`));
      } catch {
        // Another one was faster.
      }
    }
};
const turn = () => {
  for (let n = 0; n < 200; n++) {
    move('x', 'parked-folder');
    move('parked-link', 'x');
    move('x', 'parked-link');
    move('parked-folder', 'x');
    swaps += 2;
  }
  setImmediate(turn);
};
turn();
