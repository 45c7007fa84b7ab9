import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Files below the user's home that a harness keeps its login in; one of them is enough. They are never read. */
const files: Readonly<Record<string, readonly string[]>> = {
  claude: ['.claude/.credentials.json'],
  codex: ['.codex/auth.json'],
  gemini: ['.gemini/oauth_creds.json', '.gemini/gemini-credentials.json', '.gemini/.env'],
};

/**
 * Whether somebody has logged in with a harness, as far as its files tell: true where that cannot be known, as on macOS, which keeps
 * logins in its keychain, and for harnesses that need none.
 */
export function isLoggedIn(
  id: string,
  home: string | undefined,
  platform: NodeJS.Platform = process.platform,
): boolean {
  const known = files[id];
  if (!known || home === undefined || platform !== 'linux') return true;
  return known.some((file) => existsSync(join(home, file)));
}
