import type { Scope } from '../api/endpoint.ts';
import { Fault } from '../api/error.ts';

/** Who calls, in which organization, with which rights. */
export interface Principal {
  type: 'user' | 'api_key';
  id: string;
  name: string;
  credential: 'session' | 'api_key' | 'oauth';
  organization_id: string;
  scopes: readonly Scope[];
  /** When the credential ends, as RFC 3339; null when it has no end. */
  expires_at: string | null;
}

/** Why a credential is not taken; `details.reason` of a 401. */
export type Refusal = 'missing' | 'malformed' | 'unknown' | 'revoked' | 'expired' | 'invalid_token';

/** A 401 (contract section 1). */
export const refused = (reason: Refusal, message: string): Fault =>
  new Fault('unauthenticated', message, { details: { reason }, headers: { 'www-authenticate': 'Bearer' } });

/** For what only the user at this machine may do. Throws `owner_only`. */
export function assertOwner({ credential }: Principal, what: string): void {
  if (credential !== 'session') throw new Fault('owner_only', `${what} with the local session alone.`);
}
