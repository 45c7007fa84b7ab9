import { Fault } from '../api/error.ts';
import { GlobError, readGlob } from '../base/glob.ts';

/** Throws `invalid_request` for a pattern that no path could match. */
export function assertGlobs(texts: string[]): void {
  for (const [index, text] of texts.entries()) {
    try {
      readGlob(text);
    } catch (error) {
      if (!(error instanceof GlobError)) throw error;
      const message = `The pattern ${JSON.stringify(text.slice(0, 200))} ${error.message}.`;
      throw new Fault('invalid_request', message, {
        param: 'artifacts',
        details: { errors: [{ path: `/artifacts/${index}`, message }] },
      });
    }
  }
}
