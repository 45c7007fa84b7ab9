import { Thread } from '../../../src/workspaces/thread.ts';

// Watches the folder that is named and says what came of it; for a process that has few inotify watches to give.
const [, , root = '.'] = process.argv;
const thread = new Thread({ touched() {}, failed() {}, lost() {} });
const kept = setInterval(() => {}, 1_000);
const code = await thread.watch({ id: 'one', root, exclude: [] });
const found = await thread.survey({ id: 'one', root, exclude: [], most: 100 });
console.log(`${code} ${found.kind}`);
await thread.end();
clearInterval(kept);
