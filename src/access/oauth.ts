import type { JWTVerifyGetKey } from 'jose';
import { type Scope, scopes as allScopes } from '../api/endpoint.ts';
import { Fault } from '../api/error.ts';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import { iso } from '../base/clock.ts';
import { refused } from './principal.ts';

type Issuer = Config['oauth']['issuers'][number];

/** What a token that was checked says. */
export interface Claims {
  issuer: string;
  subject: string;
  name: string;
  scopes: Scope[];
  expires_at: string;
}

/** How long an issuer may take to hand out its keys, in milliseconds. */
const patience = 5_000;
/** JWT access tokens of the configured issuers (RFC 9068, contract section 10). */
export function createOauth({ issuers, clock }: { issuers: Issuer[]; clock: Clock }) {
  const keys = new Map<string, Promise<JWTVerifyGetKey>>();

  const keysOf = (row: Issuer): Promise<JWTVerifyGetKey> => {
    const found = keys.get(row.issuer) ?? findKeys(row);
    keys.set(row.issuer, found);
    // An issuer that could not be reached is asked again by the next token.
    found.catch(() => keys.delete(row.issuer));
    return found;
  };

  return {
    isToken: (credential: string): boolean => issuers.length > 0 && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(credential),

    /** Checks signature, issuer, audience and times. Throws `unauthenticated`; `unavailable` when the issuer cannot be reached. */
    async verify(token: string): Promise<Claims> {
      const jose = await import('jose');
      let issuer: string | undefined;
      try {
        issuer = jose.decodeJwt(token).iss;
      } catch {
        throw refused('malformed', 'This is neither a credential of this daemon nor a JWT.');
      }
      const row = issuers.find((one) => one.issuer === issuer);
      if (!row) throw refused('unknown', 'The issuer of this token is not one of oauth.issuers.');
      try {
        const { payload } = await jose.jwtVerify(token, await keysOf(row), {
          issuer: row.issuer,
          audience: row.audience,
          algorithms: row.algorithms,
          currentDate: new Date(clock.now()),
          clockTolerance: 5,
          requiredClaims: ['sub', 'exp'],
        });
        const given = typeof payload.scope === 'string' ? payload.scope.split(' ') : payload.scp;
        const named = Array.isArray(given) ? (given as string[]) : [];
        const name = payload.name ?? payload.preferred_username ?? payload.email;
        return {
          issuer: row.issuer,
          subject: payload.sub!,
          name: typeof name === 'string' ? name : payload.sub!,
          scopes: allScopes.filter((scope) => named.includes(scope)),
          expires_at: iso(payload.exp! * 1000),
        };
      } catch (error) {
        if (error instanceof jose.errors.JWTExpired) throw refused('expired', 'This token has expired.');
        if (error instanceof jose.errors.JWKSTimeout || !(error instanceof jose.errors.JOSEError))
          throw new Fault('unavailable', `The keys of ${row.issuer} cannot be had now.`, {
            headers: { 'retry-after': '5' },
            cause: error,
          });
        throw refused('invalid_token', 'This token does not hold: signature, issuer, audience or times are wrong.');
      }
    },
  };
}

/** The issuer's key set: where the row says, otherwise where the issuer's discovery document does (OpenID Discovery 1.0). */
async function findKeys(row: Issuer): Promise<JWTVerifyGetKey> {
  const { createRemoteJWKSet } = await import('jose');
  const url = row.jwks_url ?? (await discover(row.issuer));
  return createRemoteJWKSet(new URL(url), { timeoutDuration: patience });
}

async function discover(issuer: string): Promise<string> {
  const answer = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, {
    redirect: 'error',
    signal: AbortSignal.timeout(patience),
  });
  if (!answer.ok) throw new Error(`The issuer answered ${answer.status}.`);
  const { issuer: named, jwks_uri: url } = (await answer.json()) as { issuer?: string; jwks_uri?: string };
  if (named !== issuer || !url) throw new Error('The discovery document is another issuer’s.');
  return url;
}
